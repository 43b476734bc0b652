package web

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/web/lane"
)

// Fast makes f the Fast function of a lane.Route for requests of a route of HandleLiteral, as which they count. f
// returns the status of its response, or 0 if it has not answered. No middleware runs: f does what it would. Fast
// panics if there is no route for that method and path.
func (a *App) Fast(method, path string, f func(x *lane.Fast) (status int)) func(x *lane.Fast) bool {
	for _, l := range a.literals {
		if l.pattern == path && l.allows(method) {
			return a.fast(&l.route.metrics, f)
		}
	}
	panic("web: Fast: there is no route " + method + " " + path)
}

// NodeFast is Fast for requests that other nodes forward, to any route.
func (a *App) NodeFast(f func(x *lane.Fast) (status int)) func(x *lane.Fast) bool {
	return a.fast(&a.metrics.nodes, f)
}

// fast returns f with what observe does for a handler.
func (a *App) fast(to *routeMetrics, f func(x *lane.Fast) (status int)) func(x *lane.Fast) bool {
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
		to.count(x.Method, status, time.Since(start), false)
		return true
	}
}

// laneHeaders are the request header fields with which a request can be in the lane, besides those of every route: those
// that handlers of applications use, and those of browsers and proxies in front.
var laneHeaders = []string{
	"Cookie", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range", "Idempotency-Key",
	"Origin", "Referer", "Cache-Control", "Pragma", "Priority", "X-Requested-With", "X-Request-Id",
	"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip",
	"Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-User", "Upgrade-Insecure-Requests",
}

// LaneRoutes returns the requests that a lane.Server may answer in front of the application: all that are simple. An
// entry in the memory tier of a cache is sent without a handler if nothing else could have a part in the response: no
// middleware, no other route below the same path, no session and no position. Routes must not be added afterwards.
func (a *App) LaneRoutes() []lane.Route {
	var list []lane.Route
	for _, rt := range a.cached {
		if rt.byName && rt.o.AtLeast == nil && !rt.ware && len(a.outer) == 0 && !a.o.Debug && a.alone(rt) {
			list = append(list, lane.Route{Methods: "GET", Path: rt.before, Segment: true, Fast: a.fast(&rt.route.metrics, rt.fast(a.headers))})
		}
	}
	return append(list, lane.Route{Methods: "GET, HEAD, PUT, POST, PATCH, DELETE", Path: "/", Headers: laneHeaders})
}

// alone reports whether all paths that begin with rt.before, and have one segment more, are rt's.
func (a *App) alone(rt *cachedRoute) bool {
	for _, other := range a.routes {
		path := other.path()
		path = path[strings.IndexByte(path, '/'):] // without a host
		fixed, _, open := strings.Cut(path, "{")
		if other != rt.route && (strings.HasPrefix(path, rt.before) || other.literal && open && strings.HasPrefix(rt.before, fixed)) {
			return false
		}
	}
	return true
}

// text returns the headers as they are sent with a response without a nonce.
func (h *headers) text(secure bool) string {
	var b strings.Builder
	add := func(name string, values []string) {
		for _, v := range values {
			b.WriteString(name + ": " + v + "\r\n")
		}
	}
	for _, f := range h.fixed {
		add(f.name, f.line)
	}
	if secure {
		add(hstsName, h.hsts)
	}
	if h.cspName != "" {
		add(h.cspName, h.csp)
	}
	return b.String()
}

// fast returns a function that sends entries in the memory tier, as serve does.
func (rt *cachedRoute) fast(h *headers) func(x *lane.Fast) (status int) {
	common := "Cache-Control: " + rt.control[0] + "\r\nAccept-Ranges: bytes\r\n"
	plain, secure := h.text(false)+common, h.text(true)+common
	return func(x *lane.Fast) int {
		key := x.Path[len(rt.before):]
		if x.Method != http.MethodGet || key == "." || key == ".." || x.Header("Authorization") != "" {
			return 0
		}
		buf := entryBuffers.Get().(*[]byte)
		defer entryBuffers.Put(buf)
		v, ok := rt.from.Peek((*buf)[:0], key, cache.Read{})
		if !ok {
			return 0
		}
		if *buf = v.Raw(); cap(*buf) > maxEntryBuffer {
			*buf = nil
		}
		if v.Missing || v.Private {
			return 0
		}
		x.Begin(http.StatusOK)
		if x.TLS() != nil {
			x.Fields(secure)
		} else {
			x.Fields(plain)
		}
		rt.send(x, &v)
		return http.StatusOK
	}
}

// send sends what belongs to the entry.
func (rt *cachedRoute) send(x *lane.Fast, v *cache.View) {
	body, suffix := v.Body, ""
	if v.HasVariants() {
		x.Field("Vary", varyOnThat)
		if accept := x.Header(varyOnThat); accept != "" {
			if variant := preferred(v.Entry().Variants, []string{accept}); variant != nil {
				body, suffix = variant.Body, "-"+variant.Encoding
				x.Field(codingField, variant.Encoding)
			}
		}
	}
	x.Tag(v.ETag, suffix)
	if len(v.Type) > 0 {
		x.Line("Content-Type", v.Type)
	} else {
		x.Field("Content-Type", "application/octet-stream")
	}
	x.Number("Content-Length", uint64(len(body)))
	x.End(body)
}
