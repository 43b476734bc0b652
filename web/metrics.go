package web

import (
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// metrics count the requests of an application. Clients cannot create labels.
type metrics struct {
	inFlight atomic.Int64
	none     routeMetrics // requests that no route matched
	nodes    routeMetrics // requests that other nodes forwarded
}

// Labels of requests without a route. They differ from all paths.
const (
	noRoute   = "none"
	nodeRoute = "node"
)

// tookBounds are the upper bounds of the buckets of durations.
func tookBounds() [tookBuckets]time.Duration {
	const µs, ms = time.Microsecond, time.Millisecond
	return [...]time.Duration{100 * µs, 250 * µs, 500 * µs, ms, 2500 * µs, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, 500 * ms, time.Second, 2500 * ms, 10 * time.Second}
}

const tookBuckets = 15

// methodNames are the methods counted by name; the last one stands for all others.
func methodNames() [8]string {
	return [...]string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "other"}
}

// classNames are the classes of status. "cut" is a response that was cut off.
func classNames() [6]string { return [...]string{"cut", "1xx", "2xx", "3xx", "4xx", "5xx"} }

// routeMetrics count the responses of one route by method.
type routeMetrics [8]atomic.Pointer[methodMetrics]

// methodMetrics count the responses to one method by class.
type methodMetrics struct {
	responses [6]atomic.Uint64
	took      [tookBuckets + 1]atomic.Uint64 // the last bucket is above all bounds
	total     atomic.Int64                   // nanoseconds
}

// of returns the metrics of a method.
func (m *routeMetrics) of(method string) *methodMetrics {
	names := methodNames()
	i := 0
	for i < len(names)-1 && names[i] != method {
		i++
	}
	if m[i].Load() == nil {
		m[i].CompareAndSwap(nil, &methodMetrics{})
	}
	return m[i].Load()
}

// end counts a request after its response.
func (m *metrics) end(x *exchange, took time.Duration, cut bool) {
	m.inFlight.Add(-1)
	route := &m.none
	switch {
	case x.fromNode:
		route = &m.nodes
	case x.route != nil:
		route = &x.route.metrics
	}
	route.count(x.r.Method, x.status, took, cut)
}

// count counts a response.
func (m *routeMetrics) count(method string, status int, took time.Duration, cut bool) {
	to := m.of(method)
	class := status / 100
	if cut || class >= len(to.responses) {
		class = 0
	}
	to.responses[class].Add(1)
	bucket := 0
	for _, bound := range tookBounds() {
		if took <= bound {
			break
		}
		bucket++
	}
	to.took[bucket].Add(1)
	to.total.Add(int64(took))
}

// warnOnce logs one warning in the life of an application.
type warnOnce struct{ done atomic.Bool }

func (w *warnOnce) warn(log *slog.Logger, text string) {
	if !w.done.Swap(true) {
		log.Warn(text)
	}
}

// Metrics yields RequestMetrics of "web", and how many event streams are open.
func (a *App) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		if !yield(engine.Metric{Name: "web_streams", Help: "Open event streams.", Value: float64(a.streams.count())}) {
			return
		}
		a.RequestMetrics("web")(yield)
	}
}

// RequestMetrics yields the application's metrics of requests, with names that begin with prefix: requests in
// flight, and, by path of the route and by method, responses by class of status and their durations. The path is
// "none" for requests that no route matched, and "node" for those that other nodes forwarded. Routes without
// requests are left out. Routes must not be added while it runs.
func (a *App) RequestMetrics(prefix string) iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		if !yield(engine.Metric{Name: prefix + "_requests_in_flight", Help: "Requests in progress.", Value: float64(a.metrics.inFlight.Load())}) ||
			!a.metrics.none.yield(prefix, noRoute, yield) || !a.metrics.nodes.yield(prefix, nodeRoute, yield) {
			return
		}
		for _, rt := range a.routes {
			if !rt.metrics.yield(prefix, rt.path(), yield) {
				return
			}
		}
	}
}

// path is the route's pattern without its method.
func (rt *route) path() string {
	if _, path, found := strings.Cut(rt.pattern, " "); found {
		return path
	}
	return rt.pattern
}

// yield yields the metrics of one route, and reports whether to go on.
func (m *routeMetrics) yield(prefix, path string, yield func(engine.Metric) bool) bool {
	for i, method := range methodNames() {
		of := m[i].Load()
		if of != nil && !of.yield(prefix, []engine.Label{{Name: "route", Value: path}, {Name: "method", Value: method}}, yield) {
			return false
		}
	}
	return true
}

func (m *methodMetrics) yield(prefix string, labels []engine.Label, yield func(engine.Metric) bool) bool {
	h := &engine.Histogram{Bounds: make([]float64, tookBuckets), Counts: make([]uint64, tookBuckets)}
	for i, bound := range tookBounds() {
		h.Bounds[i], h.Counts[i] = bound.Seconds(), m.took[i].Load()
		h.Count += h.Counts[i]
	}
	h.Count += m.took[tookBuckets].Load()
	h.Sum = float64(m.total.Load()) / float64(time.Second)
	for i, class := range classNames() {
		if n := m.responses[i].Load(); n > 0 && !yield(engine.Metric{
			Name: prefix + "_requests_total", Help: "Requests by route, method and class of status; cut: the connection was cut off.",
			Counter: true, Value: float64(n), Labels: append(labels[:len(labels):len(labels)], engine.Label{Name: "class", Value: class}),
		}) {
			return false
		}
	}
	return yield(engine.Metric{
		Name: prefix + "_request_seconds", Help: "Time from the end of a request's headers to the end of the response.",
		Labels: labels, Histogram: h,
	})
}
