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
	// Limits on the input that is read from a client after a protocol error, so that it can
	// read the error before the connection is closed.
	lingerTime  = time.Second
	lingerBytes = 32 << 20

	// handshakeTime bounds the TLS handshake.
	handshakeTime = 10 * time.Second

	// keepArgs is the number of arguments, and keepOut the number of bytes of output, for
	// which a connection keeps buffers between reads.
	keepArgs = 8 << 10
	keepOut  = 2 * flushBytes
)

// conn is one client's connection. The goroutine of serve reads, runs commands and replies.
// Fields that other goroutines may use are marked.
type conn struct {
	srv *Server
	nc  net.Conn
	raw *outConn // nc without TLS; closing it never waits for the peer
	id  int64
	rd  *wire.Reader

	// The chunk of commands being processed.
	args [][]byte    // arguments of the commands parsed since the last Fill
	ops  []op        // commands with data that wait to run
	pre  wire.Writer // replies that are already known, between those of ops
	out  wire.Writer // replies to write
	x    call        // scratch of the running command
	tmp  []byte      // scratch of the running command
	run  runState

	watch, inner stopwatch // of ops, and of the commands within EXEC
	plain        plainRun

	// State that earlier commands set for later ones.
	db       uint8
	authed   bool
	replyOff bool // CLIENT REPLY OFF
	skipNext bool // CLIENT REPLY SKIP
	multi    multi
	watched  []watch
	track    tracking
	subs     int             // 1 when subscribed to the invalidations
	gaveUp   engine.Position // position for which the barrier has waited in vain
	flushed  bool            // the running transaction emptied a database
	linger   bool            // … after the client has had time to read the output
	closing  bool            // the connection is closed when the output is written
	cl       membership
	guest    guest
	console  bool // opened by OpenConsole
	dropOut  bool // … without its output

	viewFn func(*kv.Tx) error // method values, created once
	eachFn func(*kv.Tx, int) error

	wmu      sync.Mutex      // serializes writes to nc
	pushes   pushQueue       // messages to be pushed; has its own lock
	receives atomic.Bool     // invalidations are pushed to this connection
	killed   atomic.Bool     // closed from outside
	ending   atomic.Bool     // to be closed when it is idle
	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	done     <-chan struct{} // of ctx

	// For CLIENT LIST, written by serve.
	created   time.Time
	active    atomic.Int64 // when the last commands arrived, Unix nanoseconds
	lastCmd   atomic.Pointer[command]
	qbuf      atomic.Int64
	qfree     atomic.Int64
	unblocked chan unblock // sent by CLIENT UNBLOCK to WAIT; capacity 1

	mu       sync.Mutex // guards the fields below, which except for draining are for CLIENT LIST
	draining bool       // serve is ending the connection
	name     string
	blocked  bool // in WAIT
	timed    bool // … with a timeout
	paused   bool // blocked by CLIENT PAUSE
	noEvict  bool
	shown    shown
}

// shown is a copy of serve's state for other goroutines.
type shown struct {
	db, multi, multiMem, subs int
	resp                      int
	redirect                  int64
	tracking, bcast, broken   bool
}

// origin is who has opened a connection.
type origin uint8

const (
	fromClient  origin = iota
	fromNode           // another node of the cluster, for its clients
	fromConsole        // this process; see Console
)

func newConn(s *Server, nc net.Conn, id int64, from origin) *conn {
	c := &conn{srv: s, id: id, created: time.Now(), unblocked: make(chan unblock, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.done = c.ctx.Done()
	c.raw = newOutConn(nc, s.opts.WriteTimeout, c.notReading)
	c.nc = c.raw
	if s.opts.TLS != nil && from == fromClient {
		c.nc = tls.Server(c.raw, s.opts.TLS)
	}
	c.raw.waits = from == fromNode
	c.authed = s.opts.Password == "" || from != fromClient
	c.cl.node, c.console = from == fromNode, from == fromConsole
	if from != fromNode {
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
	c.nc.Close() // TLS sends a closing message
}

// handshake performs the TLS handshake within a time limit.
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

// close closes the connection.
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

// kill closes the connection from any goroutine, which ends serve.
func (c *conn) kill() {
	c.killed.Store(true)
	c.cancel()
	c.raw.Close()
}

// finish makes serve end after the commands that have been received.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending.Store(true)
	if !c.draining { // it ends soon by itself; interrupting it could lose the last reply
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
	c.setDeadline()
	if c.ending.Load() { // finish may have been called before we set the deadline
		return false
	}
	used, _ := c.rd.Buffered()
	if err := c.rd.Fill(); err != nil {
		if errors.Is(err, wire.ErrNoRoom) {
			c.out.Error(c.srv.replyText(errInputMemory))
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

// drain reads remaining input from the client for a moment. If a socket is closed with
// unread input, the kernel discards the error reply.
func (c *conn) drain() {
	c.raw.CloseWrite()
	c.mu.Lock()
	c.draining = true
	c.raw.SetReadDeadline(time.Now().Add(lingerTime))
	c.mu.Unlock()
	_, _ = io.CopyN(io.Discard, c.raw, lingerBytes) // the result does not matter
}

func (c *conn) protocolError(err error) {
	c.closing, c.linger = true, true
	c.srv.stats.protoErr.Add(1)
	if p, ok := errors.AsType[*wire.ProtocolError](err); ok {
		c.out.Error("ERR " + p.Text)
	}
}

// flush writes the output. It returns false if the connection is lost.
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

// write writes b. The caller holds wmu.
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

// notReading is called when the connection is closed because the client does not read its
// replies.
func (c *conn) notReading() {
	c.srv.stats.limited.Add(1)
	c.logger().Warn("client does not read its replies; the connection is closed", "timeout", c.srv.opts.WriteTimeout)
}

// show copies serve's state for CLIENT LIST.
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
