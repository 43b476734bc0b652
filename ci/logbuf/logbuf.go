// Package logbuf collects the log of a program under test.
//
// It knows how to read while others write. It must not know what is logged.
package logbuf

import (
	"bytes"
	"sync"
)

// Buffer is a buffer that is safe for concurrent use. The zero value is empty.
type Buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns everything that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
