package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gremlin "github.com/apache/tinkerpop/gremlin-go/v3/driver"
	"golang.org/x/sync/errgroup"

	"github.com/skerrydb/skerry/bench/rig"
)

// query is one kind of request about a person, whose answer is made a number.
type query struct {
	name   string
	on     func(s *system, person int) *gremlin.GraphTraversal
	answer func([]*gremlin.Result) (int64, error)
	want   func(g *social, person int) int64
}

// cell is a query with so many requests at once.
type cell struct {
	query   string
	callers int
}

var queries = []query{
	{"1 hop, names", func(s *system, i int) *gremlin.GraphTraversal { return s.g.V(s.ids[i]).Out("knows").Values("name") }, nameSum, (*social).friendSum},
	{"2 hops, count", func(s *system, i int) *gremlin.GraphTraversal {
		return s.g.V(s.ids[i]).Out("knows").Out("knows").Count()
	}, one, func(g *social, i int) int64 { return g.paths(i, 2) }},
	{"3 hops, count", func(s *system, i int) *gremlin.GraphTraversal {
		return s.g.V(s.ids[i]).Out("knows").Out("knows").Out("knows").Count()
	}, one, func(g *social, i int) int64 { return g.paths(i, 3) }},
	{"by index, age", func(s *system, i int) *gremlin.GraphTraversal {
		return s.g.V().Has("person", "name", name(i)).Values("age")
	}, one, func(_ *social, i int) int64 { return age(i) }},
}

func one(list []*gremlin.Result) (int64, error) {
	if len(list) != 1 {
		return 0, fmt.Errorf("%d results, want 1", len(list))
	}
	return list[0].GetInt64()
}

// nameSum is social.friendSum of names.
func nameSum(list []*gremlin.Result) (int64, error) {
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = r.GetString()
	}
	return sumOf(names)
}

func sumOf(names []string) (sum int64, err error) {
	for _, s := range names {
		n, err := strconv.ParseInt(strings.TrimPrefix(s, "p"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the name %q: %w", s, err)
		}
		sum += n
	}
	return sum, nil
}

// asked is people and the right answers about them.
type asked struct {
	query
	people []int
	wants  []int64
}

func (p *plan) asked(g *social) []asked {
	people := g.starts(p.seed, p.starts)
	all := make([]asked, len(queries))
	for i, q := range queries {
		all[i] = asked{query: q, people: people}
		for _, person := range people {
			all[i].wants = append(all[i].wants, q.want(g, person))
		}
	}
	return all
}

// ask sends the request about a person, and checks the answer.
func (a *asked) ask(s *system, i int) error {
	list, err := a.on(s, a.people[i]).ToList()
	if err != nil {
		return err
	}
	got, err := a.answer(list)
	if err == nil && got != a.wants[i] {
		err = fmt.Errorf("%s answers %d to %q about %s, want %d", s.name, got, a.name, name(a.people[i]), a.wants[i])
	}
	return err
}

// measure sends requests for some time and notes their latencies.
func (p *plan) measure(s *system, a *asked, callers int) error {
	var hists []rig.Hist
	var before, after time.Duration
	var err error
	for _, length := range []time.Duration{p.Warm, p.Window} {
		if before, err = rig.CPUTime(s.process.PID()); err == nil {
			hists, err = send(s, a, callers, length)
		}
		if err == nil {
			after, err = rig.CPUTime(s.process.PID())
		}
		if err != nil {
			return err
		}
	}
	var all rig.Hist
	for i := range hists {
		all.Merge(&hists[i])
	}
	m := s.cells[cell{a.name, callers}]
	if m == nil {
		m = &series{}
		s.cells[cell{a.name, callers}] = m
	}
	m.rate = append(m.rate, float64(all.Count)/p.Window.Seconds())
	m.p50 = append(m.p50, rig.Micros(all.Quantile(0.5)))
	m.p99 = append(m.p99, rig.Micros(all.Quantile(0.99)))
	m.cpu = append(m.cpu, rig.PerOp(after-before, all.Count))
	return nil
}

func send(s *system, a *asked, callers int, length time.Duration) ([]rig.Hist, error) {
	hists := make([]rig.Hist, callers)
	var next atomic.Int64
	var work errgroup.Group
	end := time.Now().Add(length)
	for c := range callers {
		work.Go(func() error {
			for from := time.Now(); from.Before(end); {
				if err := a.ask(s, int(next.Add(1)-1)%len(a.people)); err != nil {
					return err
				}
				to := time.Now()
				hists[c].Add(to.Sub(from))
				from = to
			}
			return nil
		})
	}
	return hists, work.Wait()
}

// check asks each question once and checks the answers.
func (p *plan) check(s *system, all []asked) error {
	for i := range all {
		for n := range all[i].people {
			if err := all[i].ask(s, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// topRanks is how many people with the highest PageRank are compared.
const topRanks = 5

const rankText = "g.withComputer().V().hasLabel('person').pageRank().with('~tinkerpop.pageRank.propertyName', 'rank').order().by('rank', desc).limit(5).values('name')"

// rank times pageRank of the whole graph, once if that takes long.
func (s *system) rank(want []string) error {
	if len(s.ranks) > 0 && s.ranks[0] > longRank {
		return nil
	}
	from := time.Now()
	results, err := s.conn.Submit(rankText)
	if err != nil {
		return err
	}
	list, err := results.All()
	if err != nil {
		return fmt.Errorf("pageRank: %w", err)
	}
	s.ranks = append(s.ranks, time.Since(from).Seconds())
	var got []string
	for _, r := range list {
		got = append(got, r.GetString())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s has %v with the highest PageRank, want %v", s.name, got, want)
	}
	return nil
}
