package embedded

import (
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// The run stage: transactions on the speculative tree, gathered in a batch.

// runBudget is how many calls one caller runs, including its own, before the background
// goroutine takes over.
const runBudget = 1024

// speculation is the state that runs ahead of the disk. The runner owns it.
type speculation struct {
	tree  *btree.Pairs // the state after the open batch
	bytes int64        // of its keys and values
	limit int64        // of the memory of tree
	ahead int          // pairs of tree from which on it pays to look up keys ahead
	vals  *values      // of the tree that are in files
	open  *batch
	clock int64           // time of the last transaction that wrote, in microseconds
	shown engine.Position // of the last clone of tree for readers
	lost  error           // set when reset drops writes of the running call

	pressed atomic.Pointer[engine.Error] // why writes are refused: reads hold too much memory. Set by sweep
	tx      txState
}

// runQueued runs queued calls until none is left or the budget is used up. The caller
// has set running.
func (x *executor) runQueued(budget int) {
	for yielded := false; ; {
		x.mu.Lock()
		if x.broken != nil {
			x.reset() // queued calls may come from callers that know that a batch was lost
		}
		work, chores := x.queue, x.chores
		x.queue, x.idle, x.chores = x.idle[:0], nil, nil
		x.mu.Unlock()
		x.doAll(chores)
		x.runAll(work)
		budget -= len(work)

		x.mu.Lock()
		x.idle = work[:0]
		x.measure()
		idle := len(x.queue) == 0 && len(x.chores) == 0
		if idle && x.crowd && !yielded && x.committing == nil && x.log.waits() {
			// The callers of the batch before are about to call again. Let them, so that
			// one wait for the disk serves them all.
			yielded = true
			x.mu.Unlock()
			x.opts.yield()
			continue
		}
		b := x.sealIfFree()
		if idle {
			if x.open.empty() && len(x.open.calls) == 0 {
				x.flight.running.Store(0)
			}
			x.running = false
			x.changed.Broadcast()
		}
		x.mu.Unlock()
		switch {
		case idle && b != nil:
			x.commitAll(b)
			return
		case idle:
			return
		case b != nil:
			x.hand(b)
		}
		if budget <= 0 {
			x.runOn <- struct{}{}
			return
		}
	}
}

// run runs the transactions of one call and adds it to the open batch, even if it failed
// or wrote nothing: what it saw must be durable before it is completed.
func (x *executor) run(c *call) {
	if !c.claim.CompareAndSwap(callWaiting, callRunning) {
		return
	}
	wall := x.flight.begin(&x.wall)
	h := &writeTx{x: &x.speculation}
	x.lost = nil
	if c.one != nil {
		c.panicked, c.err = x.transact(h, wall, c, 0)
	}
	for i := 0; i < c.n && c.panicked == nil; i++ {
		if i > 0 && x.open.full() {
			c.split = true
			if x.sealFull(); x.lost != nil {
				break
			}
			wall = x.flight.begin(&x.wall)
		}
		c.panicked, _ = x.transact(h, wall, c, i) // the function records its error itself
	}
	h.x = nil
	x.wall.raise(x.tx.now)
	c.pos = x.open.last
	c.ran <- struct{}{}
	if x.lost != nil {
		c.fail(x.lost) // its earlier writes have been dropped
		return
	}
	x.open.calls = append(x.open.calls, c)
	x.open.called.Add(1)
	if x.open.full() {
		x.sealFull()
	}
}

// transact runs c's transaction number i. Afterwards either all its writes are in the
// open batch, or none.
func (x *executor) transact(h *writeTx, wall int64, c *call, i int) (p *panicked, err error) {
	x.tx.begin(max(wall, x.clock+1))
	returned := false
	defer func() {
		if v := recover(); v != nil {
			p = &panicked{v}
			x.opts.Logger.Error("a transaction panicked; it was undone", "panic", v, "stack", string(debug.Stack()))
		}
		if err != nil || !returned {
			x.undo()
		} else {
			x.keep()
		}
		if x.tx.fencing {
			x.open.fence = fenceUnknown
		}
	}()
	if c.one != nil {
		err = c.one(h)
	} else {
		err = c.fn(h, i)
	}
	returned = true
	return nil, err
}

// runAll runs the calls in order. If a function ends its goroutine with runtime.Goexit,
// as testing's FailNow does, the background goroutine takes over the runner's role and
// runs the rest.
func (x *executor) runAll(work []*call) {
	done := 0
	defer func() {
		if done == len(work) {
			return
		}
		c := work[done]
		code, kept := engine.CodeInternal, "nothing was written"
		if c.n > 1 {
			code, kept = engine.CodeOutcomeUnknown, "those of the call before it may be committed"
		}
		c.ran <- struct{}{}
		c.done <- engine.Errorf(code, "the transaction's function ended its goroutine; %s", kept)
		x.mu.Lock()
		x.queue = append(slices.Clone(work[done+1:]), x.queue...)
		x.mu.Unlock()
		x.runOn <- struct{}{}
	}()
	for i, c := range work {
		x.run(c)
		work[i] = nil
		done++
	}
}

// runLoop runs calls after a caller has used up its budget. If a call's function ends
// the goroutine, a new one continues.
func (x *executor) runLoop() {
	ended := false
	defer func() {
		if ended {
			x.stopped.Done()
		} else {
			go x.runLoop()
		}
	}()
	for range x.runOn {
		x.runQueued(1 << 62)
	}
	ended = true
}

// takeTree takes the runner's role. Only the runner writes to the tree.
func (x *executor) takeTree() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.running {
		x.changed.Wait()
	}
	x.running = true
}

func (x *executor) giveTree() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.chores) > 0 {
		chores := x.chores
		x.chores = nil
		x.mu.Unlock()
		x.doAll(chores)
		x.mu.Lock()
	}
	x.measure()
	x.running = false
	x.changed.Broadcast()
}

// measure records the size of the tree for metrics. The caller holds mu, and is the runner
// unless there is none.
func (x *executor) measure() { x.size = treeSize{x.tree.Len(), x.tree.Stats()} }

// treeSize is the size of a tree.
type treeSize struct {
	keys int
	btree.Stats
}

// withTree runs a chore of the node in the runner's role, between two transactions, and
// returns when it has run.
func (x *executor) withTree(chore func(*speculation)) {
	done := make(chan struct{})
	x.mu.Lock()
	x.chores = append(x.chores, func(s *speculation) {
		chore(s)
		close(done)
	})
	mine := !x.running
	x.running = true
	x.mu.Unlock()
	if mine {
		x.runQueued(runBudget)
	}
	<-done
}

func (x *executor) doAll(chores []func(*speculation)) {
	for _, chore := range chores {
		chore(&x.speculation)
	}
}
