package series

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// Aggregate is what becomes of the samples of one window. Samples that are NaN do not count.
type Aggregate struct {
	kind    aggregateKind
	percent float64
}

type aggregateKind uint8

const (
	kindNone aggregateKind = iota
	kindCount
	kindSum
	kindAvg
	kindMin
	kindMax
	kindFirst
	kindLast
	kindPercentile
)

// MaxAggregates bounds the aggregates of one query.
const MaxAggregates = 20

// The aggregates; see Percentile for another.
var (
	Count = Aggregate{kind: kindCount}
	Sum   = Aggregate{kind: kindSum}
	Avg   = Aggregate{kind: kindAvg}
	Min   = Aggregate{kind: kindMin}
	Max   = Aggregate{kind: kindMax}
	First = Aggregate{kind: kindFirst}
	Last  = Aggregate{kind: kindLast}
)

var aggregateNames = map[string]Aggregate{"count": Count, "sum": Sum, "avg": Avg, "min": Min, "max": Max, "first": First, "last": Last}

// Percentile returns the aggregate of the value that p percent of the samples do not exceed, 0 to 100, interpolated
// between the two nearest.
func Percentile(p float64) Aggregate { return Aggregate{kindPercentile, p} }

// ParseAggregate returns the aggregate with a name: count, sum, avg, min, max, first, last, or pN for Percentile(N),
// as in p99.9.
func ParseAggregate(name string) (Aggregate, error) {
	if a, ok := aggregateNames[name]; ok {
		return a, nil
	}
	if digits, ok := strings.CutPrefix(name, "p"); ok {
		if p, err := strconv.ParseFloat(digits, 64); err == nil {
			return Percentile(p), Percentile(p).check()
		}
	}
	return Aggregate{}, engine.Errorf(engine.CodeInvalid, "there is no aggregate %s; there are count, sum, avg, min, max, first, last, and percentiles like p99", show(name))
}

// String returns the name that ParseAggregate takes.
func (a Aggregate) String() string {
	for name, b := range aggregateNames {
		if a == b {
			return name
		}
	}
	return "p" + strconv.FormatFloat(a.percent, 'g', -1, 64)
}

func (a Aggregate) check() error {
	switch {
	case a.kind == kindNone || a.kind > kindPercentile:
		return engine.Errorf(engine.CodeInvalid, "an aggregate is missing")
	case a.kind == kindPercentile && !(a.percent >= 0 && a.percent <= 100):
		return engine.Errorf(engine.CodeInvalid, "the percentile %v is not between 0 and 100", a.percent)
	}
	return nil
}

// windowOf returns when the window of a time begins.
func windowOf(t, step int64) int64 {
	r := t % step
	if r < 0 {
		r += step
	}
	if t < minTime+r {
		return minTime
	}
	return t - r
}

// aggregate returns the times of windows and a column for each aggregate.
func aggregate(c columns, step int64, aggregates []Aggregate) (times []int64, out [][]float64, err error) {
	out = make([][]float64, len(aggregates))
	sorted := slices.ContainsFunc(aggregates, func(a Aggregate) bool { return a.kind == kindPercentile })
	var w window
	for lo := 0; lo < len(c.times); {
		begin := windowOf(c.times[lo], step)
		hi := lo + 1
		for hi < len(c.times) && c.times[hi]-begin < step && c.times[hi] >= begin {
			hi++
		}
		w.set(c.values[lo:hi], sorted)
		lo = hi
		if w.count == 0 {
			continue
		}
		if len(times) >= MaxWindows {
			return nil, nil, engine.Errorf(CodeQueryLimit, "the step makes more than %d windows; a longer one makes them fewer", MaxWindows)
		}
		times = append(times, begin)
		for i, a := range aggregates {
			out[i] = append(out[i], w.value(a))
		}
	}
	return times, out, nil
}

// window is what is known of the samples of one window.
type window struct {
	count                           int
	sum, avg, min, max, first, last float64
	sorted                          []float64
}

func (w *window) set(values []float64, sorted bool) {
	*w = window{sorted: w.sorted[:0]}
	for _, v := range values {
		if v != v {
			continue
		}
		if w.count == 0 {
			w.first, w.min, w.max = v, v, v
		}
		w.count++
		w.sum += v
		w.min, w.max = math.Min(w.min, v), math.Max(w.max, v)
		w.last = v
		if sorted {
			w.sorted = append(w.sorted, v)
		}
	}
	w.avg = w.sum / float64(w.count)
	if math.IsInf(w.sum, 0) && !math.IsInf(w.min, 0) && !math.IsInf(w.max, 0) {
		w.avg = w.mean(values)
	}
	slices.Sort(w.sorted)
}

// mean returns the mean of values whose sum is too large for a float64.
func (w *window) mean(values []float64) (m float64) {
	n := 0.0
	for _, v := range values {
		if v != v {
			continue
		}
		n++
		m += v/n - m/n
		m = math.Max(w.min, math.Min(w.max, m))
	}
	return m
}

func (w *window) value(a Aggregate) float64 {
	switch a.kind {
	case kindCount:
		return float64(w.count)
	case kindSum:
		return w.sum
	case kindAvg:
		return w.avg
	case kindMin:
		return w.min
	case kindMax:
		return w.max
	case kindFirst:
		return w.first
	case kindLast:
		return w.last
	}
	at := a.percent / 100 * float64(len(w.sorted)-1)
	lo := int(at)
	if hi := lo + 1; hi < len(w.sorted) && at > float64(lo) {
		part := at - float64(lo)
		return w.sorted[lo]*(1-part) + w.sorted[hi]*part
	}
	return w.sorted[lo]
}
