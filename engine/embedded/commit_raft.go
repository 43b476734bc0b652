package embedded

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// OutcomeWait is how long a call whose leader was deposed waits for the log to
// show whether its batch was committed; then its outcome is unknown.
const OutcomeWait = 5 * time.Second

// proposer is the part of raft.Node that commits and reads need. Simulations implement
// it too.
type proposer interface {
	Propose(p *raft.Proposal)
	Confirm(term uint64, done func(error))
	ReadIndex(ctx context.Context) (stamp uint64, err error)
}

// raftCommitter is the committer of a node of a cluster: a batch is durable when raft
// has it on a majority. Calls are accepted between accept and yield, while this node is
// the leader. A batch is proposed in the term in which it was sealed, or never. If the
// node is deposed in the meantime, the batch is an orphan until its outcome is known.
//
// All methods but those of committer run in the goroutine of raft's machine,
// concurrently with the callers that run and seal.
type raftCommitter struct {
	x       *executor
	raft    proposer
	members func(*roster) // called when the members have changed

	// Guarded by x.mu.
	term   uint64 // in which this node is the leader; 0: it accepts no calls
	refuse error  // why it accepts no calls
	lull   lull

	// Owned by the machine's goroutine.
	orphans []orphan
	writes  []engine.Write // of the batch being applied; reused
	warm    warmer
	refused atomic.Uint64 // batches in the log that were not applied; for metrics too
}

// orphan is a batch that was in flight when this node was deposed or got a Hold.
type orphan struct {
	*batch
	since time.Time
}

func newRaftCommitter(members func(*roster)) *raftCommitter {
	c := &raftCommitter{
		members: members,
		refuse:  engine.Errorf(engine.CodeNotLeader, "this node has just started and knows of no leader yet; nothing was written"),
	}
	t := time.AfterFunc(time.Hour, c.lullOver)
	t.Stop()
	c.lull.alarm = t
	return c
}

// admit implements committer.
func (c *raftCommitter) admit() error { return c.refuse }

// waits implements committer.
func (c *raftCommitter) waits() bool { return false }

// seal implements committer.
func (c *raftCommitter) seal(b *batch) {
	b.term = c.term
	b.proposal = &raft.Proposal{Term: b.term, Data: b.buf}
}

// commit implements committer. It confirms even a batch without writes: if another node
// is the leader by now, its calls may have seen stale data. A batch that yield has made
// an orphan in the meantime is not proposed in its term, in which this node may accept
// calls again after a Hold. It is completed as a refused proposal.
func (c *raftCommitter) commit(b *batch) error {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if c.x.committing != b {
		b.proposal.Term = 0
	}
	switch {
	case !b.empty():
		c.raft.Propose(b.proposal)
	case failpoint("unconfirmed-read"):
		return nil
	default:
		c.raft.Confirm(b.term, func(err error) { c.confirmed(b, err) })
	}
	return errLater
}

// accept starts accepting calls: this node is the leader of the term, and the tree has
// everything that was committed before it.
func (c *raftCommitter) accept(term uint64) {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.refuse, c.term = nil, term
	c.x.flight.settled()
	c.x.wall.lead()
}

// yield stops accepting calls. It drops everything that was built on uncommitted
// batches. Proposed batches may still be committed; the log will show that.
func (c *raftCommitter) yield(why error) {
	x := c.x
	x.mu.Lock()
	defer x.mu.Unlock()
	c.refuse = why
	if c.term == 0 {
		return
	}
	c.term = 0
	c.lull.cancel()
	x.refuseQueued(why)
	switch b := x.committing; {
	case b == nil:
	case failpoint("deposed-is-failed"):
		orphan{batch: b}.answer(why)
	default:
		c.orphans = append(c.orphans, orphan{b, x.opts.mono()})
		if !b.empty() && !failpoint("held-unseen") {
			x.flight.hold(b.first) // reads may continue
		}
	}
	if failpoint("speculation-kept") {
		x.open = newBatch(x.open.last, 0)
		x.committing = nil
		return
	}
	x.drop(why)
	for x.running {
		x.changed.Wait()
	}
}

// confirmed finishes a batch without writes, once it is known whether this node was
// still the leader after the batch had run.
func (c *raftCommitter) confirmed(b *batch, err error) {
	c.x.mu.Lock()
	mine := c.x.committing == b
	c.x.mu.Unlock()
	if mine && err == nil {
		c.x.settle(b)
		return
	}
	c.notTaken(b.proposal, engine.Errorf(engine.CodeNotLeader, "the node no longer leads; nothing was written"))
}

// notTaken drops a batch that is not in the log and never will be.
func (c *raftCommitter) notTaken(p *raft.Proposal, why error) {
	c.x.mu.Lock()
	b := c.x.committing
	mine := b != nil && b.proposal == p
	c.x.mu.Unlock()
	if mine {
		c.x.abandon(b, why)
		return
	}
	c.resolve(func(o orphan) error {
		if o.proposal != p {
			return errLater
		}
		return why
	})
}

// resolve completes the orphans whose outcome is known. outcome returns it, or errLater.
func (c *raftCommitter) resolve(outcome func(o orphan) error) {
	c.orphans = slices.DeleteFunc(c.orphans, func(o orphan) bool {
		err := outcome(o)
		if err == errLater {
			return false
		}
		o.answer(err)
		return true
	})
}

// outdate completes the orphans that can no longer be committed, because the log has
// continued in a later term.
func (c *raftCommitter) outdate(term uint64) {
	c.resolve(func(o orphan) error {
		switch {
		case o.term >= term:
			return errLater
		case failpoint("orphan-acked"):
			return nil
		}
		return engine.Errorf(engine.CodeNotLeader, "the node was deposed before the call was committed; nothing was written")
	})
}

// found completes the orphan whose batch has arrived in the log after all.
func (c *raftCommitter) found(e raft.Entry, applied bool) {
	c.x.flight.settled() // if a batch was held, it was this one
	c.resolve(func(o orphan) error {
		switch {
		case o.term != e.Term || !bytes.Equal(o.buf, e.Data):
			return errLater
		case applied:
			return nil
		}
		return engine.Errorf(engine.CodeNotLeader, "the node was deposed and the call refused; nothing was written")
	})
}

// expire completes the orphans that have waited for limit: their outcome is unknown.
func (c *raftCommitter) expire(limit time.Duration) {
	c.resolve(func(o orphan) error {
		if c.x.opts.mono().Sub(o.since) < limit {
			return errLater
		}
		return engine.Errorf(engine.CodeOutcomeUnknown, "the node was deposed while the call was being committed and could not learn whether it was")
	})
}

// answer completes the calls of an orphan.
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
