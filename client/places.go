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

// free gives n places back. Those who wait are woken when an eighth is free, so
// that a caller who is faster than the server is woken once for many calls.
func (p *places) free(n int) {
	if n == 0 {
		return
	}
	used := p.used.Add(-int64(n))
	if p.waiting.Load() > 0 && used <= p.max-max(1, p.max/8) {
		p.wake()
	}
}

// wake wakes as many as there are places.
func (p *places) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(int(p.max-p.used.Load()), len(p.queue))
	for i := range max(n, 0) {
		close(p.queue[i])
	}
	if n > 0 {
		p.queue = slices.Delete(p.queue, 0, n)
		p.waiting.Add(-int64(n))
	}
}

// wait waits for a place and takes it.
func (p *places) wait(ctx context.Context, closed <-chan struct{}, timeout time.Duration) error {
	var over <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		over = t.C
	}
	for {
		ready := make(chan struct{})
		p.mu.Lock()
		p.queue = append(p.queue, ready)
		p.mu.Unlock()
		p.waiting.Add(1)
		if p.take() { // it became free before we were seen
			p.leave(ready)
			return nil
		}
		var err error
		select {
		case <-ready:
			if p.take() {
				return nil
			}
			continue
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
}

func (p *places) leave(ready chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, ready); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.waiting.Add(-1)
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
