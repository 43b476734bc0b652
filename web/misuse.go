package web

import (
	"log/slog"
	"net/http"

	"github.com/skerrydb/skerry/engine"
)

// Mistakes of handlers that responses do not show; they are logged.

// handlerOf names the handler of x for the log.
func (x *exchange) handlerOf() string {
	if x.route == nil {
		return x.r.Method + " " + x.loggedPath(x.r)
	}
	return x.route.pattern
}

// unanswered logs that a handler returned nil without responding. It is for debug mode only, as middleware
// around the handler may still respond. HEAD needs no response, nor do clients that have gone away, nor
// requests that have timed out.
func (x *exchange) unanswered(w http.ResponseWriter, r *http.Request) {
	if x.silent || r.Method == http.MethodHead || r.Context().Err() != nil || begun(w) {
		return
	}
	x.silent = true
	x.app.o.Logger.LogAttrs(r.Context(), slog.LevelWarn, "the handler of "+x.handlerOf()+" returned without a response", x.attrs(r)...)
}

// twice logs in debug mode that a second response, with that status, was not sent.
func (x *exchange) twice(status int) {
	if x.app.o.Debug {
		x.app.o.Logger.LogAttrs(x.r.Context(), slog.LevelWarn, "the handler of "+x.handlerOf()+" responded twice: the second status is not sent",
			append(x.attrs(x.r), slog.Int("second_status", status))...)
	}
}

// lostSession logs changes to a session that were made after the response had begun. In debug mode it also
// closes the connection, if the client can still notice.
func (x *exchange) lostSession() {
	which, instead := "session", ", or call Context.SaveSession if the browser has the session already"
	switch {
	case x.session != nil && x.session.Changed():
	case x.global != nil && x.global.Changed():
		which, instead = "global session", ""
	default:
		return
	}
	err := engine.Errorf(engine.CodeInternal, "web: the handler of %s changed the %s after its response had begun, and the change is lost: change it before responding%s", x.handlerOf(), which, instead)
	if x.app.o.Debug {
		x.fail(x, x.r, err) // panics
	}
	x.dropSession()
	x.reportFault(x.r, err)
}

// tooLate returns the error of a session that needs a cookie when it is too late to set one.
func (x *exchange) tooLate() error {
	return engine.Errorf(engine.CodeInternal, "web: the session needs a new cookie, but the response of %s has begun: call Context.SaveSession before responding", x.handlerOf())
}
