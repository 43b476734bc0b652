package client

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// places bounds the calls in flight.
type places struct {
	max     int64
	used    atomic.Int64
	waiting atomic.Int64

	mu    sync.Mutex      // guards queue
	queue []chan struct{} // who waits, the longest first
}

// take takes a place, or reports false if there is none.
func (p *places) take() bool {
	if p.used.Add(1) <= p.max {
		return true
	}
	p.used.Add(-1)
	return false
}

// few is how many places are in use at most when those who wait are woken.
func (p *places) few() int64 { return p.max - max(1, p.max/8) }

// free gives n places back. Those who wait are woken when an eighth is free, so
// that a caller who is faster than the server is woken once for many calls.
func (p *places) free(n int) {
	if n == 0 {
		return
	}
	if p.used.Add(-int64(n)) <= p.few() && p.waiting.Load() > 0 {
		p.wake()
	}
}

// wake gives what is free to those who have waited longest.
func (p *places) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.queue) && p.take() {
		close(p.queue[n])
		n++
	}
	p.queue = slices.Delete(p.queue, 0, n)
	p.waiting.Add(-int64(n))
}

// wait waits until it is given a place. Nobody but callbacks is served before who
// came earlier.
func (p *places) wait(ctx context.Context, closed <-chan struct{}, timeout time.Duration) error {
	var over <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		over = t.C
	}
	ready := make(chan struct{})
	p.mu.Lock()
	p.queue = append(p.queue, ready)
	p.waiting.Add(1)
	p.mu.Unlock()
	if p.used.Load() <= p.few() { // they became free before we were seen
		p.wake()
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
		err = errorf(CodeTooManyInFlight, "%d calls were in flight for as long as a call may take; nothing was sent", p.max)
	}
	p.leave(ready)
	return err
}

// leave ends a wait. A place that it was given meanwhile is given back.
func (p *places) leave(ready chan struct{}) {
	p.mu.Lock()
	i := slices.Index(p.queue, ready)
	if i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.waiting.Add(-1)
	}
	p.mu.Unlock()
	if i < 0 {
		p.free(1)
	}
}

// callbacks tells whether the calling goroutine is one that runs callbacks, and
// does so now. Its owner sets id when it starts.
type callbacks struct {
	id   atomic.Uint64
	busy atomic.Bool
}

func (b *callbacks) start() { b.id.Store(goroutine()) }
func (b *callbacks) begin() { b.busy.Store(true) }
func (b *callbacks) end()   { b.busy.Store(false) }

// goroutine returns the number of the calling goroutine, which the first line of
// its stack trace tells. It takes about a microsecond, so it is asked for only
// where somebody is about to wait.
func goroutine() uint64 {
	var buf [64]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.ParseUint(string(digits), 10, 64) // 0 if the runtime writes it otherwise: then a callback is not known
	return n
}
