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
	// freshFor is how long after its last use a connection to another node is
	// taken to work; after that it has to answer a PING first, so that a
	// command is not lost to one that has died meanwhile.
	freshFor = 100 * time.Millisecond
	// keepUpstream is how long an unused connection to another node is kept.
	keepUpstream = 30 * time.Second
	// upstreamDial bounds opening one, and its PING.
	upstreamDial = time.Second
	// upstreamPoll is how often a wait for a reply looks whether the other node
	// still leads, and the client is still there.
	upstreamPoll = 100 * time.Millisecond
	// deposedGrace is how long a node that does not lead any more has to answer
	// what it was sent.
	deposedGrace = time.Second
	// sendAtOnce is the size up to which commands are written before the first
	// reply is read; more is written meanwhile, because the other node stops
	// reading when its replies are not taken.
	sendAtOnce = 32 << 10
	// maxForwarded bounds one reply of another node in bytes: EXEC may go over
	// MaxReplyBytes by its last command's reply.
	maxForwarded = 4 * MaxReplyBytes
)

// noDB is no database: the next command has to SELECT.
const noDB = 0xff

// upstream is one connection to another node, over which one client's commands
// are forwarded at a time. What the client's connection means to its commands,
// the protocol version and the database, is said before them where it differs;
// WATCH is sent along with EXEC. So any client can use it next.
type upstream struct {
	node  uint64
	nc    net.Conn
	rd    *wire.Replies
	used  time.Time
	coded bool // the other node marks refusals; see refusedWord
	db    uint8
	resp3 bool

	out   []byte // what is to be sent
	first int    // the first op in it
	ends  []int  // where in it each op ends
	skips []int  // how many replies come before that of each op
}

// upstreams keeps the connections to other nodes that no client uses now.
type upstreams struct {
	srv   *Server
	slots chan struct{}       // one for each connection in use; nil: alone
	table map[string]*command // what other nodes may say besides clients' commands

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
	if !u.greet() { // a node that leaves may close what it has not served: nothing is sent before it answers
		u.close()
		<-p.slots
		return nil, engine.Errorf(engine.CodeNotLeader, "node %d does not answer; nothing was written", node)
	}
	return u, nil
}

// take removes the connection to a node that was used last from the idle ones.
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

// put gives a connection back on which no reply is outstanding, and closes
// those that were not used for long.
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

// drop closes a connection whose replies cannot be used any more.
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

// greet has the other node mark refusals, if it can, and reports whether it answers.
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

// ping reports whether the other node still answers.
func (u *upstream) ping() bool {
	u.nc.SetDeadline(time.Now().Add(upstreamDial))
	defer u.nc.SetDeadline(time.Time{})
	if _, err := u.nc.Write(wire.AppendCommandStrings(nil, "PING")); err != nil {
		return false
	}
	v, err := u.rd.Read()
	return err == nil && string(v.Str) == "PONG"
}

// encode makes out the commands of c's ops in [from, to), and a mark.
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

// unsent returns the first op that was not sent whole when n bytes of out were.
func (u *upstream) unsent(n int) int {
	i := 0
	for i < len(u.ends) && u.ends[i] <= n {
		i++
	}
	return u.first + i
}

// addCommand adds a command. A call that only reads, as far as this node knows, is
// sent again when its reply is lost: another program on the leader must not write
// by it.
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

// adapt adds what makes the connection speak as the client does and work on its
// database, and returns the number of replies to that.
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

// addExec adds a transaction and returns the number of replies before EXEC's.
// The keys that the client watches go with the revisions that they had here:
// revisions are the same on all nodes.
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
	done chan struct{} // nil: it is over
}

// send writes out. If that fails the connection is closed, so that nobody waits
// for replies to what was not sent.
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

// wait returns how many bytes were sent. All replies have come, or the
// connection is closed.
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
		if err != nil || isNotLeader(reply) { // the node says goodbye: nothing behind it is run
			return reply, err
		}
	}
	return u.next(c)
}

// next returns the next reply. It gives up when the node has lost its role for
// so long that no reply is to be expected, or the client is gone.
func (u *upstream) next(c *conn) ([]byte, error) {
	var since time.Time // it does not lead, as far as is known here
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
