package web

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"
)

// Logger returns Options.Logger, or one that discards everything. For log lines about a request use
// Context.Logger.
func (a *App) Logger() *slog.Logger { return a.o.Logger }

// DefaultSlow is AccessLogOptions.Slow if that is 0.
const DefaultSlow = time.Second

// AccessLogOptions configures AccessLog. The zero value works.
type AccessLogOptions struct {
	// Logger receives the lines. Nil is the application's.
	Logger *slog.Logger

	// Level of the lines. The zero value is slog.LevelInfo.
	Level slog.Level

	// Slow is how long a request takes that is marked as slow. 0 is DefaultSlow; negative marks none.
	Slow time.Duration

	// Skip, if set, reports which requests to leave out. Requests that fail with a status of 500 or more, or
	// whose connection is cut, are logged anyway. It is called when the request is over.
	Skip func(*http.Request) bool
}

// accessLog is AccessLogOptions prepared for use.
type accessLog AccessLogOptions

// AccessLog is middleware that logs one line per request when the response is over, however it ended: method,
// path, query, route, status, bytes, duration, client, user and request id; slow if it was, and cut if the
// connection was closed early. Query values and path segments with secret names are redacted; headers and
// bodies are never logged. It replaces the application's own line at debug level. Add it with App.Use; on a
// group it logs only that group's requests.
func AccessLog(o AccessLogOptions) Middleware {
	o.Slow = cmp.Or(o.Slow, DefaultSlow)
	l := (*accessLog)(&o)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			of(w).access = l
			next.ServeHTTP(w, r)
		})
	}
}

// log logs the line of x, which is over.
func (l *accessLog) log(x *exchange, took time.Duration, cut bool) {
	r, to := x.r, cmp.Or(l.Logger, x.app.o.Logger)
	failed := cut || x.status >= http.StatusInternalServerError
	if !to.Enabled(r.Context(), l.Level) || l.Skip != nil && !failed && l.Skip(r) {
		return
	}
	as := make([]slog.Attr, 0, 16)
	as = append(as, slog.String("method", r.Method), slog.String("path", x.loggedPath(r)))
	if r.URL.RawQuery != "" {
		as = append(as, slog.String("query", redactQuery(r.URL.RawQuery)))
	}
	if x.route != nil {
		as = append(as, slog.String("route", x.route.pattern))
	}
	sent := x.sent
	if r.Method == http.MethodHead {
		sent = 0 // net/http did not send it
	}
	as = append(as, slog.Int("status", x.status), slog.Int64("bytes", sent), slog.Duration("took", took), slog.String("client", x.client(r)))
	if user := x.userID(); user != "" {
		as = append(as, slog.String("user", user))
	}
	as = append(as, slog.String("request_id", x.requestID()))
	if l.Slow > 0 && took >= l.Slow {
		as = append(as, slog.Bool("slow", true))
	}
	if cut {
		as = append(as, slog.Bool("cut", true))
	}
	to.LogAttrs(r.Context(), l.Level, "request", as...)
}

// userID returns the id of the user, "" if nobody is logged in.
func (x *exchange) userID() string {
	switch {
	case x.key != nil:
		return x.key.user.ID
	case x.user != nil:
		return x.user.ID
	case x.session != nil:
		return x.session.User()
	}
	return ""
}
