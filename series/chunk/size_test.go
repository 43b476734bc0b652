package chunk

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// The generators below have the shapes of the Time Series Benchmark Suite's public use cases.

// walk is a random walk within bounds; step gives each step.
func walk(v, low, high float64, step func() float64) func() float64 {
	return func() float64 {
		v = min(max(v+step(), low), high)
		return v
	}
}

// cut truncates to a number of digits behind the point.
func cut(next func() float64, digits int) func() float64 {
	p := powers[digits]
	return func() float64 { return math.Trunc(next()*p) / p }
}

// group is some fields of the same shape.
type group struct {
	name   string
	fields int
	make   func(r *rand.Rand) func() float64
}

func normal(r *rand.Rand, mean, deviation float64) func() float64 {
	return func() float64 { return mean + deviation*r.NormFloat64() }
}

func uniform(r *rand.Rand, low, high float64) func() float64 {
	return func() float64 { return low + (high-low)*r.Float64() }
}

// fixed is a field that never changes.
func fixed(v float64) func(r *rand.Rand) func() float64 {
	return func(*rand.Rand) func() float64 { return func() float64 { return v } }
}

// stepping is a field of integers that walks with normal steps, from a random start in its range.
func stepping(mean, deviation, high float64) func(r *rand.Rand) func() float64 {
	return func(r *rand.Rand) func() float64 {
		return cut(walk(high*r.Float64(), 0, high, normal(r, mean, deviation)), 0)
	}
}

// counting is a counter that starts at 0.
func counting(mean float64) func(r *rand.Rand) func() float64 {
	return func(r *rand.Rand) func() float64 { return cut(walk(0, 0, 1e18, normal(r, mean, 1)), 0) }
}

// percent is a share of memory that changes much, in percent: a float64 with all its digits.
func percent(r *rand.Rand) func() float64 {
	const total = 8 << 30
	bytes := stepping(0, total/64, total)(r)
	return func() float64 { return 100 * (bytes() / total) }
}

// between is a walk with uniform steps, cut to some digits.
func between(start, low, high, step float64, digits int) func(r *rand.Rand) func() float64 {
	return func(r *rand.Rand) func() float64 {
		return cut(walk(start, low, high, uniform(r, -step, step)), digits)
	}
}

var cpuOnly = []group{{"usage", 10, stepping(0, 1, 100)}}

var devops = []group{
	{"usage", 10, stepping(0, 1, 100)},
	{"disk and network counters", 16, counting(50)},
	{"byte counters", 4, counting(100)},
	{"kernel, time and error counters", 16, counting(5)},
	{"free space", 4, stepping(50, 1, 1<<40)},
	{"constants", 7, fixed(1 << 30)},
	{"memory bytes", 5, stepping(0, 8<<30/64, 8<<30)},
	{"memory percent", 3, percent},
	{"gauges", 4, func(r *rand.Rand) func() float64 { return cut(normal(r, 10, 1), 0) }},
	{"clamped counters", 25, func(r *rand.Rand) func() float64 { return cut(walk(0, 0, 1000, normal(r, 5, 1)), 0) }},
	{"used memory", 7, stepping(50, 1, 16<<30)},
}

var iot = []group{
	{"latitude", 1, between(41.2, -90, 90, 0.005, 5)},
	{"longitude", 1, between(101.7, -180, 180, 0.005, 5)},
	{"elevation", 1, between(250, 0, 5000, 10, 0)},
	{"velocity", 1, between(0, 0, 100, 10, 0)},
	{"heading", 1, between(180, 0, 360, 5, 0)},
	{"grade", 1, between(0, 0, 100, 5, 0)},
	{"fuel consumption", 1, between(25, 0, 50, 5, 1)},
	{"fuel state", 1, func(r *rand.Rand) func() float64 { return cut(walk(1, 0, 1, uniform(r, -0.001, 0)), 1) }},
	{"current load", 1, func(r *rand.Rand) func() float64 {
		load := 5000 * r.Float64()
		return cut(func() float64 {
			if r.Float64() >= 0.95 {
				load = 5000 * r.Float64()
			}
			return load
		}, 0)
	}},
	{"capacities", 6, fixed(1500)}, // numbers among the tags of both tables, which line protocol has as fields
	{"status", 1, func(r *rand.Rand) func() float64 { return cut(walk(0, 0, 5, normal(r, 0, 1)), 0) }},
}

// gorillaBits is the size of values and times in Gorilla's format.
func gorillaBits(times []int64, values []float64) int {
	n := 64 + 64 + 14
	delta := int64(0)
	for i := 1; i < len(times); i++ {
		d := times[i] - times[i-1]
		switch dd := (d - delta) / 1e9; { // Gorilla's times are seconds
		case i == 1:
		case dd == 0:
			n++
		case dd >= -63 && dd <= 64:
			n += 9
		case dd >= -255 && dd <= 256:
			n += 12
		default:
			n += 36
		}
		delta = d
	}
	last, lead, trail := math.Float64bits(values[0]), -1, 0
	for _, v := range values[1:] {
		x := math.Float64bits(v) ^ last
		last ^= x
		if n++; x == 0 {
			continue
		}
		l, t := min(bits.LeadingZeros64(x), 31), bits.TrailingZeros64(x)
		if n++; lead >= 0 && l >= lead && t >= trail {
			n += 64 - lead - trail
		} else {
			lead, trail = l, t
			n += 11 + 64 - l - t
		}
	}
	return n
}

// regular returns the times of n samples ten seconds apart.
func regular(n int) []int64 {
	times := make([]int64, n)
	for i := range times {
		times[i] = 1_451_606_400_000_000_000 + int64(i)*10_000_000_000
	}
	return times
}

// TestSizes checks the sizes that chunks of the benchmark's shapes may have at most.
func TestSizes(t *testing.T) {
	r := seed.Rand(t)
	for _, c := range []struct {
		name   string
		groups []group
		most   float64 // bytes a value
	}{{"cpu-only", cpuOnly, 0.45}, {"devops", devops, 0.75}, {"iot", iot, 0.55}} {
		for _, n := range []int{1000, 4000} {
			times, values := regular(n), make([]float64, n)
			ours, gorilla, count, detail := 0, 0, 0, ""
			for _, g := range c.groups {
				size, tries := 0, 0
				for range g.fields * 10 {
					next := g.make(r)
					for i := range values {
						values[i] = next()
					}
					size += len(check(t, times, values))
					gorilla += gorillaBits(times, values) / 8
					tries += n
				}
				detail += fmt.Sprintf("; %s %.3f", g.name, float64(size)/float64(tries))
				ours += size
				count += tries
			}
			got := float64(ours) / float64(count)
			t.Logf("%s, %d samples: %.3f bytes a value, Gorilla %.3f%s", c.name, n, got, float64(gorilla)/float64(count), detail)
			if got > c.most {
				t.Errorf("%s, %d samples: %.3f bytes a value, want at most %.2f", c.name, n, got, c.most)
			}
		}
	}
}

// benchmarkShapes calls fn with one series of each use case and one of floats with all digits.
func benchmarkShapes(b *testing.B, fn func(b *testing.B, times []int64, values []float64)) {
	for _, c := range []struct {
		name string
		make func(r *rand.Rand) func() float64
	}{
		{"cpu-only", cpuOnly[0].make}, {"jitter", cpuOnly[0].make}, {"counter", devops[1].make}, {"latitude", iot[0].make},
		{"floats", percent}, {"random", shapes["bits"]}, {"mixture", shapes["special"]},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			next := c.make(r)
			times, values := regular(4096), make([]float64, 4096)
			for i := range values {
				values[i] = next()
				if c.name == "jitter" { // of milliseconds
					times[i] += r.Int64N(100) * 1e6
				}
			}
			b.ReportAllocs()
			fn(b, times, values)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(values)), "ns/value")
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	benchmarkShapes(b, func(b *testing.B, times []int64, values []float64) {
		var data []byte
		for b.Loop() {
			data = Append(data[:0], times, values)
		}
		b.ReportMetric(float64(len(data))/float64(len(values)), "bytes/value")
	})
}

func BenchmarkDecode(b *testing.B) {
	benchmarkShapes(b, func(b *testing.B, times []int64, values []float64) {
		data := Append(nil, times, values)
		var gotTimes []int64
		var gotValues []float64
		for b.Loop() {
			var err error
			if gotTimes, gotValues, err = Decode(data, gotTimes[:0], gotValues[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
