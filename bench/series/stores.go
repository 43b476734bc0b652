package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"

	"github.com/skerrydb/skerry/bench/tsbs"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/timeseries/lineproto"
)

// sample is one value of the series with an index.
type sample struct {
	of   int
	time int64
	v    float64
}

// data is parsed batches of lines, and the series in them.
type data struct {
	labels  []series.Labels
	batches [][]sample
	index   map[string][]int // of the series of each field, by the series of a line
}

// read parses up to some batches of a generator's lines.
func read(g *tsbs.Generator, batches int) (*data, error) {
	d := &data{index: map[string][]int{}}
	known := map[string]int{}
	var parser lineproto.Parser
	var line lineproto.Line
	for range batches {
		text := g.Append(nil, batchLines)
		if len(text) == 0 {
			break
		}
		var batch []sample
		for len(text) > 0 {
			var one []byte
			one, text = lineproto.NextLine(text)
			if err := parser.Parse(one, time.Nanosecond, &line); err != nil {
				return nil, err
			}
			for _, f := range line.Fields {
				if f.Kind == lineproto.String {
					continue
				}
				key := string(line.Series) + "\x00" + string(f.Key)
				i, ok := known[key]
				if !ok {
					var tags []series.Label
					name, err := lineproto.SplitSeries(line.Series, func(k, v []byte) { tags = append(tags, series.Label{Name: string(k), Value: string(v)}) })
					if err != nil {
						return nil, err
					}
					l, err := series.NewLabels(string(name)+"_"+string(f.Key), tags...)
					if err != nil {
						return nil, err
					}
					i = len(d.labels)
					known[key], d.labels = i, append(d.labels, l)
				}
				batch = append(batch, sample{i, line.Time, f.Value})
			}
		}
		d.batches = append(d.batches, batch)
	}
	return d, nil
}

func (d *data) values() (n int) {
	for _, b := range d.batches {
		n += len(b)
	}
	return n
}

// skerry is a collection on an engine in this process.
type skerry struct {
	store *series.Store
	close func() error
}

func openSkerry(dir string) (*skerry, error) {
	eng, err := embedded.Open(dir, embedded.Options{SpillBytes: 32 << 10})
	if err != nil {
		return nil, err
	}
	return openOn(eng)
}

// openOn returns a collection on an engine, which it closes.
func openOn(eng engine.Engine) (*skerry, error) {
	db, err := series.New(eng, series.Options{})
	if err != nil {
		return nil, err
	}
	store, err := db.Use(series.Collection{Name: "bench"})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work errgroup.Group
	work.Go(func() error { return db.Run(ctx) })
	return &skerry{store, func() error { cancel(); _ = work.Wait(); return eng.Close() }}, nil
}

// write stores all batches, and returns how long that took after the series were defined.
func (s *skerry) write(ctx context.Context, d *data) (time.Duration, error) {
	ids, err := s.define(ctx, d.labels)
	if err != nil {
		return 0, err
	}
	from := time.Now()
	var b series.Batch
	for _, batch := range d.batches {
		b.Reset()
		for _, v := range batch {
			b.Add(ids[v.of], v.time, v.v)
		}
		if _, err := s.store.Append(ctx, &b); err != nil {
			return 0, err
		}
	}
	return time.Since(from), nil
}

func (s *skerry) define(ctx context.Context, all []series.Labels) (ids []series.ID, err error) {
	for some := range slices.Chunk(all, series.MaxDefine) {
		more, err := s.store.Define(ctx, some)
		if err != nil {
			return nil, err
		}
		ids = append(ids, more...)
	}
	return ids, nil
}

func openProm(dir string) (*tsdb.DB, error) {
	o := tsdb.DefaultOptions()
	o.OutOfOrderTimeWindow = (24 * time.Hour).Milliseconds()
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, o, nil)
	if err == nil {
		db.DisableCompactions()
	}
	return db, err
}

func promLabels(l series.Labels) labels.Labels {
	b := labels.NewScratchBuilder(len(l))
	for _, one := range l {
		b.Add(one.Name, one.Value)
	}
	b.Sort()
	return b.Labels()
}

// writeProm commits all batches. Series are known by their references after their first sample, as in a scrape.
func writeProm(ctx context.Context, db *tsdb.DB, d *data, sync bool) (time.Duration, error) {
	all, refs := make([]labels.Labels, len(d.labels)), make([]storage.SeriesRef, len(d.labels))
	for i, l := range d.labels {
		all[i] = promLabels(l)
	}
	from := time.Now()
	for _, batch := range d.batches {
		a := db.Appender(ctx)
		for _, v := range batch {
			ref, err := a.Append(refs[v.of], all[v.of], v.time/1e6, v.v)
			if err != nil {
				return 0, err
			}
			refs[v.of] = ref
		}
		if err := a.Commit(); err != nil {
			return 0, err
		}
		if sync {
			if err := syncWAL(db.Dir()); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(from), nil
}

// syncWAL flushes the newest segment of the log: the package has no call for that.
func syncWAL(dir string) error {
	segments, err := filepath.Glob(filepath.Join(dir, "wal", "0*"))
	if err != nil || len(segments) == 0 {
		return fmt.Errorf("no segments of the log in %s: %v", dir, err)
	}
	f, err := os.Open(slices.Max(segments))
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
