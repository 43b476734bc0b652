package tsbs

import (
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// A walk is how a value changes: at random, from one point to the next.
type walk struct {
	uniform       bool    // steps are uniform from a to b; otherwise normal with mean a and deviation b
	a, b          float64 //
	low, high     float64 // bounds of the value
	counter       bool    // steps are made positive
	again         float64 // the chance that a value is drawn anew instead of a step; 0 means there is always a step
	refill        bool    // at low, the value becomes high
	first, spread float64 // the first value is first plus a random part of spread
}

// clamped is a walk of normal steps between bounds.
func clamped(mean, deviation, low, high, first float64) walk {
	return walk{a: mean, b: deviation, low: low, high: high, first: first}
}

// counter is a walk of normal steps that only grows, from zero.
func counter(mean, deviation float64) walk {
	return walk{a: mean, b: deviation, counter: true, high: math.Inf(1)}
}

// free is a walk of normal steps without bounds, from zero.
func free(mean, deviation float64) walk {
	return walk{a: mean, b: deviation, low: math.Inf(-1), high: math.Inf(1)}
}

// within is a walk of uniform steps of up to size in both directions between bounds.
func within(size, low, high, first, spread float64) walk {
	return walk{uniform: true, a: -size, b: size, low: low, high: high, first: first, spread: spread}
}

func (w *walk) step(value float64, r *rand.Rand) float64 {
	var step float64
	switch {
	case w.again > 0 && r.Float64() >= w.again:
		return value
	case w.again > 0:
		return w.low + r.Float64()*(w.high-w.low)
	case w.uniform:
		step = w.a + r.Float64()*(w.b-w.a)
	default:
		step = w.a + r.NormFloat64()*w.b
	}
	if w.counter {
		step = math.Abs(step)
	}
	value = min(max(value+step, w.low), w.high)
	if w.refill && value == w.low {
		value = w.high
	}
	return value
}

// integer as the decimals of a field makes it an integer; exact leaves floats as they are.
const (
	integer = -1
	exact   = -2
)

// A field is a field of a measurement.
type field struct {
	name     string
	decimals int // after the point, to which the value is cut off; or integer or exact
}

// A measurement is what its lines have in common.
type measurement struct {
	name   string
	tags   func(r *rand.Rand) string // of its own, with a comma before each; or nil
	walks  []walk
	fields []field
	// constants returns values of a series that do not change, besides those of its host; or nil.
	constants func(r *rand.Rand) []float64
	// values appends the values of the fields; nil means they are the constants and the walks.
	values func(s *series, dst []float64) []float64
}

// add adds a field for each of the names, which are separated by spaces, and a walk for it.
func (m *measurement) add(names string, decimals int, w walk) *measurement {
	for name := range strings.FieldsSeq(names) {
		m.fields = append(m.fields, field{name, decimals})
		m.walks = append(m.walks, w)
	}
	return m
}

// A series is a measurement of one host.
type series struct {
	measurement *measurement
	disorder    bool
	key         string // as in its lines
	random      *rand.Rand
	constants   []float64
	state       []float64     // of the walks
	elapsed     time.Duration // since the first point
}

// newSeries returns series i, before its first point.
func (g *Generator) newSeries(i int) *series {
	o := g.options
	kind, host := i/o.Hosts, i%o.Hosts
	stream := uint64(host+1) << 8
	s := &series{measurement: g.set.measurements[kind], disorder: g.set.disorder, random: source(o.Seed, stream+uint64(kind)+1)}
	m := s.measurement
	tags, constants := g.set.host(host, source(o.Seed, stream))
	s.key = m.name + tags
	if m.tags != nil {
		s.key += m.tags(s.random)
	}
	if s.constants = constants; m.constants != nil {
		s.constants = append(s.constants, m.constants(s.random)...)
	}
	s.state = make([]float64, len(m.walks))
	for i := range m.walks {
		s.state[i] = m.walks[i].first + s.random.Float64()*m.walks[i].spread
	}
	return s
}

// noField and everyField are what can be missing besides one field.
const (
	noField    = -1
	everyField = -2
)

// point appends the values of the fields of the point at elapsed, and returns the index of the field
// that is missing. It is called once for each point in order.
func (s *series) point(dst []float64, elapsed time.Duration) (values []float64, missing int) {
	m := s.measurement
	if s.elapsed = elapsed; elapsed > 0 {
		for i := range m.walks {
			s.state[i] = m.walks[i].step(s.state[i], s.random)
		}
	}
	from := len(dst)
	if m.values != nil {
		dst = m.values(s, dst)
	} else {
		dst = append(append(dst, s.constants...), s.state...)
	}
	for i, f := range m.fields {
		switch v := &dst[from+i]; f.decimals {
		case exact:
		case integer:
			*v = math.Trunc(*v) + 0 // not -0
		default:
			unit := math.Pow10(f.decimals)
			*v = math.Trunc(*v*unit)/unit + 0
		}
	}
	missing = noField
	if s.disorder {
		if s.random.Float64() < chanceMissing {
			missing = everyField
		} else if s.random.Float64() < chanceMissingField {
			missing = s.random.IntN(len(m.fields))
		}
	}
	return dst, missing
}

// Column is one field of one series.
type Column struct {
	Field   string
	Integer bool      // the values are integers
	Times   []int64   // Unix times in nanoseconds, increasing
	Values  []float64 // one for each of Times
}

// Columns yields the columns of the whole data set, each with its series as lines have it. It does not
// depend on Append, nor affect it. The caller owns the slices.
func (g *Generator) Columns() iter.Seq2[string, Column] {
	return func(yield func(string, Column) bool) {
		var values []float64
		for i := range g.series {
			s := g.newSeries(i)
			columns := make([]Column, len(s.measurement.fields))
			for k, f := range s.measurement.fields {
				columns[k] = Column{Field: f.name, Integer: f.decimals == integer}
			}
			for tick := range g.options.ticks() {
				var missing int
				values, missing = s.point(values[:0], time.Duration(tick)*g.options.Interval)
				for k := range columns {
					if missing != k && missing != everyField {
						columns[k].Times = append(columns[k].Times, g.time(tick))
						columns[k].Values = append(columns[k].Values, values[k])
					}
				}
			}
			for _, c := range columns {
				if !yield(s.key, c) {
					return
				}
			}
		}
	}
}
