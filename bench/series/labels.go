package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
)

// matchers measures how fast series are found by their labels.
func (p *plan) matchers(ctx context.Context, dir string, w io.Writer) error {
	d := &data{batches: [][]sample{nil}}
	for i := range p.series {
		l, err := series.NewLabels("m", series.Label{Name: "host", Value: "h" + strconv.Itoa(i/1000)}, series.Label{Name: "core", Value: strconv.Itoa(i % 1000)})
		if err != nil {
			return err
		}
		d.labels = append(d.labels, l)
		d.batches[0] = append(d.batches[0], sample{i, start.UnixNano(), 1})
	}
	s, err := openSkerry(filepath.Join(dir, "skerry"))
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.define(ctx, d.labels); err != nil {
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
	fmt.Fprintf(w, "\nMatchers, %d series, in Prometheus's head\n", p.series)
	host := func(op labels.MatchType, v string) *labels.Matcher { return labels.MustNewMatcher(op, "host", v) }
	core := labels.MustNewMatcher(labels.MatchRegexp, "core", "1.*")
	for _, c := range [][]*labels.Matcher{{host(labels.MatchEqual, "h5")}, {host(labels.MatchRegexp, "h1.")}, {host(labels.MatchEqual, "h5"), core}} {
		match := []series.Matcher{}
		for _, m := range c {
			op := series.Equal
			if m.Type == labels.MatchRegexp {
				op = series.Regexp
			}
			one, err := series.NewMatcher(m.Name, op, m.Value)
			if err != nil {
				return err
			}
			match = append(match, one)
		}
		found, want := 0, 0
		ours, err := timed(func() error {
			list, err := s.store.Find(ctx, match, engine.Read{}, 0)
			found = len(list)
			return err
		})
		if err != nil {
			return err
		}
		theirs, err := timed(func() (err error) { want, err = findProm(ctx, db, c); return err })
		if err != nil {
			return err
		}
		if found != want || found == 0 {
			return fmt.Errorf("%v: %d series, but %d in Prometheus", c, found, want)
		}
		fmt.Fprintf(w, "%-28v %6d found    skerry %v, prometheus %v\n", c, found, ours, theirs)
		p.targets = append(p.targets, rig.AtMost(fmt.Sprintf("matchers %v, over Prometheus", c), float64(ours)/float64(theirs), 1, "×"))
	}
	return nil
}

func findProm(ctx context.Context, db *tsdb.DB, match []*labels.Matcher) (n int, err error) {
	q, err := db.Querier(0, start.UnixMilli()+1)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	set := q.Select(ctx, false, nil, match...)
	for set.Next() {
		_ = set.At().Labels()
		n++
	}
	return n, set.Err()
}
