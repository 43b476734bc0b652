package raft

import (
	"context"
	"time"
)

// readResend is how many ticks a request waits for its reply before it is repeated.
const readResend = 4

// Reads batches the reads of one node: those that arrive while a request is in
// flight share the next one. Like Core it has no goroutine; the owner of the Core
// steps its Reads.
type Reads struct {
	waiting []readWait // not yet requested
	asked   []readWait // covered by the request in flight
	id      uint64     // of that request
	age     int        // of that request, in ticks
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
	term uint64                        // in which this node must be the leader throughout; 0: it need not
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

// ReadIndex returns once the machine has applied everything that was committed, on
// any node, when it was called. The stamp is Read.Stamp. If ctx ends first it
// returns ctx's error.
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

// Confirm checks whether this node is still the leader of the term. It calls done
// with nil once a majority has confirmed that and everything committed before is
// applied, or with ErrNotLeader. done runs in the machine's goroutine, and not at
// all if the node is closed first.
func (n *Node) Confirm(term uint64, done func(error)) {
	n.events.push(event{read: &readWait{ctx: n.ctx, term: term, done: func(_ uint64, err error) {
		n.tasks.push(task{fn: func() { done(err) }})
	}}})
}

// Run queues fn to run in the machine's goroutine.
func (n *Node) Run(fn func()) { n.tasks.push(task{fn: fn}) }

// Add adds a read that waits until ctx ends. If term is not 0, this node must be the
// leader of that term throughout. done receives Read.Stamp or ErrNotLeader. It must
// not block. A read whose ctx has ended may be dropped without a call of done.
func (r *Reads) Add(ctx context.Context, term uint64, done func(stamp uint64, err error)) {
	r.waiting = append(r.waiting, readWait{ctx, term, done})
}

// Ask sends a request for the waiting reads if none is in flight, or serves them
// from the lease. It reports whether it sent a request.
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

// Confirmed handles the reply to a request.
func (r *Reads) Confirmed(a Read, c *Core) {
	if a.ID != r.id || len(r.asked) == 0 {
		return // the reply to a request that was given up
	}
	r.lease.got(c)
	r.take(a.Index, a.Stamp, c.applied)
}

// take makes the requested reads wait only for an index to be applied.
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

// Lost makes the next Ask repeat the request in flight, because its reply will not
// come.
func (r *Reads) Lost() {
	r.waiting = append(r.waiting, r.asked...)
	clear(r.asked)
	r.asked = r.asked[:0]
}

// Tick advances the age of the request in flight by one tick.
func (r *Reads) Tick() {
	if len(r.asked) == 0 {
		return
	}
	if r.age++; r.age >= readResend {
		r.Lost()
	}
}
