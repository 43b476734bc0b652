package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// crudSize is one of the published runs of GotRo's comparison of databases: insert n records with the ids 1 to n, change
// each, and read ranges of them with growing limits from both ends.
type crudSize struct {
	n, selects, rows int64
	writers, readers int // goroutines; readers is at most those of crudScans
}

// crudSizes are the published runs: the first was sequential, the second parallel. Their numbers of selects and rows are
// published too, and checked here.
var crudSizes = []crudSize{
	{n: 999, selects: 6_528, rows: 969_345, writers: 1, readers: 1},
	{n: 3_333, selects: 21_716, rows: 4_584_661, writers: 33, readers: 76},
}

// Limits of the scans are the squares of these steps, which are also the distances of their beginnings.
const (
	firstStep = 2
	lastStep  = 39
)

// crudScan is the selects of one step in one direction.
type crudScan struct {
	step int64
	up   bool
}

func crudScans() (all []crudScan) {
	for step := int64(firstStep); step <= lastStep; step++ {
		all = append(all, crudScan{step, true}, crudScan{step, false})
	}
	return all
}

// run reads the ranges, each of at most step × step records: upwards from n-1, n-1-step, …, and downwards from 1, 1+step, ….
func (c crudScan) run(s crudSession, n int64) (selects, rows int64, err error) {
	one := func(from, there int64) error {
		want := min(c.step*c.step, there)
		next, got := from, int64(0)
		err := s.scan(from, c.up, int(c.step*c.step), func(id int64) error {
			if id != next {
				return fmt.Errorf("record %d instead of %d", id, next)
			}
			if got++; c.up {
				next++
			} else {
				next--
			}
			return nil
		})
		if err == nil && got != want {
			err = fmt.Errorf("%d records instead of %d", got, want)
		}
		selects, rows = selects+1, rows+got
		return err
	}
	if c.up {
		for from := n - 1; from > 0 && err == nil; from -= c.step {
			err = one(from, n-from+1)
		}
	} else {
		for from := int64(1); from < n && err == nil; from += c.step {
			err = one(from, from)
		}
	}
	return selects, rows, err
}

// crudStore is a database under test.
type crudStore struct {
	name string
	// open starts it with no records, in a new folder. count returns how many records and changes it has, to be compared
	// with what was written; changes is -1 if it keeps no history.
	open  func(dir string) (session func() (crudSession, error), count func() (records, changes int64, err error), end func() error, err error)
	times map[int64]*crudTimes // by size
}

// crudSession is what one goroutine uses.
type crudSession interface {
	insert(n int64) error
	update(n int64) error
	// scan calls row with each record from an id on, in order, at most limit of them.
	scan(from int64, up bool, limit int, row func(id int64) error) error
	close() error
}

// crudTimes are the times of all rounds, in seconds.
type crudTimes struct{ insert, update, read []float64 }

// crud runs all sizes on all stores of the systems, taking turns.
func (m *measurements) crud(p *plan, dir string, systems []*system) error {
	var stores []*crudStore
	for _, s := range systems {
		switch {
		case s.name == "skerry":
			stores = append(stores, localStore(), restStore(s))
		case s.postgres != "":
			stores = append(stores, pgStore("postgres", s.postgres, false), pgStore("postgres+history", s.postgres, true))
		}
	}
	m.stores = stores
	for _, size := range crudSizes {
		if p.Quick && size.n > 999 {
			continue
		}
		for round := range p.Rounds {
			for i := range stores {
				s := stores[i]
				if round%2 == 1 {
					s = stores[len(stores)-1-i]
				}
				if err := m.crudTurn(s, size, filepath.Join(dir, fmt.Sprintf("crud-%s-%d-%d", s.name, size.n, round))); err != nil {
					return fmt.Errorf("CRUD on %s, %d records: %w", s.name, size.n, err)
				}
			}
		}
	}
	return nil
}

// crudTurn is one size on one store once.
func (m *measurements) crudTurn(s *crudStore, size crudSize, dir string) (err error) {
	session, count, end, err := s.open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	t := s.times[size.n]
	if t == nil {
		t = &crudTimes{}
		s.times[size.n] = t
	}
	each := func(do func(s crudSession, n int64) error) (float64, error) {
		var next atomic.Int64
		return timed(size.writers, session, func(s crudSession) error {
			for n := next.Add(1); n <= size.n; n = next.Add(1) {
				if err := do(s, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	insert, err := each(crudSession.insert)
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	update, err := each(crudSession.update)
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	records, changes, err := count()
	if err != nil {
		return err
	}
	if records != size.n || changes >= 0 && changes != 2*size.n {
		return fmt.Errorf("it has %d records and %d changes after %d insertions and as many updates", records, changes, size.n)
	}
	var next, selects, rows atomic.Int64
	scans := crudScans()
	read, err := timed(size.readers, session, func(s crudSession) error {
		for i := next.Add(1) - 1; i < int64(len(scans)); i = next.Add(1) - 1 {
			n, r, err := scans[i].run(s, size.n)
			if err != nil {
				return fmt.Errorf("scans of %d: %w", scans[i].step*scans[i].step, err)
			}
			selects.Add(n)
			rows.Add(r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if selects.Load() != size.selects || rows.Load() != size.rows {
		return fmt.Errorf("%d selects read %d rows, not %d and %d as published", selects.Load(), rows.Load(), size.selects, size.rows)
	}
	t.insert, t.update, t.read = append(t.insert, insert), append(t.update, update), append(t.read, read)
	fmt.Fprintf(m.w, "CRUD %4d  %-20s insert %8.3f s   update %8.3f s   select %8.3f s\n", size.n, s.name, insert, update, read)
	return nil
}

// timed runs do in n goroutines, each with its own session, and returns how many seconds they took.
func timed(n int, session func() (crudSession, error), do func(crudSession) error) (float64, error) {
	all := make([]crudSession, n)
	for i := range all {
		s, err := session()
		if err != nil {
			return 0, err
		}
		defer s.close()
		all[i] = s
	}
	errs := make([]error, n)
	from := time.Now()
	var wg sync.WaitGroup
	for i, s := range all {
		wg.Go(func() { errs[i] = do(s) })
	}
	wg.Wait()
	return time.Since(from).Seconds(), errors.Join(errs...)
}

const crudText = `
GotRo's comparison of databases: insert N records, change each, then select ranges with growing limits from both ends; %s.
Medians, seconds (µs an operation). Every write is on disk before the next; Skerry and postgres+history also write a history.
skerry is called in process, skerry-rest over HTTP by this program, PostgreSQL through pgx by this program. Selects of more than
1,000 records are two pages in Skerry. Published in 2017 on another machine, for postgres with JSONB: N = 999: 3.27, 3.80, 3.21 s;
N = 3333, in parallel: 31.75, 197.3, 135.1 s. ScyllaDB, N = 999: 0.15, 0.15, 5.42 s; N = 3333, in parallel: 0.17, 0.17, 14.7 s.
`

// crudReport prints the medians of the comparison.
func (m *measurements) crudReport(p *plan) {
	if len(m.stores) == 0 {
		return
	}
	fmt.Fprintf(m.w, crudText, fmt.Sprintf("%d rounds", p.Rounds))
	fmt.Fprintf(m.w, "%6s  %-20s%24s%24s%24s%14s\n", "N", "store", "insert", "update", "select", "rows/s")
	for _, size := range crudSizes {
		for _, s := range m.stores {
			t := s.times[size.n]
			if t == nil {
				continue
			}
			part := func(v []float64, ops int64) string {
				return fmt.Sprintf("%.3f (%.0f)", rig.Median(v), rig.Median(v)*1e6/float64(ops))
			}
			fmt.Fprintf(m.w, "%6d  %-20s%24s%24s%24s%14.0f\n", size.n, s.name, part(t.insert, size.n), part(t.update, size.n),
				part(t.read, size.selects), float64(size.rows)/rig.Median(t.read))
		}
	}
}
