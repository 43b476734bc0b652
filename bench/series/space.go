package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/tsbs"
	"github.com/skerrydb/skerry/series"
)

// start is when the data of space and reads begins.
var start = time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC)

// spaceAndReads measures the bytes of samples, and queries of those of cpu-only.
func (p *plan) spaceAndReads(ctx context.Context, dir string, w io.Writer) error {
	fmt.Fprintf(w, "\nBytes per value, sealed and merged; Prometheus's blocks with their index\n")
	hours := time.Duration(p.hours) * time.Hour
	for _, u := range []struct { // each has about 17 million values, of which 8 generations are merged
		name     string
		generate func(tsbs.Options) *tsbs.Generator
		hosts    int
		aim      float64
	}{{"devops", tsbs.DevOps, p.hosts / 10, 0.75}, {"iot", tsbs.IoT, p.hosts * 7 / 10, 0.55}, {"cpu-only", tsbs.CPUOnly, p.hosts, 0.45}} {
		d, err := read(u.generate(tsbs.Options{Start: start, Hosts: u.hosts, Duration: hours}), math.MaxInt)
		if err != nil {
			return err
		}
		if err := p.space(ctx, filepath.Join(dir, u.name), w, d, u.name, u.aim); err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
	}
	return nil
}

func (p *plan) space(ctx context.Context, dir string, w io.Writer, d *data, name string, aim float64) error {
	s, err := openSkerry(filepath.Join(dir, "skerry"))
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.write(ctx, d); err != nil {
		return err
	}
	db, err := openProm(filepath.Join(dir, "prometheus"))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := writeProm(ctx, db, d, false); err != nil {
		return err
	}
	h := db.Head()
	if err := db.CompactHead(tsdb.NewRangeHead(h, h.MinTime(), h.MaxTime())); err != nil {
		return err
	}
	if err := db.CompactOOOHead(ctx); err != nil {
		return err
	}
	var bytes int64
	var samples uint64
	for _, b := range db.Blocks() {
		bytes += b.Size()
		samples += b.Meta().Stats.NumSamples
	}
	st := s.settled(p.settle)
	own := float64(st.Bytes) / float64(st.Samples)
	fmt.Fprintf(w, "%-10s skerry %.3f (%d parts, %d of %d values not sealed yet), prometheus %.3f\n", name, own, st.Parts, st.Unsealed, d.values(), float64(bytes)/float64(samples))
	p.targets = append(p.targets, rig.AtMost("bytes per value, "+name, own, aim, ""))
	if name != "cpu-only" {
		return nil
	}
	return p.reads(ctx, w, s.store, db)
}

// settled waits until parts have not changed for three seconds.
func (s *skerry) settled(limit time.Duration) series.Stats {
	last, since := s.store.Stats(), time.Now()
	for from := time.Now(); time.Since(from) < limit; time.Sleep(50 * time.Millisecond) {
		now := s.store.Stats()
		if now != last {
			last, since = now, time.Now()
		}
		if last.Samples > 0 && time.Since(since) > 3*time.Second {
			break
		}
	}
	return last
}

// timed returns the median time of several calls, after one that is not counted.
func timed(do func() error) (time.Duration, error) {
	var took []float64
	for i := range 12 {
		from := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		if i > 0 {
			took = append(took, float64(time.Since(from)))
		}
	}
	return time.Duration(rig.Median(took)), nil
}

func (p *plan) reads(ctx context.Context, w io.Writer, s *series.Store, db *tsdb.DB) error {
	fmt.Fprintf(w, "\nReads of cpu-only in process, medians of 11\n")
	match, err := series.ParseSelector(`cpu_usage_user`)
	if err != nil {
		return err
	}
	one, err := series.ParseSelector(`cpu_usage_user{hostname="host_1"}`)
	if err != nil {
		return err
	}
	name := labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "cpu_usage_user")
	host := labels.MustNewMatcher(labels.MatchEqual, "hostname", "host_1")
	end := start.Add(time.Duration(p.hours)*time.Hour - time.Nanosecond)
	hour := start.Add(time.Hour)
	ours, err := timed(func() error {
		return has(s.Select(ctx, series.Query{Match: one, From: start.Add(time.Second), To: hour}))
	})
	if err != nil {
		return err
	}
	theirs, err := timed(func() error { return iterate(ctx, db, start.Add(time.Second), hour, name, host) })
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "one hour of one series    skerry %v, prometheus %v\n", ours, theirs)
	p.targets = append(p.targets, rig.AtMost("one hour of one series", ours.Seconds()*1e3, 1, " ms"),
		rig.AtMost("one hour of one series, over Prometheus", float64(ours)/float64(theirs), 1, "×"))
	if ours, err = timed(func() error {
		return has(s.Select(ctx, series.Query{Match: match, From: start, To: end, Step: time.Hour, Aggregates: []series.Aggregate{series.Avg}}))
	}); err != nil {
		return err
	}
	if theirs, err = timed(func() error { return iterate(ctx, db, start, end, name) }); err != nil {
		return err
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute})
	defer engine.Close()
	byQuery, err := timed(func() error {
		q, err := engine.NewRangeQuery(ctx, db, nil, `avg_over_time(cpu_usage_user[1h])`, hour, start.Add(time.Duration(p.hours)*time.Hour), time.Hour)
		if err != nil {
			return err
		}
		defer q.Close()
		return q.Exec(ctx).Err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d hours, averages by hour of %d series    skerry %v, prometheus by iterating %v, by PromQL %v\n", p.hours, p.hosts, ours, theirs, byQuery)
	p.targets = append(p.targets, rig.AtMost("averages by hour, over Prometheus by iterating", float64(ours)/float64(theirs), 0.5, "×"),
		rig.AtMost("averages by hour, over PromQL", float64(ours)/float64(byQuery), 0.5, "×"))
	return nil
}

func has(list []series.Series, err error) error {
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("the query found nothing")
	}
	return err
}

// iterate averages the samples of series by the hour.
func iterate(ctx context.Context, db *tsdb.DB, from, to time.Time, match ...*labels.Matcher) error {
	q, err := db.Querier(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		return err
	}
	defer q.Close()
	set := q.Select(ctx, false, nil, match...)
	found := 0
	var it chunkenc.Iterator
	for set.Next() {
		sums, counts := map[int64]float64{}, map[int64]int{}
		hour, sum, n := int64(-1), 0.0, 0
		for it = set.At().Iterator(it); it.Next() != chunkenc.ValNone; found++ {
			t, v := it.At()
			if at := t / time.Hour.Milliseconds(); at != hour {
				sums[hour], counts[hour] = sum, n
				hour, sum, n = at, 0, 0
			}
			sum, n = sum+v, n+1
		}
		sums[hour], counts[hour] = sum, n
	}
	if found == 0 {
		return fmt.Errorf("the iteration found nothing")
	}
	return set.Err()
}
