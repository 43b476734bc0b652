package embedded

import (
	"bytes"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skerrydb/skerry/raft"
)

// simNet is the network between the nodes.
type simNet struct {
	w      *world
	cut    [][]bool // from, to: nothing arrives
	loss   float64  // of messages
	twice  float64  // messages that arrive twice
	late   float64  // messages that take up to slow, and so overtake each other
	slow   time.Duration
	voters float64 // those that end and come back at once after they have voted
}

func (t *simNet) init(w *world, nodes int) {
	t.w = w
	t.cut = make([][]bool, nodes)
	for i := range t.cut {
		t.cut[i] = make([]bool, nodes)
	}
	t.slow = 500 * time.Millisecond
}

func (t *simNet) delay() time.Duration {
	if t.w.chance(t.late) {
		return t.w.between(5*time.Millisecond, t.slow)
	}
	return t.w.between(100*time.Microsecond, 3*time.Millisecond)
}

// send carries a message, or loses it.
func (t *simNet) send(from *simNode, m *raft.Message) {
	w, to := t.w, m.GetTo()
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	if to == 0 || to > uint64(len(w.nodes)) {
		w.violated("node %d sends to node %d, which never was", from.id, to)
	}
	w.truth.campaigns(from, m)
	if t.cut[from.id-1][to-1] {
		if w.chance(0.3) {
			from.post(func() {
				from.pace.Lost(to)
				from.core.Unreachable(to)
			})
		}
		return
	}
	if t.voters > 0 && m.GetType().String() == "MsgVoteResp" && w.chance(t.voters) {
		from.after(w.between(0, 2*time.Millisecond), func() { w.crash(from, w.chance(0.5), 30*time.Millisecond) })
	}
	if w.plan.lease && m.GetType().String() == "MsgTimeoutNow" {
		w.deafen(from)
	}
	copies := 1
	if w.chance(t.loss) {
		copies = 0
	} else if w.chance(t.twice) {
		copies = 2
	}
	for range copies {
		w.after(t.delay(), func() { t.arrive(from.id, to, b) })
	}
}

func (t *simNet) arrive(from, to uint64, b []byte) {
	n := t.w.nodes[to-1]
	if !n.up || t.cut[from-1][to-1] || !n.admits(from) {
		return
	}
	m := &raft.Message{}
	if err := proto.Unmarshal(b, m); err != nil {
		panic(err)
	}
	if t.w.trace != nil && !strings.HasPrefix(m.GetType().String(), "MsgHeartbeat") {
		t.w.logf("n%d <- n%d %v term %d index %d logterm %d commit %d entries %d reject %v", to, from, m.GetType(), m.GetTerm(), m.GetIndex(), m.GetLogTerm(), m.GetCommit(), len(m.GetEntries()), m.GetReject())
	}
	n.post(func() {
		n.heard(m)
		n.room.Hear(m)
		if err := n.core.Step(m); err != nil {
			t.w.violated("node %d does not take a message: %v", to, err)
		}
	})
}

// sendSnapshot sends a snapshot as raft.Node and the peer port do.
func (n *simNode) sendSnapshot(m *raft.Message) {
	to := m.GetTo()
	if n.sending[to] {
		return
	}
	n.sending[to] = true
	done := func(ok bool) {
		n.post(func() {
			delete(n.sending, to)
			n.core.SnapshotSent(to, ok)
		})
	}
	n.after(n.w.between(0, 20*time.Millisecond), func() {
		n.endFuzzy()
		base, r, err := n.db.group.OpenSnapshot(to)
		if err != nil {
			n.w.logf("n%d opens no snapshot: %v", n.id, err)
			done(false)
			return
		}
		b, err := io.ReadAll(r)
		if r.Close(); err != nil {
			done(false)
			return
		}
		raft.Attach(m, base)
		msg, err := proto.Marshal(m)
		if err != nil {
			panic(err)
		}
		n.w.logf("n%d sends a snapshot of index %d to n%d, %d bytes, term %d", n.id, base.Index, to, len(b), m.GetTerm())
		life := n.life
		n.w.net.stream(n, n.w.nodes[to-1], msg, b, func(ok bool) {
			if n.life == life && n.up {
				done(ok)
			}
		})
	})
}

// stream carries a snapshot. That takes a while, and the snapshot may be truncated or
// damaged.
func (t *simNet) stream(from, to *simNode, msg, b []byte, done func(ok bool)) {
	w := t.w
	took := w.between(time.Millisecond, 300*time.Millisecond) + from.snapshotTakes(to.id, len(b))
	if w.chance(t.late) {
		took += w.between(0, 3*time.Second)
	}
	fate := w.rng.Float64()
	w.after(took, func() {
		if !to.up || t.cut[from.id-1][to.id-1] || t.cut[to.id-1][from.id-1] || !to.admits(from.id) {
			done(false)
			return
		}
		damaged := true
		switch {
		case fate < t.loss:
			b = b[:w.rng.IntN(len(b))]
		case fate < 2*t.loss:
			b = bytes.Clone(b)
			b[w.rng.IntN(len(b))] ^= byte(1 + w.rng.IntN(255))
		default:
			damaged = false
		}
		ok := to.receiveSnapshot(from.id, msg, b, damaged)
		w.after(t.delay(), func() { done(ok) })
	})
}

func (n *simNode) receiveSnapshot(from uint64, msg, b []byte, damaged bool) bool {
	n.maybeStop(0.1)
	file, err := n.db.group.receive(bytes.NewReader(b))
	n.w.logf("n%d receives a snapshot of n%d: damaged %v, err %v", n.id, from, damaged, err)
	switch {
	case err == nil && damaged:
		n.w.violated("node %d takes a damaged snapshot", n.id)
	case err != nil:
		if !damaged && !n.harmed && !n.limited {
			n.w.violated("node %d does not take a snapshot: %v", n.id, err)
		}
		n.settle()
		return false
	}
	m := &raft.Message{}
	if err := proto.Unmarshal(msg, m); err != nil {
		panic(err)
	}
	m.Snapshot.Data = file
	n.post(func() {
		if err := n.core.Step(m); err != nil {
			n.w.violated("node %d does not take a message: %v", n.id, err)
		}
	})
	return true
}
