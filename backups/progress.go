package backups

import (
	"context"
	"io"
	"sync/atomic"
)

// Progress counts the bytes of an operation. It may be read at any time. A nil Progress counts nothing.
type Progress struct{ done, total atomic.Int64 }

// Add counts n more bytes.
func (p *Progress) Add(n int64) {
	if p != nil {
		p.done.Add(n)
	}
}

// Expect says how many bytes there will be; 0: unknown.
func (p *Progress) Expect(total int64) {
	if p != nil {
		p.total.Store(total)
	}
}

// Bytes returns how many bytes are done, and of how many; total is 0 if that is unknown.
func (p *Progress) Bytes() (done, total int64) {
	if p == nil {
		return 0, 0
	}
	return p.done.Load(), p.total.Load()
}

// Reader returns r with its bytes counted. It fails when ctx ends.
func (p *Progress) Reader(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := r.Read(b)
		p.Add(int64(n))
		return n, err
	})
}

// Writer returns w with its bytes counted.
func (p *Progress) Writer(w io.Writer) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		n, err := w.Write(b)
		p.Add(int64(n))
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
