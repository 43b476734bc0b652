package web

import (
	"context"
	"log/slog"
	"time"

	"github.com/skerrydb/skerry/web/lane"
)

// Fast makes f the Fast function of a lane.Route for requests of a route of HandleLiteral, as which they count. f
// returns the status of its response, or 0 if it has not answered. Middleware does not run: f does what it would. Fast panics
// if there is no route for that method and path.
func (a *App) Fast(method, path string, f func(x *lane.Fast) (status int)) func(x *lane.Fast) bool {
	for _, l := range a.literals {
		if l.pattern == path && l.allows(method) {
			return a.fast(l.route, f)
		}
	}
	panic("web: Fast: there is no route " + method + " " + path)
}

// fast returns f with what observe does for a handler.
func (a *App) fast(rt *route, f func(x *lane.Fast) (status int)) func(x *lane.Fast) bool {
	return func(x *lane.Fast) bool {
		if a.o.Logger.Enabled(context.Background(), slog.LevelDebug) {
			return false // requests are logged
		}
		start := time.Now()
		a.metrics.inFlight.Add(1)
		defer a.metrics.inFlight.Add(-1)
		status := f(x)
		if status == 0 {
			return false
		}
		rt.metrics.count(x.Method, status, time.Since(start), false)
		return true
	}
}
