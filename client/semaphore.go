package client

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// semaphore bounds the calls in flight. Each call has a permit.
type semaphore struct {
	max     int64
	used    atomic.Int64
	waiting atomic.Int64

	mu    sync.Mutex      // guards queue
	queue []chan struct{} // waiting callers, longest waiting first
}

// acquire takes a permit, or reports false if there is none.
func (m *semaphore) acquire() bool {
	if m.used.Add(1) <= m.max {
		return true
	}
	m.used.Add(-1)
	return false
}

// low is the number of permits in use at or below which waiting callers are woken.
func (m *semaphore) low() int64 { return m.max - max(1, m.max/8) }

// release returns n permits. Waiting callers are woken when an eighth is free, so that a
// caller that is faster than the server is woken once for many calls.
func (m *semaphore) release(n int) {
	if n == 0 {
		return
	}
	if m.used.Add(-int64(n)) <= m.low() && m.waiting.Load() > 0 {
		m.wake()
	}
}

// wake gives the free permits to the callers that have waited longest.
func (m *semaphore) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(m.queue) && m.acquire() {
		close(m.queue[n])
		n++
	}
	m.queue = slices.Delete(m.queue, 0, n)
	m.waiting.Add(-int64(n))
}

// wait blocks until it gets a permit. Except for callbacks, callers are served in order.
func (m *semaphore) wait(ctx context.Context, closed <-chan struct{}, timeout time.Duration) error {
	var over <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		over = t.C
	}
	ready := make(chan struct{})
	m.mu.Lock()
	m.queue = append(m.queue, ready)
	m.waiting.Add(1)
	m.mu.Unlock()
	if m.used.Load() <= m.low() { // permits were released before this caller was in the queue
		m.wake()
	}
	var err error
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		err = contextError(ctx.Err())
	case <-closed:
		err = ErrClosed
	case <-over:
		err = errorf(CodeTooManyInFlight, "%d calls were in flight during the whole timeout; nothing was sent", m.max)
	}
	m.leave(ready)
	return err
}

// leave ends a wait. It returns a permit that was granted in the meantime.
func (m *semaphore) leave(ready chan struct{}) {
	m.mu.Lock()
	i := slices.Index(m.queue, ready)
	if i >= 0 {
		m.queue = slices.Delete(m.queue, i, i+1)
		m.waiting.Add(-1)
	}
	m.mu.Unlock()
	if i < 0 {
		m.release(1)
	}
}
