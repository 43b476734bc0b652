package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/series"
)

// listSet is series of Prometheus's own lists.
type listSet struct {
	storage.SeriesSet
	all []storage.Series
}

func (s *listSet) Next() bool {
	if len(s.all) == 0 {
		return false
	}
	s.SeriesSet = storage.TestSeriesSet(s.all[0])
	s.all = s.all[1:]
	return true
}

// reference is a storage of Prometheus's own lists of samples.
func reference(all []prompb.TimeSeries) storage.Queryable {
	var list []storage.Series
	for _, ts := range all {
		var pairs []string
		for _, l := range ts.Labels {
			pairs = append(pairs, l.Name, l.Value)
		}
		var samples []chunks.Sample
		for _, s := range ts.Samples {
			samples = append(samples, &sample{s.Timestamp, s.Value})
		}
		list = append(list, storage.NewListSeries(labels.FromStrings(pairs...), samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(sorted bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
			set := &listSet{SeriesSet: storage.EmptySeriesSet()}
			for _, s := range list {
				if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
					set.all = append(set.all, s)
				}
			}
			slices.SortFunc(set.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
			return set
		},
	}}
}

// random returns series with gaps, resets, stale markers and odd values. They are written in another order.
func random(rng *rand.Rand) (all []prompb.TimeSeries) {
	for i := range 12 {
		ts := of(nil, "__name__", []string{"n", "m"}[i%2], "h", strconv.Itoa(i%4), "job", []string{"x", "y", "z"}[i%3])
		at, v := start.UnixMilli()+rng.Int64N(15_000), 0.0
		for range rng.IntN(150) {
			at += 1 + rng.Int64N(30_000)
			switch rng.IntN(25) {
			case 0:
				at += 10 * 60_000
			case 1:
				v = 0
			case 2:
				v = []float64{math.NaN(), math.Inf(1), -5, 1e6, math.Float64frombits(value.StaleNaN)}[rng.IntN(5)]
			default:
				v += float64(rng.IntN(100)) / 4
			}
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at, Value: v})
		}
		all = append(all, ts)
	}
	return all
}

// expression returns a random expression.
func expression(rng *rand.Rand) string {
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	selector := pick("n", "m", `{__name__=~"n|m"}`, "n", "m") + pick("", `{h="1"}`, `{h!="2"}`, `{job=~"x|y"}`, `{job!~"x.*",h=~".+"}`, `{nothing=""}`)
	if selector[0] == '{' {
		selector = `{__name__=~"n|m",job="z"}`
	}
	offset := pick("", "", " offset 3m", " offset -2m", " @ 1700001000")
	over := pick("[1m]", "[5m]", "[90s]", "[10m:1m]", "[7m:25s]") + offset
	switch rng.IntN(6) {
	case 0:
		return selector + offset
	case 1:
		return pick("rate", "increase", "delta", "irate", "changes", "resets", "deriv") + "(" + selector + over + ")"
	case 2:
		return pick("avg", "min", "max", "sum", "count", "stddev", "last", "present", "first") + "_over_time(" + selector + over + ")"
	case 3:
		return pick("sum", "avg", "max", "count", "min", "group") + pick("", " by (h)", " without (job)", " by (__name__)") + " (" + selector + offset + ")"
	case 4:
		return "quantile_over_time(0.9, " + selector + over + ")"
	}
	return "n" + offset + pick(" + ", " / ", " > ", " and ", " unless ") + "on (h, job) group_left " + "n"
}

// TestAgainstPrometheus: random queries of random samples have the results that Prometheus's engine has on lists.
func TestAgainstPrometheus(t *testing.T) {
	rng := seed.Rand(t)
	s := plain(t)
	all := random(rng)
	shuffled := slices.Clone(all)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, ts := range shuffled {
		half := rng.IntN(len(ts.Samples) + 1)
		late, early := ts, ts
		late.Samples, early.Samples = ts.Samples[half:], ts.Samples[:half]
		s.write(late).is(204)
		s.write(early).is(204)
	}
	ref := reference(all)
	compare := func(q promql.Query, err error, got *reply) {
		t.Helper()
		if err != nil {
			got.is(400)
			return
		}
		defer q.Close()
		want := q.Exec(context.Background())
		if want.Err != nil {
			if got.Code == 200 {
				t.Errorf("%s: %s, want %v", q, got.Body, want.Err)
			}
			return
		}
		text, err := json.Marshal(want.Value)
		must(t, err)
		var data struct{ Result json.RawMessage }
		must(t, json.Unmarshal([]byte(got.data()), &data))
		if a, b := sorted(t, data.Result), sorted(t, text); !slices.Equal(a, b) {
			t.Errorf("%s:\n%.1500s\nwant\n%.1500s", q, a, b)
		}
	}
	for range 200 {
		text := expression(rng)
		from := start.Add(time.Duration(rng.IntN(3_000_000)) * time.Millisecond)
		q, err := s.face.engine.NewInstantQuery(t.Context(), ref, nil, text, from)
		compare(q, err, s.get("query", "query", text, "time", seconds(from)))
		step := time.Duration(1+rng.IntN(300_000)) * time.Millisecond
		to := from.Add(step * time.Duration(rng.IntN(30)))
		q, err = s.face.engine.NewRangeQuery(t.Context(), ref, nil, text, from, to, step)
		compare(q, err, s.get("query_range", "query", text, "start", seconds(from), "end", seconds(to), "step", step.String()))
	}
}

// sorted returns the series of a result, of which instant queries promise no order.
func sorted(t *testing.T, result []byte) []string {
	t.Helper()
	var list []json.RawMessage
	must(t, json.Unmarshal(result, &list))
	var out []string
	for _, x := range list {
		out = append(out, string(x))
	}
	slices.Sort(out)
	return out
}

func seconds(t time.Time) string { return fmt.Sprintf("%d.%03d", t.Unix(), t.UnixMilli()%1000) }

// TestSeek: an iterator that seeks and goes on at random is where one over a list of milliseconds is.
func TestSeek(t *testing.T) {
	rng := seed.Rand(t)
	for range 500 {
		var times []int64
		var vs []float64
		var list []chunks.Sample
		at := rng.Int64N(20*milli) - 10*milli
		for i := range rng.IntN(30) {
			at += 1 + rng.Int64N(2*milli)
			times, vs = append(times, at), append(vs, float64(i))
			ms := int64(math.Floor(float64(at) / float64(milli)))
			if n := len(list); n > 0 && list[n-1].T() == ms {
				list = list[:n-1]
			}
			list = append(list, &sample{ms, float64(i)})
		}
		x := series.Series{Times: times, Values: vs}
		perMilli(&x)
		it := entry{series: x}.Iterator(nil)
		want := storage.NewListSeries(labels.EmptyLabels(), list).Iterator(nil)
		for step := range 40 {
			var a, b chunkenc.ValueType
			what := "Next"
			if rng.IntN(2) == 0 {
				a, b = it.Next(), want.Next()
			} else {
				to := rng.Int64N(60) - 15
				what = fmt.Sprint("Seek ", to)
				a, b = it.Seek(to), want.Seek(to)
			}
			if a != b {
				t.Fatalf("%v: step %d, %s: %v, want %v", times, step, what, a, b)
			}
			if a == chunkenc.ValNone {
				break
			}
			at, v := it.At()
			wantAt, wantV := want.At()
			if at != wantAt || v != wantV || it.AtT() != at {
				t.Fatalf("%v: step %d, %s: %d %v, want %d %v", times, step, what, at, v, wantAt, wantV)
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
}
