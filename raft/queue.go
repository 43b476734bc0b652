package raft

import (
	"context"
	"sync"
)

// queue passes values from any goroutine to one that takes them all at once.
// The zero queue needs init.
type queue[T any] struct {
	mu     sync.Mutex // guards the fields below
	items  []T
	closed bool
	wake   chan struct{} // capacity 1: there are values
}

func (q *queue[T]) init() { q.wake = make(chan struct{}, 1) }

// push adds v and never blocks. After close it does nothing.
func (q *queue[T]) push(v T) {
	q.mu.Lock()
	if !q.closed {
		q.items = append(q.items, v)
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take appends all values to into and empties the queue.
func (q *queue[T]) take(into []T) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	into = append(into, q.items...)
	clear(q.items)
	q.items = q.items[:0]
	return into
}

// wait waits until there are values. It returns false once ctx has ended.
func (q *queue[T]) wait(ctx context.Context) bool {
	select {
	case <-q.wake:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (q *queue[T]) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// close drops the queued values and all later ones.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.items = nil
}
