package view

import (
	"bytes"

	"github.com/skerrydb/skerry/engine"
)

// Limits of pages.
const (
	// MaxPageBytes is the longest page in bytes, with its layout; a longer one is
	// CodeViewTooLarge.
	MaxPageBytes = 8 << 20

	// MaxPooledBytes is the largest buffer, in bytes, that is kept for the next
	// page.
	MaxPooledBytes = 1 << 20
)

// buffer buffers a whole page, so that a failing view writes nothing.
type buffer struct{ b bytes.Buffer }

// Write fails if the page would become too long.
func (b *buffer) Write(p []byte) (int, error) {
	if b.b.Len()+len(p) > MaxPageBytes {
		return 0, engine.Errorf(CodeViewTooLarge, "the page is longer than %d bytes", MaxPageBytes)
	}
	return b.b.Write(p)
}

func (v *Views) getBuffer() *buffer {
	if b, ok := v.buffers.Get().(*buffer); ok {
		return b
	}
	return new(buffer)
}

func (v *Views) putBuffer(b *buffer) {
	if b.b.Cap() > MaxPooledBytes {
		return
	}
	b.b.Reset()
	v.buffers.Put(b)
}
