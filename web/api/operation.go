package api

import (
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/conditions"
)

// smallBody is the largest body in bytes whose memory an operation keeps in the pool, and that is not counted
// against BufferBytes.
const smallBody = 64 << 10

// operation is the state of one request for keys, procedures or users. It is pooled.
type operation struct {
	http.ResponseWriter // c's
	c                   *web.Context
	app                 *app
	start               time.Time // set in a cluster
	reserved            int64     // of app.buffered

	// kept is set if something else may still use the buffers, which must then not go back to the pool.
	kept bool

	fromNode bool // forwarded by another node: must be served here
	gathered bool // the body is in val
	tried    bool // the error of fastSet was taken

	// For requests for keys. The functions are bound once, so that requests allocate no closures.
	space     uint8 // of the key
	key, val  []byte
	text      []byte
	cond      conditions.Conditions
	head      bool
	found     bool
	entry     kv.Entry
	set       kv.SetOptions
	replaced  bool
	deleting  bool
	once      once
	getFn     func(*kv.Tx) error
	setFn     func(*kv.Tx) error
	deleteFn  func(*kv.Tx) error
	onceFn    func(*kv.Tx) error
	writeFn   func(*kv.Tx) error // setFn or deleteFn
	unchanged bool               // a read's If-None-Match matched

	forwarded forward.Call // if the leader serves the request

	// For calls of procedures.
	running   *proc.Call
	procedure string // the version that this node has; see procedureHeader
	reading   bool   // it only reads
	refused   callFailure
	callFn    func(*kv.Tx) error
}

func newOperation(a *app) *operation {
	x := &operation{app: a}
	x.getFn, x.setFn, x.deleteFn, x.onceFn = x.get, x.put, x.del, x.doOnce
	x.callFn = x.runIn
	return x
}

// operation returns a handler that calls h with an operation from the pool.
func (a *app) operation(h func(x *operation, r *http.Request) error) web.Handler {
	return func(c *web.Context) error {
		x := a.pool.Get().(*operation)
		x.ResponseWriter, x.c, x.fromNode = c.Writer, c, c.FromNode()
		if a.forward != nil {
			x.start = time.Now()
		}
		panicked := true
		defer func() { x.end(panicked) }()
		err := h(x, c.Request)
		panicked = false
		return err
	}
}

// here serves the request with h on this node, or forwards it if only the leader can.
func (x *operation) here(r *http.Request, h func(x *operation, r *http.Request) error) error {
	err := h(x, r)
	if x.app.forward == nil || x.fromNode {
		return err
	}
	return x.atLeader(r, err, func() error { return h(x, r) })
}

// end returns x to the pool, unless something may still use it. The caller must not use x afterwards.
func (x *operation) end(panicked bool) {
	x.release()
	if x.kept || panicked {
		return
	}
	key, val, text := x.key[:0], x.val[:0], x.text[:0]
	if cap(val) > smallBody {
		val = nil
	}
	if cap(text) > smallBody {
		text = nil
	}
	*x = operation{app: x.app, key: key, val: val, text: text,
		getFn: x.getFn, setFn: x.setFn, deleteFn: x.deleteFn, onceFn: x.onceFn, callFn: x.callFn}
	x.app.pool.Put(x)
}

// reserve counts n more bytes of buffer until the operation ends.
func (x *operation) reserve(n int64) error {
	if x.app.buffered.Add(n) > x.app.o.BufferBytes {
		x.app.buffered.Add(-n)
		return engine.Errorf(engine.CodeQueueFull, "the bodies in transit would need more than %d bytes of memory", x.app.o.BufferBytes)
	}
	x.reserved += n
	return nil
}

// room counts a body that has grown to n bytes.
func (x *operation) room(n int) error {
	if over := int64(n) - smallBody - x.reserved; over > 0 {
		return x.reserve(max(over, 1<<20)) // in steps: items are small
	}
	return nil
}

func (x *operation) release() {
	if x.reserved != 0 {
		x.app.buffered.Add(-x.reserved)
		x.reserved = 0
	}
}
