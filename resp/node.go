package resp

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// nodeCommands are the commands that nodes send each other in addition to those of their
// clients. Nodes of the next and the previous minor version understand them: a command is
// never changed, and a new one gets a new name.
func nodeCommands() []command {
	return []command{{name: "skerry", arity: -2, subs: []command{
		{name: "skerry|mark", arity: 2, kind: kindAdmin, run: markCmd},
		{name: "skerry|reached", arity: 4, kind: kindAdmin, run: reachedCmd},
		{name: "skerry|refusals", arity: 2, kind: kindAdmin, run: refusalsCmd},
		{name: "skerry|watch", arity: -5, kind: kindState, run: watchAtCmd},
	}}}
}

// newNodeConn registers a connection that another node has opened. If there are too many,
// it closes the connection and returns nil.
func (s *Server) newNodeConn(nc net.Conn) *conn {
	c := newConn(s, nc, s.nextID.Add(1), fromNode)
	s.mu.Lock()
	refuse := s.closed || len(s.nodeConns) >= MaxNodeConns
	if !refuse {
		s.nodeConns[c.id] = c
	}
	s.mu.Unlock()
	if !refuse {
		return c
	}
	s.opts.Logger.Warn("a connection from another node is refused", "limit", MaxNodeConns)
	nc.Close()
	return nil
}

// goodbye reports to the other node that nothing more runs here. The other node takes it for the
// reply to whatever it has sent in the meantime, and runs that elsewhere.
func (c *conn) goodbye() {
	c.out.Error(c.srv.replyText(engine.ErrNotLeader))
	c.linger = c.flush()
}

// markCmd replies with the position of the commands since the last mark, or 0 if they did
// nothing, and the times of their writes in microseconds, which identify the changes.
func markCmd(x *call) error {
	m := &x.conn.cl
	x.out.Array(1 + len(m.marks))
	x.out.Int(int64(m.pos))
	for _, us := range m.marks {
		x.out.Int(us)
	}
	m.pos, m.marks = 0, m.marks[:0]
	return nil
}

// refusalsCmd makes refusals of calls begin with refusedWord from now on.
func refusalsCmd(x *call) error {
	x.conn.cl.coded = true
	x.out.OK()
	return nil
}

// watchAtCmd watches keys at revisions that another node has read: DB REV KEY ….
func watchAtCmd(x *call) error {
	args := x.args[2:]
	if len(args)%3 != 0 || len(args) > 3*MaxWatched {
		return errSyntax
	}
	var list []watch
	for ; len(args) > 0; args = args[3:] {
		db, err := strconv.ParseUint(string(args[0]), 10, 8)
		if err != nil || !x.conn.isDatabase(int64(db)) {
			return errDBRange
		}
		rev, err := strconv.ParseUint(string(args[1]), 10, 64)
		if err != nil {
			return errNotInteger
		}
		list = append(list, watch{uint8(db), bytes.Clone(args[2]), kv.Revision(rev)})
	}
	x.conn.watched = list
	x.out.OK()
	return nil
}

// reachedCmd takes POS MS. It replies 1 when this node has reached the position, or 0 if it
// does not within that time.
func reachedCmd(x *call) error {
	pos, err := strconv.ParseUint(string(x.args[2]), 10, 64)
	if err != nil {
		return errNotInteger
	}
	d, err := timeoutArg(x.args[3])
	if err != nil {
		return err
	}
	x.out.Int(number(x.srv.reached(engine.Position(pos), d)))
	return nil
}

// reached reports whether this node has applied pos, or does so within d. Applied changes
// are on the node's own disk.
func (s *Server) reached(pos engine.Position, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	r := s.loosely()
	r.AtLeast = pos
	_, err := s.store.View(ctx, r, 0, nothing)
	return err == nil
}
