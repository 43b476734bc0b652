package series

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
)

// TestMatchers: the index finds what comparing every series finds.
func TestMatchers(t *testing.T) {
	rng := seed.Rand(t)
	s := open(t, testengine.Open(t, testengine.Options{}), Options{}, Collection{Name: "c"})[0]
	var all []Labels
	for i := range 200 {
		var l []Label
		for _, name := range []string{"host", "region", "rack"} {
			if rng.IntN(3) > 0 {
				l = append(l, Label{name, string(rune('a' + rng.IntN(6)))})
			}
		}
		x, err := NewLabels(fmt.Sprintf("m%d", i%40), l...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	if _, err := s.Define(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	distinct := map[string]Labels{}
	for _, l := range all {
		distinct[l.String()] = l
	}
	values := []string{"a", "b", "f", "z", "", "a|b", "a|", "[a-c]", ".*", ".+", "x|y", "(a|b)", "m1.*", "m3"}
	for range 500 {
		var match []Matcher
		for range rng.IntN(4) {
			name := []string{"host", "region", "rack", "nothing", NameLabel}[rng.IntN(5)]
			m, err := NewMatcher(name, Op(rng.IntN(4)), values[rng.IntN(len(values))])
			if err != nil {
				t.Fatal(err)
			}
			match = append(match, m)
		}
		var want []string
		for text, l := range distinct {
			if matchesAll(match, l) {
				want = append(want, text)
			}
		}
		found, err := s.Find(t.Context(), match, engine.Read{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range found {
			got = append(got, l.String())
		}
		sort.Strings(got)
		sort.Strings(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%v finds %d series, want %d: %v, want %v", match, len(got), len(want), got, want)
		}
	}
}

// TestSorter: it does what a stable sort does, of any runs.
func TestSorter(t *testing.T) {
	rng := seed.Rand(t)
	var sort sorter
	var cols columns
	for range 2000 {
		var in []Sample
		spread := 1 + rng.Int64N(50)
		for range rng.IntN(20) {
			at := rng.Int64N(spread)
			for range 1 + rng.IntN(10) {
				in = append(in, Sample{at, float64(len(in))})
				at += rng.Int64N(3)
			}
		}
		var want columns
		sorted := slices.Clone(in)
		slices.SortStableFunc(sorted, func(a, b Sample) int { return cmp.Compare(a.Time, b.Time) })
		for i, x := range sorted {
			if i+1 == len(sorted) || sorted[i+1].Time != x.Time {
				want.add(x)
			}
		}
		sort.add(in...)
		sort.columns(&cols)
		if !slices.Equal(cols.times, want.times) || !slices.Equal(cols.values, want.values) {
			t.Fatalf("%v becomes %v, want %v", in, cols, want)
		}
	}
}

// TestAggregates: windows have what a plain computation gives.
func TestAggregates(t *testing.T) {
	rng := seed.Rand(t)
	for range 300 {
		var c columns
		at := int64(rng.IntN(2000) - 1000)
		for range rng.IntN(100) {
			at += 1 + int64(rng.IntN(50))
			v := float64(rng.IntN(1000)) / 10
			if rng.IntN(10) == 0 {
				v = math.NaN()
			}
			c.add(Sample{at, v})
		}
		step := 1 + int64(rng.IntN(200))
		p := float64(rng.IntN(101))
		list := []Aggregate{Count, Sum, Avg, Min, Max, First, Last, Percentile(p)}
		times, columns, err := aggregate(c, step, list)
		if err != nil {
			t.Fatal(err)
		}
		want := map[int64][]float64{}
		for i, x := range c.times {
			if v := c.values[i]; v == v {
				from := int64(math.Floor(float64(x)/float64(step))) * step
				want[from] = append(want[from], v)
			}
		}
		if len(times) != len(want) {
			t.Fatalf("%d windows, want %d", len(times), len(want))
		}
		for i, from := range times {
			for j, expected := range plain(want[from], p) {
				if got := columns[j][i]; math.Abs(got-expected) > 1e-9 {
					t.Fatalf("%s of %v is %v, want %v", list[j], want[from], got, expected)
				}
			}
		}
	}
}

// TestLargeMean: values whose sum is no float64 have a mean all the same.
func TestLargeMean(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
		{[]float64{-math.MaxFloat64, math.NaN(), -math.MaxFloat64, -math.MaxFloat64}, -math.MaxFloat64},
		{[]float64{inf, 1}, inf},
		{[]float64{math.MaxFloat64, math.MaxFloat64, -inf}, -inf},
	} {
		var in columns
		for i, v := range c.values {
			in.add(Sample{int64(i), v})
		}
		_, out, err := aggregate(in, 100, []Aggregate{Avg})
		if err != nil || len(out[0]) != 1 || math.Abs(out[0][0]/c.want-1) > 1e-15 && out[0][0] != c.want {
			t.Errorf("the mean of %v is %v, want %v: %v", c.values, out, c.want, err)
		}
	}
}

// plain returns the aggregates of TestAggregates.
func plain(v []float64, p float64) []float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	sorted := slices.Sorted(slices.Values(v))
	at := p / 100 * float64(len(v)-1)
	lo, hi := int(math.Floor(at)), int(math.Ceil(at))
	return []float64{
		float64(len(v)), sum, sum / float64(len(v)), sorted[0], sorted[len(v)-1], v[0], v[len(v)-1],
		sorted[lo] + (sorted[hi]-sorted[lo])*(at-float64(lo)),
	}
}

func TestParseAggregate(t *testing.T) {
	for _, name := range []string{"count", "sum", "avg", "min", "max", "first", "last", "p50", "p99.9", "p0", "p100"} {
		if a, err := ParseAggregate(name); err != nil || a.String() != name {
			t.Errorf("%s is %s, %v", name, a, err)
		}
	}
	for _, name := range []string{"", "p", "p101", "p-1", "pNaN", "median", "Count"} {
		if _, err := ParseAggregate(name); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("%s is %v, want invalid", name, err)
		}
	}
}

// TestWindows: windows at the ends of time do not wrap around.
func TestWindows(t *testing.T) {
	for _, at := range []int64{minTime, minTime + 1, -1, 0, 1, maxTime} {
		for _, step := range []int64{1, 7, int64(time.Hour), maxTime} {
			from := windowOf(at, step)
			if from > at || at-from >= step && from != minTime {
				t.Errorf("the window of %d by %d begins at %d", at, step, from)
			}
		}
	}
	for _, at := range []int64{minTime, -1, 0, bucketLen - 1, bucketLen, maxTime} {
		from, to := bucketSpan(bucketOf(at))
		if at < from || at > to {
			t.Errorf("the bucket of %d is from %d to %d", at, from, to)
		}
	}
}

// TestBounds: times outside of the window, the retention or the future are refused, and old samples are not returned.
func TestBounds(t *testing.T) {
	var c clock
	c.at.Store(now.UnixNano())
	eng := testengine.Open(t, testengine.Options{})
	stores := open(t, eng, Options{Now: c.now, generation: 1, pause: time.Millisecond},
		Collection{Name: "kept", Retention: 48 * time.Hour, Window: time.Hour}, Collection{Name: "any"})
	kept, whole := stores[0], stores[1]
	ids, err := kept.Define(t.Context(), []Labels{labels(t, "m")})
	if err != nil {
		t.Fatal(err)
	}
	add := func(s *Store, at time.Time) error {
		var b Batch
		b.Add(ids[0], nanos(at), 1)
		_, err := s.Append(t.Context(), &b)
		return err
	}
	for _, c := range []struct {
		at   time.Time
		want engine.Code
	}{
		{now, ""}, {now.Add(-time.Hour), ""}, {now.Add(-time.Hour - checkedWithin - 1), CodeTooOld}, {time.Unix(0, minTime), CodeTooOld},
		{now.Add(10 * time.Minute), ""}, {now.Add(10*time.Minute + 1), CodeTooNew}, {time.Unix(0, maxTime), CodeTooNew},
	} {
		if err := add(kept, c.at); engine.CodeOf(err) != c.want && (err != nil || c.want != "") {
			t.Errorf("%s: %v, want %q", c.at, err, c.want)
		}
	}
	if err := kept.Check(nanos(now.Add(-time.Hour - 1))); engine.CodeOf(err) != CodeTooOld {
		t.Errorf("a sample before the window: %v", err)
	}
	if ids, err = whole.Define(t.Context(), []Labels{labels(t, "m")}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Unix(0, minTime), time.Unix(0, -1), time.Unix(0, 0)} {
		if err := add(whole, at); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	if got := count(t, kept, Query{}); got != 3 {
		t.Errorf("%d samples, want 3", got)
	}
	c.forward(47*time.Hour + 30*time.Minute)
	if got := count(t, kept, Query{}); got != 2 {
		t.Errorf("%d samples after half the oldest hour has expired, want 2", got)
	}
	if got := count(t, whole, Query{}); got != 3 {
		t.Errorf("%d samples of any age, want 3", got)
	}
}

func count(t *testing.T, s *Store, q Query) (n int) {
	t.Helper()
	list, err := s.Select(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		n += len(x.Times)
	}
	return n
}

// TestLimits: each limit has its code, and nothing is stored beyond it.
func TestLimits(t *testing.T) {
	s := open(t, testengine.Open(t, testengine.Options{}), Options{}, Collection{Name: "c", MaxSeries: 3})[0]
	var five []Labels
	for i := range 5 {
		five = append(five, labels(t, "m", "i", fmt.Sprint(i)))
	}
	ids, err := s.Define(t.Context(), five)
	if engine.CodeOf(err) != CodeTooManySeries {
		t.Errorf("five series where three may be: %v", err)
	}
	if !slices.Equal(ids, []ID{1, 2, 3, 0, 0}) {
		t.Errorf("the ids are %v", ids)
	}
	if again, err := s.Define(t.Context(), five[:3]); err != nil || !slices.Equal(again, []ID{1, 2, 3}) {
		t.Errorf("the same ones again: %v, %v", again, err)
	}
	var b Batch
	for i := range MaxBatchSamples + 1 {
		b.Add(1, now.UnixNano()-int64(i), 1)
	}
	if _, err := s.Append(t.Context(), &b); engine.CodeOf(err) != CodeBatchTooLarge {
		t.Errorf("a large batch: %v", err)
	}
	for _, q := range []Query{
		{Match: make([]Matcher, MaxMatchers+1)}, {Step: -1}, {Step: time.Second}, {Aggregates: []Aggregate{Avg}},
		{Step: time.Second, Aggregates: make([]Aggregate, MaxAggregates+1)}, {Step: 1, Aggregates: []Aggregate{{}}},
		{From: now, To: now.Add(-1)}, {Step: 1, Aggregates: []Aggregate{Percentile(101)}},
	} {
		if _, err := s.Select(t.Context(), q); engine.CodeOf(err) != engine.CodeLimit && engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("%+v: %v", q, err)
		}
	}
	b.Reset()
	for i := range MaxWindows + 1 {
		b.Add(1, now.UnixNano()-int64(i), 1)
	}
	if _, err := s.Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Select(t.Context(), Query{Step: 1, Aggregates: []Aggregate{Avg}}); engine.CodeOf(err) != CodeQueryLimit {
		t.Errorf("many windows: %v", err)
	}
}

// TestFullHead: samples that would not fit in memory are refused, and those that were acknowledged stay.
func TestFullHead(t *testing.T) {
	s := open(t, testengine.Open(t, testengine.Options{}), Options{headSamples: 10}, Collection{Name: "c"})[0]
	ids, err := s.Define(t.Context(), []Labels{labels(t, "m")})
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for stored <= 100 {
		var b Batch
		for i := range 4 {
			b.Add(ids[0], now.UnixNano()+int64(stored+i), 1)
		}
		if _, err = s.Append(t.Context(), &b); err != nil {
			break
		}
		stored += 4
	}
	if engine.CodeOf(err) != CodeBusy || stored < 10 {
		t.Errorf("after %d samples: %v", stored, err)
	}
	list, err := s.Select(t.Context(), Query{})
	if err != nil || len(list) != 1 || len(list[0].Times) != stored {
		t.Errorf("%d samples were stored; %v %v", stored, list, err)
	}
}

// TestPositionNeverReached: a read of a position that the engine does not have ends with a code.
func TestPositionNeverReached(t *testing.T) {
	s := open(t, testengine.Open(t, testengine.Options{}), Options{positionWait: time.Millisecond}, Collection{Name: "c"})[0]
	read := engine.Read{Level: engine.Session, AtLeast: 1 << 40}
	if _, err := s.Select(t.Context(), Query{Read: read}); !errors.Is(err, engine.ErrPositionTimeout) {
		t.Errorf("Select: %v", err)
	}
	if _, err := s.Latest(t.Context(), nil, 0, read); !errors.Is(err, engine.ErrPositionTimeout) {
		t.Errorf("Latest: %v", err)
	}
	if _, err := s.LabelNames(t.Context(), nil, read); !errors.Is(err, engine.ErrPositionTimeout) {
		t.Errorf("LabelNames: %v", err)
	}
}

// TestLabels: what is no set of labels is refused by name.
func TestLabels(t *testing.T) {
	long := string(make([]byte, MaxValueBytes+1))
	many := make([]Label, MaxLabels)
	for i := range many {
		many[i] = Label{fmt.Sprint("l", i), "x"}
	}
	for _, c := range [][]Label{
		{{"", "x"}}, {{"a", "1"}, {"a", "2"}}, {{NameLabel, "again"}}, {{long[:MaxNameBytes+1], "x"}}, {{"a", long}}, {{"a", "\xff"}}, many,
	} {
		if _, err := NewLabels("m", c...); engine.CodeOf(err) != CodeLabels {
			t.Errorf("%.60v: %v", c, err)
		}
	}
	if _, err := NewLabels(""); engine.CodeOf(err) != CodeLabels {
		t.Errorf("no labels: %v", err)
	}
	l, err := NewLabels("m", Label{"b", "2"}, Label{"a", `"`}, Label{"none", ""})
	if err != nil || l.String() != `m{a="\"",b="2"}` {
		t.Errorf("%s, %v", l, err)
	}
}

// TestBatch: a batch reads back as it was written, and a damaged one does not panic.
func TestBatch(t *testing.T) {
	rng := seed.Rand(t)
	for range 200 {
		var b Batch
		type entry struct {
			id   uint32
			at   int64
			bits uint64
		}
		var want []entry
		for range 1 + rng.IntN(50) {
			e := entry{1 + rng.Uint32N(MaxSeries-1), int64(rng.Uint64()) >> rng.IntN(64), math.Float64bits(value(rng))}
			if len(want) > 0 && rng.IntN(2) == 0 {
				e.at = want[len(want)-1].at
			}
			if len(want) > 0 && rng.IntN(2) == 0 {
				e.id = max(1, want[len(want)-1].id+rng.Uint32N(80)-40)
				e.bits = math.Float64bits(float64(1<<rng.IntN(16) - rng.IntN(2)))
			}
			b.Add(ID(e.id), e.at, math.Float64frombits(e.bits))
			want = append(want, e)
		}
		data := append(b.encodeHeader(), b.data...)
		r, ok := readBatch(data)
		var got []entry
		for ok && r.next() {
			got = append(got, entry{r.id, r.s.Time, math.Float64bits(r.s.Value)})
		}
		if r.left != 0 || !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		damage(data, rng)
		if r, ok := readBatch(data[:rng.IntN(len(data)+1)]); ok {
			for r.next() {
			}
		}
	}
}

func damage(b []byte, rng *rand.Rand) { b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255)) }

// TestBlock: a block reads back, and any damage is found.
func TestBlock(t *testing.T) {
	rng := seed.Rand(t)
	var w blockWriter
	for id := uint32(7); id < 50; id += rng.Uint32N(5) {
		w.add(id, []int64{1, 2, 3}, []float64{1, value(rng), value(rng)})
	}
	n, last := w.n, w.last
	b := w.finish()
	entries, ok := readBlock(b)
	if !ok || len(entries) != n || entries[0].id != 7 || entries[n-1].id != last {
		t.Fatalf("the block reads back as %d chunks, %v", len(entries), ok)
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= byte(1 + rng.IntN(255))
		if _, ok := readBlock(bad); ok {
			t.Errorf("damage of byte %d is not found", i)
		}
		if _, ok := readBlock(b[:i]); ok {
			t.Errorf("a block cut at %d is accepted", i)
		}
	}
}
