package raft

import "testing"

// TestBuffers checks which buffers are kept, and for what they are used again.
func TestBuffers(t *testing.T) {
	var f buffers
	for _, size := range []int{leastBuffer - 1, largestBuffer + 1} {
		if f.give(make([]byte, size)); len(f.free) != 0 {
			t.Errorf("a buffer of %d bytes was kept", size)
		}
	}
	f.give(make([]byte, 5, 64<<10))
	for _, size := range []int{0, leastBuffer, 16<<10 - 1, 64 << 10} {
		if b := f.take(size); b != nil {
			t.Errorf("for %d bytes: a buffer of %d", size, cap(b))
		}
	}
	b := f.take(40 << 10)
	if len(b) != 0 || cap(b) != 64<<10 {
		t.Errorf("got %d of %d bytes, want 0 of 65536", len(b), cap(b))
	}
	if f.take(40<<10) != nil {
		t.Error("a buffer was used twice")
	}
	for i := range 2 * keepBuffers {
		f.give(make([]byte, leastBuffer+i))
	}
	if n := len(f.free); n != keepBuffers || cap(f.free[0]) < leastBuffer+keepBuffers {
		t.Errorf("%d buffers are kept, the oldest has %d bytes; want the newest %d", n, cap(f.free[0]), keepBuffers)
	}
}
