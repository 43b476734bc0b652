package main

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/bench/rig"
)

// report prints medians, and how they compare with the goals.
func (m *measurements) report(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "\nmedians\n%-9s %-8s %10s %8s %8s %9s\n", "system", "keys", "requests/s", "p99 ms", "CPU µs", "RSS MiB")
	rate, cpu := map[string]float64{}, map[string]float64{}
	for _, s := range systems {
		for _, keys := range distributions() {
			c := m.cell(s, keys)
			rate[s.name+keys], cpu[s.name+keys] = rig.Median(c.rate), rig.Median(c.cpu)
			fmt.Fprintf(m.w, "%-9s %-8s %10.0f %8.2f %8.1f %9.0f\n", s.name, keys, rig.Median(c.rate), rig.Median(c.p99), rig.Median(c.cpu), rig.Median(c.rss))
		}
	}
	for _, s := range systems {
		if c := m.cells[s.name+"changing"]; c != nil {
			fmt.Fprintf(m.w, "%-9s %-8s %10.0f %8.2f %8.1f %9.0f   zipf, beside 1,000 updates/s; CPU with that of PostgreSQL for them\n", s.name, "changing", rig.Median(c.rate), rig.Median(c.p99), rig.Median(c.cpu), rig.Median(c.rss))
		}
	}
	fmt.Fprintln(m.w)
	for _, s := range systems {
		fmt.Fprintf(m.w, "%s: %s\n", s.name, s.about)
	}
	if n := len(m.arrived); n > 0 {
		slices.Sort(m.arrived)
		fmt.Fprintf(m.w, "\na change of another program reaches readers, beside 1,000 updates/s: p50 %.2f ms, p99 %.2f ms, worst of %d %.2f ms\n",
			m.arrived[n/2], m.arrived[n*99/100], n, m.arrived[n-1])
	}
	fmt.Fprintf(m.w, "\nTargets:\n")
	for _, keys := range distributions() {
		if rate["postgres"+keys] == 0 {
			continue
		}
		over := func(a, b string, of map[string]float64) float64 { return of[a+keys] / of[b+keys] }
		for _, t := range []rig.Target{
			rig.AtLeast("memory tier over PostgreSQL, requests/s, "+keys, over("memory", "postgres", rate), 8, "×"),
			rig.AtLeast("PostgreSQL over memory tier, CPU, "+keys, over("postgres", "memory", cpu), 15, "×"),
			rig.AtLeast("disk tier over PostgreSQL, requests/s, "+keys, over("disk", "postgres", rate), 4, "×"),
			rig.AtLeast("nginx over memory tier, CPU, "+keys, over("nginx", "memory", cpu), 0.7, "×"),
			rig.AtLeast("otter on net/http over memory tier, CPU, "+keys, over("otter", "memory", cpu), 1, "×"),
		} {
			fmt.Fprintln(m.w, t)
		}
	}
	if n := len(m.arrived); n > 0 {
		fmt.Fprintln(m.w, rig.AtLeast("changes decoded and applied for a second of the server's CPU time", rig.Median(m.applied)/1000, 200, " k"))
		fmt.Fprintln(m.w, rig.AtMost("p99 until a change reaches readers", m.arrived[n*99/100], 10, " ms"))
	}
}
