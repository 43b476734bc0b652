package resp

import (
	"net"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
)

// Slots is how many hash slots Redis Cluster divides the keys into. Here the
// leader has them all.
const Slots = 16384

// membership is what a connection has to do with the cluster and with how new
// its reads are. Its zero value is a client of a node that is alone.
type membership struct {
	engine.Cluster      // nil: the node is alone, or the connection is another node's
	node           bool // another node opened it, to have its clients' commands run
	deposed        bool // of node: a command found no leader here; nothing more is run
	coded          bool // of node: it knows refusals by their first word; see refusedWord

	moves bool // the client wants MOVED rather than have its writes forwarded
	stays bool // CLIENT MOVED OFF was said, which no other command overrules

	level    engine.Level  // as CLIENT READ says
	maxStale time.Duration // at engine.Local; 0: the engine's default
	readonly bool          // READONLY was said: local where this node does not lead
	pos      engine.Position
	lost     bool // a write's position is not known: it is greater than pos

	tells bool   // the client wants to be told of a new leader
	told  uint64 // the one that it was told of last; 0: none

	leads   bool    // the node has led when the last writes ran: try it first
	replied bool    // the last reply from the leader is an array: EXEC has run
	marks   []int64 // of node: times of its writes since the last mark, in microseconds
}

// saw notes what position the client knows of now. A linearizable read covers
// every write before it.
func (m *membership) saw(pos engine.Position, level engine.Level) {
	m.pos = max(m.pos, pos)
	if level == engine.Linearizable {
		m.lost = false
	}
}

// wrote remembers the time of a write, for NOLOOP here or on the node that
// forwarded it.
func (c *conn) wrote(at time.Time) {
	if !c.cl.node {
		c.track.wrote(at)
	} else if len(c.cl.marks) < 2*MaxChunk {
		c.cl.marks = append(c.cl.marks, at.UnixMicro())
	}
}

// read says how new the next View of this connection has to be.
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
		// The changes up to there have been told already: what is read must not
		// be older, or its change would be missed.
		r.AtLeast = max(r.AtLeast, c.srv.feed.Position())
	}
	return r
}

// loosely is for what tells about the node itself, and has to work without a
// leader too.
func (s *Server) loosely() engine.Read {
	if s.opts.Cluster == nil {
		return engine.Read{}
	}
	return engine.Read{Level: engine.Local, MaxStale: 1 << 62}
}

// viewBegins is the time at which a View begins, for viewAgain; alone nobody asks.
func (c *conn) viewBegins() (t time.Time) {
	if c.cl.Cluster != nil {
		t = time.Now()
	}
	return t
}

// viewAgain repeats a View, which began at a time and failed with err, while there
// is no leader. The View itself waits for one, which counts.
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

// toLeader makes attempts with the node that leads until one is the last, or the
// patience, of which a part may be used up, is over.
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

// movedAway answers a command with MOVED if it has to run on another node whose
// address is known. WATCH is among them, as clients read and write on the
// connection that they watch on.
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

// keySlot returns a key's hash slot: that of what stands between its first
// braces, if there is something.
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
	port, _ = strconv.ParseInt(p, 10, 32) // 0: not known
	return h, port
}
