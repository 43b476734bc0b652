package chunk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// check encodes and decodes the samples and returns the bytes.
func check(t testing.TB, times []int64, values []float64) []byte {
	t.Helper()
	data := Append([]byte("before"), times, values)[6:]
	gotTimes, gotValues, err := Decode(data, []int64{1}, []float64{2, 3})
	if err != nil {
		t.Fatalf("decode %d samples: %v", len(times), err)
	}
	if gotTimes[0] != 1 || gotValues[0] != 2 || gotValues[1] != 3 {
		t.Fatal("what was in the slices has changed")
	}
	same(t, gotTimes[1:], gotValues[2:], times, values)
	n, first, last, err := Info(data)
	if n != len(times) || first != times[0] || last != times[n-1] || err != nil {
		t.Fatalf("Info is %d, %d, %d, %v; want %d, %d, %d", n, first, last, err, len(times), times[0], times[len(times)-1])
	}
	return data
}

// same fails unless the samples are the same bit by bit.
func same(t testing.TB, gotTimes []int64, gotValues []float64, times []int64, values []float64) {
	t.Helper()
	if len(gotTimes) != len(times) || len(gotValues) != len(values) {
		t.Fatalf("%d times and %d values, want %d and %d", len(gotTimes), len(gotValues), len(times), len(values))
	}
	for i := range times {
		if gotTimes[i] != times[i] {
			t.Fatalf("time %d is %d, want %d", i, gotTimes[i], times[i])
		}
		if a, b := math.Float64bits(gotValues[i]), math.Float64bits(values[i]); a != b {
			t.Fatalf("value %d is %x, want %x", i, a, b)
		}
	}
}

var specials = []float64{
	0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64,
	math.SmallestNonzeroFloat64, math.Float64frombits(0x7ff0000000000001), math.Float64frombits(0xfff8dead0000beef),
	1 << 53, 1<<53 + 2, -1 << 63, 1 << 63, 1<<63 - 1024, 0.1, 1e-15, 1e22, 1e300, math.Pi,
}

// shapes are generators of values, of which each call of the result gives the next.
var shapes = map[string]func(r *rand.Rand) func() float64{
	"constant": func(r *rand.Rand) func() float64 { v := r.NormFloat64(); return func() float64 { return v } },
	"special":  func(r *rand.Rand) func() float64 { return func() float64 { return specials[r.IntN(len(specials))] } },
	"bits":     func(r *rand.Rand) func() float64 { return func() float64 { return math.Float64frombits(r.Uint64()) } },
	"walk":     func(r *rand.Rand) func() float64 { v := 0.0; return func() float64 { v += r.NormFloat64(); return v } },
	"counter": func(r *rand.Rand) func() float64 {
		v, step := 0.0, math.Pow(10, float64(r.IntN(12)))
		return func() float64 {
			if v += math.Floor(step * r.Float64()); r.IntN(1000) == 0 {
				v = 0
			}
			return v
		}
	},
	"decimal": func(r *rand.Rand) func() float64 {
		p := powers[r.IntN(len(powers))]
		size := math.Pow(10, 15*r.Float64())
		return func() float64 { return math.Round(r.NormFloat64()*size) / p }
	},
	"repeated": func(r *rand.Rand) func() float64 {
		v := r.Float64()
		return func() float64 {
			if r.IntN(20) == 0 {
				v = r.Float64()
			}
			return v
		}
	},
	"short": func(r *rand.Rand) func() float64 {
		return func() float64 { return math.Float64frombits(uint64(0x3ff00+r.IntN(1<<r.IntN(16))) << 44) }
	},
	"narrow": func(r *rand.Rand) func() float64 {
		k := 1 + r.IntN(70)
		return func() float64 { return float64(int(r.ExpFloat64() * float64(k))) }
	},
}

// names of shapes in an order that does not depend on the map.
var names = []string{"constant", "special", "bits", "walk", "counter", "decimal", "repeated", "short", "narrow"}

// randomValues returns n values of one or several shapes.
func randomValues(r *rand.Rand, n int) []float64 {
	values := make([]float64, n)
	next := shapes[names[r.IntN(len(names))]](r)
	other, rare := shapes[names[r.IntN(len(names))]](r), 1+r.IntN(200)
	mixed := r.IntN(2) == 0
	for i := range values {
		if values[i] = next(); mixed && r.IntN(rare) == 0 {
			values[i] = other()
		}
		if r.IntN(3000) == 0 {
			next = shapes[names[r.IntN(len(names))]](r)
		}
	}
	return values
}

// randomTimes returns n times, regular or not.
func randomTimes(r *rand.Rand, n int) []int64 {
	times := make([]int64, n)
	unit := int64(unitsOfTime[r.IntN(11)])
	step := (1 + r.Int64N(1+r.Int64N(60))) * unit
	jitter := r.Int64N(4)
	t := r.Int64N(2e18) - 1e18
	for i := range times {
		times[i] = t
		t += step
		switch {
		case jitter == 1 && r.IntN(100) == 0:
			t += r.Int64N(100) * unit
		case jitter == 2:
			t += r.Int64N(1000)
		case jitter == 3:
			t += r.Int64N(1000) * unit
		}
	}
	return times
}

func randomLength(r *rand.Rand) int {
	switch r.IntN(4) {
	case 0:
		return 1 + r.IntN(5)
	case 1:
		return 1 + r.IntN(MaxSamples)
	case 2:
		return blockSize - 2 + r.IntN(5)
	}
	return 1 + r.IntN(300)
}

func TestRoundTrip(t *testing.T) {
	r := seed.Rand(t)
	for range 1500 {
		n := randomLength(r)
		check(t, randomTimes(r, n), randomValues(r, n))
	}
	for _, name := range names {
		for _, n := range []int{1, 2, 3, 100, blockSize, blockSize + 1, MaxSamples} {
			next := shapes[name](r)
			values := make([]float64, n)
			for i := range values {
				values[i] = next()
			}
			check(t, randomTimes(r, n), values)
		}
	}
}

// TestEdges checks times at the ends of their range, and each special value alone and in pairs.
func TestEdges(t *testing.T) {
	for _, times := range [][]int64{
		{math.MinInt64}, {math.MaxInt64}, {0}, {-1, 0},
		{math.MinInt64, math.MaxInt64},
		{math.MinInt64, 0, math.MaxInt64},
		{math.MinInt64, math.MinInt64 + 1, math.MaxInt64},
		{math.MinInt64, math.MaxInt64 - 1, math.MaxInt64},
	} {
		check(t, times, make([]float64, len(times)))
	}
	for _, a := range specials {
		check(t, []int64{5}, []float64{a})
		for _, b := range specials {
			check(t, []int64{5, 6}, []float64{a, b})
			check(t, []int64{5, 6, 8}, []float64{a, b, b})
		}
	}
}

func TestRegularTimesAreSmall(t *testing.T) {
	for _, n := range []int{2, 100, MaxSamples} {
		for _, step := range []int64{1, 1e3, 15e6, 1e9, 10e9, 10e9 + 1, 3600e9} {
			times := make([]int64, n)
			for i := range times {
				times[i] = 1_700_000_000_123_456_789 + int64(i)*step
			}
			size := len(check(t, times, make([]float64, n))) - 9*((n+blockSize-1)/blockSize)
			if size > 16 {
				t.Errorf("%d times %d ns apart take %d bytes", n, step, size)
			}
		}
	}
}

func TestWrongShapesPanic(t *testing.T) {
	for name, c := range map[string]struct {
		times  []int64
		values []float64
	}{
		"none":     {nil, nil},
		"lengths":  {[]int64{1, 2}, []float64{1}},
		"equal":    {[]int64{1, 1}, []float64{1, 2}},
		"descends": {[]int64{2, 1}, []float64{1, 2}},
		"too many": {make([]int64, MaxSamples+1), make([]float64, MaxSamples+1)},
	} {
		func() {
			defer func() {
				if s := fmt.Sprint(recover()); !strings.HasPrefix(s, "BUG: ") {
					t.Errorf("%s: recovered %s", name, s)
				}
			}()
			Append(nil, c.times, c.values)
		}()
	}
}

// probe decodes damaged bytes: an error, or samples that round trip.
func probe(t testing.TB, data []byte) {
	t.Helper()
	times, values, err := Decode(data, nil, nil)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) || times != nil || values != nil {
			t.Fatalf("%d times, %d values, %v", len(times), len(values), err)
		}
		return
	}
	if len(times) > MaxSamples || cap(times) > 2*MaxSamples || len(times) != len(values) {
		t.Fatalf("%d times and %d values", len(times), len(values))
	}
	if n, first, last, err := Info(data); n != len(times) || first != times[0] || last != times[n-1] || err != nil {
		t.Fatalf("Info is %d, %d, %d, %v", n, first, last, err)
	}
	again, moreValues, err := Decode(Append(nil, times, values), nil, nil)
	if err != nil {
		t.Fatalf("decode what was encoded again: %v", err)
	}
	same(t, again, moreValues, times, values)
}

// TestDamage flips each bit of chunks, cuts them short and makes them longer.
func TestDamage(t *testing.T) {
	r := seed.Rand(t)
	for range 60 {
		n := 1 + r.IntN(150)
		data := check(t, randomTimes(r, n), randomValues(r, n))
		for i := range 8 * len(data) {
			data[i/8] ^= 1 << (i % 8)
			probe(t, data)
			data[i/8] ^= 1 << (i % 8)
		}
		for i := range data {
			if _, _, err := Decode(data[:i], nil, nil); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%d of %d bytes: %v", i, len(data), err)
			}
		}
		if _, _, err := Decode(append(data, 0), nil, nil); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a byte too many: %v", err)
		}
	}
}

// TestMutations changes some bytes of long chunks.
func TestMutations(t *testing.T) {
	r := seed.Rand(t)
	for range 60 {
		n := randomLength(r)
		data := check(t, randomTimes(r, n), randomValues(r, n))
		for range 40 {
			damaged := bytes.Clone(data)
			for range 1 + r.IntN(4) {
				i := r.IntN(len(data))
				if r.IntN(2) == 0 {
					i = r.IntN(min(len(data), 60)) // headers
				}
				damaged[i] = byte(r.IntN(256))
			}
			probe(t, damaged)
		}
	}
}

// fuzzSeeds are chunks of each shape.
func fuzzSeeds() (seeds [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		for _, n := range []int{1, 2, 20, 200} {
			next := shapes[name](r)
			values := make([]float64, n)
			for i := range values {
				values[i] = next()
			}
			seeds = append(seeds, Append(nil, randomTimes(r, n), values))
		}
	}
	return seeds
}

func FuzzDecode(f *testing.F) {
	for _, s := range fuzzSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) { probe(t, data) })
}

// FuzzRoundTrip takes samples from bytes: 1 byte for a step of time and 8 for a value, or 1 byte
// for each.
func FuzzRoundTrip(f *testing.F) {
	for i, s := range fuzzSeeds() {
		f.Add(s, int64(i)*1e17, uint8(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, first int64, exponent uint8, small bool) {
		times, values := []int64{first}, []float64{float64(first) / powers[exponent%16]}
		unit := int64(unitsOfTime[exponent%12])
		for len(data) >= 9 && len(times) < MaxSamples {
			next := times[len(times)-1] + (int64(data[0])+1)*unit
			if next <= times[len(times)-1] {
				break
			}
			times = append(times, next)
			if small {
				values = append(values, float64(int8(data[1]))/powers[exponent%16])
				data = data[2:]
			} else {
				values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(data[1:])))
				data = data[9:]
			}
		}
		check(t, times, values)
	})
}
