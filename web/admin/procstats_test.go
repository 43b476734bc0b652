package admin

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/proc"
)

// newMeter returns a procMeter of n procedures on a clock of the test, and a function that calls one of them.
func newMeter(t *testing.T, n int) (m *procMeter, clock *time.Time, call func(i, times int, fail bool)) {
	t.Helper()
	type in struct{ Fail bool }
	var all []*proc.Func[in, int]
	var list []proc.Procedure
	for i := range n {
		f := proc.DefineRead(fmt.Sprintf("p%04d", i), func(_ *proc.Tx, in in) (int, error) {
			if in.Fail {
				return 0, engine.Errorf("own", "as requested")
			}
			return 0, nil
		})
		all, list = append(all, f), append(list, f)
	}
	set, err := proc.New(testengine.Open(t, testengine.Options{Memory: true}), proc.Options{}, list...)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	m = newProcMeter(set, func() time.Time { return now })
	return m, &now, func(i, times int, fail bool) {
		t.Helper()
		for range times {
			if _, _, err := all[i].Call(t.Context(), set, in{fail}); (err != nil) != fail {
				t.Fatal(err)
			}
		}
	}
}

// TestProcMeter: rates are those of the last sample, recent numbers those of five minutes, and few samples are kept.
func TestProcMeter(t *testing.T) {
	t.Parallel()
	m, now, call := newMeter(t, 2)
	expect := func(rate float64, calls, errors, total uint64, recent time.Duration) {
		t.Helper()
		all, is := m.numbers()
		if n := all[0]; len(all) != 2 || n.Rate != rate || n.Recent.Calls != calls || n.Recent.Errors != errors || n.Total.Calls != total || is != recent {
			t.Errorf("at %v: rate %v, recent %d with %d errors, total %d, in %v; want %v, %d, %d, %d, %v", now.Format(time.TimeOnly), n.Rate, n.Recent.Calls, n.Recent.Errors, n.Total.Calls, is, rate, calls, errors, total, recent)
		}
		if n := all[1]; n.Rate != 0 || n.Total.Calls != 0 {
			t.Errorf("the other procedure has %+v", n)
		}
	}
	expect(0, 0, 0, 0, 0)
	call(0, 10, false)
	expect(0, 10, 0, 10, 0) // too early for a rate
	*now = now.Add(2 * time.Second)
	expect(5, 10, 0, 10, 2*time.Second)
	m.sample()
	call(0, 4, true)
	expect(7, 14, 4, 14, 2*time.Second) // the newest sample is too new
	*now = now.Add(4 * time.Second)
	expect(1, 14, 4, 14, 6*time.Second)
	for range 20 * 3 { // 20 minutes of samples that nobody watches
		*now = now.Add(20 * time.Second)
		m.sample()
		if n := len(m.kept); n > 8 {
			t.Fatalf("%d samples are kept", n)
		}
	}
	*now = now.Add(10 * time.Second)
	all, recent := m.numbers()
	if recent < procWindow || recent > procWindow+2*procEvery {
		t.Errorf("recent is %v", recent)
	}
	if n := all[0]; n.Recent.Calls != 0 || n.Recent.Took.Count != 0 || n.Total.Calls != 14 || procQuantile(n.Recent.Took, 0.99) != -1 || procQuantile(n.Total.Took, 0.99) <= 0 {
		t.Errorf("later: %+v", n)
	}
}

// TestProcMeterSizes: none, one and a thousand procedures work, and those without calls take up no histogram.
func TestProcMeterSizes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 1000} {
		m, now, call := newMeter(t, n)
		if n > 0 {
			call(n-1, 3, false)
		}
		*now = now.Add(time.Second)
		m.sample()
		all, _ := m.numbers()
		if len(all) != n || n > 0 && all[n-1].Total.Calls != 3 {
			t.Errorf("%d procedures have %d numbers", n, len(all))
		}
		for i, st := range m.last[1].stats {
			if has := st.Took.Counts != nil; has != (i == n-1) {
				t.Fatalf("%s has a histogram: %t", st.Name, has)
			}
		}
		lines := procedureLines(all, "P0", "-rate")
		if len(lines) != n || n > 0 && lines[0].Name != all[n-1].Total.Name {
			t.Errorf("%d procedures have %d lines", n, len(lines))
		}
	}
}

// TestProcTexts: bounds of run times, quantiles, shares and bars.
func TestProcTexts(t *testing.T) {
	t.Parallel()
	h := engine.Histogram{Bounds: []float64{2.5e-6, 1e-3, 5}, Counts: []uint64{50, 0, 48}, Count: 100, Sum: 100}
	for q, want := range map[float64]string{0: "≤ 2.5 µs", 0.5: "≤ 2.5 µs", 0.51: "≤ 5 s", 0.98: "≤ 5 s", 0.99: "> 5 s", 1: "> 5 s"} {
		if is := procTime(h, procQuantile(h, q)); is != want {
			t.Errorf("quantile %v is %q, want %q", q, is, want)
		}
	}
	if is := procTime(engine.Histogram{}, procQuantile(engine.Histogram{}, 0.5)); is != "–" {
		t.Errorf("the quantile of nothing is %q", is)
	}
	for seconds, want := range map[float64]string{0: "0 µs", 3.14159e-6: "3.14 µs", 999e-6: "999 µs", 1e-3: "1 ms", 0.25: "250 ms", 1: "1 s", 2.5: "2.5 s"} {
		if is := secondsText(seconds); is != want {
			t.Errorf("%v seconds are %q, want %q", seconds, is, want)
		}
	}
	for _, x := range []struct {
		part, whole uint64
		want        string
	}{{0, 0, "0 %"}, {0, 5, "0 %"}, {1, 3, "33.3 %"}, {5, 5, "100 %"}, {1, 5000, "< 0.1 %"}, {4999, 5000, "> 99.9 %"}, {1, math.MaxUint64, "< 0.1 %"}} {
		if is := shareText(x.part, x.whole); is != x.want {
			t.Errorf("%d of %d is %q, want %q", x.part, x.whole, is, x.want)
		}
	}
	want := []procBar{{"≤ 2.5 µs", 50, 100}, {"≤ 1 ms", 0, 0}, {"≤ 5 s", 48, 96}, {"> 5 s", 2, 4}}
	if is := procBars(proc.Stat{Took: h}); !slices.Equal(is, want) {
		t.Errorf("bars: %v, want %v", is, want)
	}
	h = engine.Histogram{Bounds: []float64{1, 2, 3}, Counts: []uint64{0, 7, 0}, Count: 7}
	if is := procBars(proc.Stat{Took: h}); !slices.Equal(is, []procBar{{"≤ 2 s", 7, 100}}) {
		t.Errorf("one bar: %v", is)
	}
	h.Counts[1] = 0
	if is := procBars(proc.Stat{Took: h}); !slices.Equal(is, []procBar{{"> 3 s", 7, 100}}) {
		t.Errorf("only long runs: %v", is)
	}
}
