package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/bench/rig"
)

// cell is one row of the table: the samples of all rounds.
type cell struct{ rate, p50, p99, most, cpu []float64 }

// worst returns the longest latency of all rounds in µs.
func (c *cell) worst() float64 {
	worst := math.NaN()
	for _, v := range c.most {
		if !(v <= worst) {
			worst = v
		}
	}
	return worst
}

// big is what is measured once with many records. NaN is unknown.
type big struct {
	record, folder, live, rss float64 // bytes a record
	change                    float64 // bytes of history a change
	recovery, index           float64 // seconds
}

// measurements are all results for the report.
type measurements struct {
	w       io.Writer
	cells   map[string]*cell
	bigs    map[string]*big
	stores  []*crudStore
	clients []int
	loads   []load
}

func (m *measurements) cell(system, load string, clients int) *cell {
	key := fmt.Sprintf("%s %s %d", system, load, clients)
	if m.cells[key] == nil {
		m.cells[key] = new(cell)
	}
	return m.cells[key]
}

// most returns the largest number of clients.
func (m *measurements) most() int { return m.clients[len(m.clients)-1] }

// shapes returns the numbers of clients of a load.
func (m *measurements) shapes(l load) []int {
	if l.name == "burst" {
		return m.clients[len(m.clients)-1:]
	}
	return m.clients
}

// visit is one system's turn in one round.
func (m *measurements) visit(p *plan, s *system, round int) error {
	if round == 0 {
		s.created, s.changed = 0, 0
		s.seq.Store(p.records)
	}
	if err := s.start("rounds", p.records); err != nil {
		return err
	}
	for _, l := range m.loads {
		for _, n := range m.shapes(l) {
			if err := m.sample(p, s, l, n, round); err != nil {
				return fmt.Errorf("%s with %d clients: %w", l.name, n, err)
			}
		}
	}
	if _, err := s.reported(); err != nil {
		return err
	}
	return s.stop()
}

// sample measures one load once.
func (m *measurements) sample(p *plan, s *system, l load, clients, round int) error {
	var used time.Duration
	out, err := s.drive(p, l, clients, uint64(round+1), func() { used = -s.cpu() }, func() { used += s.cpu() })
	if err != nil {
		return err
	}
	if out.lat.Count == 0 {
		return fmt.Errorf("no answer within %v", p.Window)
	}
	c := m.cell(s.name, l.name, clients)
	c.rate = append(c.rate, float64(out.lat.Count)/p.Window.Seconds())
	c.p50 = append(c.p50, rig.Micros(out.lat.Quantile(0.5)))
	c.p99 = append(c.p99, rig.Micros(out.lat.Quantile(0.99)))
	c.most = append(c.most, rig.Micros(out.lat.Max))
	c.cpu = append(c.cpu, rig.PerOp(used, out.lat.Count))
	last := len(c.rate) - 1
	fmt.Fprintf(m.w, "round %d  %-20s%-12s%4d %8.0f /s   p50 %7.0f µs   p99 %7.0f µs   max %8.0f µs   server %6.1f µs\n",
		round+1, s.name, l.name, clients, c.rate[last], c.p50[last], c.p99[last], c.most[last], c.cpu[last])
	return nil
}

// drive runs a load and keeps count of what the system acknowledged.
func (s *system) drive(p *plan, l load, clients int, seed uint64, begin, end func()) (outcome, error) {
	j := job{
		addr: s.addr, dialect: s.dialect, load: l, clients: clients, loaded: s.loaded, seq: &s.seq,
		warm: p.Warm, window: p.Window, begin: begin, end: end, seed: seed,
	}
	out, err := j.run()
	switch {
	case l.name == "create":
		s.created += out.all
	case l.writes:
		s.changed += out.all
	}
	return out, err
}

// visitBig measures sizes, recovery after a crash, and the build of an index, with many records in new data.
func (m *measurements) visitBig(p *plan, s *system) error {
	if err := os.RemoveAll(filepath.Join(s.dir, "rounds")); err != nil {
		return err
	}
	s.created, s.changed = 0, 0
	s.seq.Store(p.big)
	if err := s.start("big", p.big); err != nil {
		return err
	}
	before, err := s.reported()
	if err != nil {
		return err
	}
	b := &big{change: math.NaN()}
	n := float64(p.big)
	b.record, b.live = float64(before.RecordBytes)/n, float64(before.LiveBytes)/n
	b.folder = float64(rig.DiskBytes(filepath.Join(s.dir, "big"))) / n
	if rss, err := s.rss(); err == nil {
		b.rss = float64(rss) / n
	}
	if _, err := s.drive(p, loadNamed("update"), m.most(), 1, func() {}, func() {}); err != nil {
		return err
	}
	after, err := s.reported()
	if err != nil {
		return err
	}
	if after.Changes >= 0 {
		b.change = float64(after.HistoryBytes-before.HistoryBytes) / float64(s.changed)
	}
	if err := s.crash(); err != nil {
		return err
	}
	from := time.Now()
	if err := s.start("big", p.big); err != nil {
		return err
	}
	if err := s.first(); err != nil {
		return err
	}
	b.recovery = time.Since(from).Seconds()
	if _, err := s.reported(); err != nil {
		return fmt.Errorf("after the crash: %w", err)
	}
	var built item.IndexReport
	if err := s.ask("POST", "/index", &built); err != nil {
		return err
	}
	b.index = built.Seconds
	m.bigs[s.name] = b
	fmt.Fprintf(m.w, "%d records  %-20s%s\n", p.big, s.name, b)
	return errors.Join(s.stop(), os.RemoveAll(filepath.Join(s.dir, "big")))
}

func (b *big) String() string {
	return fmt.Sprintf("a record %.0f B (folder %.0f B, live heap %.0f B, resident %.0f B), a change %s B, recovery %.2f s, index %.2f s",
		b.record, b.folder, b.live, b.rss, rig.Known(b.change, "%.0f"), b.recovery, b.index)
}
