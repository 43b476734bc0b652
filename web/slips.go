package web

import (
	"log/slog"
	"net/http"

	"github.com/skerrydb/skerry/engine"
)

// What a handler has forgotten, which an answer does not show.

// handlerOf names the handler of x for the log.
func (x *exchange) handlerOf() string {
	if x.route == nil {
		return x.r.Method + " " + x.loggedPath(x.r)
	}
	return x.route.pattern
}

// unanswered says that a handler has returned nil and has not answered. It may be that
// middleware around it will: it is for debug mode only. A handler whose client has gone
// away, or whose time is over, need not answer, and to HEAD there is nothing to say.
func (x *exchange) unanswered(w http.ResponseWriter, r *http.Request) {
	if x.silent || r.Method == http.MethodHead || r.Context().Err() != nil || begun(w) {
		return
	}
	x.silent = true
	x.app.o.Logger.LogAttrs(r.Context(), slog.LevelWarn, "the handler of "+x.handlerOf()+" returned without an answer", x.attrs(r)...)
}

// twice says in debug mode that a second answer, with that status, is not sent.
func (x *exchange) twice(status int) {
	if x.app.o.Debug {
		x.app.o.Logger.LogAttrs(x.r.Context(), slog.LevelWarn, "the handler of "+x.handlerOf()+" answered twice: the second status is not sent",
			append(x.attrs(x.r), slog.Int("second_status", status))...)
	}
}

// lostSession reports what was changed in a session when the answer had begun. In
// debug mode the connection is cut off, too, if that can still be seen.
func (x *exchange) lostSession() {
	which, instead := "session", ", or call Context.SaveSession if the browser has the session already"
	switch {
	case x.session != nil && x.session.Changed():
	case x.global != nil && x.global.Changed():
		which, instead = "global session", ""
	default:
		return
	}
	err := engine.Errorf(engine.CodeInternal, "web: the handler of %s changed the %s after its answer had begun, and that is lost: change it before answering%s", x.handlerOf(), which, instead)
	if x.app.o.Debug {
		x.fail(x, x.r, err) // panics
	}
	x.dropSession()
	x.reportFault(x.r, err)
}

// tooLate says that a session needs a cookie that cannot be set any more.
func (x *exchange) tooLate() error {
	return engine.Errorf(engine.CodeInternal, "web: the session needs another cookie, but the answer of %s has begun: call Context.SaveSession before that", x.handlerOf())
}
