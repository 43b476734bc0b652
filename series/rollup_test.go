package series

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

// clock is one that tests set.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d)) }

// hourly summarizes collection c.
func hourly() Collection {
	return Collection{Name: "hours", Rollup: &Rollup{Of: "c", Step: time.Hour, Aggregates: []Aggregate{Avg, Max, Count}}}
}

// summaries returns what a summary has, or should have: times and values by the text of labels.
func summaries(t *testing.T, s *Store) map[string]map[int64]uint64 {
	t.Helper()
	all, err := s.Select(t.Context(), Query{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[int64]uint64{}
	for _, x := range all {
		m := map[int64]uint64{}
		for i, at := range x.Times {
			m[at] = math.Float64bits(x.Values[i])
		}
		out[x.Labels.String()] = m
	}
	return out
}

func expected(t *testing.T, of *Store, r Rollup, until time.Time) map[string]map[int64]uint64 {
	t.Helper()
	all, err := of.Select(t.Context(), Query{To: until.Add(-1), Step: r.Step, Aggregates: r.Aggregates})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[int64]uint64{}
	for _, x := range all {
		for k, a := range r.Aggregates {
			m := map[int64]uint64{}
			for i, at := range x.Times {
				m[at] = math.Float64bits(x.Columns[k][i])
			}
			out[x.Labels.summary(a).String()] = m
		}
	}
	return out
}

func sameSummaries(a, b map[string]map[int64]uint64) bool {
	return maps.EqualFunc(a, b, func(a, b map[int64]uint64) bool { return maps.Equal(a, b) })
}

// fills waits until the windows before a time are summarized, and compares them.
func fills(t *testing.T, s, of *Store, until time.Time) {
	t.Helper()
	eventually.True(t, "the windows are summarized", func() bool { return s.rolledUntil() == until.UnixNano() })
	got, want := summaries(t, s), expected(t, of, *s.c.Rollup, until)
	if !sameSummaries(got, want) {
		t.Fatalf("%d summaries differ from the %d of the samples until %s", len(got), len(want), until)
	}
	if len(want) == 0 {
		t.Fatal("nothing is summarized")
	}
}

// TestRollup: a summary has what a query of the samples would return, after random samples over days, while they are sealed,
// and after a restart.
func TestRollup(t *testing.T) {
	rng := seed.Rand(t)
	eng := testengine.Open(t, testengine.Options{})
	c := &clock{}
	c.at.Store(now.UnixNano())
	o := Options{generation: 300, fanIn: 3, pause: 5 * time.Millisecond, Now: c.now}
	stores, stop := openUntil(t, eng, o, Collection{Name: "c", Retention: 30 * 24 * time.Hour}, hourly())
	for round := range 6 {
		of, s := stores[0], stores[1]
		var all []Labels
		for i := range 5 + round {
			all = append(all, labels(t, "m", "host", fmt.Sprint(i)))
		}
		ids, err := of.Define(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		// Samples are never so late that their window may be summarized: the first time at once those of two days,
		// with gaps, and then what is younger than the delay.
		span, batches := 48*time.Hour, 1
		if round > 0 {
			span, batches = defaultRollupDelay, 10
		}
		for range batches {
			var b Batch
			for range 1000 / batches {
				at := c.now().Add(-time.Duration(rng.Int64N(int64(span))))
				if edge := at.Truncate(time.Hour); rng.IntN(10) == 0 && c.now().Sub(edge) < span {
					at = edge
				}
				if at.Hour() != 3 {
					b.Add(ids[rng.IntN(len(ids))], at.UnixNano(), value(rng))
				}
			}
			if _, err := of.Append(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			if round > 0 {
				c.forward(time.Duration(rng.Int64N(int64(20 * time.Minute))))
			}
		}
		if round == 0 {
			fills(t, s, of, now.Add(-time.Hour)) // the hour before ends now, and is complete in 10 minutes
		}
		c.forward(3 * time.Hour)
		fills(t, s, of, time.Unix(0, windowOf(c.now().Add(-defaultRollupDelay).UnixNano(), int64(time.Hour))))
		if round == 3 {
			stop()
			stores, stop = openUntil(t, eng, o, Collection{Name: "c", Retention: 30 * 24 * time.Hour}, hourly())
			eventually.True(t, "the state is read again", func() bool { return stores[1].rolledUntil() > minTime })
		}
	}
}

// TestRollupLate: a sample that comes after its window was summarized counts when that is done again.
func TestRollupLate(t *testing.T) {
	c := &clock{}
	c.at.Store(now.UnixNano())
	s := open(t, testengine.Open(t, testengine.Options{}), Options{pause: 5 * time.Millisecond, Now: c.now}, Collection{Name: "c"}, hourly())
	ids, err := s[0].Define(t.Context(), []Labels{labels(t, "m")})
	if err != nil {
		t.Fatal(err)
	}
	add := func(ago time.Duration, v float64) {
		t.Helper()
		var b Batch
		b.Add(ids[0], now.Add(-ago).UnixNano(), v)
		if _, err := s[0].Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	add(5*time.Hour, 1)
	fills(t, s[1], s[0], now.Add(-time.Hour))
	add(5*time.Hour-time.Minute, 3)
	add(3*time.Hour, 4)
	add(time.Minute, 5) // its window is not complete
	before := summaries(t, s[1])
	if err := s[1].RollUp(t.Context(), now.Add(-4*time.Hour), now.Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := summaries(t, s[1]); len(got[`m:avg`]) != 2 || got[`m:avg`][now.Add(-5*time.Hour).UnixNano()] != before[`m:avg`][now.Add(-5*time.Hour).UnixNano()] {
		t.Errorf("the times that were named have %v", got)
	}
	if err := s[1].RollUp(t.Context(), time.Time{}, now); err != nil {
		t.Fatal(err)
	}
	fills(t, s[1], s[0], now.Add(-time.Hour))
}

// TestRollupFull: a summary with too little room has as many series as fit.
func TestRollupFull(t *testing.T) {
	few := hourly()
	few.MaxSeries = 4
	s := open(t, testengine.Open(t, testengine.Options{}), Options{pause: 5 * time.Millisecond}, Collection{Name: "c"}, few)
	ids, err := s[0].Define(t.Context(), []Labels{labels(t, "a"), labels(t, "b")})
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	for _, id := range ids {
		b.Add(id, now.Add(-5*time.Hour).UnixNano(), 1)
	}
	if _, err := s[0].Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the windows are summarized", func() bool { return s[1].rolledUntil() == now.Add(-time.Hour).UnixNano() })
	if got := summaries(t, s[1]); len(got) != 4 {
		t.Errorf("%d summaries", len(got))
	}
}

// TestRollupRefused: options that make no sense, and samples of others.
func TestRollupRefused(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	f, err := feed.New(eng, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := New(eng, Options{Feed: f})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Collection{{Name: "c"}, hourly()} {
		if _, err := db.Use(c); err != nil {
			t.Fatal(err)
		}
	}
	for want, r := range map[string]Rollup{
		`summarizes "x", which is not in use; there are: [c hours]`: {Of: "x", Step: time.Hour, Aggregates: []Aggregate{Avg}},
		"summarizes hours, which is a summary itself":               {Of: "hours", Step: time.Hour, Aggregates: []Aggregate{Avg}},
		"has the step 1ms, below 1s":                                {Of: "c", Step: time.Millisecond, Aggregates: []Aggregate{Avg}},
		"has a negative delay":                                      {Of: "c", Step: time.Hour, Delay: -1, Aggregates: []Aggregate{Avg}},
		"has 0 aggregates, not 1 to 20":                             {Of: "c", Step: time.Hour},
		"has 21 aggregates, not 1 to 20":                            {Of: "c", Step: time.Hour, Aggregates: slices.Repeat([]Aggregate{Avg}, 21)},
		"the percentile 101 is not between 0 and 100":               {Of: "c", Step: time.Hour, Aggregates: []Aggregate{Percentile(101)}},
	} {
		if _, err := db.Use(Collection{Name: "new", Rollup: &r}); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s, err := db.Collection("hours")
	if err != nil {
		t.Fatal(err)
	}
	const refused = "collection hours is a summary of c, and takes no other samples"
	if _, err := s.Define(t.Context(), []Labels{labels(t, "m")}); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), refused) {
		t.Error(err)
	}
	var b Batch
	b.Add(1, now.UnixNano(), 1)
	if _, err := s.Append(t.Context(), &b); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), refused) {
		t.Error(err)
	}
	c, err := db.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RollUp(t.Context(), now, now); err == nil || !strings.Contains(err.Error(), "collection c summarizes no other") {
		t.Error(err)
	}
}
