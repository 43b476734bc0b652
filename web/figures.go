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

// routeFigures count one route's answers by the first digit of their status; 0 is
// for those that were cut off.
type routeFigures struct {
	answers [6]atomic.Uint64
	took    atomic.Int64 // nanoseconds, in all
}

func (f *figures) begin() { f.inFlight.Add(1) }

func (f *figures) end(rt *route, status int, took time.Duration) {
	f.inFlight.Add(-1)
	of := &f.none
	if rt != nil {
		of = &rt.figures
	}
	class := status / 100
	if class >= len(of.answers) {
		class = 0
	}
	of.answers[class].Add(1)
	of.took.Add(int64(took))
}

// warnOnce logs one warning in the life of an application.
type warnOnce struct{ done atomic.Bool }

func (w *warnOnce) warn(log *slog.Logger, text string) {
	if !w.done.Swap(true) {
		log.Warn(text)
	}
}

// Metrics yields the figures of the application.
func (a *App) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		yield(engine.Metric{Name: "web_in_flight", Help: "Requests that are being answered by the application.", Value: float64(a.figures.inFlight.Load())})
	}
}
