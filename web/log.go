package web

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"
)

// Logger returns Options.Logger, or one that keeps nothing. For lines about a request
// there is Context.Logger.
func (a *App) Logger() *slog.Logger { return a.o.Logger }

// DefaultSlow is AccessLogOptions.Slow if that is 0.
const DefaultSlow = time.Second

// AccessLogOptions configure AccessLog. The zero value works.
type AccessLogOptions struct {
	// Logger gets the lines. Nil is the application's.
	Logger *slog.Logger

	// Level of the lines. The zero value is slog.LevelInfo.
	Level slog.Level

	// Slow is how long a request takes that is marked as slow. 0 is DefaultSlow,
	// negative: none is.
	Slow time.Duration

	// Skip, if set, reports which requests get no line unless they fail with a status
	// of 500 or more, or are cut off. It is called when the request is over.
	Skip func(*http.Request) bool
}

// accessLog is AccessLogOptions ready for use.
type accessLog AccessLogOptions

// AccessLog is middleware that writes one line a request when its answer is over,
// however it ended: method, path, query, route, status, bytes, how long it took,
// client, user, request id; slow, and cut if the connection was cut off. The values
// of a query, and segments of a path, whose names say that they are secret are left
// out; headers and bodies are never logged. It replaces the application's own line
// at debug level. It is meant for App.Use; on a group only that group's requests
// are logged.
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

// log writes the line of x, which is over.
func (l *accessLog) log(x *exchange, took time.Duration, cut bool) {
	r, to := x.r, l.Logger
	if to == nil {
		to = x.app.o.Logger
	}
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
		sent = 0 // net/http has left it out
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

// userID is the id of who asks, "" if nobody is logged in.
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
