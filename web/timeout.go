package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// DefaultTimeout is what Timeout takes 0 for.
const DefaultTimeout = 30 * time.Second

// overdue is the cause of a context that Timeout has ended.
type overdue struct{ after time.Duration }

func (o *overdue) Error() string { return "the request took longer than " + o.after.String() }

// Timeout is middleware that gives a request d from now on, 0 is DefaultTimeout:
// its context has that deadline, and the rest of its body has to arrive by then
// (problem.CodeBodyTimeout). A handler that fails as its context is over, or that
// returns then without having answered, is answered with problem.CodeTimeout. A
// handler that does not look at its context runs on: nothing can stop it, and its
// answer is sent. What it did before counts; a commit whose outcome is unknown
// stays engine.CodeOutcomeUnknown.
//
// Streams that are meant to last, as of events, must not have it around them.
func Timeout(d time.Duration) Middleware {
	if d <= 0 {
		d = DefaultTimeout
	}
	cause := &overdue{d}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at := time.Now().Add(d)
			ctx, cancel := context.WithDeadlineCause(r.Context(), at, cause)
			defer cancel()
			r = r.WithContext(ctx)
			if r.Body != nil && r.Body != http.NoBody {
				r.Body = &timedBody{ReadCloser: r.Body, w: w, at: at}
			}
			next.ServeHTTP(w, r)
			if ctx.Err() != nil && !begun(w) {
				of(w).fail(w, r, ctx.Err())
			}
		})
	}
}

// timedOut gives the failure of a request that Timeout has ended its code.
func timedOut(r *http.Request, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, coded := errors.AsType[*engine.Error](err); coded {
		return err // which says more
	}
	late, ok := errors.AsType[*overdue](context.Cause(r.Context()))
	if !ok {
		return err
	}
	return engine.Errorf(problem.CodeTimeout, "the answer took longer than %v", late.after)
}

// timedBody is a body that has to arrive by a time. Setting that on the connection
// is left to the first read: without one net/http waits there for the client's end,
// and would take a timeout for it.
type timedBody struct {
	io.ReadCloser
	w   http.ResponseWriter
	at  time.Time
	set bool
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	if !b.set {
		b.set = true
		_ = http.NewResponseController(b.w).SetReadDeadline(b.at) // a server without it has none to be set
	}
	if !time.Now().Before(b.at) {
		return 0, os.ErrDeadlineExceeded // what paces uploads moves the connection's own
	}
	return b.ReadCloser.Read(p)
}
