package main

import (
	"fmt"
	"io"

	"github.com/skerrydb/skerry/bench/rig"
)

// report prints what was measured of the servers, and where Skerry loses.
func (p *plan) report(w io.Writer, systems []*system) error {
	own := find(systems, "skerry")
	fmt.Fprintf(w, "\n%d people, %d edges; every answer was checked\n", p.people, p.edges)
	fmt.Fprintf(w, "\nAdding edges, %d a request, %d requests in flight\n%-18s %10s %16s %16s %8s %14s\n", perRequest, inFlight, "", "edges/s", "server µs/edge", "driver µs/edge", "retries", "memory, MiB")
	for _, s := range systems {
		rss, err := rig.RSS(s.process.PID())
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-18s %10.0f %16.1f %16.1f %8d %14d\n", s.name, rig.Median(s.load.rate), rig.Median(s.load.cpu), rig.Median(s.load.own), s.retries, rss>>20)
	}
	fmt.Fprintf(w, "\n%-14s %-18s %9s %9s %10s %9s | %9s %9s %10s %9s\n", "", "one at a time:", "p50 µs", "p99 µs", "requests/s", "server µs", "16: p50", "p99", "requests/s", "server µs")
	for _, q := range queries {
		for _, s := range systems {
			fmt.Fprintf(w, "%-14s %-18s", q.name, s.name)
			for i, callers := range []int{1, inFlight} {
				if i > 0 {
					fmt.Fprint(w, " |")
				}
				m := s.cells[cell{q.name, callers}]
				fmt.Fprintf(w, " %9.0f %9.0f %10.0f %9.0f", rig.Median(m.p50), rig.Median(m.p99), rig.Median(m.rate), rig.Median(m.cpu))
			}
			fmt.Fprintln(w)
		}
	}
	for _, s := range systems {
		if s.disturbed > 0 {
			fmt.Fprintf(w, "%s had %d turns while another server was busy\n", s.name, s.disturbed)
		}
	}
	if own != nil {
		p.aim(systems, own)
		losses(w, systems, own)
	}
	return nil
}

// reportRanks prints the times of PageRank.
func (p *plan) reportRanks(w io.Writer, systems []*system) {
	own := find(systems, "skerry")
	fmt.Fprintf(w, "\nPageRank of all, the best %d\n", topRanks)
	for _, s := range systems {
		fmt.Fprintf(w, "%-18s %8.0f ms", s.name, 1000*rig.Median(s.ranks))
		if own != nil && s != own {
			fmt.Fprintf(w, ", Skerry takes %.4f× as long", rig.Median(own.ranks)/rig.Median(s.ranks))
		}
		fmt.Fprintln(w)
	}
}

func find(systems []*system, name string) *system {
	for _, s := range systems {
		if s.name == name {
			return s
		}
	}
	return nil
}

// aim adds the targets that compare Skerry with the other servers of the run.
func (p *plan) aim(systems []*system, own *system) {
	two := cell{queries[1].name, 1}
	for _, c := range []struct {
		name       string
		load, hops float64
	}{{"tinkergraph", 2, 1}, {"janusgraph", 10, 0.33}} {
		s := find(systems, c.name)
		if s == nil {
			continue
		}
		p.targets = append(p.targets,
			rig.AtLeast("adding edges with fsync, over "+s.name, rig.Median(own.load.rate)/rig.Median(s.load.rate), c.load, "×"),
			rig.AtMost("2 hops, p50 one at a time, over "+s.name, rig.Median(own.cells[two].p50)/rig.Median(s.cells[two].p50), c.hops, "×"))
	}
}

// losses prints what another server does better than Skerry.
func losses(w io.Writer, systems []*system, own *system) {
	fmt.Fprintf(w, "\nWhere Skerry loses:\n")
	none := true
	note := func(what string, s *system, times float64) {
		if times > 1 {
			none = false
			fmt.Fprintf(w, "%-40s %.2f× %s\n", what, times, s.name)
		}
	}
	for _, s := range systems {
		if s == own {
			continue
		}
		note("adding edges, time", s, rig.Median(s.load.rate)/rig.Median(own.load.rate))
		for _, q := range queries {
			for _, callers := range []int{1, inFlight} {
				a, b := own.cells[cell{q.name, callers}], s.cells[cell{q.name, callers}]
				at := fmt.Sprintf("%s, %d at once, ", q.name, callers)
				note(at+"p50", s, rig.Median(a.p50)/rig.Median(b.p50))
				note(at+"p99", s, rig.Median(a.p99)/rig.Median(b.p99))
				note(at+"time a request", s, rig.Median(b.rate)/rig.Median(a.rate))
			}
		}
	}
	if none {
		fmt.Fprintln(w, "nowhere")
	}
}
