package embedded

import (
	"bytes"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// What the executor does in a cluster. All methods here but refused's callees
// run in one goroutine, the machine's; the callers that lead run beside it
// between accept and yield.

// OutcomeWait is how long a call whose leader was deposed waits for the log to
// tell whether its batch was committed; then its outcome is unknown.
const OutcomeWait = 5 * time.Second

// orphan is a batch that was proposed by this node before it was deposed.
type orphan struct {
	*batch
	since time.Time
}

// accept has calls taken: this node leads in the term, and the tree has all that
// was committed before it.
func (x *executor) accept(term uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refuse, x.term = nil, term
	x.flight.settled()
	x.wall.lead()
}

// yield takes no more calls. What was built on batches that are not committed is
// dropped; those that were proposed may yet be committed, which the log will
// tell.
func (x *executor) yield(why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refuse = why
	if x.term == 0 {
		return
	}
	x.term = 0
	for _, c := range x.queue {
		if c.claim.CompareAndSwap(callWaiting, callRunning) {
			c.ran <- struct{}{}
			c.done <- why
		}
	}
	x.queue = nil
	switch {
	case x.committing != nil && failpoint("deposed-is-failed"):
		orphan{x.committing, x.opts.mono()}.answer(why)
	case x.committing != nil:
		x.orphans = append(x.orphans, orphan{x.committing, x.opts.mono()})
		if b := x.committing; !b.empty() && !failpoint("held-unseen") {
			x.flight.hold(b.first) // reads may go on
		}
	}
	if failpoint("speculation-kept") {
		x.open = newBatch(x.open.last, 0)
		x.committing = nil
		return
	}
	x.broken = why
	if !x.leading {
		x.reset()
	}
	x.changed.Broadcast()
	for x.leading {
		x.changed.Wait()
	}
}

// applyAll applies committed entries: those that this node proposed are in the
// tree already and are published, others are applied to it.
func (x *executor) applyAll(entries []raft.Entry) error {
	followed := 0
	for _, e := range entries {
		x.giveUp(e.Term)
		switch {
		case e.Kind == raft.Change:
			x.note(e, x.at.roster.changed(*e.Members, e.Context))
		case len(e.Data) == 0:
			x.note(e, nil)
		case e.Data[0] == noteFormat:
			n, err := parseNote(e.Data)
			if err != nil {
				return fmt.Errorf("log entry %d: %w", e.Index, err)
			}
			r := x.at.roster
			if r.Members.Has(n.ID) { // it may have been removed since it said so
				r = r.with(n)
			}
			x.note(e, r)
		default:
			n, err := x.applyBatch(e)
			if err != nil {
				return fmt.Errorf("log entry %d: %w", e.Index, err)
			}
			followed += n
		}
	}
	if followed > 0 {
		x.showFollowed(followed)
	}
	return nil
}

// note moves on over an entry that changes no data. A nil roster is as before.
func (x *executor) note(e raft.Entry, r *roster) {
	x.mu.Lock()
	x.at.index, x.at.term = e.Index, e.Term
	if r != nil {
		x.at.roster = r
		x.showRoster()
	}
	x.mu.Unlock()
	if r != nil {
		x.told(r)
	}
}

// showRoster has the visible state tell who is a member now: a newcomer can be
// sent only a snapshot in which it is one. The caller holds mu.
func (x *executor) showRoster() {
	s := *x.current() // a copy: show writes to it
	s.applied = x.at
	x.show(&s)
}

// applyBatch returns the bytes of the batch if it was another node's.
func (x *executor) applyBatch(e raft.Entry) (int, error) {
	base, err := batchBase(e.Data)
	if err != nil {
		return 0, err
	}
	x.mu.Lock()
	b := x.committing
	own := b != nil && !b.empty() && x.term == e.Term && b.term == e.Term && bytes.Equal(b.buf, e.Data)
	follows := x.term == 0
	at := x.open.base // what is durable
	if b != nil {
		at = b.base
	}
	x.mu.Unlock()
	switch {
	case own:
		b.index = e.Index
		if next := x.finish(b); next != nil {
			x.commit(next)
		}
		return 0, nil
	case !follows && base != at:
		x.refuseBatch(e, base, at)
		return 0, nil
	case !follows:
		return 0, fmt.Errorf("BUG: this node leads in term %d and did not propose the batch on position %d", e.Term, base)
	}
	return x.followBatch(e, base)
}

// followBatch applies a batch if it was built on the state that is here; if not,
// every node refuses it alike.
func (x *executor) followBatch(e raft.Entry, base engine.Position) (int, error) {
	x.takeTree()
	defer x.giveTree()
	if base != x.open.base && !failpoint("no-base-check") {
		x.refuseBatch(e, base, x.open.base)
		return 0, nil
	}
	state := snapshot{tree: x.tree, pos: x.open.base, time: x.clock, bytes: x.bytes}
	for c, err := range changes(e.Data) {
		if err != nil {
			return 0, err
		}
		state.apply(c)
	}
	if x.bytes = state.bytes; !failpoint("clock-back") {
		x.clock = state.time
		x.wall.raise(x.clock)
	}
	b := &batch{buf: e.Data, base: x.open.base, last: state.pos, time: state.time, index: e.Index, term: e.Term}
	x.open = newBatch(b.last, 0)
	x.note(e, nil)
	x.publish(b)
	x.flight.settled() // if one was held it was this
	x.settleOrphan(e, base, true)
	return len(e.Data), nil
}

// refuseBatch moves on over a batch that was not built on the state that is here,
// which is at a position.
func (x *executor) refuseBatch(e raft.Entry, base, at engine.Position) {
	x.refusedBatches.Add(1)
	x.opts.Logger.Info("a batch of a deposed leader was refused", "index", e.Index, "term", e.Term, "built_on", base, "state", at)
	x.flight.settled()
	x.settleOrphan(e, base, false)
	x.note(e, nil)
}

// takeTree takes the role of the leader, who alone writes to the tree.
func (x *executor) takeTree() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.leading {
		x.changed.Wait()
	}
	x.leading = true
}

func (x *executor) giveTree() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leading = false
	x.changed.Broadcast()
}

// showFollowed makes what was applied visible if somebody reads. The batches had
// so many bytes.
func (x *executor) showFollowed(size int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.since.due(x.wanted.Swap(false), size) && !x.leading && x.committing == nil && x.open.empty() {
		x.showDurable()
	}
}

// giveUp answers those whose batch can no longer be committed: the log has gone
// on in a later term.
func (x *executor) giveUp(term uint64) {
	keep := x.orphans[:0]
	for _, o := range x.orphans {
		if o.term >= term {
			keep = append(keep, o)
			continue
		}
		if failpoint("orphan-acked") {
			o.answer(nil)
			continue
		}
		o.answer(engine.Errorf(engine.CodeNotLeader, "the node was deposed before the call was committed; nothing was written"))
	}
	x.orphans = keep
}

// settleOrphan answers those whose batch the log has brought after all.
func (x *executor) settleOrphan(e raft.Entry, base engine.Position, applied bool) {
	for i, o := range x.orphans {
		if o.term != e.Term || o.base != base || o.empty() {
			continue
		}
		x.orphans = append(x.orphans[:i], x.orphans[i+1:]...)
		if applied {
			o.answer(nil)
		} else {
			o.answer(engine.Errorf(engine.CodeNotLeader, "the node was deposed and the call refused; nothing was written"))
		}
		return
	}
}

// expire tells those who have waited long enough that nobody knows.
func (x *executor) expire(limit time.Duration) {
	keep := x.orphans[:0]
	for _, o := range x.orphans {
		if x.opts.mono().Sub(o.since) < limit {
			keep = append(keep, o)
			continue
		}
		o.answer(engine.Errorf(engine.CodeOutcomeUnknown, "the node was deposed while the call was being committed, and has not learned since whether it was"))
	}
	x.orphans = keep
}

// answer answers the calls of a batch that was not finished in the usual way.
func (o orphan) answer(err error) {
	for _, c := range o.calls {
		if err == nil {
			c.done <- nil
		} else {
			c.fail(err)
		}
	}
	o.calls = nil
}

// confirmed finishes a batch without writes, once it is known whether this node
// still led when the batch had run.
func (x *executor) confirmed(b *batch, err error) {
	x.mu.Lock()
	mine := x.committing == b
	x.mu.Unlock()
	switch {
	case mine && err == nil:
		if next := x.finish(b); next != nil {
			x.commit(next)
		}
	case mine:
		x.abandon(b, engine.Errorf(engine.CodeNotLeader, "the node does not lead any more; nothing was written"))
	default:
		x.dropOrphan(b)
	}
}

// dropOrphan answers the calls of a batch without writes of a deposed leader: what
// they saw may have been old.
func (x *executor) dropOrphan(b *batch) {
	for i, o := range x.orphans {
		if o.batch == b {
			x.orphans = append(x.orphans[:i], x.orphans[i+1:]...)
			o.answer(engine.Errorf(engine.CodeNotLeader, "the node does not lead any more; nothing was written"))
			return
		}
	}
}

// refused drops a batch that was not taken into the log.
func (x *executor) refused(p *raft.Proposal, why error) {
	x.mu.Lock()
	b := x.committing
	mine := b != nil && b.proposal == p
	x.mu.Unlock()
	if mine {
		x.abandon(b, why)
		return
	}
	for i, o := range x.orphans {
		if o.proposal == p {
			x.orphans = append(x.orphans[:i], x.orphans[i+1:]...)
			o.answer(why)
			return
		}
	}
}

// install goes on from another state, which a snapshot has brought.
func (x *executor) install(s *snapshot) {
	x.takeTree()
	defer x.giveTree()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.orphans {
		o.answer(engine.Errorf(engine.CodeOutcomeUnknown, "the node was deposed while the call was being committed, and has since been brought up to date without it"))
	}
	x.orphans = nil
	x.at, x.clock = s.applied, max(x.clock, s.time)
	x.wall.raise(x.clock)
	x.restart(s)
}
