package client

import "sync/atomic"

// States of a waiter. The caller that changes it from pending decides how the call ends.
const (
	pending uint32 = iota
	taken
)

// waiter is the additional state of a call that a caller waits for or may cancel.
type waiter struct {
	state atomic.Uint32
	place atomic.Pointer[link] // the link whose queue contains the slot; nil while it moves
	seq   uint64               // its number in that queue, guarded by place's mu
	done  func(Result, error)  // called instead of waking a blocked caller
	stop  func() bool          // stops watching the context; set before the call is sent
	woken chan struct{}        // receives one signal after res and err are set
	res   Result
	err   error
	kept  bool // the server will report when res becomes stale
	ro    bool // the call only reads; set before it is sent
}

// take claims the right to end the call. It reports whether it succeeded.
func (w *waiter) take() bool { return w.state.CompareAndSwap(pending, taken) }

// end ends a call that was claimed. A blocked caller gets its own copy of res.
func (w *waiter) end(res Result, err error) {
	if w.stop != nil {
		w.stop()
	}
	if w.done != nil {
		w.done(res, err)
		return
	}
	w.res, w.err = res.Clone(), err
	w.woken <- struct{}{}
}

// finally stops watching the context of a claimed waiter and returns its callback.
func (w *waiter) finally() func(Result, error) {
	if w.stop != nil {
		w.stop()
	}
	return w.done
}

func (c *Client) newWaiter() *waiter {
	if w, ok := c.waiters.Get().(*waiter); ok {
		return w
	}
	return &waiter{woken: make(chan struct{}, 1)}
}

// freeWaiter recycles a waiter that was ended by someone other than its caller.
func (c *Client) freeWaiter(w *waiter) {
	w.res, w.err, w.kept = Result{}, nil, false
	w.place.Store(nil)
	w.state.Store(pending)
	c.waiters.Put(w)
}
