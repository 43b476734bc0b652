package client

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// notifier ends the calls that get no reply: those that timed out, were cancelled, or lost
// their connection. Callbacks run in its goroutine, so that a slow one delays neither
// timeouts nor connections.
type notifier struct {
	calls callbacks
	wake  chan struct{}

	mu   sync.Mutex // guards the fields below
	list []ended
	over bool // run has returned
}

// ended is a call and the reason why it ended.
type ended struct {
	done func(Result, error)
	err  error
}

// notify ends a call that is no longer in a queue. It wakes a blocked caller itself.
func (t *notifier) notify(s slot, err error) {
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
	t.mu.Lock()
	over := t.over
	if !over {
		t.list = append(t.list, ended{s.done, err})
	}
	t.mu.Unlock()
	if over { // a context ended while the client was closed
		s.done(Result{}, err)
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run calls the callbacks until stop is closed and none are left.
func (t *notifier) run(stop <-chan struct{}) {
	t.calls.start()
	for {
		t.mu.Lock()
		list := t.list
		t.list = nil
		t.mu.Unlock()
		t.calls.begin()
		for i := range list {
			list[i].done(Result{}, list[i].err)
		}
		t.calls.end()
		if len(list) > 0 {
			continue
		}
		select {
		case <-t.wake:
		case <-stop:
			t.mu.Lock()
			t.over = len(t.list) == 0
			over := t.over
			t.mu.Unlock()
			if over {
				return
			}
		}
	}
}

// callbacks reports whether the calling goroutine is running a callback. Its owner sets id
// when it starts.
type callbacks struct {
	id   atomic.Uint64
	busy atomic.Bool
}

func (b *callbacks) start() { b.id.Store(goroutine()) }
func (b *callbacks) begin() { b.busy.Store(true) }
func (b *callbacks) end()   { b.busy.Store(false) }

// goroutine returns the number of the calling goroutine, from the first line of its stack
// trace. It takes about a microsecond, so it is called only before a wait.
func goroutine() uint64 {
	var buf [64]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.ParseUint(string(digits), 10, 64) // 0 if the runtime changes the format; callbacks are then not detected
	return n
}
