// Package tsbs generates the data sets of the Time Series Benchmark Suite as line protocol.
//
// It knows how TSBS describes its use cases (github.com/timescale/tsbs): the tags, the fields, and how
// values walk. It must not know which database takes the lines, or how it stores them.
//
// The data has the shape of that of TSBS, but not its values: the random numbers are others. Each
// series has its own, so that the columns of one can be had without the lines of all. Floats are
// printed as short as they can be read back.
package tsbs

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Options say which data to generate. The zero value is that of TSBS's examples: a hundred hosts for
// three days. Equal options give equal lines.
type Options struct {
	Seed     uint64
	Hosts    int           // hosts, or trucks; 0 means 100
	Start    time.Time     // of the first points; zero means 2016-01-01 00:00 UTC
	Interval time.Duration // between the points of a series; 0 means 10 seconds
	Duration time.Duration // from Start to the end, which is not included; 0 means 72 hours
}

func (o Options) filled() Options {
	if o.Hosts < 0 || o.Interval < 0 || o.Duration < 0 {
		panic(fmt.Sprintf("BUG: negative options: %+v", o))
	}
	if o.Hosts == 0 {
		o.Hosts = 100
	}
	if o.Start.IsZero() {
		o.Start = time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if o.Interval == 0 {
		o.Interval = 10 * time.Second
	}
	if o.Duration == 0 {
		o.Duration = 72 * time.Hour
	}
	return o
}

// ticks returns how many points a series has.
func (o Options) ticks() int { return int((o.Duration + o.Interval - 1) / o.Interval) }

// Generator generates the lines of one data set, ordered by time, then by measurement, then by host;
// see IoT for an exception. It is not safe for concurrent use.
type Generator struct {
	options Options
	set     *useCase
	series  []*series // by measurement, then by host
	tick    int       // of the next point
	next    int       // the series of the next point
	values  []float64 // scratch

	// For use cases with disorder.
	random *rand.Rand
	late   [][]byte // lines held back, oldest first
}

// A useCase is what the hosts measure.
type useCase struct {
	measurements []*measurement
	// host returns the tags of all measurements of a host, with a comma before each, and constants for
	// measurement.values.
	host     func(host int, r *rand.Rand) (tags string, constants []float64)
	disorder bool // points are missing or late
}

// Chances of disorder, as in TSBS.
const (
	chanceMissing      = 0.1 // that a point is missing
	chanceMissingField = 0.1 // that a point has one field less
	chanceLate         = 0.3 // that a line is held back
	chanceRelease      = 0.5 // that a line that is held back comes before the next one

	maxLate = 1000 // lines held back at once
)

// CPUOnly generates ten integers about the CPU of each host.
func CPUOnly(o Options) *Generator {
	return newGenerator(o, &useCase{measurements: devops()[:1], host: newHost})
}

// DevOps generates nine measurements of each host, CPU among them, with 101 fields.
func DevOps(o Options) *Generator {
	return newGenerator(o, &useCase{measurements: devops(), host: newHost})
}

// IoT generates the readings and the diagnostics of trucks. As in TSBS, a tenth of the points is
// missing, a tenth of the others lacks a field, and some are late: they follow newer ones. Unlike in
// TSBS, no point lacks a tag, or a batch.
func IoT(o Options) *Generator {
	return newGenerator(o, &useCase{measurements: iot(), host: newTruck, disorder: true})
}

func newGenerator(o Options, set *useCase) *Generator {
	g := &Generator{options: o.filled(), set: set, random: source(o.Seed, 0)}
	g.series = make([]*series, len(set.measurements)*g.options.Hosts)
	for i := range g.series {
		g.series[i] = g.newSeries(i)
	}
	return g
}

// source returns the random numbers of a stream.
func source(seed, stream uint64) *rand.Rand {
	const golden = 0x9E3779B97F4A7C15 // keeps neighbours apart
	return rand.New(rand.NewPCG(seed, (stream+1)*golden))
}

// Series returns the number of series.
func (g *Generator) Series() int { return len(g.series) }

// Append appends the next lines, each with its '\n', and returns the extended slice. At the end of the
// data there are fewer, and then none.
func (g *Generator) Append(dst []byte, lines int) []byte {
	for range lines {
		if g.set.disorder {
			dst = g.disorderly(dst)
		} else {
			dst, _, _ = g.point(dst)
		}
	}
	return dst
}

// disorderly appends the next line, or a late one.
func (g *Generator) disorderly(dst []byte) []byte {
	for {
		if len(g.late) > 0 && (g.tick == g.options.ticks() || g.random.Float64() < chanceRelease) {
			dst = append(dst, g.late[0]...)
			g.late = g.late[1:]
			return dst
		}
		from := len(dst)
		var present, ok bool
		if dst, present, ok = g.point(dst); !ok {
			return dst
		}
		if !present {
			continue
		}
		if g.random.Float64() >= chanceLate || len(g.late) == maxLate {
			return dst
		}
		g.late = append(g.late, append([]byte(nil), dst[from:]...))
		dst = dst[:from]
	}
}

// point appends the line of the next point, unless the point is missing. At the end of the data it
// returns false.
func (g *Generator) point(dst []byte) (_ []byte, present, ok bool) {
	ticks := g.options.ticks()
	if g.tick == ticks {
		return dst, false, false
	}
	s, at := g.series[g.next], g.time(g.tick)
	var missing int
	g.values, missing = s.point(g.values[:0], time.Duration(g.tick)*g.options.Interval)
	if g.next++; g.next == len(g.series) {
		g.next = 0
		g.tick++
	}
	if missing == everyField {
		return dst, false, true
	}
	return s.appendLine(dst, g.values, missing, at), true, true
}

// time returns the Unix time of a tick in nanoseconds.
func (g *Generator) time(tick int) int64 {
	return g.options.Start.UnixNano() + int64(tick)*int64(g.options.Interval)
}

// appendLine appends a line with all fields but the missing one.
func (s *series) appendLine(dst []byte, values []float64, missing int, at int64) []byte {
	dst = append(dst, s.key...)
	separator := byte(' ')
	for i, f := range s.measurement.fields {
		if i == missing {
			continue
		}
		dst = append(append(append(dst, separator), f.name...), '=')
		if f.decimals == integer {
			dst = append(strconv.AppendInt(dst, int64(values[i]), 10), 'i')
		} else {
			dst = strconv.AppendFloat(dst, values[i], 'f', -1, 64)
		}
		separator = ','
	}
	return append(strconv.AppendInt(append(dst, ' '), at, 10), '\n')
}
