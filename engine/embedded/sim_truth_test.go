package embedded

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// truth is the state on which all nodes must agree, collected from their actions.
type truth struct {
	w         *world
	entries   map[uint64]*truthEntry          // by index
	batches   map[engine.Position]*truthBatch // by base
	leaders   map[uint64]uint64               // by term
	acked     []truthAck                      // in the order of time
	rosters   map[uint64]string               // by index, after it
	last      engine.Position                 // of the newest batch
	time      int64                           // of its last transaction
	installed int
	refused   int
	base      *roster
}

type truthEntry struct {
	raft.Entry
	decided bool // whether the batch was taken or refused
	taken   bool
	pos     engine.Position // after it
}

type truthBatch struct {
	index uint64
	data  []byte
	last  engine.Position
}

type truthAck struct {
	at  time.Duration
	pos uint64
}

func (t *truth) init(w *world) {
	t.w = w
	t.entries, t.batches, t.leaders = map[uint64]*truthEntry{}, map[engine.Position]*truthBatch{}, map[uint64]uint64{}
	t.rosters = map[uint64]string{}
}

// initial is the state in which the cluster begins.
func (t *truth) initial(r *roster) *snapshot {
	t.base = r
	return &snapshot{tree: btree.NewPairs(), applied: applied{index: 1, term: 1, roster: r}}
}

// leads records the leader of a term: there must be no other.
func (t *truth) leads(n *simNode, term uint64) {
	n.w.logf("n%d leads in term %d", n.id, term)
	if other := t.leaders[term]; other != 0 && other != n.id {
		t.w.violated("nodes %d and %d lead in term %d", other, n.id, term)
	}
	t.leaders[term] = n.id
	if n.db.exec.at.roster.isReplica(n.id) {
		t.w.violated("node %d leads in term %d and is a replica", n.id, term)
	}
}

// committed compares entries that a node considers committed with those of other nodes.
func (t *truth) committed(n *simNode, entries []raft.Entry) {
	at := n.db.exec.at.index
	for i, e := range entries {
		if e.Index != at+uint64(i)+1 {
			t.w.violated("node %d applies entry %d after entry %d", n.id, e.Index, at+uint64(i))
		}
		known := t.entries[e.Index]
		if known == nil {
			t.entries[e.Index] = &truthEntry{Entry: e}
			continue
		}
		if known.Term != e.Term || known.Kind != e.Kind || !bytes.Equal(known.Data, e.Data) {
			t.w.violated("entry %d was committed with term %d and %d bytes, and node %d commits it with term %d and %d bytes",
				e.Index, known.Term, len(known.Data), n.id, e.Term, len(e.Data))
		}
	}
}

// published compares a batch that a node makes visible with that of other nodes.
func (t *truth) published(n *simNode, b *batch) {
	known := t.batches[b.base]
	if known == nil {
		t.addBatch(n, b)
	} else if known.index != b.index || known.last != b.last || !bytes.Equal(known.data, b.buf) {
		t.w.violated("position %d forks: entry %d of %d bytes goes on from there, on node %d entry %d of %d bytes",
			b.base, known.index, len(known.data), n.id, b.index, len(b.buf))
	}
	e := t.entries[b.index]
	if e == nil {
		t.w.violated("node %d publishes entry %d, which is not committed", n.id, b.index)
	}
	t.decide(n, e, true, b.last)
}

func (t *truth) addBatch(n *simNode, b *batch) {
	if b.base != t.last {
		t.w.violated("node %d publishes a batch on position %d, the newest is %d", n.id, b.base, t.last)
	}
	last := t.time
	for c, err := range changes(b.buf) {
		if err != nil {
			t.w.violated("node %d publishes a batch that does not decode: %v", n.id, err)
		}
		if at := c.Time.UnixMicro(); at <= last {
			t.w.violated("time goes back at position %d: %d after %d", c.Pos, at, last)
		} else {
			last = at
		}
	}
	t.batches[b.base] = &truthBatch{b.index, bytes.Clone(b.buf), b.last}
	t.last, t.time = b.last, last
	t.w.clocks.published(b)
}

func (t *truth) decide(n *simNode, e *truthEntry, taken bool, pos engine.Position) {
	if !e.decided {
		e.decided, e.taken, e.pos = true, taken, pos
		if !taken {
			t.refused++
		}
		return
	}
	if e.taken != taken || e.pos != pos {
		t.w.violated("entry %d was taken %v by one node, which then was at position %d, and %v by node %d, which is at %d",
			e.Index, e.taken, e.pos, taken, n.id, pos)
	}
}

// applied compares what a node made of entries, which is all that it has so far,
// with what others did.
func (t *truth) applied(n *simNode, entries []raft.Entry) {
	if n.db.Err() != nil {
		return
	}
	at := n.db.exec.at
	last := entries[len(entries)-1]
	if at.index != last.Index || at.term != last.Term {
		t.w.violated("node %d has applied entry %d of term %d and is at %d of %d", n.id, last.Index, last.Term, at.index, at.term)
	}
	pos := engine.Position(0)
	for _, e := range entries {
		isBatch := e.Kind == raft.Data && len(e.Data) > 0 && e.Data[0] == batchFormat
		if known := t.entries[e.Index]; isBatch && !known.decided {
			t.decide(n, known, false, 0)
		} else if isBatch && known.taken {
			pos = known.pos
		}
	}
	if have := engine.Position(n.db.durable.Load()); pos != 0 && have != pos {
		t.w.violated("node %d is at position %d after entry %d, not at %d", n.id, have, at.index, pos)
	}
	t.sameRoster(n)
}

// sameRoster compares the members at the node's index.
func (t *truth) sameRoster(n *simNode) {
	at := n.db.exec.at
	now := string(at.roster.append(nil))
	if known, ok := t.rosters[at.index]; !ok {
		t.rosters[at.index] = now
	} else if known != now {
		t.w.violated("after entry %d the members are %s and, on node %d, %s", at.index, known, n.id, now)
	}
	t.noReplicaVotes(n)
}

// started checks the state of a node after a start.
func (t *truth) started(n *simNode) {
	t.same(n)
	if n.db.exec.at.index > 1 {
		t.sameRoster(n)
	}
}

// install checks the state of a received snapshot.
func (t *truth) install(n *simNode, b raft.Base) {
	t.installed++
	if at := n.db.exec.at.index; at != b.Index {
		t.w.violated("node %d has installed a snapshot of entry %d and is at %d", n.id, b.Index, at)
	}
	t.same(n)
	t.sameRoster(n)
}

// same compares a node's durable position and its visible state with the batches.
func (t *truth) same(n *simNode) {
	s := visible(n.db)
	if s.hollow() {
		return // a transaction is on its way
	}
	want, bytes := t.state(s.pos)
	i := 0
	for key, val := range s.tree.Ascend(nil, nil) {
		if i >= len(want) || string(key) != want[i][0] || string(val.Bytes) != want[i][1] {
			t.w.violated("node %d at position %d has %q = %q, which is not what was committed: %q", n.id, s.pos, key, val.Bytes, want)
		}
		i++
	}
	if i != len(want) || s.bytes != bytes {
		t.w.violated("node %d at position %d has %d keys and counts %d bytes, there must be %d and %d", n.id, s.pos, i, s.bytes, len(want), bytes)
	}
}

// state returns the state at a position, built from the batches.
func (t *truth) state(pos engine.Position) (pairs [][2]string, bytes int64) {
	m := map[string]string{}
	at := engine.Position(0)
	for at < pos {
		b := t.batches[at]
		if b == nil || b.last > pos {
			t.w.violated("nothing that was committed leads to position %d: it ends at %d", pos, at)
		}
		for c := range changes(b.data) {
			for _, w := range c.Writes {
				if delete(m, string(w.Key)); !w.Deleted {
					m[string(w.Key)] = string(w.Val)
				}
			}
		}
		at = b.last
	}
	for k, v := range m {
		pairs = append(pairs, [2]string{k, v})
		bytes += size([]byte(k), len(v))
	}
	slices.SortFunc(pairs, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return pairs, bytes
}

// ackedBefore returns the newest position that had been acknowledged at a time.
func (t *truth) ackedBefore(at time.Duration) (pos uint64) {
	for _, a := range t.acked {
		if a.at <= at {
			pos = max(pos, a.pos)
		}
	}
	return pos
}

// end compares the nodes that are members at the end, and the results of their Changes.
func (t *truth) end() {
	for _, n := range t.w.members() {
		n.db.exec.freshen()
		if pos := n.db.snap.Load().pos; pos != t.last {
			t.w.violated("node %d shows position %d at the end, not %d", n.id, pos, t.last)
		}
		t.same(n)
		t.changesOf(n)
		if len(n.calls) > 0 {
			t.w.violated("node %d has not answered %v since %v", n.id, n.calls[0], n.calls[0].began)
		}
	}
	for _, op := range t.w.ops {
		if op.pos > uint64(t.last) {
			t.w.violated("position %d was acknowledged, but the end is %d", op.pos, t.last)
		}
	}
}

// changesOf compares the results of Changes with the batches.
func (t *truth) changesOf(n *simNode) {
	n.db.history.mu.Lock()
	pos := n.db.history.floor
	n.db.history.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	want := map[engine.Position]string{}
	for _, b := range t.batches {
		for c := range changes(b.data) {
			want[c.Pos] = fmt.Sprint(c)
		}
	}
	for pos < t.last {
		began := pos
		for c, err := range n.db.Changes(ctx, pos) {
			if err != nil {
				t.w.violated("node %d: changes after %d: %v", n.id, pos, err)
			}
			if pos++; c.Pos != pos || fmt.Sprint(c) != want[pos] {
				t.w.violated("node %d gives change %v, not %s", n.id, c, want[pos])
			}
			if pos == t.last {
				return
			}
		}
		if pos == began {
			t.w.violated("node %d gives no changes after %d, the last is %d", n.id, pos, t.last)
		}
	}
}

// sum is a checksum of all events: two runs of one seed must have the same.
func (t *truth) sum() uint64 {
	h := fnv.New64a()
	for i := uint64(2); t.entries[i] != nil; i++ {
		e := t.entries[i]
		fmt.Fprintln(h, i, e.Term, e.Kind, e.taken, e.pos)
		h.Write(e.Data)
	}
	fmt.Fprintln(h, t.w.now, t.w.count)
	return h.Sum64()
}
