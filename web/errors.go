package web

import (
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// errorView is the view that shows errors in a browser, if the application has one. Its locals are title,
// status, code, detail, errors, reference and retryable, in debug mode also cause, and for a panic place and
// stack.
const errorView = "error"

//go:embed error.html
var errorPage string

// fail responds with err: as a problem, or in a browser with the error page. If the response has begun, fail
// closes the connection instead, so that the client cannot mistake a part for the whole. Changes to the
// request's session are discarded. w and r are those of the handler or middleware that failed.
func (x *exchange) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errElsewhere) || x.answered {
		return
	}
	x.dropSession()
	takeBack(w)
	if x.app.cluster != nil && errors.Is(err, engine.ErrNotLeader) {
		if err = x.app.cluster.again(x, r, err); errors.Is(err, errElsewhere) {
			return
		}
	}
	if to := x.loginPage(r, x.app.login, err); to != "" && x.status == 0 {
		w.Header()["Cache-Control"] = []string{"no-store"}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	p := x.app.describe(timedOut(r, err))
	p.RequestID = x.requestID()
	if x.app.o.Debug {
		p.Cause = problem.Clean(causeOf(err))
	}
	switch {
	case p.Code == engine.CodeOutcomeUnknown: // a leader was lost: no fault of the program
		x.app.o.Logger.LogAttrs(r.Context(), slog.LevelWarn, "request failed", append(x.attrs(r), slog.Any("err", err))...)
	case p.Status == http.StatusInternalServerError:
		x.reportFault(r, err)
	}
	if x.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if after, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err); ok {
		w.Header().Set("Retry-After", seconds(after.RetryAfter()))
	}
	switch {
	case x.untouched(err): // the forwarding node reads it: past everything that could change it
		x.Header()[refusedHeader] = []string{"1"}
		p.Write(x)
		return
	case !x.app.o.Programs && wantsHTML(r):
		x.failPage(w, p, err)
		return
	}
	p.Write(w)
}

// describe returns what a client may know of err. A code that is in no catalog is the program's own, for
// example from one of its procedures: the request was understood and refused.
func (a *App) describe(err error) problem.Problem {
	coded, ok := errors.AsType[*engine.Error](err)
	if _, known := a.outcomes[engine.CodeOf(err)]; ok && !known {
		if _, says := errors.AsType[problem.WithStatus](err); !says {
			err = &statusError{http.StatusUnprocessableEntity, coded}
		}
	}
	return a.outcomes.Describe(err)
}

// Detail returns the text that a client gets for err. It is for pages that show errors themselves.
func (c *Context) Detail(err error) string { return c.x.app.describe(err).Detail }

// causeOf returns an error's text, for a panic with the place where it began.
func causeOf(err error) string {
	if e, ok := errors.AsType[*panicError](err); ok && e.place != "" {
		return err.Error() + ", in " + e.place
	}
	return err.Error()
}

// reportFault logs a fault of the program and reports it to Options.Faults.
func (x *exchange) reportFault(r *http.Request, err error) {
	f := Fault{Ref: x.requestID(), Err: err, Method: r.Method, URL: x.loggedPath(r), From: x.client(r), Time: x.start, Request: r}
	attrs := append(x.attrs(r), slog.Any("err", err))
	if p, ok := errors.AsType[*panicError](err); ok {
		f.Stack = p.stack
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	if x.route != nil {
		f.Route = x.route.pattern
	}
	if x.app.o.Faults != nil { // which logs it too
		x.app.o.Faults.Report(f)
		return
	}
	x.app.o.Logger.LogAttrs(r.Context(), slog.LevelError, "request failed", attrs...)
}

// failPage shows p in a browser.
func (x *exchange) failPage(w http.ResponseWriter, p problem.Problem, err error) {
	locals := map[string]any{
		"title": p.Title, "status": p.Status, "code": string(p.Code), "detail": p.Detail,
		"errors": p.Errors, "reference": p.RequestID, "retryable": p.Retryable, "cause": "", "place": "", "stack": "",
		"nonce": (*pageNonce)(x),
	}
	if x.app.o.Debug {
		locals["cause"] = err.Error()
		if e, ok := errors.AsType[*panicError](err); ok {
			locals["place"], locals["stack"] = e.place, string(e.stack)
		}
	}
	p.Headers(w.Header())
	body := getBuffer()
	defer putBuffer(body)
	if v := x.app.o.Views; v != nil && v.Has(errorView) {
		failed := v.Offer(body, errorView, x.layoutLocals(errorView, locals))
		if failed == nil {
			x.writePage(w, p.Status, body)
			return
		}
		x.app.o.Logger.Error("the error page failed", "err", failed)
		body.Reset()
	}
	if err := x.app.errorPage.Execute(body, locals); err != nil {
		panic("BUG: error page: " + err.Error())
	}
	x.writePage(w, p.Status, body)
}
