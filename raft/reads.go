package raft

import (
	"context"
	"time"
)

// readResend is how many ticks a read waits for its reply before it is asked for
// again.
const readResend = 4

// Reads groups the reads of one node: those that arrive while one question is in
// flight are answered together by the next one. Like Core it has no goroutine; the
// owner of the Core steps its Reads.
type Reads struct {
	waiting []readWait // not yet asked for
	asked   []readWait // in the question that is on its way
	id      uint64     // of that question
	age     int        // of it, in ticks
	late    []lateReads
	lease   lease
}

// lateReads are confirmed but not yet applied.
type lateReads struct {
	index uint64
	stamp uint64
	waits []readWait
}

type readWait struct {
	ctx  context.Context
	term uint64                        // in which this node must lead all the time; 0: it need not
	done func(stamp uint64, err error) // must not block
}

// NewReads returns the Reads of a node that uses leases of the given length, see
// LeaseOf, by a monotonic clock. Length 0 disables leases.
func NewReads(length time.Duration, clock func() time.Duration) Reads {
	if length <= 0 {
		return Reads{}
	}
	return Reads{lease: lease{length: length, clock: clock}}
}

// ReadIndex returns once the machine has applied all that was committed, on any
// node, when it was called. The stamp is that of Read. Before that it returns
// ctx's error when ctx ends.
func (n *Node) ReadIndex(ctx context.Context) (stamp uint64, err error) {
	type answer struct {
		stamp uint64
		err   error
	}
	done := make(chan answer, 1)
	n.events.push(event{read: &readWait{ctx: ctx, done: func(stamp uint64, err error) { done <- answer{stamp, err} }}})
	select {
	case a := <-done:
		return a.stamp, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-n.ctx.Done():
		return 0, errClosed
	}
}

// Confirm checks whether this node still leads in the term: done gets nil
// once a majority has confirmed that and all that was committed before is applied, or
// ErrNotLeader. It runs in the machine's goroutine, and not at all if the node
// is closed before.
func (n *Node) Confirm(term uint64, done func(error)) {
	n.events.push(event{read: &readWait{ctx: n.ctx, term: term, done: func(_ uint64, err error) {
		n.tasks.push(task{fn: func() { done(err) }})
	}}})
}

// Run queues fn to run in the machine's goroutine.
func (n *Node) Run(fn func()) { n.tasks.push(task{fn: fn}) }

// Add adds a read that waits until ctx ends. term is the one in which this node
// must lead all the time, or 0. done gets the stamp of Read, or ErrNotLeader; it
// must not block, and is not called at all once ctx has ended.
func (r *Reads) Add(ctx context.Context, term uint64, done func(stamp uint64, err error)) {
	r.waiting = append(r.waiting, readWait{ctx, term, done})
}

// Ask sends a question for those that wait, if none is on its way, or answers
// them by the lease. It reports whether a question was sent.
func (r *Reads) Ask(c *Core) bool {
	if len(r.asked) > 0 || len(r.waiting) == 0 {
		return false
	}
	role := c.Role()
	for _, w := range r.waiting {
		switch {
		case w.term != 0 && (!role.Leads || role.Term != w.term):
			w.done(0, ErrNotLeader)
		case w.ctx.Err() == nil:
			r.asked = append(r.asked, w)
		}
	}
	clear(r.waiting)
	r.waiting = r.waiting[:0]
	switch {
	case len(r.asked) == 0:
		return false
	case r.lease.holds(c):
		stamp := c.bound() // before the index
		r.take(c.rn.BasicStatus().GetCommit(), stamp, c.applied)
		return false
	}
	r.lease.ask()
	r.id++
	r.age = 0
	c.ReadIndex(r.id)
	return true
}

// Confirmed handles the reply to a question.
func (r *Reads) Confirmed(a Read, c *Core) {
	if a.ID != r.id || len(r.asked) == 0 {
		return // of a question that was given up
	}
	r.lease.got(c)
	r.take(a.Index, a.Stamp, c.applied)
}

// take has the reads that were asked for wait for an index only.
func (r *Reads) take(index, stamp, applied uint64) {
	waits := append([]readWait(nil), r.asked...)
	clear(r.asked)
	r.asked = r.asked[:0]
	r.late = append(r.late, lateReads{index, stamp, waits})
	r.wake(applied)
}

// Applied wakes the reads whose index c has applied by now.
func (r *Reads) Applied(c *Core) { r.wake(c.applied) }

func (r *Reads) wake(applied uint64) {
	keep := r.late[:0]
	for _, l := range r.late {
		if l.index > applied {
			keep = append(keep, l)
			continue
		}
		for _, w := range l.waits {
			w.done(l.stamp, nil)
		}
	}
	clear(r.late[len(keep):])
	r.late = keep
}

// Lost repeats the question in flight: its reply will not come.
func (r *Reads) Lost() {
	r.waiting = append(r.waiting, r.asked...)
	clear(r.asked)
	r.asked = r.asked[:0]
}

// Tick advances the age of the question in flight by one tick.
func (r *Reads) Tick() {
	if len(r.asked) == 0 {
		return
	}
	if r.age++; r.age >= readResend {
		r.Lost()
	}
}
