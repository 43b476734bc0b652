package embedded

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// This file handles committed entries. Batches of this node go on to be published;
// those of other nodes are applied to the tree first.

// applyAll applies committed entries. Those that this node proposed are already in the
// tree and are published; others are applied to it.
func (c *raftCommitter) applyAll(entries []raft.Entry) error {
	followed := 0
	for _, e := range entries {
		c.outdate(e.Term)
		switch {
		case e.Kind == raft.Change:
			c.note(e, c.x.at.roster.changed(*e.Members, e.Context))
		case len(e.Data) == 0:
			c.note(e, nil)
		case isNote(e.Data):
			r, err := c.x.at.roster.noted(e.Data)
			if err != nil {
				return fmt.Errorf("log entry %d: %w", e.Index, err)
			}
			c.note(e, r)
		default:
			n, err := c.applyBatch(e)
			if err != nil {
				return fmt.Errorf("log entry %d: %w", e.Index, err)
			}
			followed += n
		}
	}
	if followed > 0 {
		c.showFollowed()
	}
	return nil
}

// note advances past an entry that changes no data. A nil roster means unchanged.
func (c *raftCommitter) note(e raft.Entry, r *roster) {
	x := c.x
	x.mu.Lock()
	x.at.index, x.at.term = e.Index, e.Term
	if r != nil {
		x.at.roster = r
		c.showRoster()
	}
	x.mu.Unlock()
	if r != nil {
		c.members(r)
	}
}

// showRoster updates the members in the visible state if it is the newest: a new member can
// only be sent a snapshot that lists it. The caller holds mu.
func (c *raftCommitter) showRoster() {
	x := c.x
	if s := *x.visible(); s.pos == x.atPos { // a copy: show writes to it
		s.applied = x.at
		x.show(&s)
	}
}

// applyBatch applies a batch. It returns its size if another node built it, otherwise 0.
func (c *raftCommitter) applyBatch(e raft.Entry) (int, error) {
	x := c.x
	base, err := batchBase(e.Data)
	if err != nil {
		return 0, err
	}
	x.mu.Lock()
	b := x.committing
	own := b != nil && !b.empty() && c.term == e.Term && b.term == e.Term && bytes.Equal(b.buf, e.Data)
	follows := c.term == 0
	at := x.open.base // what is durable
	if b != nil {
		at = b.base
	}
	if own {
		now := x.opts.mono()
		c.lull.begin(now, now.Sub(b.began), len(b.calls)+int(x.open.called.Load())+len(x.queue))
	}
	x.mu.Unlock()
	switch {
	case own:
		b.index, b.shared = e.Index, e.Data
		x.settle(b)
		return 0, nil
	case !follows && base != at:
		c.refuseBatch(e, base, at)
		return 0, nil
	case !follows:
		return 0, fmt.Errorf("BUG: this node leads in term %d and did not propose the batch on position %d", e.Term, base)
	}
	return c.followBatch(e, base)
}

// followBatch applies a batch if it was built on the current state. If not, every node
// refuses it.
func (c *raftCommitter) followBatch(e raft.Entry, base engine.Position) (int, error) {
	x := c.x
	x.takeTree()
	defer x.giveTree()
	if base != x.open.base && !failpoint("no-base-check") {
		c.refuseBatch(e, base, x.open.base)
		return 0, nil
	}
	writes, n, last, err := decodeWrites(c.writes[:0], e.Data)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		last = x.clock
	}
	state := snapshot{tree: x.tree, bytes: x.bytes}
	c.warm.apply(&state, writes, min(x.ahead, followAhead))
	x.bytes = state.bytes
	clear(writes) // they alias the entry
	if c.writes = writes; cap(writes) > keepWrites {
		c.writes = nil
	}
	if !failpoint("clock-back") {
		x.clock = last
		x.wall.raise(x.clock)
	}
	b := &batch{buf: e.Data, shared: e.Data, base: x.open.base, last: x.open.base + n, time: last, writes: len(writes), index: e.Index, term: e.Term}
	x.open = newBatch(b.last, 0)
	x.mu.Lock()
	x.at.index, x.at.term, x.atPos, x.atTime = e.Index, e.Term, b.last, b.time
	x.mu.Unlock()
	x.record(b)
	c.found(e, true)
	return len(e.Data), nil
}

// keepWrites is the length up to which the slice of a batch's writes is reused.
const keepWrites = 64 << 10

// followAhead is the number of pairs from which on a follower looks keys up, if that is
// less than aheadFrom: its log and its connections take much of the caches.
const followAhead = 1 << 13

// warmer applies writes in their order, and looks their keys up before, some at a time:
// in a large map that saves a quarter of the time.
type warmer struct{ keys [aheadKeys][]byte }

// apply looks keys up if there are at least from pairs.
func (m *warmer) apply(s *snapshot, writes []engine.Write, from int) {
	for part := range slices.Chunk(writes, aheadKeys) {
		if s.tree.Len() >= from {
			for i := range part {
				m.keys[i] = part[i].Key
			}
			lookAhead(s.tree, m.keys[:len(part)])
		}
		for i := range part {
			s.write(part[i].Key, part[i].Val, part[i].Deleted)
		}
	}
	clear(m.keys[:]) // they alias writes
}

// refuseBatch advances past a batch that was not built on the current state, which is
// at position at.
func (c *raftCommitter) refuseBatch(e raft.Entry, base, at engine.Position) {
	c.refused.Add(1)
	c.x.opts.Logger.Info("a batch of a deposed leader was refused", "index", e.Index, "term", e.Term, "built_on", base, "state", at)
	c.found(e, false)
	c.note(e, nil)
}

// showFollowed makes the applied batches visible if there are readers.
func (c *raftCommitter) showFollowed() {
	x := c.x
	x.mu.Lock()
	defer x.mu.Unlock()
	switch due := x.due(x.wanted.Swap(false)); {
	case due && !x.running && x.committing == nil && x.open.empty():
		x.showDurable()
	case !due:
		x.letGo()
	}
}

// install continues from the state of a received snapshot.
func (c *raftCommitter) install(s *snapshot) {
	x := c.x
	x.takeTree()
	defer x.giveTree()
	x.mu.Lock()
	defer x.mu.Unlock()
	c.resolve(func(orphan) error {
		return engine.Errorf(engine.CodeOutcomeUnknown, "the node was deposed while the call was being committed, and has since been brought up to date without it")
	})
	x.clock = max(x.clock, s.time)
	x.advance(s)
	x.wall.raise(x.clock)
	x.restart(s)
}
