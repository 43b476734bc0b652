package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// cell is one row of the table: the samples of all rounds.
type cell struct{ rate, p50, p99, cpu []float64 }

// measurements are all results for the report.
type measurements struct {
	w      io.Writer
	cells  map[string]*cell
	shapes []rig.Shape
}

func (m *measurements) cell(s string, l lane, shape rig.Shape) *cell {
	key := s + " " + l.name + " " + shape.String()
	if m.cells[key] == nil {
		m.cells[key] = new(cell)
	}
	return m.cells[key]
}

// visit is one system's turn in one round.
func (m *measurements) visit(p *plan, s *system, round int) error {
	if err := s.start(); err != nil {
		return err
	}
	for _, l := range lanes {
		for _, shape := range m.shapes {
			if err := m.sample(p, s, l, shape, round); err != nil {
				return fmt.Errorf("%s %v: %w", l.name, shape, err)
			}
		}
	}
	return s.stop()
}

// sample measures one lane once.
func (m *measurements) sample(p *plan, s *system, l lane, shape rig.Shape, round int) error {
	var used time.Duration
	out, err := rig.Run(rig.Job{
		Addrs: []string{s.addr}, Codec: requests{l, s.cookies}, Set: l.write, Shape: shape, Keys: uint64(len(s.cookies)),
		Warm: p.Warm, Window: p.Window, Seed: uint64(round + 1),
		Begin: func() { used = -s.cpu() }, End: func() { used += s.cpu() },
	})
	if err != nil {
		return err
	}
	if out.Ops == 0 {
		return fmt.Errorf("no answer within %v", p.Window)
	}
	c := m.cell(s.name, l, shape)
	c.rate = append(c.rate, float64(out.Ops)/out.Took.Seconds())
	c.p50 = append(c.p50, rig.Micros(out.Lat.Quantile(0.5)))
	c.p99 = append(c.p99, rig.Micros(out.Lat.Quantile(0.99)))
	c.cpu = append(c.cpu, rig.PerOp(used, out.Ops))
	last := len(c.rate) - 1
	fmt.Fprintf(m.w, "round %d  %-10s%-20s%6v %8.0f /s   p50 %6.0f µs   p99 %6.0f µs   server %6.1f µs\n",
		round+1, s.name, l.name, shape, c.rate[last], c.p50[last], c.p99[last], c.cpu[last])
	return nil
}

// head describes what runs and where.
func (m *measurements) head(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "A web site with sessions on Skerry, on net/http with sessions in redis-server, and the bare limit of fasthttp, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s\nload average before: %s\n", rig.Machine(), rig.LoadAverage())
	for _, s := range systems {
		fmt.Fprintf(m.w, "%-10s%s\n", s.name, s.about)
	}
	fmt.Fprintf(m.w, "%d sessions of about 400 bytes, uniformly at random; %d rounds of %v windows\n\n", p.sessions, p.Rounds, p.Window)
}

const unequal = `
What is unequal:
- Servers and load generator share the machine's cores. The load generator is one thread with epoll, the same for all.
- server µs is the CPU time of all of a system's processes a request: for redis, of the site and of redis-server.
- A session write is on disk before its answer on both: Skerry's by default, Redis with appendfsync always. rueidis gathers
  the commands of concurrent requests, Skerry their transactions.
- Skerry sends its security headers and keeps figures a route; net/http and fasthttp do neither. fasthttp renders nothing,
  reads no session and writes none.
- The cookie is the token; Skerry stores its hash, the Redis site the token itself.
`

// report prints the medians of all rounds, the differences in setup, and the targets.
func (m *measurements) report(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "\nMedians of the rounds.\n%-20s%-8s%-12s%12s%12s%12s%14s\n", "request", "shape", "system", "requests/s", "p50 µs", "p99 µs", "server µs")
	for _, l := range lanes {
		for _, shape := range m.shapes {
			for _, s := range systems {
				c := m.cell(s.name, l, shape)
				fmt.Fprintf(m.w, "%-20s%-8v%-12s%12.0f%12.0f%12.0f%14.1f\n", l.name, shape, s.name,
					rig.Median(c.rate), rig.Median(c.p50), rig.Median(c.p99), rig.Median(c.cpu))
			}
		}
	}
	fmt.Fprint(m.w, unequal)
	if !strings.Contains(p.Systems, "skerry") || !strings.Contains(p.Systems, "redis") {
		return
	}
	fmt.Fprintf(m.w, "\nTargets:\n")
	for _, shape := range m.shapes {
		plain, page := lanes[0], lanes[1]
		j, k := m.cell("skerry", plain, shape), m.cell("redis", plain, shape)
		fmt.Fprintln(m.w, rig.AtLeast(fmt.Sprintf("the JSON route %v, Skerry / net/http, requests/s", shape), rig.Median(j.rate)/rig.Median(k.rate), 1, "×"))
		a, b := m.cell("skerry", page, shape), m.cell("redis", page, shape)
		fmt.Fprintln(m.w, rig.AtLeast(fmt.Sprintf("the page with a session %v, Skerry / Redis, requests/s", shape), rig.Median(a.rate)/rig.Median(b.rate), 1.5, "×"))
		fmt.Fprintln(m.w, rig.AtMost(fmt.Sprintf("the page with a session %v, Skerry / Redis, p99", shape), rig.Median(a.p99)/rig.Median(b.p99), 1, "×"))
	}
	m.losses(systems)
	if p.Quick {
		fmt.Fprintln(m.w, "This was a quick run: its figures show that the comparison works, nothing else.")
	}
}

// losses prints every cell in which Skerry is behind the site on Redis.
func (m *measurements) losses(systems []*system) {
	fmt.Fprintf(m.w, "\nWhere Skerry is behind the site on Redis:\n")
	none := true
	for _, l := range lanes {
		for _, shape := range m.shapes {
			a, b := m.cell("skerry", l, shape), m.cell("redis", l, shape)
			for _, f := range []struct {
				name  string
				worse bool
				a, b  float64
			}{
				{"requests/s", rig.Median(a.rate) < rig.Median(b.rate), rig.Median(a.rate), rig.Median(b.rate)},
				{"p99 µs", rig.Median(a.p99) > rig.Median(b.p99), rig.Median(a.p99), rig.Median(b.p99)},
				{"server µs", rig.Median(a.cpu) > rig.Median(b.cpu), rig.Median(a.cpu), rig.Median(b.cpu)},
			} {
				if f.worse {
					none = false
					fmt.Fprintf(m.w, "- %s %v: %s %.1f against %.1f\n", l.name, shape, f.name, f.a, f.b)
				}
			}
		}
	}
	if none {
		fmt.Fprintln(m.w, "nowhere")
	}
}
