package resp

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp/wire"
)

// clientMoved sets whether the client follows MOVED. It overrides the other commands of
// cluster clients.
func clientMoved(x *call) error {
	switch {
	case x.is(2, "ON"):
		x.conn.cl.stays = false
		x.conn.cl.asksCluster()
	case x.is(2, "OFF"):
		x.conn.cl.stays, x.conn.cl.moves = true, false
	default:
		return errSyntax
	}
	x.out.OK()
	return nil
}

// clientRead sets or returns the consistency level of reads.
func clientRead(x *call) error {
	m := &x.conn.cl
	switch {
	case len(x.args) == 2:
		name := [...]string{"linearizable", "session", "local"}[m.level]
		if m.level == engine.Local && m.maxStale > 0 {
			name += " " + strconv.FormatInt(m.maxStale.Milliseconds(), 10)
		}
		x.out.BulkString(name)
		return nil
	case len(x.args) == 3 && x.is(2, "LINEARIZABLE"):
		m.level = engine.Linearizable
	case len(x.args) == 3 && x.is(2, "SESSION"):
		m.level = engine.Session
	case len(x.args) <= 4 && x.is(2, "LOCAL"):
		m.maxStale = 0
		if len(x.args) == 4 {
			d, err := timeoutArg(x.args[3])
			if err != nil {
				return err
			}
			m.maxStale = d
		}
		m.level = engine.Local
	default:
		return errSyntax
	}
	x.out.OK()
	return nil
}

// clientPosition returns the position that the connection has seen, or sets one that the
// client has from another connection.
func clientPosition(x *call) error {
	switch len(x.args) {
	case 2:
		pos, err := x.position()
		if err != nil {
			return err
		}
		x.out.Int(int64(pos))
	case 3:
		n, ok := decimal.Parse(x.args[2])
		if !ok || n < 0 {
			return errNotInteger
		}
		x.conn.cl.pos = max(x.conn.cl.pos, engine.Position(n))
		x.out.OK()
	default:
		return errSyntax
	}
	return nil
}

// position returns a position that includes everything that the client has seen and
// written.
func (x *call) position() (engine.Position, error) {
	if !x.conn.cl.lost || x.tx != nil {
		return x.conn.cl.pos, nil
	}
	pos, err := x.srv.store.View(context.Background(), engine.Read{}, 0, nothing)
	if err != nil {
		return 0, err
	}
	x.conn.cl.saw(pos, engine.Linearizable)
	return x.conn.cl.pos, nil
}

// replicas returns a function that reports how many nodes besides the leader have the
// client's writes on disk. The nodes needed for a majority have them, or the writes would
// not have been acknowledged. If n is greater, the other nodes are asked until ctx ends.
func (x *call) replicas(ctx context.Context, n int64) (func() int64, error) {
	pos, err := x.position()
	if err != nil {
		return nil, err
	}
	st := x.srv.opts.Cluster.State()
	voters := 0
	for _, node := range st.Nodes {
		voters += int(number(node.Voter))
	}
	sure := int64(voters / 2)
	var have atomic.Int64
	if n > sure && x.tx == nil {
		for _, node := range st.Nodes {
			if node.ID != st.Leader {
				go x.conn.ask(ctx, node.ID, pos, &have)
			}
		}
	}
	return func() int64 { return max(sure, have.Load()) }, nil
}

const (
	// askFor is how long a node may take to report that it has a position before the
	// connection is free for others. askPause is the pause before it is asked again.
	askFor   = 100 * time.Millisecond
	askPause = 20 * time.Millisecond
)

// ask adds one to have when a node has pos.
func (c *conn) ask(ctx context.Context, node uint64, pos engine.Position, have *atomic.Int64) {
	for ctx.Err() == nil {
		ok := false
		if node == c.srv.opts.Cluster.State().Self {
			ok = c.srv.reached(pos, askFor)
		} else {
			ok = c.askOther(node, pos)
		}
		if ok {
			have.Add(1)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(askPause):
		}
	}
}

func (c *conn) askOther(node uint64, pos engine.Position) bool {
	u, err := c.srv.ups.get(c, node)
	if err != nil {
		return false
	}
	u.out = wire.AppendCommandStrings(u.out[:0], "SKERRY", "REACHED", strconv.FormatUint(uint64(pos), 10),
		strconv.FormatInt(askFor.Milliseconds(), 10))
	u.nc.SetDeadline(time.Now().Add(upstreamDial))
	if _, err = u.nc.Write(u.out); err == nil {
		var v wire.Value
		if v, err = u.rd.Read(); err == nil {
			ok := v.Int == 1
			u.nc.SetDeadline(time.Time{})
			c.srv.ups.put(u)
			return ok
		}
	}
	c.srv.ups.drop(u)
	return false
}

// clusterMetrics yields the server's cluster metrics. On a single node it yields none.
func (s *Server) clusterMetrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		if s.opts.Cluster == nil {
			return
		}
		s.mu.Lock()
		nodes := len(s.nodeConns)
		s.mu.Unlock()
		t := &s.stats
		for _, m := range []engine.Metric{
			{Name: "resp_forwarded_commands_total", Help: "Commands forwarded to the leader.", Counter: true, Value: float64(t.forwarded.Load())},
			{Name: "resp_forward_retries_total", Help: "Attempts to forward that failed because the node was not the leader or could not be reached.", Counter: true, Value: float64(t.retried.Load())},
			{Name: "resp_forward_unknown_total", Help: "Forwarded commands whose reply was outcome_unknown.", Counter: true, Value: float64(t.unknown.Load())},
			{Name: "resp_moved_replies_total", Help: "Commands whose reply was MOVED.", Counter: true, Value: float64(t.moved.Load())},
			{Name: "resp_upstreams_in_use", Help: "Connections to other nodes that are forwarding commands.", Value: float64(len(s.ups.slots))},
			{Name: "resp_node_connections", Help: "Connections that other nodes have opened to forward commands to this one.", Value: float64(nodes)},
		} {
			if !yield(m) {
				return
			}
		}
	}
}

// clusterStats returns the same metrics as lines of INFO.
func (s *Server) clusterStats() (lines []string) {
	for m := range s.clusterMetrics() {
		lines = append(lines, fmt.Sprintf("%s:%.0f", m.Name[len("resp_"):], m.Value))
	}
	return lines
}
