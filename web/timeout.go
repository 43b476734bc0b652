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

// DefaultTimeout is the timeout for Timeout(0).
const DefaultTimeout = 30 * time.Second

// overdue is the cause of a context that Timeout has ended.
type overdue struct{ after time.Duration }

func (o *overdue) Error() string { return "the request took longer than " + o.after.String() }

// Timeout is middleware that gives a request d from now on; 0 is DefaultTimeout. The request's context has
// that deadline, and the rest of its body must arrive by then (problem.CodeBodyTimeout). If the handler fails
// after its context has ended, or returns then without a response, the response is problem.CodeTimeout. A
// handler that ignores its context runs on, because nothing can stop it, and its response is sent. What it did
// before counts; a commit whose outcome is unknown stays engine.CodeOutcomeUnknown.
//
// Do not put Timeout around streams that are meant to last, such as streams of events.
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

// timedOut sets the code of a request's error if Timeout has ended the request.
func timedOut(r *http.Request, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, coded := errors.AsType[*engine.Error](err); coded {
		return err // err is more specific
	}
	late, ok := errors.AsType[*overdue](context.Cause(r.Context()))
	if !ok {
		return err
	}
	return engine.Errorf(problem.CodeTimeout, "the response took longer than %v", late.after)
}

// timedBody is a body that must arrive by a deadline. The first read sets the deadline on the connection.
// Without a read, net/http waits there for the client to close the connection, and would take an expired
// deadline for that.
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
		return 0, os.ErrDeadlineExceeded // the pace of uploads moves the connection's own deadline
	}
	return b.ReadCloser.Read(p)
}
