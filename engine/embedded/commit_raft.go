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

// proposer is the part of raft.Node that commits and reads need. A simulation
// has its own.
type proposer interface {
	Propose(p *raft.Proposal)
	Confirm(term uint64, done func(error))
	ReadIndex(ctx context.Context) (stamp uint64, err error)
}

// raftCommitter is the committer of a node of a cluster: a batch is durable when
// raft has it on a majority. Calls are taken between accept and yield, while this
// node leads. A batch is proposed in the term that it was sealed in or never; if
// the node is deposed meanwhile, the batch is an orphan until its outcome is known.
//
// All methods but those of committer run in one goroutine, that of raft's
// machine, beside the callers that run and seal.
type raftCommitter struct {
	x       *executor
	raft    proposer
	members func(*roster) // called when the members have changed

	// Guarded by x.mu.
	term   uint64 // that this node leads in; 0: it takes no calls
	refuse error  // why not

	// Owned by the machine's goroutine.
	orphans []orphan
	refused atomic.Uint64 // batches in the log that were not applied; for metrics too
}

// orphan is a batch that was on its way when this node was deposed or held back.
type orphan struct {
	*batch
	since time.Time
}

func newRaftCommitter(members func(*roster)) *raftCommitter {
	return &raftCommitter{
		members: members,
		refuse:  engine.Errorf(engine.CodeNotLeader, "this node has just started and knows of no leader yet; nothing was written"),
	}
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

// commit implements committer. A batch without writes is confirmed too: if
// another node leads by now, what its calls saw may be old. A batch that yield has
// made an orphan meanwhile is not proposed in its term, which this node may lead
// again after Hold: it gets its answer as a proposal that is refused.
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

// accept has calls taken: this node leads in the term, and the tree has all that
// was committed before it.
func (c *raftCommitter) accept(term uint64) {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.refuse, c.term = nil, term
	c.x.flight.settled()
	c.x.wall.lead()
}

// yield takes no more calls. What was built on batches that are not committed is
// dropped; those that were proposed may yet be committed, which the log will
// show.
func (c *raftCommitter) yield(why error) {
	x := c.x
	x.mu.Lock()
	defer x.mu.Unlock()
	c.refuse = why
	if c.term == 0 {
		return
	}
	c.term = 0
	x.refuseQueued(why)
	switch b := x.committing; {
	case b == nil:
	case failpoint("deposed-is-failed"):
		orphan{batch: b}.answer(why)
	default:
		c.orphans = append(c.orphans, orphan{b, x.opts.mono()})
		if !b.empty() && !failpoint("held-unseen") {
			x.flight.hold(b.first) // reads may go on
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

// confirmed finishes a batch without writes, once it is known whether this node
// still led when the batch had run.
func (c *raftCommitter) confirmed(b *batch, err error) {
	c.x.mu.Lock()
	mine := c.x.committing == b
	c.x.mu.Unlock()
	if mine && err == nil {
		c.x.settle(b)
		return
	}
	c.notTaken(b.proposal, engine.Errorf(engine.CodeNotLeader, "the node does not lead any more; nothing was written"))
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

// resolve answers the orphans whose outcome is known: that which it is called
// with reports it, or errLater.
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

// outdate answers those whose batch can no longer be committed: the log has gone
// on in a later term.
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

// found answers those whose batch the log has brought after all.
func (c *raftCommitter) found(e raft.Entry, applied bool) {
	c.x.flight.settled() // if one was held back it was this
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

// expire answers those that have waited for limit: the outcome is unknown.
func (c *raftCommitter) expire(limit time.Duration) {
	c.resolve(func(o orphan) error {
		if c.x.opts.mono().Sub(o.since) < limit {
			return errLater
		}
		return engine.Errorf(engine.CodeOutcomeUnknown, "the node was deposed while the call was being committed, and has not learned since whether it was")
	})
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
