package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Bounds of bodies.
const (
	// DefaultMaxBody is Options.MaxBody if that is 0.
	DefaultMaxBody = 1 << 20
	// DefaultMaxBodyMemory is Options.MaxBodyMemory if that is 0.
	DefaultMaxBodyMemory = 256 << 20
	// MaxUncountedBody is how many bytes of each body do not count towards Options.MaxBodyMemory.
	MaxUncountedBody = 64 << 10
)

// BodyError returns the problem for err, an error of reading a request's body: too large, too slow or
// incomplete.
func BodyError(err error) error {
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

// limitedBody is a request's body with a limit that can change while it is read.
type limitedBody struct {
	x     *exchange
	from  io.ReadCloser
	limit int64
	read  int64
}

// limitBody bounds the body of r, if it has one.
func (x *exchange) limitBody(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	x.body = limitedBody{x: x, from: r.Body, limit: x.app.o.MaxBody}
	r.Body = &x.body
}

// Read implements io.Reader. Beyond the limit it behaves as http.MaxBytesReader does, but saves the allocation
// for every request with a body.
func (b *limitedBody) Read(p []byte) (int, error) {
	left := b.limit - b.read
	if left < 0 {
		return 0, &http.MaxBytesError{Limit: b.limit}
	}
	if int64(len(p))-1 > left {
		p = p[:left+1]
	}
	n, err := b.from.Read(p)
	if b.read += int64(n); b.read > b.limit {
		b.x.closeAfterwards()
		return int(left), &http.MaxBytesError{Limit: b.limit}
	}
	return n, err
}

// Close implements io.Closer.
func (b *limitedBody) Close() error { return b.from.Close() }

// ReadBody reads the whole body, within its limit. It stays within Options.MaxBodyMemory: the memory counts until the
// request ends. Over that it fails with engine.CodeQueueFull, or with problem.CodeRateLimited if other requests of the
// same caller have too much, and does not read the rest.
func (c *Context) ReadBody() ([]byte, error) {
	r := c.Request
	if r.Body == nil {
		return nil, nil
	}
	if err := c.fits(); err != nil {
		return nil, err
	}
	size := 512
	if r.ContentLength >= 0 {
		size = int(min(r.ContentLength+1, 4<<10)) // one more: a read that finds the end
	}
	body := make([]byte, 0, size)
	for {
		if len(body) == cap(body) {
			more := int64(cap(body))
			if left := r.ContentLength + 1 - more; left > 0 {
				more = min(more, left)
			}
			if err := c.x.hold(max(0, more+int64(cap(body))-c.x.held)); err != nil {
				c.RefuseBody()
				return nil, err
			}
			body = append(make([]byte, 0, int64(cap(body))+more), body...)
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, BodyError(err)
		}
	}
}

// hold counts n more bytes of a body in memory.
func (x *exchange) hold(n int64) error {
	counted := max(0, x.held-MaxUncountedBody)
	if more := max(0, x.held+n-MaxUncountedBody) - counted; more > 0 {
		if counted == 0 {
			x.holder = x.caller()
		}
		if err := x.app.bodies.Take(x.holder, counted, more); err != nil {
			return err
		}
	}
	x.held += n
	return nil
}

// release returns what hold has taken.
func (x *exchange) release() {
	if n := x.held - MaxUncountedBody; n > 0 {
		x.app.bodies.Return(x.holder, n)
	}
}

// RefuseBody closes the connection after the response instead of reading the rest of the request's body.
func (c *Context) RefuseBody() { c.x.closeAfterwards() }

// closeAfterwards makes net/http close the connection after the response, but linger a little first. Closed at
// once, the connection would be reset, and a client that is still sending would lose the response.
// MaxBytesReader is the only way to ask net/http for that, so it gets a limit that is exceeded at once, and
// none of the body.
func (x *exchange) closeAfterwards() {
	_, _ = http.MaxBytesReader(x.w, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
}

// BodyLimit is middleware that allows bodies of up to n bytes, instead of Options.MaxBody. Reading more fails
// with problem.CodeBodyTooLarge.
func BodyLimit(n int64) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			of(w).body.limit = n
			next.ServeHTTP(w, r)
		})
	}
}
