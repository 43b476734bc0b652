package postgres

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// call is one Update, or one UpdateEach of n transactions. The executor runs its function and
// may run it again as long as the outcome of a batch is known to be "not committed".
type call struct {
	n     int
	each  bool
	fn    func(tx engine.Tx, i int) error
	keys  [][]byte // that it will probably use
	since time.Time

	state atomic.Int32
	ran   chan struct{} // capacity 1: the function has stopped running, for now
	done  chan struct{} // closed when the fields at the end are final

	// Of the executor.
	committed int // transactions in batches that are committed
	next      int // the one to run next
	again     int // how often it has met a row of another program, and was run again

	// Final when done is closed; until then reset before every run.
	pos      engine.Position
	fnErr    error     // of Update's function
	panicked *panicked // what the function panicked with
	exited   bool      // the function ended its goroutine
	err      error     // of the engine
}

// The states of a call. The caller may leave in states callQueued and callRan.
const (
	callQueued  = iota // the function has not run
	callRunning        // the caller must wait
	callRan            // it has run; it may run again
	callLeft           // the caller has returned: the function must not run again
)

// runAgain reports whether a call that has met a row of another program is run again.
func (c *call) runAgain() bool {
	c.again++
	return c.again <= maxAgain
}

// panicked carries a panic of user code to the goroutine that made the call.
type panicked struct{ value any }

// Update implements engine.Engine.
func (d *DB) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return d.submit(ctx, &call{n: 1, fn: func(tx engine.Tx, _ int) error { return fn(tx) }})
}

// UpdateOf implements engine.Preparer.
func (d *DB) UpdateOf(ctx context.Context, keys [][]byte, fn func(engine.Tx) error) (engine.Position, error) {
	c := &call{n: 1, fn: func(tx engine.Tx, _ int) error { return fn(tx) }}
	for _, key := range keys[:min(len(keys), maxAhead)] {
		c.keys = append(c.keys, bytes.Clone(key))
	}
	return d.submit(ctx, c)
}

// UpdateEach implements engine.Eacher.
func (d *DB) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	if n <= 0 {
		return d.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
	}
	return d.submit(ctx, &call{n: n, each: true, fn: fn})
}

var errStandby = engine.Errorf(engine.CodeReadOnly, "postgres: the server is a standby, which only reads: send writes to the primary")

func (d *DB) submit(ctx context.Context, c *call) (engine.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if d.isClosed() {
		return 0, engine.ErrClosed
	}
	if d.server.standby {
		return 0, errStandby
	}
	c.since, c.ran, c.done = time.Now(), make(chan struct{}, 1), make(chan struct{})
	select {
	case d.queue <- c:
	default:
		d.refused.Add(1)
		return 0, engine.Errorf(engine.CodeQueueFull, "postgres: %d updates are waiting already", cap(d.queue))
	}
	ended, closing := ctx.Done(), d.closing
	for {
		select {
		case <-c.done:
			return c.outcome()
		case <-ended:
			if c.state.CompareAndSwap(callQueued, callLeft) {
				return 0, ctx.Err()
			}
			if c.state.CompareAndSwap(callRan, callLeft) {
				return c.abandoned(ctx.Err())
			}
		case <-closing:
			if c.state.CompareAndSwap(callQueued, callLeft) {
				return 0, engine.ErrClosed
			}
			closing = nil // its batch ends soon
			continue
		}
		<-c.ran // it runs
	}
}

// outcome is what the caller of a finished call gets.
func (c *call) outcome() (engine.Position, error) {
	switch {
	case c.panicked != nil:
		panic(c.panicked.value)
	case c.err != nil:
		return 0, c.err
	}
	return c.pos, c.fnErr
}

// abandoned is what the caller gets who leaves before the batch is committed.
func (c *call) abandoned(cause error) (engine.Position, error) {
	select {
	case <-c.done:
		return c.outcome()
	default:
	}
	if c.fnErr != nil {
		return 0, c.fnErr
	}
	return 0, engine.Errorf(engine.CodeOutcomeUnknown, "the call ended while its transaction was being committed: %w", cause)
}

// claim lets the executor run the function, unless the caller has left.
func (c *call) claim() bool {
	return c.state.CompareAndSwap(callQueued, callRunning) || c.state.CompareAndSwap(callRan, callRunning)
}

// rest tells a caller that wants to leave that it may.
func (c *call) rest() {
	c.state.Store(callRan)
	select {
	case c.ran <- struct{}{}:
	default:
	}
}

// rewind undoes what the executor noted about runs that are not committed.
func (c *call) rewind() {
	c.next, c.fnErr, c.panicked, c.exited, c.err = c.committed, nil, nil, false, nil
}

// over reports whether nothing of the call is left to run.
func (c *call) over() bool { return c.next >= c.n || c.panicked != nil || c.exited || c.err != nil }

// fail ends the call because of the engine. Nothing of its last batch was written, unless
// err says that this is unknown.
func (c *call) fail(err error) {
	if c.committed > 0 && engine.CodeOf(err) != engine.CodeOutcomeUnknown {
		err = engine.Errorf(engine.CodeOutcomeUnknown, "%d of %d transactions were committed, then: %w", c.committed, c.n, err)
	}
	c.panicked, c.fnErr, c.err = nil, nil, err
	close(c.done)
}

// finish ends the call after its last batch was committed.
func (c *call) finish() {
	if c.exited {
		code, kept := engine.CodeInternal, "nothing was written"
		if c.each {
			code, kept = engine.CodeOutcomeUnknown, "those of the call before it were committed"
		}
		c.err = engine.Errorf(code, "the transaction's function ended its goroutine; %s", kept)
	}
	close(c.done)
}
