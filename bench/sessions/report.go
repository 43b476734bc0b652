package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// cell is one row of the table: the samples of all rounds.
type cell struct{ rate, p50, p99 []float64 }

// measurements are all results for the report.
type measurements struct {
	w     io.Writer
	cells map[string]*cell
}

func (m *measurements) cell(s string, l load) *cell {
	key := s + " " + l.name
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
	for _, l := range loads {
		if err := m.sample(p, s, l, round); err != nil {
			_ = s.stop() // the error of the measurement says more
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return s.stop()
}

// timer measures the requests of one connection, one in flight, because rig.Run does not when it sends a number of them.
type timer struct {
	load
	sent time.Time
	hist rig.Hist
}

// AppendSet implements rig.Codec.
func (t *timer) AppendSet(b []byte, key, seq uint64) []byte {
	t.sent = time.Now()
	return t.load.AppendSet(b, key, seq)
}

// Reply implements rig.Codec.
func (t *timer) Reply(b []byte, set bool) (int, error) {
	n, err := t.load.Reply(b, set)
	if n > 0 {
		t.hist.Add(time.Since(t.sent))
	}
	return n, err
}

// sample measures one load once: logins for a time, pages by their number.
func (m *measurements) sample(p *plan, s *system, l load, round int) error {
	job := rig.Job{
		Addrs: []string{s.addr}, Codec: l, Set: true, Shape: rig.Shape{Conns: p.conns, Flight: 1}, Keys: 1,
		Warm: p.Warm, Window: p.Window, Seed: uint64(round + 1), Begin: func() {}, End: func() {},
	}
	var timed []*timer
	if !l.cookie {
		job.Load, job.Keys = true, p.requests
		job.Lane = func() rig.Codec {
			timed = append(timed, &timer{load: l})
			return timed[len(timed)-1]
		}
	}
	out, err := rig.Run(job)
	if err != nil {
		return err
	}
	for _, t := range timed {
		out.Lat.Merge(&t.hist)
		out.Ops += t.hist.Count
	}
	if out.Ops == 0 {
		return fmt.Errorf("no answer within %v", p.Window)
	}
	c := m.cell(s.name, l)
	c.rate = append(c.rate, float64(out.Ops)/out.Took.Seconds())
	c.p50 = append(c.p50, rig.Micros(out.Lat.Quantile(0.5)))
	c.p99 = append(c.p99, rig.Micros(out.Lat.Quantile(0.99)))
	last := len(c.rate) - 1
	fmt.Fprintf(m.w, "round %d  %-11s%-20s%8d requests%9.0f /s   p50 %7.0f µs   p99 %7.0f µs\n",
		round+1, s.name, l.name, out.Ops, c.rate[last], c.p50[last], c.p99[last])
	return nil
}

// head describes what runs and where.
func (m *measurements) head(p *plan, systems []*system, dir string) error {
	appending, allocated, err := rig.BareSync(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.w, "One web application with sessions on each engine, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s\nload average before: %s\n", rig.Machine(), rig.LoadAverage())
	fmt.Fprintf(m.w, "bare fdatasync in %s: %.0f µs appending, %.0f µs allocated\n", dir, rig.Micros(appending), rig.Micros(allocated))
	for _, s := range systems {
		fmt.Fprintf(m.w, "%-11s%s\n", s.name, s.about)
	}
	fmt.Fprintf(m.w, "%d connections that stay open; logins for %v, then %d pages without a cookie; %d rounds\n\n", p.conns, p.Window, p.requests, p.Rounds)
	return nil
}

const unequal = `
What is unequal:
- The load generator, the application and the database's server share the machine's cores.
- A request without a cookie reads no session: the second load shows the web layer, not the store. The original looked
  for a record that did not exist.
- A login of Skerry also keeps the list of the user's sessions; the rival by hand has no list.
- Skerry sends security headers and keeps metrics of each route; the rival does neither.
`

// report prints the medians of all rounds and the targets, which include every loss of the embedded engine.
func (m *measurements) report(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "\nMedians of the rounds.\n%-20s%-12s%12s%12s%12s%12s\n", "request", "system", "requests/s", "p50 µs", "p99 µs", "/ embedded")
	for _, l := range loads {
		for _, s := range systems {
			c, own := m.cell(s.name, l), m.cell("embedded", l)
			fmt.Fprintf(m.w, "%-20s%-12s%12.0f%12.0f%12.0f%12s\n", l.name, s.name, rig.Median(c.rate), rig.Median(c.p50), rig.Median(c.p99),
				rig.Known(rig.Median(c.rate)/rig.Median(own.rate), "%.2f"))
		}
	}
	fmt.Fprint(m.w, unequal)
	if slices.ContainsFunc(systems, func(s *system) bool { return s.name == "embedded" }) {
		fmt.Fprintf(m.w, "\nTargets:\n")
		m.targets(systems)
	}
	if p.Quick {
		fmt.Fprintln(m.w, "This was a quick run: it shows that the comparison works, nothing else.")
	}
}

// targets compares the embedded engine with each other system.
func (m *measurements) targets(systems []*system) {
	for _, l := range loads {
		own := m.cell("embedded", l)
		for _, s := range systems {
			if s.name == "embedded" {
				continue
			}
			c := m.cell(s.name, l)
			fmt.Fprintln(m.w, rig.AtLeast(l.name+", embedded / "+s.name+", requests/s", rig.Median(own.rate)/rig.Median(c.rate), 1, "×"))
			fmt.Fprintln(m.w, rig.AtMost(l.name+", embedded / "+s.name+", p99", rig.Median(own.p99)/rig.Median(c.p99), 1, "×"))
		}
	}
}
