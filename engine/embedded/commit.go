package embedded

import (
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// The commit stage: the open batch is sealed, made durable, or lost.

// committer makes batches durable, on this disk or on a quorum.
type committer interface {
	// admit returns why calls cannot be accepted now, or nil. After an error, calls
	// that have already run must not be committed either. The caller holds executor.mu.
	admit() error
	// gathers reports whether more calls should gather in b before it is sealed; then it
	// has b sealed later. The caller holds executor.mu.
	gathers(b *batch) bool
	// seal prepares b, which is committed next. The caller holds executor.mu.
	seal(b *batch)
	// commit makes b durable. For a batch without writes it only confirms that the
	// batch has run on the newest state. After an error that matches
	// engine.ErrDiskFull nothing of the batch is kept and the next one may be tried.
	// After errLater, settle or abandon is called with the outcome. Any other error
	// stops the node.
	commit(b *batch) error
	// waits reports whether commit waits for a disk.
	waits() bool
}

// errLater is returned by a committer if the outcome is not known yet.
var errLater = errors.New("the outcome comes later")

// journalCommitter is the committer of a node without a cluster: its own disk is the
// quorum.
type journalCommitter struct{ log *journal.Log }

func (journalCommitter) admit() error        { return nil }
func (journalCommitter) gathers(*batch) bool { return false }
func (journalCommitter) seal(*batch)         {}
func (journalCommitter) waits() bool         { return true }

func (c journalCommitter) commit(b *batch) error {
	if b.empty() {
		return nil
	}
	if err := c.log.Append(b.index, b.buf); err != nil {
		return diskError(err)
	}
	return diskError(c.log.Sync())
}

// sealIfFree seals and returns the open batch, and takes the committing role for it, if
// there is something to commit, the role is free, and no more calls should gather. The
// caller holds mu, and is the runner unless there is none.
func (x *executor) sealIfFree() *batch {
	if x.broken == nil && x.committing == nil && len(x.open.calls) > 0 && x.log.gathers(x.open) {
		return nil
	}
	return x.sealNow()
}

// sealNow is sealIfFree without waiting for more calls.
func (x *executor) sealNow() *batch {
	if x.broken == nil && (len(x.open.calls) > 0 || !x.open.empty()) {
		x.broken = x.log.admit() // not nil if it ran after the node was deposed
	}
	if x.broken != nil {
		x.reset()
	}
	if x.committing != nil {
		return nil
	}
	b := x.open
	if b.empty() {
		if x.wanted.Load() {
			x.showDurable()
		}
		if len(b.calls) == 0 {
			return nil
		}
		x.open = &batch{buf: b.buf, undo: b.undo, base: b.base, last: b.last}
	} else {
		if x.due(x.wanted.Swap(false)) {
			b.snap = x.clone(b.last, b.time)
		}
		x.open = x.nextBatch(b)
	}
	x.committing, b.index, x.crowd = b, x.at.index+1, len(b.calls) > 1
	x.flight.seal()
	x.log.seal(b)
	return b
}

// nextBatch returns the batch that follows b. The caller holds mu.
func (x *executor) nextBatch(b *batch) *batch {
	s := x.spare
	if x.spare = (spare{}); s.buf == nil {
		s.buf = make([]byte, 0, max(len(b.buf), 512))
	}
	return newBatchIn(s, b.last)
}

// sealFull commits the open batch in the background, after waiting for the one
// before it. Only the runner calls it.
func (x *executor) sealFull() {
	x.mu.Lock()
	for x.committing != nil && x.broken == nil {
		x.changed.Wait()
	}
	b := x.sealNow()
	x.mu.Unlock()
	if b != nil {
		x.hand(b)
	}
}

// hand starts the commit of b without blocking the caller.
func (x *executor) hand(b *batch) {
	if x.log.waits() {
		x.handed <- b
	} else {
		x.commit(b)
	}
}

// commitLoop commits batches that a caller would have to commit for others.
func (x *executor) commitLoop() {
	defer x.stopped.Done()
	for b := range x.handed {
		for b != nil {
			b = x.commit(b)
		}
	}
}

// commitAll commits the caller's batch, and leaves the batch that has gathered in the
// meantime to the background.
func (x *executor) commitAll(b *batch) {
	if next := x.commit(b); next != nil {
		x.hand(next)
	}
}

// commit makes b durable and publishes it. It returns the next batch if one has
// gathered. Otherwise it releases the committing role, or leaves that to settle.
func (x *executor) commit(b *batch) (next *batch) {
	b.began = x.opts.mono()
	switch err := x.log.commit(b); err {
	case nil:
		return x.publish(b)
	case errLater:
	default:
		x.abandon(b, err)
	}
	return nil
}

// settle publishes a batch that turned out to be durable after errLater, and starts the
// commit of the next one.
func (x *executor) settle(b *batch) {
	if next := x.publish(b); next != nil {
		x.hand(next)
	}
}

// abandon drops everything that was built on a batch that could not be made durable, and
// then completes its calls: the next calls of their callers must not see lost writes.
func (x *executor) abandon(b *batch, err error) {
	retry := engine.Retryable(err)
	if !retry {
		x.fail(err)
		err = engine.Errorf(engine.CodeOutcomeUnknown, "the disk failed while committing: %w", err)
	}
	x.mu.Lock()
	calls := b.calls
	b.calls = nil // yield may still find b, and must not answer them again
	why := err
	if !retry {
		x.closed = engine.Errorf(engine.CodeStopped, "the node has stopped after a disk failure: %w", err)
		why = x.closed
	}
	x.drop(why)
	x.mu.Unlock()
	for _, c := range calls {
		c.fail(err)
	}
}

// drop drops everything that is not durable, now or, if there is a runner, as soon as
// it can. The caller holds mu.
func (x *executor) drop(why error) {
	x.broken = why
	if !x.running {
		x.reset()
	}
	x.changed.Broadcast()
}

// reset drops everything that was built on a lost batch. It makes the state that it
// continues from visible, because a clone that readers wait for may have been lost with
// the batch. The caller holds mu, and is the runner unless there is none.
func (x *executor) reset() {
	for _, c := range x.open.calls {
		c.fail(x.broken)
	}
	x.lost = x.broken
	limit := int(x.opts.SpillBytes)
	unmoved := x.revert(x.open, limit)
	if b := x.committing; b != nil {
		unmoved = x.revert(b, limit) || unmoved
	}
	if unmoved {
		x.unmoved()
	}
	x.measure()
	x.open = newBatch(x.atPos, 0)
	x.resets++
	s := x.clone(x.atPos, x.atTime)
	s.applied = x.at
	x.show(s)
	x.broken = nil
	x.committing = nil
	x.flight.drop()
}

// restart drops the speculative state and continues from a committed one, whose tree it
// takes. The visible state must be hollow afterwards.
func (x *executor) restart(from *snapshot) {
	x.tree, x.bytes, x.vals = from.tree, from.bytes, from.vals
	x.measure()
	x.open = newBatch(from.pos, 0)
	x.shown = unseen
	x.resets++
}
