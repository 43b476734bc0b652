package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// cell is one row of the table: the samples of all rounds.
type cell struct {
	rate, p50, p99         []float64 // votes/s; µs
	server, client, allocs []float64 // µs, µs, allocations per vote
	memory                 []float64 // bytes of the client per call in flight
}

// measurements are all results for the report.
type measurements struct {
	w     io.Writer
	cells map[string]*cell
}

// visit is one system's turn in one round.
func (m *measurements) visit(p *plan, s *system, round int) error {
	if len(s.lanes) == 0 {
		return nil
	}
	if s.run != nil {
		ports, err := rig.FreePorts(1)
		if err != nil {
			return err
		}
		s.addr = ports[0]
	} else if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	for _, l := range s.lanes {
		if err := m.sample(p, s, l, round); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	return s.stop()
}

// sample measures one lane once.
func (m *measurements) sample(p *plan, s *system, l lane, round int) error {
	j := job{
		Driver: l.driver, Addr: s.addr, Dir: s.dir, Conns: l.conns, Flight: l.flight, Phones: p.phones,
		Warm: p.Warm, Window: p.Window, Seed: uint64(round + 1),
	}
	if s.proc != nil {
		j.Server = s.proc.PID()
	}
	out, err := measure(j)
	if err != nil {
		return err
	}
	if out.Votes == 0 {
		return fmt.Errorf("no vote was counted within %v", p.Window)
	}
	s.cast += out.Cast
	s.doubt += out.Doubt
	key := s.name + " " + l.name
	c := m.cells[key]
	if c == nil {
		c = &cell{}
		m.cells[key] = c
	}
	rate := float64(out.Votes) / out.Took.Seconds()
	c.rate = append(c.rate, rate)
	c.p50 = append(c.p50, rig.Micros(out.P50))
	c.p99 = append(c.p99, rig.Micros(out.P99))
	server := rig.PerOp(out.Server, out.Votes)
	if s.proc == nil {
		server = math.NaN()
	}
	c.server = append(c.server, server)
	c.client = append(c.client, rig.PerOp(out.Client, out.Votes))
	c.allocs = append(c.allocs, out.Allocs)
	if out.CallMemory > 0 {
		c.memory = append(c.memory, out.CallMemory)
	}
	fmt.Fprintf(m.w, "round %d  %-42s %9.0f /s   p50 %8.0f µs   p99 %8.0f µs   server %6s   client %6.2f µs/vote\n",
		round+1, key, rate, rig.Micros(out.P50), rig.Micros(out.P99), rig.Known(server, "%.2f"), rig.PerOp(out.Client, out.Votes))
	return nil
}

// head describes what runs and where.
func (m *measurements) head(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "The phone vote of examples/voter as a procedure of Skerry, redis-server and PostgreSQL, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s\nload average before: %s\n", rig.Machine(), rig.LoadAverage())
	for _, s := range systems {
		fmt.Fprintf(m.w, "%-12s%s\n", s.name, s.version)
	}
	fmt.Fprintf(m.w, "%d phones, uniformly random; no vote is refused; %d rounds of %v windows\n\n", p.phones, p.Rounds, p.Window)
}

// report prints the medians of all rounds, the differences in setup, and the targets.
func (m *measurements) report(p *plan, systems []*system) {
	fmt.Fprint(m.w, "\nMedians of the rounds. Every vote is on disk before its reply, but for the systems named -ram, whose disk is memory.\n")
	fmt.Fprintf(m.w, "%-12s%-28s%10s%11s%11s%12s%12s%12s%14s\n", "system", "called by", "votes/s", "p50 µs", "p99 µs", "server µs", "client µs", "allocs", "B a call")
	for _, s := range systems {
		for _, l := range s.lanes {
			c := m.cells[s.name+" "+l.name]
			if c == nil {
				continue
			}
			allocs := math.NaN()
			if l.driver != "pgbench" && l.driver != "raw" {
				allocs = rig.Median(c.allocs)
			}
			fmt.Fprintf(m.w, "%-12s%-28s%10.0f%11.0f%11.0f%12s%12.2f%12s%14s\n", s.name, l.name, rig.Median(c.rate), rig.Median(c.p50), rig.Median(c.p99),
				rig.Known(rig.Median(c.server), "%.2f"), rig.Median(c.client), rig.Known(allocs, "%.2f"), rig.Known(rig.Median(c.memory), "%.0f"))
		}
	}
	fmt.Fprint(m.w, recorded)
	fmt.Fprintf(m.w, "Load average after: %s (this run itself makes about 2)\n", rig.LoadAverage())
	fmt.Fprint(m.w, unequal)
	m.losses()
	m.targets(p)
}

// lead is the margin by which another system must be better to count as a loss.
const lead = 0.03

// losses prints where a rival is better than Skerry when called in the same way.
func (m *measurements) losses() {
	fmt.Fprint(m.w, "\nWhere Skerry loses, of what is called alike:\n")
	lost := 0
	for _, pair := range [][2]string{
		{"skerry raw RESP 64×1", "redis raw RESP 64×1"}, {"skerry raw RESP 8×64", "redis raw RESP 8×64"}, {"skerry raw RESP 8×512", "redis raw RESP 8×512"},
		{"skerry rueidis, 64 goroutines", "redis rueidis, 64 goroutines"}, {"skerry rueidis, 1024 goroutines", "redis rueidis, 1024 goroutines"},
		{"skerry-ram raw RESP 8×64", "redis-ram raw RESP 8×64"}, {"skerry-ram raw RESP 8×512", "redis-ram raw RESP 8×512"},
		{"skerry client, blocking 64", "skerry rueidis, 64 goroutines"}, {"skerry client, blocking 1024", "skerry rueidis, 1024 goroutines"},
		{"skerry client, blocking 64", "postgres pgx, pipelined 64×1"}, {"skerry database/sql, 64", "postgres pgx, pipelined 64×1"},
	} {
		ours, theirs := m.cells[pair[0]], m.cells[pair[1]]
		if ours == nil || theirs == nil {
			continue
		}
		for _, f := range []struct {
			name string
			of   func(*cell) []float64
			more bool // is better
		}{
			{"votes/s", func(c *cell) []float64 { return c.rate }, true},
			{"p50 µs", func(c *cell) []float64 { return c.p50 }, false},
			{"p99 µs", func(c *cell) []float64 { return c.p99 }, false},
			{"server µs", func(c *cell) []float64 { return c.server }, false},
			{"client µs", func(c *cell) []float64 { return c.client }, false},
		} {
			if f.name == "client µs" && strings.Contains(pair[0], "raw") {
				continue // the same generator
			}
			a, b := rig.Median(f.of(ours)), rig.Median(f.of(theirs))
			if f.more && b > a*(1+lead) || !f.more && b < a*(1-lead) {
				lost++
				fmt.Fprintf(m.w, "- %-10s %-34s %10.2f, %-34s %10.2f\n", f.name, pair[0], a, pair[1], b)
			}
		}
	}
	if lost == 0 {
		fmt.Fprintln(m.w, "nowhere in this run")
	}
}
