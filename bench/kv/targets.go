package main

import (
	"fmt"
	"math"

	"github.com/skerrydb/skerry/bench/rig"
)

func (m *measurements) targets(p *plan) {
	fmt.Fprintf(m.w, "\nTargets:\n")
	rate := func(c *cell) []float64 { return c.rate }
	perCore := func(c *cell) []float64 { return c.server }
	all := []rig.Target{
		rig.AtLeast("RESP writes 8×64: Skerry / etcd gRPC, its own client", m.ratio(rate, "skerry RESP write 8×64", "etcd gRPC write 8×64"), 12, "×"),
		rig.AtLeast("RESP writes 8×64: Skerry / etcd gRPC, lean client", m.ratio(rate, "skerry RESP write 8×64", "etcd lean write 8×64"), 12, "×"),
		rig.AtLeast("RESP writes 8×64: Skerry / Redis", m.ratio(rate, "skerry RESP write 8×64", "redis RESP write 8×64"), 1, "×"),
		rig.AtLeast("RESP reads 8×64: Skerry / etcd gRPC, its own client", m.ratio(rate, "skerry RESP read 8×64", "etcd gRPC read 8×64"), 20, "×"),
		rig.AtLeast("RESP reads 8×64: Skerry / etcd gRPC, lean client", m.ratio(rate, "skerry RESP read 8×64", "etcd lean read 8×64"), 20, "×"),
		rig.AtLeast("RESP reads 8×64 per core used: Skerry / Redis", m.ratio(perCore, "redis RESP read 8×64", "skerry RESP read 8×64"), 0.9, "×"),
		rig.AtMost("RESP write 1×1, p50 / bare fdatasync p50 beside it", m.one(func(c *cell) []float64 { return c.p50 }, "skerry RESP write 1×1")/rig.Median(m.syncs["skerry"]), 1.5, "×"),
		rig.AtLeast("HTTP SET 512×1: Skerry / etcd's gateway", m.ratio(rate, "skerry HTTP write 512×1", "etcd HTTP write 512×1"), 3, "×"),
		rig.AtLeast("HTTP GET 512×1: Skerry / etcd's gateway", m.ratio(rate, "skerry HTTP read 512×1", "etcd HTTP read 512×1"), 3, "×"),
	}
	if l := m.loads["skerry"]; l != nil {
		n := float64(p.keys)
		all = append(all,
			rig.AtMost("memory a key beyond its value, live heap", l.heap/n-rig.ValBytes, 120, " B"),
			rig.AtMost("memory a key beyond its value, resident", l.resident/n-rig.ValBytes, 120, " B"),
			rig.AtMost(fmt.Sprintf("recovery of %d keys after kill -9", p.keys), rig.Median(l.recovery), 2, " s"))
	}
	for _, t := range all {
		fmt.Fprintln(m.w, t)
	}
	if p.Quick {
		fmt.Fprintln(m.w, "This was a quick run: its figures show that the comparison works, nothing else.")
	}
}

// one returns the median of a cell, NaN if it was not measured.
func (m *measurements) one(of func(*cell) []float64, key string) float64 {
	c := m.cells[key]
	if c == nil {
		return math.NaN()
	}
	return rig.Median(of(c))
}

// ratio returns the ratio of the medians of two cells.
func (m *measurements) ratio(of func(*cell) []float64, a, b string) float64 {
	return m.one(of, a) / m.one(of, b)
}
