package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/bench/rig"
)

// The targets compare the size that is 10 M keys in a whole run, the greatest up to that, with this one.
const (
	bigKeys  = 10_000_000
	baseKeys = 100_000
)

// at returns the results of a system on one node, nil if it was not measured.
func (m *measurements) at(system string, keys uint64) *grown {
	i := slices.IndexFunc(m.one, func(g *grown) bool { return g.system == system && g.keys == keys && len(g.windows) > 0 })
	if i < 0 {
		return nil
	}
	return m.one[i]
}

func (m *measurements) trioAt(system string, keys uint64) *trioGrown {
	i := slices.IndexFunc(m.three, func(g *trioGrown) bool { return g.system == system && g.keys == keys && len(g.rate) > 0 })
	if i < 0 {
		return nil
	}
	return m.three[i]
}

// aims returns the sizes that the targets compare.
func (p *plan) aims() (base, big uint64) {
	base, big = p.sizes[0], p.sizes[0]
	for _, n := range p.sizes {
		if n <= bigKeys {
			big = n
		}
	}
	for _, n := range p.sizes {
		if n <= baseKeys && n < big {
			base = n
		}
	}
	return base, big
}

// targets prints the project's aims with what was measured. Aims of parts that did not run are left out.
func (m *measurements) targets(p *plan) {
	base, big := p.aims()
	all := slices.Concat(m.growthTargets(base, big), m.trioTargets())
	if m.engine != nil {
		all = append(all, rig.AtLeast("Voter over "+sizeName(p.phones())+" phones, the engine alone on one core, votes/s", rig.Median(m.engine)/1000, 450, " k"))
	}
	fmt.Fprintf(m.w, "\nTargets:\n")
	for _, t := range all {
		fmt.Fprintln(m.w, t)
	}
}

func (m *measurements) growthTargets(base, big uint64) (all []rig.Target) {
	a, b := m.at(partSkerry, base), m.at(partSkerry, big)
	if a == nil || b == nil {
		return nil
	}
	redis := ""
	if x, y := m.at(partRedis, base), m.at(partRedis, big); x != nil && y != nil {
		redis = fmt.Sprintf(" (Redis: %.2f)", y.rate()/x.rate())
	}
	at := sizeName(big) + " keys"
	if base != big {
		all = append(all,
			rig.AtLeast("writes/s at "+at+" / at "+sizeName(base)+redis, b.rate()/a.rate(), 0.5, "×"),
			rig.AtMost("p99 of writes at "+at+" / at "+sizeName(base), b.p99()/a.p99(), 3, "×"))
	}
	all = append(all,
		rig.AtMost("live memory at "+at+", a key beyond its value", b.liveKey()-rig.ValBytes, 70, " B"),
		rig.AtMost("resident / live memory at "+at, b.resident()/b.live(), 1.4, "×"),
		rig.AtMost("CPU of the garbage collector at "+at, 100*b.collector(), 3, " %"),
		rig.AtMost("recovery of "+at+" after kill -9", rig.Median(b.recovery), 3, " s"))
	if drop, calm := b.drop(); !math.IsNaN(drop) {
		all = append(all, rig.AtMost(fmt.Sprintf("throughput lost in the worst mark at %s (calm: %s)", at, rig.Known(calm, "%.0f")), drop, 10, " %"))
	}
	if r := b.besideRatio(); !math.IsNaN(r) {
		all = append(all, rig.AtMost("p99 of writes beside a snapshot of "+at+" / without", r, 2, "×"))
	}
	return all
}

// trioTargets are those of three nodes with the least keys.
func (m *measurements) trioTargets() (all []rig.Target) {
	if len(m.three) == 0 {
		return nil
	}
	base := m.three[0].keys
	ours := m.trioAt(partSkerry, base)
	if ours == nil {
		return nil
	}
	if etcd := m.trioAt(partEtcd, base); etcd != nil {
		all = append(all, rig.AtLeast("three nodes, "+sizeName(base)+" keys, writes/s: Skerry / etcd's own client", rig.Median(ours.rate)/rig.Median(etcd.rate), 18, "×"))
	}
	return append(all,
		rig.AtMost("three nodes, "+sizeName(base)+" keys, CPU a write over all nodes", rig.Median(ours.server), 7, " µs"),
		rig.AtMost("three nodes, "+sizeName(base)+" keys, resident memory together", rig.Median(ours.resident)/(1<<20), 400, " MiB"))
}

// losses prints where Redis or etcd is better.
func (m *measurements) losses() {
	var found []string
	rivals := false
	compare := func(what, unit string, ours, theirs float64, more bool) {
		rivals = true
		if more && ours < theirs || !more && ours > theirs {
			found = append(found, fmt.Sprintf("%s: %.1f against %.1f%s", what, ours, theirs, unit))
		}
	}
	for _, a := range m.one {
		b := m.at(partRedis, a.keys)
		if a.system != partSkerry || b == nil || len(a.windows) == 0 {
			continue
		}
		at := sizeName(a.keys) + " keys, "
		compare(at+"writes", " k/s", a.rate()/1000, b.rate()/1000, true)
		compare(at+"worst half second", " k/s", a.least(func(w *window) float64 { return w.worst })/1000, b.least(func(w *window) float64 { return w.worst })/1000, true)
		compare(at+"CPU a write", " µs", a.server(), b.server(), false)
		compare(at+"p99 of writes", " ms", a.p99()/1000, b.p99()/1000, false)
		compare(at+"p99.9 of writes", " ms", quantile(a.merged(func(w *window) *rig.Hist { return &w.all }), 0.999)/1000, quantile(b.merged(func(w *window) *rig.Hist { return &w.all }), 0.999)/1000, false)
		compare(at+"p99 of writes beside a snapshot", " ms", quantile(a.merged(func(w *window) *rig.Hist { return &w.beside }), 0.99)/1000, quantile(b.merged(func(w *window) *rig.Hist { return &w.beside }), 0.99)/1000, false)
		compare(at+"live memory a key", " B", a.liveKey(), b.liveKey(), false)
		compare(at+"resident memory", " MiB", a.resident()/(1<<20), b.resident()/(1<<20), false)
		compare(at+"recovery", " s", rig.Median(a.recovery), rig.Median(b.recovery), false)
		compare(at+"load", " s", a.loading.Seconds(), b.loading.Seconds(), false)
	}
	for _, a := range m.three {
		b := m.trioAt(partEtcd, a.keys)
		if a.system != partSkerry || b == nil || len(a.rate) == 0 {
			continue
		}
		at := "three nodes, " + sizeName(a.keys) + " keys, "
		compare(at+"writes", " k/s", rig.Median(a.rate)/1000, rig.Median(b.rate)/1000, true)
		compare(at+"CPU a write", " µs", rig.Median(a.server), rig.Median(b.server), false)
		compare(at+"p99 of writes", " ms", quantile(&a.lat, 0.99)/1000, quantile(&b.lat, 0.99)/1000, false)
		compare(at+"resident memory together", " MiB", rig.Median(a.resident)/(1<<20), rig.Median(b.resident)/(1<<20), false)
		compare(at+"disk", " B/key", a.disk/float64(a.keys), b.disk/float64(b.keys), false)
	}
	if !rivals {
		return
	}
	if found == nil {
		found = []string{"nowhere in what was measured"}
	}
	fmt.Fprintf(m.w, "\nWhere Skerry loses:\n- %s\n", strings.Join(found, "\n- "))
}
