package raft

import (
	"slices"
	"sync"
)

// Limits of the memory that is kept for messages.
const (
	keepBuffers   = 8
	leastBuffer   = 4 << 10 // smaller ones are not worth keeping
	largestBuffer = 1 << 20
)

// buffers keeps the memory of messages that were sent. Memory that was used before costs
// much less than new memory, which must be zeroed and mapped: a leader sends every batch
// to every follower. The zero value is empty.
type buffers struct {
	mu   sync.Mutex // guards free
	free [][]byte
}

// take returns an empty buffer for about size bytes, or nil if none fits: a queue of
// short messages must not hold large buffers.
func (f *buffers) take(size int) []byte {
	if size < leastBuffer {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, b := range f.free {
		if cap(b) > size && cap(b)/4 <= size {
			f.free = slices.Delete(f.free, i, i+1)
			return b[:0]
		}
	}
	return nil
}

// give keeps the memory of b, which nobody uses any more, or drops it.
func (f *buffers) give(b []byte) {
	if cap(b) < leastBuffer || cap(b) > largestBuffer {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.free) == keepBuffers {
		f.free = slices.Delete(f.free, 0, 1) // the oldest: messages have another size by now
	}
	f.free = append(f.free, b)
}
