package main

import (
	"fmt"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// grown is the cost of a write at a number of keys.
type grown struct {
	keys             uint64
	rate, p50, p99   float64 // 8×64
	alone            float64 // p50 of 1×1, µs
	server           float64 // CPU µs per write, all nodes
	resident, onDisk float64 // bytes, all nodes
	loading          time.Duration
}

// grow fills a new cluster in steps and measures writes at each.
func (m *measurements) grow(p *plan, k *trio.Kind, dir string) error {
	c, err := trio.New(k, m.fleet, dir)
	if err != nil {
		return err
	}
	f := k.Faces[len(k.Faces)-2] // RESP, or the lean one: the last but HTTP
	have := uint64(0)
	for _, keys := range p.growth {
		from := time.Now()
		lead, _, err := c.Roles()
		if err != nil {
			return err
		}
		if err := k.Fill(c, lead, have, keys); err != nil {
			return c.Explain(fmt.Errorf("load up to %d keys: %w", keys, err))
		}
		g := grown{keys: keys, loading: time.Since(from)}
		have = keys
		if err := c.Await(trio.Size); err != nil {
			return c.Explain(err)
		}
		many, err := measure(p, c, f, spot{"write", toLeader, rig.Shape{Conns: 8, Flight: 64}, false}, keys, 1)
		if err != nil {
			return c.Explain(err)
		}
		one, err := measure(p, c, f, spot{"write", toLeader, rig.Shape{Conns: 1, Flight: 1}, false}, keys, 2)
		if err != nil {
			return c.Explain(err)
		}
		g.rate, g.p50, g.p99, g.server, g.alone = many.rate, many.p50, many.p99, many.server, one.p50
		r, err := c.Resident()
		if err != nil {
			return err
		}
		g.resident, g.onDisk = float64(r), float64(rig.DiskBytes(dir))
		m.grown[k.Name] = append(m.grown[k.Name], g)
		fmt.Fprintf(m.w, "growth   %-8s %9d keys  %9.0f writes/s   p99 %7.0f µs   server %6.2f µs/op   1×1 p50 %5.0f µs   resident %5.0f MiB\n",
			k.Name, keys, g.rate, g.p99, g.server, g.alone, g.resident/(1<<20))
	}
	return c.Drop()
}
