package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp/wire"
)

const (
	// What is taken at most from a client that broke the protocol, so that it
	// gets to read why the connection ends.
	lingerTime  = time.Second
	lingerBytes = 32 << 20

	// handshakeTime is how long a client has to begin TLS.
	handshakeTime = 10 * time.Second

	// keepArgs is how many arguments and keepOut how many bytes of output a
	// connection keeps room for between two reads.
	keepArgs = 8 << 10
	keepOut  = 2 * flushBytes
)

// conn is one client's connection. One goroutine, serve, reads, runs and
// answers; what others may touch is marked so.
type conn struct {
	srv *Server
	nc  net.Conn
	raw *outConn // nc without TLS: closing it never waits for the peer
	id  int64
	rd  *wire.Reader

	// The chunk being handled.
	args [][]byte    // arguments of the commands parsed since the last Fill
	ops  []op        // commands that wait to run, with data
	pre  wire.Writer // replies that are known already, between those of ops
	out  wire.Writer // replies to be written
	x    call        // scratch of the command being run
	tmp  []byte      // scratch of the command being run
	run  runState

	watch, inner stopwatch // of ops, and of the commands within EXEC
	plain        plainRun

	// What the commands before mean to the next one.
	db       uint8
	authed   bool
	replyOff bool // CLIENT REPLY OFF
	skipNext bool // CLIENT REPLY SKIP
	multi    multi
	watched  []watch
	track    tracking
	subs     int             // 1 when subscribed to the invalidations
	gaveUp   engine.Position // the barrier has waited for it in vain
	flushed  bool            // the transaction being run emptied a database
	linger   bool            // … after the client has had time to read it
	closing  bool            // the connection ends when the output is written
	cl       membership
	guest    guest
	dropOut  bool // … without its output

	viewFn func(*kv.Tx) error // method values, made once
	eachFn func(*kv.Tx, int) error

	wmu    sync.Mutex      // serialises writes to nc
	pushes pushQueue       // what waits to be pushed; own lock
	told   atomic.Bool     // invalidations are pushed to it
	killed atomic.Bool     // closed from outside
	ending atomic.Bool     // to be closed once it has nothing more to do
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	done   <-chan struct{} // of ctx

	// For CLIENT LIST, written by serve.
	created   time.Time
	active    atomic.Int64 // when the last commands came, Unix nanoseconds
	lastCmd   atomic.Pointer[command]
	qbuf      atomic.Int64
	qfree     atomic.Int64
	unblocked chan unblock // answers to WAIT from CLIENT UNBLOCK; capacity 1

	mu       sync.Mutex // guards the fields below; but for draining they are for CLIENT LIST
	draining bool       // its end has begun
	name     string
	blocked  bool // in WAIT
	timed    bool // … that ends after a time
	paused   bool // held back by CLIENT PAUSE
	noEvict  bool
	shown    shown
}

// shown is a copy of serve's own state for others to see.
type shown struct {
	db, multi, multiMem, subs int
	resp                      int
	redirect                  int64
	tracking, bcast, broken   bool
}

func newConn(s *Server, nc net.Conn, id int64, node bool) *conn {
	c := &conn{srv: s, id: id, created: time.Now(), unblocked: make(chan unblock, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.done = c.ctx.Done()
	c.raw = newOutConn(nc, s.opts.WriteTimeout, c.notReading)
	c.nc = c.raw
	if s.opts.TLS != nil && !node {
		c.nc = tls.Server(c.raw, s.opts.TLS)
	}
	c.raw.waits = node
	c.authed = s.opts.Password == "" || node
	c.cl.node = node
	if !node {
		c.cl.Cluster = s.opts.Cluster
	}
	c.guest.place, _ = nc.(*gate.Conn)
	c.guest.until = c.created.Add(s.opts.MaxGuestTime)
	c.rd = wire.NewReader(c.nc, &s.bufs, s.opts.Wire)
	c.rd.SetGuest(!c.authed)
	c.rd.SetRoom(s.input.take)
	c.out.Buf = s.bufs.Get(0)[:0]
	c.viewFn, c.eachFn = c.runView, c.runEach
	c.active.Store(c.created.UnixNano())
	c.multi.count = -1
	c.track.redirect = -1
	c.show()
	return c
}

// serve handles the connection until it ends.
func (c *conn) serve() {
	defer c.close()
	defer func() {
		if v := recover(); v != nil {
			c.logger().Error("a command panicked; the connection is closed", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	if !c.handshake() {
		return
	}
	for c.fill() {
		c.pushes.busy()
		c.barrier()
		c.handle()
		ok := c.flush()
		c.pushes.idle(c)
		if !ok || c.closing {
			break
		}
	}
	if c.dropOut || c.killed.Load() {
		return
	}
	if c.cl.node && c.ending.Load() {
		c.goodbye()
	}
	c.raw.wait()
	if c.linger {
		c.drain()
	}
	c.nc.Close() // with TLS it says goodbye
}

// handshake has TLS begin, in limited time.
func (c *conn) handshake() bool {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	c.raw.SetReadDeadline(time.Now().Add(handshakeTime))
	err := t.Handshake()
	c.raw.SetReadDeadline(time.Time{})
	return err == nil
}

// close ends the connection for good.
func (c *conn) close() {
	c.kill()
	c.srv.tracker.drop(c)
	c.pushes.end()
	c.srv.remove(c)
	c.srv.input.take(-c.multi.bytes, false)
	c.rd.Release()
	c.srv.bufs.Put(c.out.Buf)
	c.out.Buf = nil
}

// kill closes the connection from any goroutine; serve then ends.
func (c *conn) kill() {
	c.killed.Store(true)
	c.cancel()
	c.raw.Close()
}

// finish makes serve end after the commands that it has received.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending.Store(true)
	if !c.draining { // it ends soon by itself, and cut short could lose the last reply
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// fill waits for more input.
func (c *conn) fill() bool {
	clear(c.args)
	c.args = c.args[:0]
	if cap(c.args) > keepArgs {
		c.args = nil
	}
	if cap(c.tmp) > keepOut/8 {
		c.tmp = nil
	}
	c.patience()
	if c.ending.Load() { // finish may have come before our deadline
		return false
	}
	used, _ := c.rd.Buffered()
	if err := c.rd.Fill(); err != nil {
		if errors.Is(err, wire.ErrNoRoom) {
			c.out.Error(c.srv.replyText(errNoRoom))
			c.linger = c.flush()
		}
		return false
	}
	now, free := c.rd.Buffered()
	t := c.tally()
	t.netIn.Add(int64(now - used))
	t.reads.Add(1)
	c.active.Store(time.Now().UnixNano())
	c.qbuf.Store(int64(now))
	c.qfree.Store(int64(free))
	return true
}

// handle runs all complete commands in the buffer.
func (c *conn) handle() {
	n := int64(0)
	for !c.closing {
		from := len(c.args)
		args, ok, err := c.rd.Next(c.args)
		if err != nil {
			c.runOps()
			c.protocolError(err)
			break
		}
		if !ok {
			break
		}
		c.args = args
		n++
		if !c.arrived() {
			break
		}
		c.plan(args[from:len(args):len(args)])
		if len(c.ops) >= MaxChunk || len(c.out.Buf)+len(c.pre.Buf) > flushBytes {
			c.runOps()
			if !c.flush() {
				c.closing = true
			}
		}
	}
	c.runOps()
	c.plain.end(c)
	if n > 0 {
		c.tally().processed.Add(n)
	}
}

// drain takes what the client still sends for a moment: closing a socket with
// unread input makes the kernel throw away the reply that says what was wrong.
func (c *conn) drain() {
	c.raw.CloseWrite()
	c.mu.Lock()
	c.draining = true
	c.raw.SetReadDeadline(time.Now().Add(lingerTime))
	c.mu.Unlock()
	_, _ = io.CopyN(io.Discard, c.raw, lingerBytes) // how it ends does not matter
}

func (c *conn) protocolError(err error) {
	c.closing, c.linger = true, true
	c.srv.stats.protoErr.Add(1)
	if p, ok := errors.AsType[*wire.ProtocolError](err); ok {
		c.out.Error("ERR " + p.Text)
	}
}

// flush writes the output. It reports false if the connection is lost.
func (c *conn) flush() bool {
	if c.dropOut {
		return false
	}
	if len(c.out.Buf) == 0 {
		return !c.killed.Load()
	}
	c.wmu.Lock()
	ok := c.write(c.out.Buf)
	c.wmu.Unlock()
	used := len(c.out.Buf)
	c.out.Buf = c.out.Buf[:0]
	if n := cap(c.out.Buf); n > keepOut || n > keepOut/8 && used < n/4 {
		c.out.Buf = c.srv.bufs.Get(0)[:0]
	}
	return ok
}

// write sends b; the caller holds wmu.
func (c *conn) write(b []byte) bool {
	n, err := c.nc.Write(b)
	t := c.tally()
	t.netOut.Add(int64(n))
	t.writes.Add(1)
	if err != nil {
		c.kill()
	}
	return err == nil
}

// notReading is told when the connection is closed because the client does not
// take its replies.
func (c *conn) notReading() {
	c.srv.stats.limited.Add(1)
	c.logger().Warn("client does not read its replies; the connection is closed", "timeout", c.srv.opts.WriteTimeout)
}

// show copies serve's state to where CLIENT LIST looks.
func (c *conn) show() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = shown{
		db: int(c.db), multi: c.multi.count, multiMem: c.multi.bytes, subs: c.subs, resp: 2,
		redirect: c.track.redirect, tracking: c.track.on, bcast: c.track.bcast, broken: c.track.broken,
	}
	if c.out.RESP3 {
		c.shown.resp = 3
	}
}

func sortConns(list []*conn) {
	slices.SortFunc(list, func(a, b *conn) int { return int(a.id - b.id) })
}
