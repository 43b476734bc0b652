package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// measurements are all results for the report.
type measurements struct {
	w      io.Writer
	fleet  *rig.Fleet
	cells  map[string]*cell
	faults map[string]*faults
	grown  map[string][]grown
	disk   map[string]float64 // bytes on disk of all nodes after loading the keys
	syncs  []float64          // bare fdatasync, µs
}

func (m *measurements) run(p *plan, kinds []*trio.Kind, dir string) error {
	m.head(p, kinds)
	began := time.Now()
	has := func(part string) bool { return slices.Contains(p.parts, part) }
	if has("load") || has("failover") || has("catchup") {
		if err := m.standing(p, kinds, dir); err != nil {
			return err
		}
	}
	if has("growth") {
		for _, k := range kinds {
			if err := m.grow(p, k, filepath.Join(dir, k.Name+"-growth")); err != nil {
				return err
			}
		}
	}
	m.report(p, kinds)
	fmt.Fprintf(m.w, "\nThe run took %v.\n", time.Since(began).Round(time.Second))
	return nil
}

// standing runs the parts that work on clusters with keys.
func (m *measurements) standing(p *plan, kinds []*trio.Kind, dir string) error {
	var all []*trio.Cluster
	for _, k := range kinds {
		c, err := trio.New(k, m.fleet, filepath.Join(dir, k.Name))
		if err != nil {
			return err
		}
		all = append(all, c)
		from := time.Now()
		if err := c.Load(p.keys); err != nil {
			return c.Explain(err)
		}
		m.disk[k.Name] = float64(rig.DiskBytes(c.Dir))
		fmt.Fprintf(m.w, "load     %-8s %d keys in %.1f s, %.0f MiB on three disks\n", k.Name, p.keys, time.Since(from).Seconds(), m.disk[k.Name]/(1<<20))
		if err := c.StopAll(syscall.SIGTERM); err != nil {
			return err
		}
	}
	turns := []struct {
		part string
		n    int
		do   func(c *trio.Cluster, round int) error
	}{
		{"load", p.rounds, func(c *trio.Cluster, round int) error { return m.visit(p, c, round) }},
		{"failover", p.faults, m.failOver},
		{"catchup", 2, func(c *trio.Cluster, round int) error { return m.catchUp(p, c, round) }},
	}
	for _, t := range turns {
		if !slices.Contains(p.parts, t.part) {
			continue
		}
		for round := range t.n {
			if err := m.bare(dir); err != nil {
				return err
			}
			for _, c := range all {
				if err := m.turn(c, round, t.do); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range all {
		if err := c.Drop(); err != nil {
			return err
		}
	}
	return nil
}

// turn starts a cluster, calls a function with it, and stops it: only one cluster runs at a time.
func (m *measurements) turn(c *trio.Cluster, round int, do func(*trio.Cluster, int) error) error {
	if err := c.StartAll(); err != nil {
		return err
	}
	if err := do(c, round); err != nil {
		return c.Explain(err)
	}
	return c.StopAll(syscall.SIGTERM)
}

func (m *measurements) bare(dir string) error {
	a, b, err := rig.BareSync(dir)
	m.syncs = append(m.syncs, rig.Micros(min(a, b)))
	return err
}

func (m *measurements) faultsOf(c *trio.Cluster) *faults {
	if m.faults[c.Name] == nil {
		m.faults[c.Name] = &faults{}
	}
	return m.faults[c.Name]
}

// failOver kills the leader once and makes it hand over once.
func (m *measurements) failOver(c *trio.Cluster, round int) error {
	f := m.faultsOf(c)
	for _, way := range []struct {
		name string
		sig  syscall.Signal
		into *[]float64
	}{{"kill -9", syscall.SIGKILL, &f.kill}, {"SIGTERM", syscall.SIGTERM, &f.handOver}} {
		gap, lost, err := loseLeader(c, way.sig, fmt.Sprintf("f%d%d", round, way.sig))
		if err != nil {
			return fmt.Errorf("%s of the leader: %w", way.name, err)
		}
		*way.into = append(*way.into, gap.Seconds())
		f.lost += lost
		fmt.Fprintf(m.w, "leader   %-8s %s: %6.0f ms without an acknowledged write; %d acknowledged ones lost\n", c.Name, way.name, rig.Micros(gap)/1000, lost)
	}
	return nil
}

// catchUp makes a follower miss writes: in the first round it is killed and restarted, in the second frozen
// and thawed.
func (m *measurements) catchUp(p *plan, c *trio.Cluster, round int) error {
	b, err := leaveBehind(c, p.behind, round == 1, fmt.Sprintf("c%d", round))
	if err != nil {
		return fmt.Errorf("a follower %d MiB behind: %w", p.behind>>20, err)
	}
	b.frozen = round == 1
	f := m.faultsOf(c)
	f.catchUp = append(f.catchUp, b)
	fmt.Fprintf(m.w, "behind   %-8s %s\n", c.Name, b)
	return nil
}
