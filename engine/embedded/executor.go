package embedded

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// leadBudget is how many calls one caller runs, its own among them, before the
// background goroutine takes over.
const leadBudget = 1024

// executor runs transactions one at a time over the speculative tree and
// gathers their effects into batches, one of which is being made durable while
// the next one fills.
//
// It has no goroutine of its own for the usual case. Two roles exist, each held
// by one goroutine at a time: the leader runs queued calls, the committer makes
// a batch durable. A caller that finds nobody leading leads, and commits when
// nobody commits, so that a lone call costs no goroutine switch; under load one
// caller runs the calls of many. Background goroutines take the roles over
// where a caller would otherwise work for others for long.
type executor struct {
	opts     Options
	log      committer
	overtake func(*batch)     // told of a durable batch before readers see it
	publish  func(*batch)     // tells that a batch is durable, in order
	show     func(*snapshot)  // makes a durable state visible to readers
	current  func() *snapshot // the state after the last published batch
	fail     func(error)      // told once, when the node must stop
	wall     clock            // what transactions and views take their time from
	flight   flight           // the transactions that nobody sees yet
	pool     sync.Pool        // of *call
	relay    chan *batch      // to the background committer
	leadOn   chan struct{}    // to the background leader
	stopped  sync.WaitGroup

	wanted atomic.Bool // somebody has read since the last seal

	mu         sync.Mutex // guards the fields below
	changed    sync.Cond  // on mu: leading, committing or broken has changed
	queue      []*call
	spare      []*call // emptied queue, for re-use
	leading    bool
	committing *batch
	broken     error   // the batch being committed was lost; the leader must reset
	closed     error   // what new calls get, once set
	refuse     error   // what new calls get while this node follows another
	term       uint64  // that this node leads in, in a cluster
	at         applied // what the log says up to the last durable batch

	// Owned by the leader.
	tree  *btree.Bytes[string] // the speculative state
	shown engine.Position      // of the last clone of it that was taken to be shown
	since cloning
	lost  error // set when reset drops what the running call has written
	bytes int64 // counted for the memory limit
	open  *batch
	clock int64 // time of the last transaction that wrote, in microseconds
	tx    txState

	// In a cluster: owned by the machine's goroutine.
	orphans        []orphan      // what this node proposed before it was deposed
	told           func(*roster) // tells that the members have changed
	refusedBatches atomic.Uint64
}

// applied is a point in the log and what is known there besides the state.
type applied struct {
	index  uint64  // of a log record
	term   uint64  // of it, in a cluster
	roster *roster // who is a member; nil: this node is alone
}

// committer makes a batch durable: on this disk or, in a cluster, on a quorum.
// When it returns an error that matches engine.ErrDiskFull nothing of the batch
// is kept and the next may be tried; after errLater the outcome comes by settle;
// any other error stops the node.
type committer interface {
	commit(b *batch) error
	// shared reports whether other nodes may know more than this one: then also
	// a batch without writes must be committed, as somebody else may lead.
	shared() bool
}

// errLater is what a committer returns that tells the outcome by settle.
var errLater = errors.New("the outcome comes later")

func newExecutor(o Options, log committer, current func() *snapshot) *executor {
	x := &executor{
		opts: o, log: log, current: current, relay: make(chan *batch, 1), leadOn: make(chan struct{}, 1),
	}
	x.changed.L = &x.mu
	x.wall.now, x.wall.mono = o.Now, o.mono
	x.since.most = unreadBytes
	x.pool.New = func() any {
		return &call{ran: make(chan struct{}, 1), done: make(chan error, 1)}
	}
	x.restart(current())
	x.clock, x.at = current().time, current().applied
	x.wall.raise(x.clock)
	if !log.shared() {
		x.wall.lead()
	}
	x.stopped.Add(2)
	go x.commitLoop()
	go x.leadLoop()
	return x
}

// restart drops the speculative state and goes on from a committed one, which
// readers see.
func (x *executor) restart(from *snapshot) {
	x.tree = from.tree.Clone()
	x.bytes = from.bytes
	x.open = newBatch(from.pos, 0)
	x.shown, x.since.bytes = from.pos, 0
}

// cloning decides for which batches the tree is cloned. A clone itself is
// cheap, but after it the first write to each leaf copies the leaf: half the
// cost of a write. So while nobody reads, nothing is cloned; the first reader
// after that waits for the batch in progress, and then every batch is, until
// unreadBatches in a row had no reader.
type cloning struct {
	unread int // batches since anybody read
	bytes  int // of batches since the last clone
	most   int // of bytes: unreadBytes, but in tests
}

const (
	unreadBatches = 16
	unreadBytes   = 32 << 20 // of batches that the history keeps for the next clone, besides its own
)

// due reports whether the batch of the given size needs a clone. Where there is
// none, the base of a lost batch is built again from the last clone and the
// history.
func (c *cloning) due(read bool, size int) bool {
	if c.unread++; read {
		c.unread = 0
	}
	if c.bytes += size; c.unread > unreadBatches && c.bytes < c.most {
		return false
	}
	c.bytes = 0
	return true
}

// submit queues c, and runs what is queued if nobody else does. The outcome
// comes on c.done.
func (x *executor) submit(c *call) error {
	x.mu.Lock()
	err := cmp.Or(x.closed, x.refuse)
	if err == nil && len(x.queue) >= x.opts.QueueCalls {
		err = engine.Errorf(engine.CodeQueueFull, "%d calls are waiting to run, which is the limit", x.opts.QueueCalls)
	}
	if err != nil {
		x.mu.Unlock()
		return err
	}
	x.queue = append(x.queue, c)
	lead := !x.leading
	x.leading = true
	x.mu.Unlock()
	if lead {
		x.lead(leadBudget)
	}
	return nil
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

// lead runs queued calls until none is left or the budget is spent. The caller
// has set leading.
func (x *executor) lead(budget int) {
	for {
		x.mu.Lock()
		if x.broken != nil {
			x.reset() // what is queued may come from callers who know that a batch was lost
		}
		work := x.queue
		x.queue, x.spare = x.spare[:0], nil
		x.mu.Unlock()
		x.runAll(work)
		budget -= len(work)

		x.mu.Lock()
		x.spare = work[:0]
		idle := len(x.queue) == 0
		b := x.sealIfFree()
		if idle {
			if x.open.empty() && len(x.open.calls) == 0 {
				x.flight.running.Store(0)
			}
			x.leading = false
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
			x.leadOn <- struct{}{}
			return
		}
	}
}

// runAll runs the calls in order. A function that ends its goroutine with
// runtime.Goexit, as testing's FailNow does, must not take the leader's role
// with it: then the background goroutine goes on with the rest.
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
		x.leadOn <- struct{}{}
	}()
	for i, c := range work {
		x.run(c)
		work[i] = nil
		done++
	}
}

// sealIfFree returns the open batch, sealed, and takes the committing role for
// it, if there is something to commit and nobody commits. The caller holds mu
// and leads, or nobody does.
func (x *executor) sealIfFree() *batch {
	if x.broken == nil && x.log.shared() && x.term == 0 && (len(x.open.calls) > 0 || !x.open.empty()) {
		x.broken = x.refuse // it was run after the node was deposed
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
		x.open = &batch{buf: b.buf, base: b.base, last: b.last}
	} else {
		if x.since.due(x.wanted.Swap(false), len(b.buf)) {
			b.snap = x.clone(b.last)
		}
		x.open = newBatch(b.last, len(b.buf))
	}
	x.committing, b.term = b, x.term
	x.flight.seal()
	if x.log.shared() {
		b.proposal = &raft.Proposal{Term: b.term, Data: b.buf}
	}
	return b
}

// clone returns the state of now, which is at pos. The caller leads, or holds
// mu while nobody does.
func (x *executor) clone(pos engine.Position) *snapshot {
	x.shown, x.since.bytes = pos, 0
	return &snapshot{tree: x.tree.Clone(), pos: pos, time: x.clock, bytes: x.bytes}
}

// showDurable makes the tree visible, all of which is durable: nothing is open
// or being committed. The caller is as for clone.
func (x *executor) showDurable() {
	if pos := x.open.base; x.shown != pos {
		s := x.clone(pos)
		s.applied = x.at
		x.show(s)
	}
}

// freshen makes the newest durable state visible now, if that can be done
// without waiting. If not, the batch in progress or the one after it will be.
func (x *executor) freshen() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.leading && x.committing == nil && x.broken == nil && x.open.empty() {
		x.showDurable()
	}
}

// sealFull commits the open batch in the background, after waiting for the one
// before it. Only the leader calls it.
func (x *executor) sealFull() {
	x.mu.Lock()
	for x.committing != nil && x.broken == nil {
		x.changed.Wait()
	}
	b := x.sealIfFree()
	x.mu.Unlock()
	if b != nil {
		x.hand(b)
	}
}

// hand has b committed in the background.
func (x *executor) hand(b *batch) {
	if x.log.shared() {
		x.commit(b) // which does not wait
		return
	}
	x.relay <- b
}

// abandon has all that was built on a batch dropped that could not be made durable, and
// then answers its calls: what their callers run next must not see what was lost.
func (x *executor) abandon(b *batch, err error) {
	retry := engine.Retryable(err)
	if !retry {
		x.fail(err)
		err = engine.Errorf(engine.CodeOutcomeUnknown, "the disk failed while committing: %w", err)
	}
	x.mu.Lock()
	calls := b.calls
	b.calls = nil // yield may still find b, and must not answer them again
	x.broken = err
	if !retry {
		x.closed = engine.Errorf(engine.CodeStopped, "the node has stopped after a disk failure: %w", err)
		x.broken = x.closed
	}
	if !x.leading {
		x.reset()
	}
	x.changed.Broadcast()
	x.mu.Unlock()
	for _, c := range calls {
		c.fail(err)
	}
}

// reset drops what was built on a lost batch. What it goes on from is made
// visible: a clone that readers wait for may have been lost with the batch. The
// caller holds mu and leads, or nobody does.
func (x *executor) reset() {
	for _, c := range x.open.calls {
		c.fail(x.broken)
	}
	x.lost = x.broken
	from := *x.current() // a copy: show writes to it
	from.applied = x.at
	x.show(&from)
	x.restart(&from)
	x.broken = nil
	x.committing = nil
	x.flight.drop()
}

// leadLoop leads where a caller has done its share. When a call's function ends
// its goroutine, another one goes on.
func (x *executor) leadLoop() {
	ended := false
	defer func() {
		if ended {
			x.stopped.Done()
		} else {
			go x.leadLoop()
		}
	}()
	for range x.leadOn {
		x.lead(1 << 62)
	}
	ended = true
}

// commitLoop commits where a caller would have to do it for others.
func (x *executor) commitLoop() {
	defer x.stopped.Done()
	for b := range x.relay {
		for b != nil {
			b = x.commit(b)
		}
	}
}

// commitAll commits the caller's batch, and leaves what has gathered meanwhile
// to the background.
func (x *executor) commitAll(b *batch) {
	if next := x.commit(b); next != nil {
		x.hand(next)
	}
}

// commit makes b durable, publishes it and answers its calls. It returns the
// next batch if one has gathered; otherwise it gives the committing role up, or
// leaves it to settle.
func (x *executor) commit(b *batch) (next *batch) {
	b.began = x.opts.mono()
	if !b.empty() || x.log.shared() {
		if !x.log.shared() {
			b.index = x.at.index + 1
		}
		switch err := x.handIn(b); err {
		case nil:
		case errLater:
			return nil
		default:
			x.abandon(b, err)
			return nil
		}
	}
	return x.finish(b)
}

// handIn gives b to the log. A batch that yield has made an orphan meanwhile is not
// proposed in its term, which this node may lead again after Hold: it gets an answer
// as a proposal that is refused.
func (x *executor) handIn(b *batch) error {
	if !x.log.shared() {
		return x.log.commit(b)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.committing != b {
		b.proposal.Term = 0
	}
	return x.log.commit(b)
}

// finish publishes a durable batch and answers its calls.
func (x *executor) finish(b *batch) (next *batch) {
	if !b.empty() {
		x.mu.Lock()
		x.at.index, x.at.term = b.index, b.term
		at := x.at
		x.mu.Unlock()
		x.overtake(b)
		if b.snap != nil {
			b.snap.applied = at
			x.show(b.snap)
		}
		x.publish(b)
	}
	x.flight.land()
	for i, c := range b.calls {
		b.calls[i] = nil
		c.done <- nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.committing = nil
	x.changed.Broadcast()
	if x.leading {
		return nil // the leader seals when it has run what is queued
	}
	return x.sealIfFree()
}

// run runs the transactions of one call and adds it to the open batch, also
// when it failed or wrote nothing: what it saw must be durable before it is
// answered.
func (x *executor) run(c *call) {
	if !c.claim.CompareAndSwap(callWaiting, callRunning) {
		return
	}
	wall := x.flight.begin(&x.wall)
	h := &writeTx{x: x}
	x.lost = nil
	if c.one != nil {
		c.panicked, c.err = x.transact(h, wall, c, 0)
	}
	for i := 0; i < c.n && c.panicked == nil; i++ {
		if i > 0 && len(x.open.buf) >= batchBytes {
			c.split = true
			if x.sealFull(); x.lost != nil {
				break
			}
			wall = x.flight.begin(&x.wall)
		}
		c.panicked, _ = x.transact(h, wall, c, i) // its error is its function's to remember
	}
	h.x = nil
	x.wall.raise(x.tx.now)
	c.pos = x.open.last
	c.ran <- struct{}{}
	if x.lost != nil {
		c.fail(x.lost) // what it wrote before has been dropped
		return
	}
	x.open.calls = append(x.open.calls, c)
	if len(x.open.buf) >= batchBytes {
		x.sealFull()
	}
}

// transact runs c's transaction number i: all its writes are in the open batch
// afterwards, or none.
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
			return
		}
		x.keep()
	}()
	if c.one != nil {
		err = c.one(h)
	} else {
		err = c.fn(h, i)
	}
	returned = true
	return nil, err
}

// close refuses new calls, answers those that have not run, and returns when
// the roles are free and the background goroutines have ended.
func (x *executor) close(err error) {
	x.mu.Lock()
	if x.closed == nil {
		x.closed = err
	}
	for _, c := range x.queue {
		if c.claim.CompareAndSwap(callWaiting, callRunning) {
			c.ran <- struct{}{}
			c.done <- err
		}
	}
	x.queue = nil
	for x.leading || x.committing != nil {
		x.changed.Wait()
	}
	x.mu.Unlock()
	close(x.relay)
	close(x.leadOn)
	x.stopped.Wait()
}
