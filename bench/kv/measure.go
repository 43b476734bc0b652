package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// cell is one row of the table: the samples of all rounds.
type cell struct {
	system, lane, op     string
	shape                rig.Shape
	rate, p50, p99, max  []float64 // operations a second; µs
	server, client, busy []float64 // CPU µs per operation; share of one core that the client used
	fsyncs               []float64 // per operation; NaN: unknown
}

// load is the results of loading and recovering the keys.
type load struct {
	heap, resident, residentAfter float64 // bytes, above those of the empty server
	disk                          float64
	took                          time.Duration
	recovery                      []float64 // seconds
}

// measurements are all results for the report.
type measurements struct {
	w                    io.Writer
	cells                map[string]*cell
	loads                map[string]*load
	appending, allocated []float64            // bare fdatasync, µs
	syncs                map[string][]float64 // the faster of both next to each system's single writes, µs
}

func cellKey(system, lane, op string, s rig.Shape) string {
	return strings.Join([]string{system, lane, op, s.String()}, " ")
}

// visit is one system's turn in one round. The first also loads the keys.
func (m *measurements) visit(p *plan, s *system, round int) error {
	if round == 0 {
		if err := m.load(p, s); err != nil {
			return err
		}
	}
	if _, err := s.start(s.ready); err != nil {
		return err
	}
	for _, l := range s.lanes {
		for _, sh := range l.shapes {
			for _, set := range []bool{false, true} {
				if err := m.besideBare(p, s, l, sh, set, round); err != nil {
					return fmt.Errorf("%s %s: %w", l.name, sh, err)
				}
			}
		}
	}
	return s.stop(syscall.SIGTERM)
}

// besideBare takes a sample. Right before and after a sample of single writes it measures the bare fdatasync
// to compare with, because disks vary over time.
func (m *measurements) besideBare(p *plan, s *system, l *lane, sh rig.Shape, set bool, round int) error {
	bare := func() error { return nil }
	if set && sh == (rig.Shape{Conns: 1, Flight: 1}) {
		bare = func() error { return m.bare(s) }
	}
	if err := bare(); err != nil {
		return err
	}
	if err := m.sample(p, s, l, sh, set, round); err != nil {
		return err
	}
	return bare()
}

func (m *measurements) bare(s *system) error {
	a, b, err := rig.BareSync(s.dir)
	m.syncs[s.name] = append(m.syncs[s.name], rig.Micros(min(a, b)))
	m.appending = append(m.appending, rig.Micros(a))
	m.allocated = append(m.allocated, rig.Micros(b))
	return err
}

// settle is how long a server is idle before its memory is read.
const settle = 2 * time.Second

// load fills an empty server, reads its memory, and measures the recovery time.
func (m *measurements) load(p *plan, s *system) error {
	if _, err := s.start(nil); err != nil {
		return err
	}
	time.Sleep(settle)
	empty, before, err := s.memory()
	if err != nil {
		return err
	}
	from := time.Now()
	if err := s.fill(s, p.keys); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	l := &load{took: time.Since(from)}
	m.loads[s.name] = l
	time.Sleep(settle)
	_, resident, err := s.memory()
	if err != nil {
		return err
	}
	l.resident, l.disk = resident-before, float64(rig.DiskBytes(s.dir))
	for range p.restart {
		if err := s.stop(syscall.SIGKILL); err != nil {
			return err
		}
		took, err := s.start(s.ready)
		if err != nil {
			return fmt.Errorf("recover: %w", err)
		}
		l.recovery = append(l.recovery, took.Seconds())
	}
	time.Sleep(settle)
	if _, resident, err = s.memory(); err != nil {
		return err
	}
	l.residentAfter = resident - before
	heap, err := s.liveHeap(p)
	if err != nil {
		return fmt.Errorf("read the heap: %w", err)
	}
	if l.heap = heap - empty; heap < 0 || empty < 0 {
		l.heap = math.NaN()
	}
	return s.stop(syscall.SIGKILL)
}

const (
	churn    = 300 * time.Millisecond // duration of one round of overwriting
	maxChurn = 40                     // rounds
)

// liveHeap returns the live heap. A Go server knows it since its last collection, so keys are overwritten
// until there is one.
func (s *system) liveHeap(p *plan) (float64, error) {
	before, err := s.figures(s)
	if err != nil || before.collections < 0 {
		return before.heap, err
	}
	for i := range maxChurn {
		_, err := s.lanes[0].run(s, rig.Job{
			Set: true, Shape: rig.Shape{Conns: 8, Flight: 64}, Keys: p.keys, Window: churn, Seed: uint64(i + 1),
			Begin: func() {}, End: func() {},
		})
		if err != nil {
			return 0, err
		}
		f, err := s.figures(s)
		if err != nil || f.collections > before.collections {
			return f.heap, err
		}
	}
	return 0, fmt.Errorf("no garbage collection in %v of overwriting", maxChurn*churn)
}

// memory returns the live heap as reported by the server, and its resident memory.
func (s *system) memory() (heap, resident float64, err error) {
	f, err := s.figures(s)
	if err != nil {
		return 0, 0, err
	}
	r, err := rig.RSS(s.proc.PID())
	return f.heap, float64(r), err
}

// meter is read at both ends of a window.
type meter struct {
	server, client time.Duration
	fsyncs         float64
	err            error
}

// meter reads CPU times last at the beginning of a window and first at its end, so that querying the server is
// not measured.
func (s *system) meter(begin bool) meter {
	var m meter
	var errs [2]error
	cpu := func() {
		m.server, errs[0] = rig.CPUTime(s.proc.PID())
		m.client = rig.OwnCPU()
	}
	if !begin {
		cpu()
	}
	f, err := s.figures(s)
	m.fsyncs, errs[1] = f.fsyncs, err
	if begin {
		cpu()
	}
	m.err = errors.Join(errs[:]...)
	return m
}

// sample measures one lane in one shape once.
func (m *measurements) sample(p *plan, s *system, l *lane, sh rig.Shape, set bool, round int) error {
	op := map[bool]string{false: "read", true: "write"}[set]
	var a, b meter
	out, err := l.run(s, rig.Job{
		Set: set, Shape: sh, Keys: p.keys, Warm: p.Warm, Window: p.Window, Seed: uint64(round + 2),
		Begin: func() { a = s.meter(true) }, End: func() { b = s.meter(false) },
	})
	for _, e := range []error{err, a.err, b.err} {
		if e != nil {
			return e
		}
	}
	if out.Ops == 0 {
		return fmt.Errorf("no operation ended within %v", p.Window)
	}
	key := cellKey(s.name, l.name, op, sh)
	c := m.cells[key]
	if c == nil {
		c = &cell{system: s.name, lane: l.name, op: op, shape: sh}
		m.cells[key] = c
	}
	n, secs := out.Ops, out.Took.Seconds()
	c.rate = append(c.rate, float64(n)/secs)
	c.p50 = append(c.p50, rig.Micros(out.Lat.Quantile(0.5)))
	c.p99 = append(c.p99, rig.Micros(out.Lat.Quantile(0.99)))
	c.max = append(c.max, rig.Micros(out.Lat.Max))
	c.server = append(c.server, rig.PerOp(b.server-a.server, n))
	c.client = append(c.client, rig.PerOp(b.client-a.client, n))
	c.busy = append(c.busy, (b.client-a.client).Seconds()/secs)
	syncs := math.NaN()
	if a.fsyncs >= 0 && b.fsyncs >= 0 {
		syncs = (b.fsyncs - a.fsyncs) / float64(n)
	}
	c.fsyncs = append(c.fsyncs, syncs)
	fmt.Fprintf(m.w, "round %d  %-32s %10.0f /s   p50 %8.0f µs   p99 %8.0f µs   server %6.2f µs/op\n",
		round+1, key, float64(n)/secs, c.p50[len(c.p50)-1], c.p99[len(c.p99)-1], c.server[len(c.server)-1])
	return nil
}
