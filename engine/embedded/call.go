package embedded

import (
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
)

// call is one Update or UpdateEach on its way through the executor: n calls of fn, or
// one of one, whose error is the call's own.
type call struct {
	n     int
	fn    func(tx engine.Tx, i int) error
	one   func(tx engine.Tx) error
	claim atomic.Int32 // callWaiting, callRunning or callLeft

	ran  chan struct{} // capacity 1: fn will not run any more
	done chan error    // capacity 1: the outcome of the commit

	// Set before done is sent.
	err      error           // that one returned
	split    bool            // its transactions are in more than one batch
	panicked *panicked       // what fn panicked with
	pos      engine.Position // after it
}

const (
	callWaiting = iota
	callRunning // the executor has it: the caller must wait until it has run
	callLeft    // the caller gave up before it ran
)

// panicked carries a panic of user code to the goroutine that made the call.
type panicked struct{ value any }

// take returns a call to fill in.
func (x *executor) take() *call { return x.pool.Get().(*call) }

// give returns a call to the pool once its outcome has been received.
func (x *executor) give(c *call) {
	select {
	case <-c.ran:
	default:
	}
	c.n, c.fn, c.one, c.err, c.split = 0, nil, nil, nil, false
	c.claim.Store(callWaiting)
	x.pool.Put(c)
}

// outcome repeats a panic of the call's function in its caller.
func (c *call) outcome(err error) error {
	if c.panicked != nil {
		panic(c.panicked.value)
	}
	return err
}

// fail completes c with the error of its batch.
func (c *call) fail(err error) {
	if c.split && engine.CodeOf(err) != engine.CodeOutcomeUnknown {
		err = engine.Errorf(engine.CodeOutcomeUnknown, "some of the call's transactions were committed, then: %w", err)
	}
	c.done <- err
}
