package raft

import "context"

// readResend is after how many ticks a read that got no answer is asked for again.
const readResend = 4

// reads groups reads: those that come while one question is on its way are
// answered together by the next one. Only the stepping goroutine touches it.
type reads struct {
	waiting []*readWait // not yet asked for
	asked   []*readWait // in the question that is on its way
	id      uint64      // of that question
	age     int         // of it, in ticks
	late    []lateReads // confirmed, but not yet applied
	lease   lease
}

type lateReads struct {
	index uint64
	waits []*readWait
}

type readWait struct {
	ctx  context.Context
	term uint64      // in which this node must lead all the time; 0: it need not
	done func(error) // must not block
}

// ReadIndex returns once the machine has applied all that was committed, on any
// node, when it was called. Before that it returns ctx's error when ctx ends.
func (n *Node) ReadIndex(ctx context.Context) error {
	done := make(chan error, 1)
	n.events.push(event{read: &readWait{ctx: ctx, done: func(err error) { done <- err }}})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.ctx.Done():
		return errClosed
	}
}

// Confirm finds out whether this node still leads in the term: done gets nil
// once a majority has said so and all that was committed before is applied, or
// ErrNotLeader. It runs in the machine's goroutine, and not at all if the node
// is closed before.
func (n *Node) Confirm(term uint64, done func(error)) {
	n.events.push(event{read: &readWait{ctx: n.ctx, term: term, done: func(err error) {
		n.tasks.push(task{fn: func() { done(err) }})
	}}})
}

// Run has fn run in the machine's goroutine, in its turn.
func (n *Node) Run(fn func()) { n.tasks.push(task{fn: fn}) }

// askReads sends a question for those that wait, if none is on its way.
func (n *Node) askReads() {
	r := &n.reads
	if len(r.asked) > 0 || len(r.waiting) == 0 {
		return
	}
	role := n.core.Role()
	for _, w := range r.waiting {
		switch {
		case w.term != 0 && (!role.Leads || role.Term != w.term):
			w.done(ErrNotLeader)
		case w.ctx.Err() == nil:
			r.asked = append(r.asked, w)
		}
	}
	clear(r.waiting)
	r.waiting = r.waiting[:0]
	if len(r.asked) > 0 && r.lease.holds(n.core) {
		r.take(n.core.rn.BasicStatus().GetCommit(), n.core.applied)
		return
	}
	if len(r.asked) > 0 {
		r.lease.ask()
		r.id++
		r.age = 0
		n.core.ReadIndex(r.id)
	}
}

// confirmed takes the answer to a question.
func (r *reads) confirmed(a Read, c *Core) {
	if a.ID != r.id || len(r.asked) == 0 {
		return // of a question that was given up
	}
	r.lease.got(c)
	r.take(a.Index, c.applied)
}

// take has those who asked wait for an index only.
func (r *reads) take(index, applied uint64) {
	waits := append([]*readWait(nil), r.asked...)
	clear(r.asked)
	r.asked = r.asked[:0]
	r.late = append(r.late, lateReads{index, waits})
	r.applied(applied)
}

// applied wakes those who waited for an index up to this one.
func (r *reads) applied(index uint64) {
	keep := r.late[:0]
	for _, l := range r.late {
		if l.index > index {
			keep = append(keep, l)
			continue
		}
		for _, w := range l.waits {
			w.done(nil)
		}
	}
	clear(r.late[len(keep):])
	r.late = keep
}

// lost has the question on its way asked again: its answer will not come.
func (r *reads) lost() {
	r.waiting = append(r.waiting, r.asked...)
	clear(r.asked)
	r.asked = r.asked[:0]
}

func (r *reads) tick() {
	if len(r.asked) == 0 {
		return
	}
	if r.age++; r.age >= readResend {
		r.lost()
	}
}
