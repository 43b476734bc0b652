package embedded

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// The publish stage: a durable batch becomes visible, and its calls are completed.

// publish makes a durable batch visible and completes its calls. It returns the next
// batch if one has gathered, and otherwise releases the committing role.
func (x *executor) publish(b *batch) (next *batch) {
	if !b.empty() {
		x.mu.Lock()
		x.at.index, x.at.term = b.index, b.term
		x.atPos, x.atTime = b.last, b.time
		at := x.at
		x.mu.Unlock()
		x.overtake(b)
		if b.snap != nil {
			b.snap.applied = at
			x.show(b.snap)
		}
		x.record(b)
	}
	x.flight.land()
	for i, c := range b.calls {
		b.calls[i] = nil
		c.done <- nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !b.empty() && b.reusable() {
		x.spareBuf = b.buf // what remains of it is in the history, in the log and in raft as copies
	}
	x.committing = nil
	x.changed.Broadcast()
	if x.running {
		return nil // the runner seals when it has run the queued calls
	}
	return x.sealIfFree()
}

// cloning decides for which batches the tree is cloned. A clone itself is cheap, but
// after it the first write to each leaf copies the leaf, which is half the cost of a
// write. So nothing is cloned while there are no readers. The first reader after that
// waits for the batch in progress. Then every batch is cloned until unreadBatches in a
// row had no reader.
type cloning struct {
	unread int // batches since the last read
	bytes  int // of batches since the last clone
	most   int // limit of bytes: unreadBytes, except in tests
}

const (
	unreadBatches = 16
	unreadBytes   = 16 << 20 // of batches that the history keeps for the next clone, beyond its limit
)

// due reports whether a batch of the given size needs a clone. Without a clone, the base
// of a lost batch is rebuilt from the last clone and the history.
func (c *cloning) due(read bool, size int) bool {
	if c.unread++; read {
		c.unread = 0
	}
	if c.bytes += size; c.unread > unreadBatches && c.bytes < c.most {
		return false
	}
	c.bytes = 0
	return true
}

// clone returns the current state, which is at pos. The caller is the runner, or holds
// mu while there is none.
func (x *executor) clone(pos engine.Position) *snapshot {
	x.shown, x.since.bytes = pos, 0
	return &snapshot{tree: x.tree.Clone(), pos: pos, time: x.clock, bytes: x.bytes, vals: x.vals}
}

// showDurable makes the tree visible. All of it must be durable: nothing is open or
// being committed. The caller is the runner, or holds mu while there is none.
func (x *executor) showDurable() {
	if pos := x.open.base; x.shown != pos {
		s := x.clone(pos)
		s.applied = x.at
		x.show(s)
	}
}

// freshen makes the newest durable state visible if that is possible without waiting.
// If not, the batch in progress or the next one will become visible.
func (x *executor) freshen() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.running && x.committing == nil && x.broken == nil && x.open.empty() {
		x.showDurable()
		x.shrink()
	}
}

// shrink releases the memory of large batches. Nothing is open. The caller holds mu, and
// there is no runner.
func (x *executor) shrink() {
	if cap(x.spareBuf) > keepBatch {
		x.spareBuf = nil
	}
	if cap(x.open.buf) > keepBatch && len(x.open.calls) == 0 {
		x.open = newBatch(x.open.last, 0)
	}
}

// record moves the position and then makes Changes yield a durable batch. The order
// matters: a caller that has seen a change must find it in its next view.
func (db *DB) record(b *batch) {
	db.durable.Store(uint64(b.last))
	data := b.shared
	if data == nil {
		data = bytes.Clone(b.buf)
	}
	db.history.add(kept{index: b.index, base: b.base, last: b.last, time: b.time, data: data})
	db.counts.batches.Add(1)
	if !b.began.IsZero() {
		db.counts.committed(db.opts.mono().Sub(b.began))
	}
	db.counts.transactions.Add(uint64(b.last - b.base))
	db.counts.batchBytes.Add(uint64(len(b.buf)))
	db.spill.note(b.buf)
	db.saver.logged(len(b.buf), b.writes)
}

// overtake records in the visible state when the first batch after it began.
func (db *DB) overtake(b *batch) {
	if s := db.snap.Load(); s.pos == b.base {
		atomic.StoreInt64(&s.next, b.first)
	}
}

// show makes a durable state visible.
func (db *DB) show(s *snapshot) {
	s.shown = db.opts.mono()
	db.snap.Store(s)
	db.history.need(s.pos)
	db.shown.fire()
}

// committed returns the state after the newest durable batch: the visible state plus
// the history after it.
func (db *DB) committed() *snapshot {
	s := db.snap.Load()
	if s.pos == engine.Position(db.durable.Load()) {
		return s
	}
	s = &snapshot{tree: s.tree.Clone(), pos: s.pos, time: s.time, bytes: s.bytes, vals: s.vals}
	for {
		batches, _, err := db.history.after(s.pos)
		if err != nil {
			panic("BUG: the history does not reach back to the visible state: " + err.Error())
		}
		if len(batches) == 0 {
			return s
		}
		for _, b := range batches {
			for c, err := range changes(b.data) {
				if err != nil {
					panic("BUG: a committed batch does not decode: " + err.Error())
				}
				if c.Pos > s.pos {
					s.apply(c)
				}
			}
		}
	}
}

// tidyEvery is after how long without readers the visible state is brought up to date,
// so that the memory of the old one is freed.
const tidyEvery = time.Second

func (db *DB) tidy() {
	defer close(db.tidied)
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			db.exec.freshen()
			db.sweep()
		case <-db.ending:
			return
		}
	}
}
