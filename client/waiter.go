package client

import "sync/atomic"

// States of a waiter. Whoever moves it away from pending decides how the call ends.
const (
	pending uint32 = iota
	taken
)

// waiter is what a call has besides its slot if somebody waits for it, or may
// cancel it.
type waiter struct {
	state atomic.Uint32
	place atomic.Pointer[link] // the link whose queue the slot is in; nil while it moves
	seq   uint64               // its number there, guarded by place's mu
	done  func(Result, error)  // called instead of waking a blocked caller
	stop  func() bool          // ends the watch over the context; set before the call is sent
	woken chan struct{}        // gets one signal, after res and err were set
	res   Result
	err   error
	kept  bool // the server will tell when res is stale
	ro    bool // the call only reads; set before it is sent
}

// take claims the right to end the call.
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

// finally is the callback of a waiter that was claimed, its watch ended.
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

// freeWaiter gives back a waiter that was ended by somebody else than its caller.
func (c *Client) freeWaiter(w *waiter) {
	w.res, w.err, w.kept = Result{}, nil, false
	w.place.Store(nil)
	w.state.Store(pending)
	c.waiters.Put(w)
}
