package embedded

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
)

// executor carries calls through a pipeline of three stages, each in a file of
// its own:
//
//	run      run.go      Transactions run one at a time on a speculative tree,
//	                     and their effects gather in the open batch. Done by the
//	                     runner, who owns the embedded speculation.
//	commit   commit.go   The open batch is sealed when the one before it is
//	                     durable, and handed to the committer: the local log, or
//	                     raft (commit_raft.go). Done by whoever sealed it; one
//	                     batch at a time, the one in committing.
//	publish  publish.go  The durable batch becomes visible to readers and to
//	                     Changes, and its calls are answered. Done by whoever
//	                     learned that the batch is durable.
//
// Runner and committer are roles, not goroutines. A caller that finds no runner
// runs what is queued, its own call and those of others, and then commits if
// nobody else does: a lone call costs no goroutine switch. Where a caller would
// work for others for long, a background goroutine takes its role over.
//
// mu guards the roles themselves (running, committing) and the queue. It is
// held to seal a batch, to drop a lost one, and for every change of roles; never
// while a transaction runs, a disk is waited for, or a call is answered by
// publish. What the runner owns may also be used by anyone who holds mu while
// nobody runs.
//
// These hold between the stages:
//
//  1. A call is answered with its batch and never before, also if it failed or
//     wrote nothing: what it saw may yet be lost.
//  2. Batches are sealed, committed and published in the order of their
//     positions; each names the position that it was built on.
//  3. A lost batch takes with it all that was built on it (reset), before any of
//     its calls is answered.
//  4. A durable batch is there for readers before Changes yields it, and in the
//     history that Changes reads before its calls are answered.
//  5. The speculative tree is the state after the open batch. It equals the
//     published state when nothing is open or being committed.
//  6. A batch is committed under the leadership it was built under, or not at
//     all: see raftCommitter. The executor itself knows no terms.
type executor struct {
	opts    Options
	log     committer
	current func() *snapshot // the state after the last published batch
	wall    clock            // what transactions and views take their time from
	flight  flight           // the transactions that nobody sees yet
	pool    sync.Pool        // of *call
	runOn   chan struct{}    // to the background runner
	handed  chan *batch      // to the background committer
	stopped sync.WaitGroup

	// What publishing does to the database. Each is called by one goroutine at a time.
	overtake func(*batch)    // before readers see a durable batch
	show     func(*snapshot) // makes a durable state visible to readers
	record   func(*batch)    // moves the position, and has Changes yield the batch
	fail     func(error)     // called when the node must stop

	wanted atomic.Bool // there was a read since the last seal

	mu         sync.Mutex // guards the fields below
	changed    sync.Cond  // on mu: running, committing or broken has changed
	queue      []*call
	spare      []*call // emptied queue, for re-use
	running    bool    // somebody is the runner
	committing *batch
	broken     error   // the batch being committed was lost; the runner must reset
	closed     error   // what new calls get, once set
	at         applied // the newest durable log record

	speculation // owned by the runner
}

// applied is a point in the log and what is known there besides the state.
type applied struct {
	index  uint64  // of a log record
	term   uint64  // of it, in a cluster
	roster *roster // who is a member; nil: this node is alone
}

func newExecutor(o Options, log committer, current func() *snapshot) *executor {
	x := &executor{
		opts: o, log: log, current: current, handed: make(chan *batch, 1), runOn: make(chan struct{}, 1),
	}
	x.changed.L = &x.mu
	x.wall.now, x.wall.mono = o.Now, o.mono
	x.limit, x.since.most = o.MemoryBytes, unreadBytes
	x.pool.New = func() any {
		return &call{ran: make(chan struct{}, 1), done: make(chan error, 1)}
	}
	x.restart(current())
	x.clock, x.at = current().time, current().applied
	x.wall.raise(x.clock)
	if log.admit() == nil {
		x.wall.lead()
	}
	x.stopped.Add(2)
	go x.commitLoop()
	go x.runLoop()
	return x
}

// do queues c and returns when its outcome is known, which it leaves in c.
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
		return engine.Errorf(engine.CodeOutcomeUnknown, "the call was given up while it was being committed: %w", ctx.Err())
	}
}

// submit queues c, and runs what is queued if nobody else does. The outcome
// comes on c.done.
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

// refuseQueued answers the calls that have not begun to run. The caller holds mu.
func (x *executor) refuseQueued(err error) {
	for _, c := range x.queue {
		if c.claim.CompareAndSwap(callWaiting, callRunning) {
			c.ran <- struct{}{}
			c.done <- err
		}
	}
	x.queue = nil
}

// close refuses new calls, answers those that have not run, and returns when
// the roles are free and the background goroutines have ended.
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
