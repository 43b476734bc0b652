package admin

import (
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

const (
	procWindow = 5 * time.Minute // that "recent" means
	procEvery  = time.Minute     // between marks that are kept so long
	procRate   = time.Second     // the shortest time that a rate is of
)

// procMark is what procedures had counted at some time, in the order of proc.Set.Stats.
type procMark struct {
	at    time.Time
	stats []proc.Stat
}

// procMeter keeps what procedures had counted a while ago, so that pages can show what they do now.
type procMeter struct {
	set *proc.Set
	now func() time.Time

	mu   sync.Mutex  // guards the fields below, of which last[1] and kept[0] are never missing
	last [2]procMark // the newest samples, the older one first
	kept []procMark  // one a minute, the oldest first; the first is about procWindow old
}

func newProcMeter(set *proc.Set, now func() time.Time) *procMeter {
	m := &procMeter{set: set, now: now}
	m.sample()
	return m
}

// read returns what procedures have counted. Those without calls have no histogram: they take up little memory then.
func (m *procMeter) read() procMark {
	mark := procMark{at: m.now()}
	for st := range m.set.Stats() {
		if st.Calls == 0 {
			st.Took = engine.Histogram{}
		}
		mark.stats = append(mark.stats, st)
	}
	return mark
}

// sample keeps what procedures have counted by now.
func (m *procMeter) sample() {
	mark := m.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = [2]procMark{m.last[1], mark}
	if n := len(m.kept); n == 0 || mark.at.Sub(m.kept[n-1].at) >= procEvery {
		m.kept = append(m.kept, mark)
	}
	for len(m.kept) > 1 && mark.at.Sub(m.kept[1].at) >= procWindow {
		m.kept = append(m.kept[:0], m.kept[1:]...)
	}
}

// before returns the marks that rates and recent numbers are counted from at a time. For rates there is none in the first moment.
func (m *procMeter) before(now time.Time) (rate, recent procMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mark := range m.last {
		if !mark.at.IsZero() && now.Sub(mark.at) >= procRate {
			rate = mark
		}
	}
	return rate, m.kept[0]
}

// procNumbers are the numbers of one procedure on this node.
type procNumbers struct {
	Rate   float64   // calls per second since one of the newest samples
	Recent proc.Stat // what it has counted in the last minutes
	Total  proc.Stat // and since the start
}

// numbers returns the numbers of all procedures, in the order of proc.Set.Schemas, and how long "recent" is.
func (m *procMeter) numbers() (all []procNumbers, recent time.Duration) {
	now := m.read()
	rateFrom, recentFrom := m.before(now.at)
	for i, st := range now.stats {
		n := procNumbers{Total: st, Recent: procSince(st, recentFrom.stats[i])}
		if rateFrom.stats != nil {
			n.Rate = float64(procSince(st, rateFrom.stats[i]).Calls) / now.at.Sub(rateFrom.at).Seconds()
		}
		all = append(all, n)
	}
	return all, now.at.Sub(recentFrom.at)
}

// procSince returns what a procedure has counted between two Stats of it.
func procSince(now, before proc.Stat) proc.Stat {
	now.Calls -= before.Calls
	now.Errors -= before.Errors
	now.Panics -= before.Panics
	now.Replays -= before.Replays
	took := engine.Histogram{Bounds: now.Took.Bounds, Counts: make([]uint64, len(now.Took.Counts)), Count: now.Took.Count - before.Took.Count, Sum: now.Took.Sum - before.Took.Sum}
	for i, n := range now.Took.Counts {
		if i < len(before.Took.Counts) {
			n -= before.Took.Counts[i]
		}
		took.Counts[i] = n
	}
	now.Took = took
	return now
}

// procQuantile returns the upper bound, in seconds, of the bucket that has the q-th of the run times: infinite in the last one, and
// -1 if there are none.
func procQuantile(h engine.Histogram, q float64) float64 {
	if h.Count == 0 {
		return -1
	}
	var seen uint64
	for i, n := range h.Counts {
		if seen += n; float64(seen) >= q*float64(h.Count) {
			return h.Bounds[i]
		}
	}
	return math.Inf(1)
}

// procTime formats a bound of run times.
func procTime(h engine.Histogram, seconds float64) string {
	switch {
	case seconds < 0:
		return "–"
	case math.IsInf(seconds, 1):
		return "> " + secondsText(h.Bounds[len(h.Bounds)-1])
	}
	return "≤ " + secondsText(seconds)
}

// secondsText formats a short time.
func secondsText(seconds float64) string {
	unit, by := "µs", 1e6
	switch {
	case seconds >= 1:
		unit, by = "s", 1
	case seconds >= 1e-3:
		unit, by = "ms", 1e3
	}
	return strconv.FormatFloat(seconds*by, 'g', 3, 64) + " " + unit
}

// shareText formats a part of a whole.
func shareText(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	share := 100 * float64(part) / float64(whole)
	switch {
	case part > 0 && share < 0.1:
		return "< 0.1 %"
	case part < whole && share > 99.9:
		return "> 99.9 %"
	}
	return strconv.FormatFloat(math.Round(10*share)/10, 'f', -1, 64) + " %"
}
