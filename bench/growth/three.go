package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// trioGrown is the results of three nodes with a number of keys.
type trioGrown struct {
	system   string
	keys     uint64
	loading  time.Duration
	rate     []float64 // writes a second
	lat      rig.Hist
	server   []float64 // CPU µs a write, all nodes
	resident []float64 // bytes, all nodes together
	disk     float64   // bytes
}

// etcdKeys is the number of keys at which etcd is measured, beside Skerry: with more, its file grows beyond the quota.
const etcdKeys = 100_000

// clusters measures three nodes. Up to etcdKeys the systems take turns; then Skerry's cluster grows further.
func (m *measurements) clusters(p *plan, dir string) error {
	sizes := slices.DeleteFunc(slices.Clone(p.sizes), func(n uint64) bool { return n > 10_000_000 })
	if len(sizes) > 1 {
		sizes = slices.DeleteFunc(sizes, func(n uint64) bool { return n < etcdKeys && n < slices.Max(sizes) })
	}
	var both []*trio.Cluster
	for _, part := range []string{partThree, partEtcd} {
		if !p.has(part) {
			continue
		}
		c, err := m.cluster(part, dir)
		if err != nil {
			return err
		}
		if err := c.StopAll(syscall.SIGTERM); err != nil {
			return err
		}
		both = append(both, c)
	}
	have := uint64(0)
	for i, keys := range sizes {
		if !fits(keys, trio.Size) {
			fmt.Fprintf(m.w, "Three nodes with %s keys are left out: they need %d MiB of available memory.\n", sizeName(keys), trio.Size*keys*needed>>20)
			break
		}
		if i == 1 { // only Skerry's goes on
			both = slices.DeleteFunc(both, func(c *trio.Cluster) bool { return c.Name == partEtcd && c.Drop() == nil })
		}
		if err := m.together(p, both, have, keys); err != nil {
			return err
		}
		have = keys
	}
	for _, c := range both {
		if err := c.Drop(); err != nil {
			return err
		}
	}
	return nil
}

// cluster creates an empty cluster.
func (m *measurements) cluster(part, dir string) (*trio.Cluster, error) {
	kind := trio.NewSkerry(m.path)
	if part == partEtcd {
		path, err := rig.Need("etcd", "etcd-server")
		if err != nil {
			return nil, err
		}
		kind = trio.NewEtcd(path)
	}
	fmt.Fprintf(m.w, "three    %-7s %s\n", kind.Name, kind.Version)
	return trio.New(kind, m.fleet, filepath.Join(dir, part))
}

// together fills stopped clusters up to a number of keys, and measures them by turns.
func (m *measurements) together(p *plan, all []*trio.Cluster, have, keys uint64) error {
	results := map[*trio.Cluster]*trioGrown{}
	for _, c := range all {
		g := &trioGrown{system: c.Name, keys: keys}
		results[c], m.three = g, append(m.three, g)
		if err := c.StartAll(); err != nil {
			return err
		}
		lead, _, err := c.Roles()
		if err != nil {
			return err
		}
		from := time.Now()
		if err := c.Fill(c, lead, have, keys); err != nil {
			return c.Explain(fmt.Errorf("load up to %d keys: %w", keys, err))
		}
		g.loading = time.Since(from)
		if err := c.Await(trio.Size); err != nil {
			return c.Explain(err)
		}
		g.disk = float64(rig.DiskBytes(c.Dir))
		if err := c.StopAll(syscall.SIGTERM); err != nil {
			return err
		}
	}
	for round := range p.rounds {
		for _, c := range all {
			if err := c.StartAll(); err != nil {
				return err
			}
			if err := m.trioVisit(p, c, results[c], round); err != nil {
				return c.Explain(err)
			}
			if err := c.StopAll(syscall.SIGTERM); err != nil {
				return err
			}
		}
	}
	return nil
}

// trioVisit is one cluster's turn in one round: overwrites at the leader.
func (m *measurements) trioVisit(p *plan, c *trio.Cluster, g *trioGrown, round int) error {
	lead, _, err := c.Roles()
	if err != nil {
		return err
	}
	face := c.Faces[0] // RESP; etcd's own client
	length := max(p.window/2, shortest)
	var a, b trio.Usage
	var errs [2]error
	out, err := face.Run(rig.Job{
		Addrs: c.Addrs(face.Port, lead), Set: true, Shape: shape, Keys: g.keys, Seed: uint64(round + 2), Warm: length / 10, Window: length,
		Begin: func() { a, errs[0] = c.Meter(true) }, End: func() { b, errs[1] = c.Meter(false) },
	})
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return err
	}
	if now, _, err := c.Roles(); err != nil || now != lead {
		return errors.Join(err, errors.New("another node became the leader meanwhile"))
	}
	r, err := c.Resident()
	if err != nil {
		return err
	}
	rate, server := float64(out.Ops)/out.Took.Seconds(), rig.PerOp(b.CPU-a.CPU, out.Ops)
	g.rate, g.server, g.resident = append(g.rate, rate), append(g.server, server), append(g.resident, float64(r))
	g.lat.Merge(&out.Lat)
	fmt.Fprintf(m.w, "round %d  %-7s × 3 %6s keys  %8.0f writes/s  p99 %7.0f µs  server %6.2f µs over all nodes  resident %6.0f MiB together\n",
		round+1, c.Name, sizeName(g.keys), rate, rig.Micros(out.Lat.Quantile(0.99)), server, float64(r)/(1<<20))
	return nil
}
