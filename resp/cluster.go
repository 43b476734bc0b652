package resp

import (
	"net"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
)

// Slots is the number of hash slots into which Redis Cluster divides the keys. Here the
// leader owns all of them.
const Slots = 16384

// membership is a connection's state about the cluster and about how recent its reads must
// be. The zero value is for a client of a single node.
type membership struct {
	engine.Cluster      // nil: a single node, or the connection of another node
	node           bool // opened by another node to run its clients' commands
	deposed        bool // of node: a command found no leader here; nothing more is run
	coded          bool // of node: it supports refusedWord

	moves bool // the client wants MOVED instead of forwarding
	stays bool // CLIENT MOVED OFF was sent, which overrides other commands

	level    engine.Level  // set by CLIENT READ
	maxStale time.Duration // at engine.Local; 0: the engine's default
	readonly bool          // READONLY was sent: reads are local if this node is not the leader
	pos      engine.Position
	lost     bool // the position of a write is not known: it is greater than pos

	notify   bool   // the client wants to be notified of a new leader
	notified uint64 // the leader that it was last notified of; 0: none

	leads   bool    // this node was the leader for the last writes: try it first
	replied bool    // the last reply from the leader is an array: EXEC has run
	marks   []int64 // of node: times of its writes since the last mark, in microseconds
}

// saw updates the position that the client has seen. A linearizable read covers every write
// before it.
func (m *membership) saw(pos engine.Position, level engine.Level) {
	m.pos = max(m.pos, pos)
	if level == engine.Linearizable {
		m.lost = false
	}
}

// wrote records the time of a write, for NOLOOP here or on the node that forwarded it.
func (c *conn) wrote(at time.Time) {
	if !c.cl.node {
		c.track.wrote(at)
	} else if len(c.cl.marks) < 2*MaxChunk {
		c.cl.marks = append(c.cl.marks, at.UnixMicro())
	}
}

// read returns how recent the next View of this connection must be.
func (c *conn) read() engine.Read {
	if c.cl.level == engine.Linearizable && !c.cl.readonly {
		return engine.Read{}
	}
	return c.weakRead()
}

func (c *conn) weakRead() engine.Read {
	m := &c.cl
	r := engine.Read{Level: m.level}
	if r.Level == engine.Linearizable {
		if c.srv.router.Leads() {
			return r
		}
		r.Level = engine.Local
	}
	switch {
	case r.Level == engine.Session && m.lost:
		return engine.Read{}
	case r.Level == engine.Session:
		r.AtLeast = m.pos
	default:
		r.MaxStale = m.maxStale
	}
	if c.track.on {
		// Changes up to this position have already been reported. An older read would miss
		// their invalidations.
		r.AtLeast = max(r.AtLeast, c.srv.feed.Position())
	}
	return r
}

// loosely returns the options for reads about the node itself, which must work without a
// leader.
func (s *Server) loosely() engine.Read {
	if s.opts.Cluster == nil {
		return engine.Read{}
	}
	return engine.Read{Level: engine.Local, MaxStale: 1 << 62}
}

// viewBegins returns the time at which a View begins, for viewAgain. A single node does not
// need it.
func (c *conn) viewBegins() (t time.Time) {
	if c.cl.Cluster != nil {
		t = time.Now()
	}
	return t
}

// viewAgain repeats a View that began at began and failed with err, while there is no
// leader. The time that the View itself waited for a leader counts.
func (c *conn) viewAgain(began time.Time, err error, view func() (engine.Position, error)) (pos engine.Position, _ error) {
	if forward.OutcomeOf(err) != forward.NotRun {
		return 0, err
	}
	err = c.toLeader(time.Since(began), func(uint64, bool) (forward.Outcome, error) {
		var err error
		pos, err = view()
		return forward.OutcomeOf(err), err
	})
	return pos, err
}

// toLeader makes attempts on the leader until one is final or the patience is used up.
// waited is the part of it that was used up before.
func (c *conn) toLeader(waited time.Duration, try func(leader uint64, here bool) (forward.Outcome, error)) error {
	err := c.srv.router.Do(c.ctx, &forward.Call{Waited: waited, Try: func(leader uint64, here bool) (forward.Outcome, error) {
		outcome, err := try(leader, here)
		if outcome == forward.NotRun {
			c.srv.stats.retried.Add(1)
		}
		return outcome, err
	}})
	if err != nil && c.ctx.Err() != nil {
		return engine.ErrNotLeader // nobody reads the reply
	}
	return err
}

// movedAway replies to a command with MOVED if it has to run on another node whose address
// is known. This includes WATCH, because clients read and write on the connection on which
// they watch.
func (c *conn) movedAway(cmd *command, args [][]byte) bool {
	if !c.writes(cmd, args) && cmd.name != "watch" {
		return false
	}
	st := c.cl.State()
	leader, ok := st.Node(st.Leader)
	if !ok || st.Leader == st.Self || leader.RESP == "" {
		return false
	}
	slot := -1
	cmd.eachKey(args, func(key []byte) bool {
		slot = keySlot(key)
		return false
	})
	if slot < 0 {
		return false
	}
	c.srv.stats.moved.Add(1)
	c.reject(cmd, "MOVED "+strconv.Itoa(slot)+" "+leader.RESP)
	return true
}

// keySlot returns a key's hash slot. If there is text between its first braces, it is the
// slot of that text.
func keySlot(key []byte) int {
	for i, c := range key {
		if c != '{' {
			continue
		}
		for j := i + 1; j < len(key); j++ {
			if key[j] == '}' {
				if j > i+1 {
					key = key[i+1 : j]
				}
				break
			}
		}
		break
	}
	// CRC-16/XMODEM: https://redis.io/docs/reference/cluster-spec, appendix A.
	crc := uint16(0)
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % Slots)
}

// endpoint splits HOST:PORT.
func endpoint(addr string) (host string, port int64) {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, 0
	}
	port, _ = strconv.ParseInt(p, 10, 32) // 0 if unknown
	return h, port
}
