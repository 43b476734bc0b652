package web

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// DefaultMaxBody is Options.MaxBody if that is 0.
const DefaultMaxBody = 1 << 20

// bodyError says why a body could not be read to its end.
func bodyError(err error) error {
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return engine.Errorf(problem.CodeBodyTooLarge, "the body is over the limit of %d bytes", over.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return engine.Errorf(problem.CodeBodyTimeout, "the body did not arrive in time")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return engine.Errorf(problem.CodeBodyIncomplete, "the body ended before its declared length")
	}
	return engine.Errorf(problem.CodeBodyIncomplete, "the body could not be read: %w", err)
}

// limitedBody is a request's body with a limit that can be changed until it is read.
type limitedBody struct {
	x     *exchange
	from  io.ReadCloser
	limit int64
	in    io.ReadCloser // from within limit; nil before the first read
}

// limitBody bounds the body of r, if it has one.
func (x *exchange) limitBody(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	x.body = limitedBody{x: x, from: r.Body, limit: x.app.o.MaxBody}
	r.Body = &x.body
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.in == nil {
		// It makes net/http close the connection instead of reading on.
		b.in = http.MaxBytesReader(b.x.w, b.from, b.limit)
	}
	return b.in.Read(p)
}

// Close implements io.Closer.
func (b *limitedBody) Close() error { return b.from.Close() }

// BodyLimit is middleware that lets bodies of up to n bytes in, instead of
// Options.MaxBody. More is problem.CodeBodyTooLarge for whoever reads it.
func BodyLimit(n int64) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			of(w).body.limit = n
			next.ServeHTTP(w, r)
		})
	}
}
