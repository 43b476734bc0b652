package client

import "sync"

// herald tells callers of calls that end without a reply: those that timed out,
// were cancelled, or lost their connection. Callbacks run in its goroutine, so
// that one that takes long holds up neither timeouts nor connections.
type herald struct {
	calls callbacks
	wake  chan struct{}

	mu   sync.Mutex // guards the fields below
	list []ended
	over bool // run has returned
}

// ended is a call and why it ended.
type ended struct {
	done func(Result, error)
	err  error
}

// tell ends a call that is in no queue any more. Blocked callers are woken here.
func (h *herald) tell(s slot, err error) {
	if s.w != nil {
		if !s.w.take() {
			return
		}
		if s.w.done == nil {
			s.w.end(Result{}, err)
			return
		}
		s.done, s.w = s.w.finally(), nil
	}
	if s.done == nil {
		return
	}
	h.mu.Lock()
	over := h.over
	if !over {
		h.list = append(h.list, ended{s.done, err})
	}
	h.mu.Unlock()
	if over { // a context ended while the client was closed
		s.done(Result{}, err)
		return
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run calls the callbacks until stop is closed and nothing is left.
func (h *herald) run(stop <-chan struct{}) {
	h.calls.start()
	for {
		h.mu.Lock()
		list := h.list
		h.list = nil
		h.mu.Unlock()
		h.calls.begin()
		for i := range list {
			list[i].done(Result{}, list[i].err)
		}
		h.calls.end()
		if len(list) > 0 {
			continue
		}
		select {
		case <-h.wake:
		case <-stop:
			h.mu.Lock()
			h.over = len(h.list) == 0
			over := h.over
			h.mu.Unlock()
			if over {
				return
			}
		}
	}
}
