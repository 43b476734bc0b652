package resp

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp/wire"
)

const (
	// freshFor is how long after its last use a connection to another node is assumed to
	// work. After that it has to reply to a PING first, so that no command is lost on a
	// dead connection.
	freshFor = 100 * time.Millisecond
	// keepUpstream is how long an unused connection to another node is kept.
	keepUpstream = 30 * time.Second
	// upstreamDial bounds opening a connection, and its PING.
	upstreamDial = time.Second
	// upstreamPoll is how often a wait for a reply checks whether the other node is still
	// the leader and the client is still connected.
	upstreamPoll = 100 * time.Millisecond
	// deposedGrace is how long a node that is no longer the leader has to reply to what it
	// was sent.
	deposedGrace = time.Second
	// sendAtOnce is the size up to which commands are written before the first reply is
	// read. More is written concurrently, because the other node stops reading when its
	// replies are not read.
	sendAtOnce = 32 << 10
	// maxForwarded bounds one reply of another node in bytes: EXEC may exceed MaxReplyBytes
	// by its last command's reply.
	maxForwarded = 4 * MaxReplyBytes
)

// noDB means no database: the next command has to SELECT one.
const noDB = 0xff

// upstream is one connection to another node. It forwards the commands of one client at a
// time. If the client's protocol version or database differs, commands that change it are
// sent first. WATCH is sent together with EXEC. Any client can therefore use the connection
// next.
type upstream struct {
	node  uint64
	nc    net.Conn
	rd    *wire.Replies
	used  time.Time
	coded bool // the other node marks refusals; see refusedWord
	db    uint8
	resp3 bool

	out   []byte // bytes to send
	first int    // the first op in out
	ends  []int  // where in out each op ends
	skips []int  // how many replies precede that of each op
}

// upstreams keeps the idle connections to other nodes.
type upstreams struct {
	srv   *Server
	slots chan struct{}       // one per connection in use; nil on a single node
	table map[string]*command // commands of other nodes besides clients' commands

	mu     sync.Mutex // guards the fields below
	idle   []*upstream
	closed bool
}

func (p *upstreams) init(s *Server) {
	p.srv = s
	if s.opts.Cluster != nil {
		p.slots = make(chan struct{}, s.opts.Upstreams)
	}
	p.table = table(nodeCommands())
}

// get returns a connection to a node for c's use. The error is retryable.
func (p *upstreams) get(c *conn, node uint64) (*upstream, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		wait, cancel := context.WithTimeout(c.ctx, p.srv.opts.ElectionWait)
		defer cancel()
		select {
		case p.slots <- struct{}{}:
		case <-wait.Done():
			return nil, engine.Errorf(engine.CodeNotLeader, "all %d connections to other nodes are in use; nothing was written", MaxUpstreams)
		}
	}
	for u := p.take(node); u != nil; u = p.take(node) {
		if time.Since(u.used) < freshFor || u.ping() {
			return u, nil
		}
		u.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), upstreamDial)
	defer cancel()
	nc, err := p.srv.opts.Cluster.Dial(ctx, node, NodeProtocol)
	if err != nil {
		<-p.slots
		return nil, engine.Errorf(engine.CodeNotLeader, "connect to node %d: %w", node, err)
	}
	u := &upstream{node: node, nc: nc, rd: wire.NewReplies(nc, &p.srv.bufs, maxForwarded)}
	if !u.greet() { // a node that is leaving may close what it has not served, so nothing is sent before it replies
		u.close()
		<-p.slots
		return nil, engine.Errorf(engine.CodeNotLeader, "node %d does not respond; nothing was written", node)
	}
	return u, nil
}

// take removes the most recently used idle connection to a node.
func (p *upstreams) take(node uint64) *upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if u := p.idle[i]; u.node == node {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			return u
		}
	}
	return nil
}

// put returns a connection without outstanding replies, and closes those that were idle for
// too long.
func (p *upstreams) put(u *upstream) {
	u.used = time.Now()
	if cap(u.out) > sendAtOnce {
		u.out = nil
	}
	var old []*upstream
	p.mu.Lock()
	p.idle = append(p.idle, u)
	n := 0
	for n < len(p.idle) && (p.closed || u.used.Sub(p.idle[n].used) > keepUpstream) {
		n++
	}
	old = append(old, p.idle[:n]...)
	p.idle = p.idle[n:]
	p.mu.Unlock()
	<-p.slots
	for _, u := range old {
		u.close()
	}
}

// drop closes a connection whose replies are no longer usable.
func (p *upstreams) drop(u *upstream) {
	u.close() // its sender ends
	<-p.slots
}

func (p *upstreams) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, u := range idle {
		u.close()
	}
}

func (u *upstream) close() {
	u.nc.Close()
	u.rd.Release()
}

// greet makes the other node mark refusals, if it can. It reports whether the node replies.
func (u *upstream) greet() bool {
	u.nc.SetDeadline(time.Now().Add(upstreamDial))
	defer u.nc.SetDeadline(time.Time{})
	if _, err := u.nc.Write(wire.AppendCommandStrings(nil, "SKERRY", "REFUSALS")); err != nil {
		return false
	}
	v, err := u.rd.Read()
	u.coded = !v.IsError() // a node of an earlier version does not know the command
	return err == nil && u.ping()
}

// ping reports whether the other node still replies.
func (u *upstream) ping() bool {
	u.nc.SetDeadline(time.Now().Add(upstreamDial))
	defer u.nc.SetDeadline(time.Time{})
	if _, err := u.nc.Write(wire.AppendCommandStrings(nil, "PING")); err != nil {
		return false
	}
	v, err := u.rd.Read()
	return err == nil && string(v.Str) == "PONG"
}

// encode sets out to the commands of c's ops in [from, to), and a mark.
func (u *upstream) encode(c *conn, from, to int) {
	u.first, u.out, u.ends, u.skips = from, u.out[:0], u.ends[:0], u.skips[:0]
	for i := from; i < to; i++ {
		o := &c.ops[i]
		skip := u.adapt(o.db, c.out.RESP3)
		if o.exec {
			skip += u.addExec(o)
		} else {
			u.addCommand(o.cmd, o.args, o.write)
		}
		u.ends, u.skips = append(u.ends, len(u.out)), append(u.skips, skip)
	}
	u.out = wire.AppendCommandStrings(u.out, "SKERRY", "MARK")
}

// unsent returns the first op that was not sent completely when n bytes of out were sent.
func (u *upstream) unsent(n int) int {
	i := 0
	for i < len(u.ends) && u.ends[i] <= n {
		i++
	}
	return u.first + i
}

// addCommand adds a command. A call that only reads, as far as this node knows, is sent
// again when its reply is lost, so a different program on the leader must not let it write.
func (u *upstream) addCommand(cmd *command, args [][]byte, writes bool) {
	if cmd.kind != kindCall || writes || cmd.name == "fcall_ro" {
		u.out = wire.AppendCommand(u.out, args...)
		return
	}
	w := wire.Writer{Buf: u.out}
	rest := args[cmd.procedureAt()+1:]
	if cmd.name == "fcall" {
		w.Array(2 + len(rest))
	} else {
		w.Array(3 + len(rest))
	}
	w.BulkString("FCALL_RO")
	w.Bulk(args[cmd.procedureAt()])
	if cmd.name != "fcall" {
		w.BulkString("0")
	}
	for _, arg := range rest {
		w.Bulk(arg)
	}
	u.out = w.Buf
}

// adapt adds commands that select the client's protocol version and database, and returns
// the number of their replies.
func (u *upstream) adapt(db uint8, resp3 bool) (replies int) {
	if u.resp3 != resp3 {
		version := "2"
		if resp3 {
			version = "3"
		}
		u.out = wire.AppendCommandStrings(u.out, "HELLO", version)
		u.resp3 = resp3
		replies++
	}
	if u.db != db {
		u.out = wire.AppendCommandStrings(u.out, "SELECT", strconv.Itoa(int(db)))
		u.db = db
		replies++
	}
	return replies
}

// addExec adds a transaction and returns the number of replies before EXEC's. The keys that
// the client watches are sent with the revisions that they had here; revisions are the same
// on all nodes.
func (u *upstream) addExec(o *op) (replies int) {
	if len(o.watched) > 0 {
		w := wire.Writer{Buf: u.out}
		w.Array(2 + 3*len(o.watched))
		w.BulkString("SKERRY")
		w.BulkString("WATCH")
		for _, k := range o.watched {
			w.BulkInt(int64(k.db))
			w.Bulk(strconv.AppendUint(nil, uint64(k.rev), 10))
			w.Bulk(k.key)
		}
		u.out = w.Buf
		replies++
	}
	u.out = wire.AppendCommandStrings(u.out, "MULTI")
	for _, q := range o.queue {
		u.addCommand(q.cmd, q.args, o.write)
		if q.cmd.name == "select" {
			u.db = noDB
		}
	}
	u.out = wire.AppendCommandStrings(u.out, "EXEC")
	return replies + 1 + len(o.queue)
}

// sending is the writing of an upstream's out.
type sending struct {
	n    int
	done chan struct{} // nil: it has ended
}

// send writes out. If that fails, it closes the connection, so that nobody waits for
// replies to commands that were not sent.
func (u *upstream) send() *sending {
	s := &sending{}
	write := func() {
		var err error
		if s.n, err = u.nc.Write(u.out); err != nil {
			u.nc.Close()
		}
	}
	if len(u.out) <= sendAtOnce {
		u.nc.SetWriteDeadline(time.Now().Add(upstreamDial))
		write()
		return s
	}
	u.nc.SetWriteDeadline(time.Time{})
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		write()
	}()
	return s
}

// wait returns how many bytes were sent. The caller has read all replies or closed the
// connection.
func (s *sending) wait() int {
	if s.done != nil {
		<-s.done
	}
	return s.n
}

// replyTo returns the reply to op i, valid until the next one is read.
func (u *upstream) replyTo(c *conn, i int) ([]byte, error) {
	for range u.skips[i-u.first] {
		reply, err := u.next(c)
		if err != nil || isNotLeader(reply) { // the node is closing the connection: nothing after this runs
			return reply, err
		}
	}
	return u.next(c)
}

// next returns the next reply. It gives up when the node has not been the leader for so
// long that no reply is to be expected, or when the client is gone.
func (u *upstream) next(c *conn) ([]byte, error) {
	var since time.Time // when this node learned that it is not the leader
	for {
		raw, ok, err := u.rd.NextRaw()
		if ok || err != nil {
			return raw, err
		}
		u.nc.SetReadDeadline(time.Now().Add(upstreamPoll))
		if err = u.rd.Fill(); err == nil {
			continue
		}
		if !isTimeout(err) || c.killed.Load() {
			return nil, err
		}
		leader := c.cl.State().Leader
		switch {
		case leader == u.node:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case leader != 0 && time.Since(since) > deposedGrace, time.Since(since) > c.srv.opts.ElectionWait:
			return nil, err
		}
	}
}

func nothing(*kv.Tx) error { return nil }
