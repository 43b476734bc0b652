package prometheus

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
)

const milli = int64(time.Millisecond)

// queryable is a store for Prometheus's engine. Times there are milliseconds: of several samples within one the last
// counts.
type queryable struct{ store *series.Store }

// Querier implements storage.Queryable.
func (q queryable) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{q.store, mint, maxt}, nil
}

type querier struct {
	store      *series.Store
	mint, maxt int64
}

// Select implements storage.Querier.
func (q querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	from, to := q.mint, q.maxt
	if hints != nil {
		from, to = max(from, hints.Start), min(to, hints.End)
	}
	if from > to {
		return storage.EmptySeriesSet()
	}
	match, err := matchers(ms)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	list, err := q.store.Select(ctx, series.Query{Match: match, From: time.UnixMilli(from), To: time.UnixMilli(to).Add(time.Millisecond - 1)})
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	set := &seriesSet{at: -1, all: make([]entry, len(list))}
	b := labels.NewScratchBuilder(16)
	for i, s := range list {
		perMilli(&s)
		set.all[i] = entry{labelsOf(&b, s.Labels), s}
	}
	if sorted {
		slices.SortFunc(set.all, func(a, b entry) int { return labels.Compare(a.labels, b.labels) })
	}
	return set
}

func labelsOf(b *labels.ScratchBuilder, l series.Labels) labels.Labels {
	b.Reset()
	for _, x := range l {
		b.Add(x.Name, x.Value)
	}
	b.Sort()
	return b.Labels()
}

// LabelValues implements storage.LabelQuerier.
func (q querier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	match, err := matchers(ms)
	if err != nil {
		return nil, nil, err
	}
	list, err := q.store.LabelValues(ctx, name, match, engine.Read{})
	return list, nil, err
}

// LabelNames implements storage.LabelQuerier.
func (q querier) LabelNames(ctx context.Context, _ *storage.LabelHints, ms ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	match, err := matchers(ms)
	if err != nil {
		return nil, nil, err
	}
	list, err := q.store.LabelNames(ctx, match, engine.Read{})
	return list, nil, err
}

// Close implements storage.LabelQuerier.
func (querier) Close() error { return nil }

// seriesSet is a list of series.
type seriesSet struct {
	all []entry
	at  int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.all) }
func (s *seriesSet) At() storage.Series                { return s.all[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// entry is one series.
type entry struct {
	labels labels.Labels
	series series.Series
}

func (e entry) Labels() labels.Labels { return e.labels }

func (e entry) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(&samples{times: e.series.Times, values: e.series.Values})
}

// perMilli makes times milliseconds, of which each has the last of its samples.
func perMilli(s *series.Series) {
	n := 0
	for i, t := range s.Times {
		ms := toMillis(t)
		if n > 0 && s.Times[n-1] == ms {
			n--
		}
		s.Times[n], s.Values[n] = ms, s.Values[i]
		n++
	}
	s.Times, s.Values = s.Times[:n], s.Values[:n]
}

func toMillis(t int64) int64 {
	if ms := t / milli; t >= 0 || ms*milli == t {
		return ms
	}
	return t/milli - 1
}

// samples is a list of samples for one iterator, which uses each before it gets the next.
type samples struct {
	times  []int64 // milliseconds
	values []float64
	one    sample
}

func (s *samples) Len() int { return len(s.times) }

func (s *samples) Get(i int) chunks.Sample {
	s.one = sample{s.times[i], s.values[i]}
	return &s.one
}

type sample struct {
	t int64
	v float64
}

func (s *sample) ST() int64                     { return 0 }
func (s *sample) T() int64                      { return s.t }
func (s *sample) F() float64                    { return s.v }
func (s *sample) H() *histogram.Histogram       { return nil }
func (s *sample) FH() *histogram.FloatHistogram { return nil }
func (s *sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s *sample) Copy() chunks.Sample           { c := *s; return &c }
