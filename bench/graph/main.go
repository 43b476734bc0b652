// Command graph compares property graphs with TinkerGraph and JanusGraph in one run, through one driver: loading, walking one to three
// edges, finding by an index, and PageRank. A second part measures a larger graph on the embedded engine in this process.
//
// It knows how to start the servers and what a synthetic social graph answers; it must not know how a server stores it.
// Linux only (/proc).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	skerry        string
	seed          uint64
	people, edges int
	starts        int  // people whom the queries are about
	rank          bool // also in the servers
	big           bool
	bigPeople     int
	bigEdges      int
	callers       int
	fleet         *rig.Fleet
	targets       []rig.Target
}

const (
	warmUp   = 5                // windows of -warm before the first round
	longRank = 20               // seconds: a server that takes longer for PageRank computes it once
	calm     = 20 * time.Second // limit of the wait for the other servers before a turn
)

func main() {
	p := &plan{Plan: rig.Plan{Name: "graph", Systems: "skerry,tinkergraph,janusgraph", Rounds: 5, Window: 2 * time.Second, Warm: time.Second}}
	p.Flags("small graphs")
	flag.StringVar(&p.skerry, "skerry", "", "skerry `program` to measure (default: built from this repository)")
	flag.Uint64Var(&p.seed, "seed", 1, "seed of the graph and of the queries")
	flag.IntVar(&p.people, "vertices", 10_000, "vertices of the graph in the servers")
	flag.IntVar(&p.edges, "edges", 100_000, "edges of the graph in the servers")
	flag.IntVar(&p.starts, "starts", 1000, "vertices at which queries begin")
	flag.BoolVar(&p.rank, "rank", true, "compute PageRank in the servers, too, which takes those in Java minutes")
	flag.BoolVar(&p.big, "big", true, "measure a larger graph in this process, too; only that one if -systems is empty")
	flag.IntVar(&p.bigPeople, "big-vertices", 1_000_000, "vertices of the larger graph")
	flag.IntVar(&p.bigEdges, "big-edges", 10_000_000, "edges of the larger graph, which take about 300 bytes each in this process at the peak")
	flag.IntVar(&p.callers, "big-callers", 4, "transactions at once that load the larger graph")
	flag.Parse()
	if p.Quick {
		p.people, p.edges, p.starts, p.bigPeople, p.bigEdges = 1000, 10_000, 100, 10_000, 100_000
	}
	p.fleet = rig.NewFleet()
	p.Main(p.compare)
}

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) error {
	defer p.fleet.End()
	fmt.Fprintf(w, "%s\n%s; load %s\n%d rounds in turns, medians; seed %d\n", time.Now().Format("2006-01-02 15:04"), rig.Machine(), rig.LoadAverage(), p.Rounds, p.seed)
	if p.Systems != "" {
		if err := p.servers(dir, w); err != nil {
			return err
		}
	}
	if p.big {
		if err := p.larger(context.Background(), dir, w); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nTargets:\n")
	for _, t := range p.targets {
		fmt.Fprintln(w, t)
	}
	return nil
}

// servers compares the servers, all of which run at the same time.
func (p *plan) servers(dir string, w io.Writer) (err error) {
	systems, err := rig.Open(&p.Plan, p.makers())
	if err != nil {
		return err
	}
	g := newSocial(p.seed, p.people, p.edges)
	warm := newSocial(p.seed+1, p.people/5, p.edges/5)
	for _, s := range systems {
		defer func() { err = errors.Join(err, s.close(p.fleet)) }()
		if err := s.open(dir); err != nil {
			return err
		}
		fmt.Fprintf(w, "%-18s %s\n", s.name, s.about)
		if err := s.warm(warm); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := s.addPeople(g.people, name); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if err := p.turns(systems, func(s *system, round int) error {
		return s.loadRound(g.edges[round*len(g.edges)/p.Rounds : (round+1)*len(g.edges)/p.Rounds])
	}); err != nil {
		return err
	}
	all, best := p.asked(g), g.top(topRanks)
	for _, s := range systems {
		if err := errors.Join(s.complete(g), p.check(s, all)); err != nil {
			return err
		}
		for i := range all { // Java's compiler needs more than the time before a window
			if _, err := send(s, &all[i], inFlight, warmUp*p.Warm); err != nil {
				return err
			}
		}
	}
	if err := p.turns(systems, func(s *system, _ int) error {
		for i := range all {
			for _, callers := range []int{1, inFlight} {
				if err := p.measure(s, &all[i], callers); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := p.report(w, systems); err != nil {
		return err
	}
	if !p.rank {
		return nil
	}
	if err := p.turns(systems, func(s *system, _ int) error { return s.rank(best) }); err != nil {
		return err
	}
	p.reportRanks(w, systems)
	return nil
}

// turns is rig.Turns, but each turn begins when the other servers are quiet.
func (p *plan) turns(systems []*system, visit func(s *system, round int) error) error {
	return rig.Turns(&p.Plan, systems, func(s *system, round int) error {
		var others []int
		for _, o := range systems {
			if o != s {
				others = append(others, o.process.PID())
			}
		}
		quiet, err := rig.Quiet(others, calm)
		if err != nil {
			return err
		}
		if !quiet {
			s.disturbed++
		}
		return visit(s, round)
	})
}
