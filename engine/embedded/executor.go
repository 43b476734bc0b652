package embedded

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
)

// executor runs calls through a pipeline of three stages, each in a separate file:
//
//	run      run.go      Transactions run one at a time on a speculative tree,
//	                     and their effects gather in the open batch. Done by the
//	                     runner, which owns the embedded speculation.
//	commit   commit.go   The open batch is sealed when the one before it is
//	                     durable, and passed to the committer: the local log, or
//	                     raft (commit_raft.go). Done by the goroutine that sealed
//	                     it; one batch at a time, the one in committing.
//	publish  publish.go  The durable batch becomes visible to readers and to
//	                     Changes, and its calls are completed. Done by the
//	                     goroutine that learned that the batch is durable.
//
// Runner and committer are roles, not goroutines. A caller that finds no runner runs
// all queued calls, its own and those of others, and then commits unless another
// goroutine does: a lone call costs no goroutine switch. If a caller would work for
// others for long, a background goroutine takes over its role.
//
// mu guards the roles (running, committing) and the queue. It is held to seal a batch,
// to drop a lost one, and for every change of roles; never while a transaction runs,
// during disk I/O, or while publish completes a call. The runner's state may also be
// used by any goroutine that holds mu while there is no runner.
//
// Invariants between the stages:
//
//  1. A call is completed with its batch and never before, even if it failed or
//     wrote nothing: what it saw may still be lost.
//  2. Batches are sealed, committed and published in the order of their
//     positions; each names the position that it was built on.
//  3. Everything built on a lost batch is dropped with it (reset), before any of
//     its calls is completed.
//  4. A durable batch is visible to readers before Changes yields it, and is in the
//     history that Changes reads before its calls are completed.
//  5. The speculative tree is the state after the open batch. It equals the
//     published state when nothing is open or being committed.
//  6. A batch is committed under the leadership under which it was built, or not at
//     all: see raftCommitter. The executor itself does not know terms.
type executor struct {
	opts    Options
	log     committer
	visible func() *snapshot // what readers see
	wall    clock            // time of transactions and views
	flight  flight           // transactions that are not visible yet
	pool    sync.Pool        // of *call
	runOn   chan struct{}    // to the background runner
	handed  chan *batch      // to the background committer
	stopped sync.WaitGroup

	// Effects of publishing on the database. Each is called by one goroutine at a time.
	overtake func(*batch)    // called before readers see a durable batch
	show     func(*snapshot) // makes a durable state visible to readers
	record   func(*batch)    // moves the position, and makes Changes yield the batch
	fail     func(error)     // called when the node must stop
	unmoved  func()          // called with mu held, when moved values are back in memory

	wanted atomic.Bool // there was a read since the last seal

	mu         sync.Mutex // guards the fields below
	changed    sync.Cond  // on mu: running, committing or broken has changed
	queue      []*call
	idle       []*call              // emptied queue, for reuse
	spare      spare                // of a published batch, for reuse
	running    bool                 // there is a runner
	chores     []func(*speculation) // work of the node itself, for the runner
	committing *batch
	crowd      bool            // the last sealed batch had several calls
	broken     error           // the batch being committed was lost; the runner must reset
	closed     error           // error of new calls, once set
	at         applied         // the newest durable log record
	atPos      engine.Position // of the state after it
	atTime     int64           // of the last transaction in that state, in microseconds
	resets     uint64          // how often the speculative state was dropped
	unread     int             // batches since the last read
	size       treeSize        // of the tree, when a runner last ended a round

	speculation // owned by the runner
}

// applied is a point in the log, with the members at that point.
type applied struct {
	index  uint64  // of a log record
	term   uint64  // of that record, in a cluster
	roster *roster // the members; nil: this node is alone
}

// newExecutor begins with the state from, whose tree it takes.
func newExecutor(o Options, log committer, from *snapshot) *executor {
	x := &executor{
		opts: o, log: log, handed: make(chan *batch, 1), runOn: make(chan struct{}, 1),
	}
	x.changed.L = &x.mu
	x.wall.now, x.wall.mono = o.Now, o.mono
	x.limit, x.ahead = o.MemoryBytes, o.aheadFrom
	x.pool.New = func() any {
		return &call{ran: make(chan struct{}, 1), done: make(chan error, 1)}
	}
	x.restart(from)
	x.clock = from.time
	x.advance(from)
	x.wall.raise(x.clock)
	if log.admit() == nil {
		x.wall.lead()
	}
	x.stopped.Add(2)
	go x.commitLoop()
	go x.runLoop()
	return x
}

// advance moves to the durable state s. The caller holds mu.
func (x *executor) advance(s *snapshot) { x.at, x.atPos, x.atTime = s.applied, s.pos, s.time }

// do queues c and returns when its outcome is known. The outcome is in c.
func (x *executor) do(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := x.submit(c); err != nil {
		return err
	}
	if ctx.Done() == nil {
		return c.outcome(<-c.done)
	}
	select {
	case err := <-c.done:
		return c.outcome(err)
	case <-ctx.Done():
	}
	if c.claim.CompareAndSwap(callWaiting, callLeft) {
		return ctx.Err()
	}
	<-c.ran // fn belongs to the caller: it must not run on after the return
	select {
	case err := <-c.done:
		return c.outcome(err)
	default:
		return engine.Errorf(engine.CodeOutcomeUnknown, "the call was cut off while it was being committed: %w", ctx.Err())
	}
}

// submit queues c, and runs the queued calls if there is no runner. The outcome comes on
// c.done.
func (x *executor) submit(c *call) error {
	x.mu.Lock()
	err := x.closed
	if err == nil {
		err = x.log.admit()
	}
	if err == nil && len(x.queue) >= x.opts.QueueCalls {
		err = engine.Errorf(engine.CodeQueueFull, "%d calls are waiting to run, which is the limit", x.opts.QueueCalls)
	}
	if err != nil {
		x.mu.Unlock()
		return err
	}
	x.queue = append(x.queue, c)
	mine := !x.running
	x.running = true
	x.mu.Unlock()
	if mine {
		x.runQueued(runBudget)
	}
	return nil
}

// refuseQueued fails the calls that have not begun to run. The caller holds mu.
func (x *executor) refuseQueued(err error) {
	for _, c := range x.queue {
		if c.claim.CompareAndSwap(callWaiting, callRunning) {
			c.ran <- struct{}{}
			c.done <- err
		}
	}
	x.queue = nil
}

// close refuses new calls, fails those that have not run, and returns when the roles are
// free and the background goroutines have ended.
func (x *executor) close(err error) {
	x.mu.Lock()
	if x.closed == nil {
		x.closed = err
	}
	x.refuseQueued(err)
	for x.running || x.committing != nil {
		x.changed.Wait()
	}
	x.mu.Unlock()
	close(x.handed)
	close(x.runOn)
	x.stopped.Wait()
}
