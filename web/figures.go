package web

import (
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// figures count what an application answers.
type figures struct {
	inFlight atomic.Int64
	none     routeFigures // what no route was found for
}

// tookBounds are the upper bounds of the durations that are told apart, those of
// web/api's.
func tookBounds() [tookBuckets]time.Duration {
	const µs, ms = time.Microsecond, time.Millisecond
	return [...]time.Duration{100 * µs, 250 * µs, 500 * µs, ms, 2500 * µs, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, 500 * ms, time.Second, 2500 * ms, 10 * time.Second}
}

const tookBuckets = 15

// classNames are the classes of status that are told apart. What was cut off has
// none: it was never answered to its end.
func classNames() [6]string { return [...]string{"cut", "1xx", "2xx", "3xx", "4xx", "5xx"} }

// routeFigures count one route's answers by class.
type routeFigures struct {
	answers [6]atomic.Uint64
	took    [tookBuckets + 1]atomic.Uint64 // the last is what is over all bounds
	total   atomic.Int64                   // nanoseconds
}

func (f *figures) begin() { f.inFlight.Add(1) }

func (f *figures) end(rt *route, status int, took time.Duration, cut bool) {
	f.inFlight.Add(-1)
	of := &f.none
	if rt != nil {
		of = &rt.figures
	}
	class := status / 100
	if cut || class >= len(of.answers) {
		class = 0
	}
	of.answers[class].Add(1)
	bucket := 0
	for _, bound := range tookBounds() {
		if took <= bound {
			break
		}
		bucket++
	}
	of.took[bucket].Add(1)
	of.total.Add(int64(took))
}

// warnOnce logs one warning in the life of an application.
type warnOnce struct{ done atomic.Bool }

func (w *warnOnce) warn(log *slog.Logger, text string) {
	if !w.done.Swap(true) {
		log.Warn(text)
	}
}

// noRoute is the label of what no route was found for. No pattern is like it.
const noRoute = "none"

// Metrics yields the figures of the application: requests in flight; and, by the
// pattern of their route, answers by class of status, and how long they took. The
// routes are the program's own, so that clients cannot make up any. Routes that
// nobody has asked for yet are left out. Routes must not be added while it runs.
func (a *App) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		if !yield(engine.Metric{Name: "web_in_flight", Help: "Requests that are being answered by the application.", Value: float64(a.figures.inFlight.Load())}) ||
			!yield(engine.Metric{Name: "web_streams", Help: "Streams of events that are open.", Value: float64(a.streams.count())}) {
			return
		}
		if !a.figures.none.yield(noRoute, yield) {
			return
		}
		for _, rt := range a.routes {
			if !rt.figures.yield(rt.pattern, yield) {
				return
			}
		}
	}
}

// yield yields what was counted of one route, and reports whether to go on.
func (f *routeFigures) yield(pattern string, yield func(engine.Metric) bool) bool {
	route := engine.Label{Name: "route", Value: pattern}
	h := &engine.Histogram{Bounds: make([]float64, tookBuckets), Counts: make([]uint64, tookBuckets)}
	for i, bound := range tookBounds() {
		h.Bounds[i], h.Counts[i] = bound.Seconds(), f.took[i].Load()
		h.Count += h.Counts[i]
	}
	h.Count += f.took[tookBuckets].Load()
	if h.Count == 0 {
		return true
	}
	h.Sum = float64(f.total.Load()) / float64(time.Second)
	for i, class := range classNames() {
		if n := f.answers[i].Load(); n > 0 && !yield(engine.Metric{
			Name: "web_requests_total", Help: "Answered requests by route and class of status; cut: the connection was cut off.",
			Counter: true, Value: float64(n), Labels: []engine.Label{route, {Name: "class", Value: class}},
		}) {
			return false
		}
	}
	return yield(engine.Metric{
		Name: "web_request_seconds", Help: "Time from the end of a request's headers to the end of its answer.",
		Labels: []engine.Label{route}, Histogram: h,
	})
}
