package api

import (
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// smallBody is the largest body in bytes that an exchange keeps room for when
// it goes back to the pool, and that is not counted against BufferBytes.
const smallBody = 64 << 10

// exchange is one request with its answer. It is the ResponseWriter of all
// that runs beneath observe, which takes it from a pool and gives it back.
type exchange struct {
	app      *app
	w        http.ResponseWriter
	route    *route
	start    time.Time
	status   int   // 0: no header written yet
	sent     int64 // bytes of body
	id       string
	reserved int64 // of app.buffered

	// kept is set when something else may still use the buffers, so that they
	// must not go back to the pool.
	kept bool

	fromNode bool // another node passed the request on: it must be answered here
	operator bool // it came to AdminHandler
	gathered bool // the body is in val

	// What one call on a key needs. The functions are bound once, so that a
	// request makes no closures.
	space     uint8 // of the key
	key, val  []byte
	text      []byte
	cond      conditions
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

	broke int  // how many connections to leaders broke after it was sent
	maybe bool // it may have been carried out: a try has ended with ErrOutcomeUnknown

	// What a call of a procedure needs.
	call      *proc.Call
	procedure string // the version that this node has; see procedureHeader
	reading   bool   // it only reads
	refused   callFailure
	callFn    func(*kv.Tx) error
}

func newExchange(a *app) *exchange {
	x := &exchange{app: a}
	x.getFn, x.setFn, x.deleteFn, x.onceFn = x.get, x.put, x.del, x.doOnce
	x.callFn = x.runIn
	return x
}

// begin takes an exchange for w from the pool.
func (a *app) begin(w http.ResponseWriter) *exchange {
	x := a.pool.Get().(*exchange)
	x.w, x.route, x.start = w, a.metrics.none, time.Now()
	return x
}

// end gives x back. Nothing may use it afterwards.
func (x *exchange) end() {
	x.release()
	if x.kept {
		return
	}
	key, val, text := x.key[:0], x.val[:0], x.text[:0]
	if cap(val) > smallBody {
		val = nil
	}
	if cap(text) > smallBody {
		text = nil
	}
	*x = exchange{app: x.app, key: key, val: val, text: text,
		getFn: x.getFn, setFn: x.setFn, deleteFn: x.deleteFn, onceFn: x.onceFn, callFn: x.callFn}
	x.app.pool.Put(x)
}

// of finds the exchange beneath whatever middleware wrapped around it.
func of(w http.ResponseWriter) *exchange {
	for {
		switch v := w.(type) {
		case *exchange:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			panic("BUG: a web handler runs outside observe")
		}
	}
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= 200 {
		x.status = status
	}
	x.w.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.w.Write(p)
	x.sent += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController find the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// reserve counts n further bytes of buffer until the exchange ends.
func (x *exchange) reserve(n int64) error {
	if x.app.buffered.Add(n) > x.app.o.BufferBytes {
		x.app.buffered.Add(-n)
		return engine.Errorf(engine.CodeQueueFull, "the bodies in transit need more than %d bytes of memory", x.app.o.BufferBytes)
	}
	x.reserved += n
	return nil
}

// room counts a body that has grown to n bytes.
func (x *exchange) room(n int) error {
	if over := int64(n) - smallBody - x.reserved; over > 0 {
		return x.reserve(max(over, 1<<20)) // in steps: items are small
	}
	return nil
}

func (x *exchange) release() {
	if x.reserved != 0 {
		x.app.buffered.Add(-x.reserved)
		x.reserved = 0
	}
}

// requestID returns the request's id, and gives it one if it has none yet. It
// is in the answer from then on.
func (x *exchange) requestID() string {
	if x.id == "" {
		x.setRequestID(x.app.ids.Next())
	}
	return x.id
}

func (x *exchange) setRequestID(id string) {
	x.id = id
	if x.status == 0 {
		x.Header().Set("X-Request-Id", id)
	}
}
