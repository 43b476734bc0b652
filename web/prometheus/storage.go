package prometheus

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
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

func (e entry) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	if reused, ok := it.(*iterator); ok {
		*reused = iterator{times: e.series.Times, values: e.series.Values, at: -1}
		return reused
	}
	return &iterator{times: e.series.Times, values: e.series.Values, at: -1}
}

// iterator iterates over samples, one a millisecond.
type iterator struct {
	times  []int64
	values []float64
	at     int
}

func toMillis(t int64) int64 {
	if ms := t / milli; t >= 0 || ms*milli == t {
		return ms
	}
	return t/milli - 1
}

func (i *iterator) Next() chunkenc.ValueType {
	if i.at >= len(i.times) {
		return chunkenc.ValNone
	}
	i.at++
	for i.at+1 < len(i.times) && toMillis(i.times[i.at+1]) == toMillis(i.times[i.at]) {
		i.at++
	}
	if i.at >= len(i.times) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

func (i *iterator) Seek(t int64) chunkenc.ValueType {
	if i.at >= len(i.times) {
		return chunkenc.ValNone
	}
	if i.at >= 0 && i.AtT() >= t {
		return chunkenc.ValFloat
	}
	n, _ := slices.BinarySearchFunc(i.times[max(i.at, 0):], t, func(at, t int64) int {
		if toMillis(at) < t {
			return -1
		}
		return 1
	})
	i.at = max(i.at, 0) + n - 1
	return i.Next()
}

func (i *iterator) At() (int64, float64) { return i.AtT(), i.values[i.at] }
func (i *iterator) AtT() int64           { return toMillis(i.times[i.at]) }
func (i *iterator) AtST() int64          { return 0 }
func (i *iterator) Err() error           { return nil }

func (i *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return i.AtT(), nil // Next never returns its type
}

func (i *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return i.AtT(), nil
}
