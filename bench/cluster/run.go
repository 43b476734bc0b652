package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// measurements are all results for the report.
type measurements struct {
	w      io.Writer
	fleet  *fleet
	cells  map[string]*cell
	faults map[string]*faults
	grown  map[string][]grown
	disk   map[string]float64 // bytes on disk of all nodes after loading the keys
	syncs  []float64          // bare fdatasync, µs
}

func (m *measurements) run(p *plan, kinds []*kind, dir string) error {
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
			if err := m.grow(p, k, filepath.Join(dir, k.name+"-growth")); err != nil {
				return err
			}
		}
	}
	m.report(p, kinds)
	fmt.Fprintf(m.w, "\nThe run took %v.\n", time.Since(began).Round(time.Second))
	return nil
}

// standing runs the parts that work on clusters with keys.
func (m *measurements) standing(p *plan, kinds []*kind, dir string) error {
	var all []*cluster
	for _, k := range kinds {
		c, err := newCluster(k, m.fleet, filepath.Join(dir, k.name))
		if err != nil {
			return err
		}
		all = append(all, c)
		from := time.Now()
		if err := c.load(p.keys); err != nil {
			return c.explain(err)
		}
		m.disk[k.name] = float64(rig.DiskBytes(c.dir))
		fmt.Fprintf(m.w, "load     %-8s %d keys in %.1f s, %.0f MiB on three disks\n", k.name, p.keys, time.Since(from).Seconds(), m.disk[k.name]/(1<<20))
		if err := c.stopAll(syscall.SIGTERM); err != nil {
			return err
		}
	}
	turns := []struct {
		part string
		n    int
		do   func(c *cluster, round int) error
	}{
		{"load", p.rounds, func(c *cluster, round int) error { return m.visit(p, c, round) }},
		{"failover", p.faults, m.failOver},
		{"catchup", 2, func(c *cluster, round int) error { return m.catchUp(p, c, round) }},
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
		if err := m.drop(c); err != nil {
			return err
		}
	}
	return nil
}

// turn starts a cluster, calls a function with it, and stops it: only one cluster runs at a time.
func (m *measurements) turn(c *cluster, round int, do func(*cluster, int) error) error {
	if err := c.startAll(); err != nil {
		return err
	}
	if err := do(c, round); err != nil {
		return c.explain(err)
	}
	return c.stopAll(syscall.SIGTERM)
}

// load writes all keys to a new cluster.
func (c *cluster) load(keys uint64) error {
	lead, _, err := c.roles()
	if err != nil {
		return err
	}
	if err := c.fill(c, lead, 0, keys); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return c.await(nodes)
}

// drop stops a cluster and deletes its data.
func (m *measurements) drop(c *cluster) error {
	if err := c.stopAll(syscall.SIGKILL); err != nil {
		return err
	}
	return os.RemoveAll(c.dir)
}

func (m *measurements) bare(dir string) error {
	a, b, err := rig.BareSync(dir)
	m.syncs = append(m.syncs, rig.Micros(min(a, b)))
	return err
}

func (m *measurements) faultsOf(c *cluster) *faults {
	if m.faults[c.name] == nil {
		m.faults[c.name] = &faults{}
	}
	return m.faults[c.name]
}

// failOver kills the leader once and makes it hand over once.
func (m *measurements) failOver(c *cluster, round int) error {
	f := m.faultsOf(c)
	for _, way := range []struct {
		name string
		sig  syscall.Signal
		into *[]float64
	}{{"kill -9", syscall.SIGKILL, &f.kill}, {"SIGTERM", syscall.SIGTERM, &f.handOver}} {
		gap, lost, err := c.loseLeader(way.sig, fmt.Sprintf("f%d%d", round, way.sig))
		if err != nil {
			return fmt.Errorf("%s of the leader: %w", way.name, err)
		}
		*way.into = append(*way.into, gap.Seconds())
		f.lost += lost
		fmt.Fprintf(m.w, "leader   %-8s %s: %6.0f ms without an acknowledged write; %d acknowledged ones lost\n", c.name, way.name, rig.Micros(gap)/1000, lost)
	}
	return nil
}

// catchUp makes a follower miss writes: in the first round it is killed and restarted, in the second frozen
// and thawed.
func (m *measurements) catchUp(p *plan, c *cluster, round int) error {
	b, err := c.leaveBehind(p.behind, round == 1, fmt.Sprintf("c%d", round))
	if err != nil {
		return fmt.Errorf("a follower %d MiB behind: %w", p.behind>>20, err)
	}
	b.frozen = round == 1
	f := m.faultsOf(c)
	f.catchUp = append(f.catchUp, b)
	fmt.Fprintf(m.w, "behind   %-8s %s\n", c.name, b)
	return nil
}
