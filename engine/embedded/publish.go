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
		} else {
			x.letGo()
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
	if !b.empty() {
		x.spare = b.spare() // what remains of it is in the history, in the log and in raft as copies
	}
	x.committing = nil
	x.changed.Broadcast()
	if x.running {
		return nil // the runner seals when it has run the queued calls
	}
	return x.sealIfFree()
}

// unreadBatches is the number of batches without a reader after which the tree is no longer
// cloned.
const unreadBatches = 16

// due reports whether the next batch needs a clone of the tree, for readers. A clone itself
// is cheap, but after it the first write to each leaf copies the leaf, which is half the
// cost of a write. So nothing is cloned while there are no readers. The first reader after
// that waits for the batch in progress. Then every batch is cloned until unreadBatches in a
// row had no reader. The caller holds mu.
func (x *executor) due(read bool) bool {
	if x.unread++; read {
		x.unread = 0
	}
	return x.unread <= unreadBatches
}

// clone returns the state of the tree, which is at pos. The caller is the runner, or holds
// mu while there is none.
func (x *executor) clone(pos engine.Position, time int64) *snapshot {
	x.shown = pos
	return &snapshot{tree: x.tree.Clone(), pos: pos, time: time, bytes: x.bytes, vals: x.vals}
}

// letGo makes the visible state hollow if it is too old for local reads: its tree keeps all
// that was overwritten since.
func (x *executor) letGo() {
	if s := x.visible(); !s.hollow() && x.opts.mono().Sub(s.shown) > localStale {
		x.show(s.emptied())
	}
}

// showDurable makes the tree visible. All of it must be durable: nothing is open or
// being committed. The caller is the runner, or holds mu while there is none.
func (x *executor) showDurable() {
	if pos := x.open.base; x.shown != pos || x.visible().hollow() {
		s := x.clone(pos, x.atTime)
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
	}
}

// tidy frees memory that is not needed for now: that of large batches, and what an old
// visible state keeps.
func (x *executor) tidy() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running || x.committing != nil || x.broken != nil || !x.open.empty() {
		return
	}
	if s := x.visible(); x.shown != x.open.base && !s.hollow() {
		x.show(s.emptied())
	}
	x.shrink()
}

// shrink releases the memory of large batches. Nothing is open. The caller holds mu, and
// there is no runner.
func (x *executor) shrink() {
	if cap(x.spare.buf)+cap(x.spare.undo) > keepBatch {
		x.spare = spare{}
	}
	if cap(x.open.buf)+cap(x.open.undo) > keepBatch && len(x.open.calls) == 0 {
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
	db.shown.fire()
}

// tidyEvery is after how long without readers an old visible state is let go of, so that
// its memory is freed.
const tidyEvery = time.Second

func (db *DB) tidy() {
	defer close(db.tidied)
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			db.exec.tidy()
			db.sweep()
		case <-db.ending:
			return
		}
	}
}
