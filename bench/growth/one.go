package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

var (
	shape     = rig.Shape{Conns: 8, Flight: 64}
	readers   = rig.Shape{Conns: 2, Flight: 64}
	fillShape = rig.Shape{Conns: 8, Flight: 512}
)

// slice is the length of the pieces of a window.
const slice = 100 * time.Millisecond

// grown is the results of one server with a number of keys.
type grown struct {
	system   string
	keys     uint64
	loading  time.Duration
	empty    float64 // live bytes of the empty server
	emptyRSS float64
	disk     float64 // bytes after the load
	windows  []window
	recovery []float64 // seconds
	read     []float64 // bytes on disk before each of them
	saved    float64   // bytes of the newest snapshot's file; 0: none
}

// window is one measurement of random overwrites.
type window struct {
	rate, worst        float64 // writes a second: median of the half seconds, and the worst of them
	all                rig.Hist
	server, busy       float64 // CPU µs a write; share of one core that the generator used
	live, resident     float64 // bytes; resident is the median
	peak               float64 // greatest resident
	slices             []*rig.Hist
	marks              []mark
	snapshots          []span
	took               []time.Duration // of snapshots that ended
	collector          float64         // share of the server's CPU
	beside             rig.Hist        // latencies beside a snapshot, also of the additional windows
	besideRate         float64         // NaN: no snapshot
	calm               rig.Hist        // latencies without one
	logged             float64         // bytes of log a write; NaN: unknown
	mixWrites, mixRead float64         // a second
	mixP99             float64         // of writes, µs
	further            *window         // the additional one that had a snapshot; nil: none
}

// single measures one node of each system at each size.
func (m *measurements) single(p *plan, dir string) error {
	for _, keys := range p.sizes {
		if !fits(keys, 1) {
			fmt.Fprintf(m.w, "%s keys are left out: they need %d MiB of available memory, and there are %d.\n",
				sizeName(keys), keys*needed>>20, rig.MemAvailable()>>20)
			continue
		}
		if err := m.size(p, keys, filepath.Join(dir, fmt.Sprint(keys))); err != nil {
			return fmt.Errorf("%s keys: %w", sizeName(keys), err)
		}
	}
	return nil
}

// servers returns the servers of the plan, which are not running.
func (m *measurements) servers(p *plan, dir string) (all []*server, err error) {
	for _, part := range []string{partSkerry, partRedis} {
		if !p.has(part) {
			continue
		}
		s := newSkerry(m.path, m.fleet)
		if part == partRedis {
			path, err := rig.Need("redis-server", "redis-server")
			if err != nil {
				return nil, err
			}
			s = newRedis(path, m.fleet)
		}
		s.dir = filepath.Join(dir, part)
		all = append(all, s)
	}
	return all, nil
}

// size measures all servers with one number of keys.
func (m *measurements) size(p *plan, keys uint64, dir string) error {
	servers, err := m.servers(p, dir)
	if err != nil {
		return err
	}
	results := map[*server]*grown{}
	for _, s := range servers {
		g := &grown{system: s.name, keys: keys}
		results[s], m.one = g, append(m.one, g)
		if err := m.load(s, g); err != nil {
			return fmt.Errorf("%s: load: %w", s.name, err)
		}
	}
	for round := range p.rounds {
		for _, s := range servers {
			if err := m.visit(p, s, results[s], round); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		slices.Reverse(servers)
	}
	for _, s := range servers {
		if err := s.drop(); err != nil {
			return err
		}
	}
	return nil
}

// settle is how long a server is idle before its memory is read.
const settle = time.Second

// load fills an empty server and kills it.
func (m *measurements) load(s *server, g *grown) error {
	if _, err := s.start(true); err != nil {
		return err
	}
	time.Sleep(settle)
	f, err := s.figures(s)
	if err != nil {
		return err
	}
	r, err := rig.RSS(s.proc.PID())
	if err != nil {
		return err
	}
	g.empty, g.emptyRSS = f.live, float64(r)
	from := time.Now()
	if _, err := rig.Run(rig.Job{Addrs: s.ports[:1], Codec: rig.RESP{}, Set: true, Shape: fillShape, Keys: g.keys, Load: true, Seed: 1}); err != nil {
		return err
	}
	g.loading, g.disk = time.Since(from), float64(rig.DiskBytes(s.dir))
	fmt.Fprintf(m.w, "load     %-7s %6s keys in %.1f s, %.0f bytes a key on disk\n", s.name, sizeName(g.keys), g.loading.Seconds(), g.disk/float64(g.keys))
	return s.stop(syscall.SIGKILL)
}

// bigEnough is the number of keys from which a window without a snapshot is followed by others, to have one.
const bigEnough = 1_000_000

// moreWindows is how many of them there are at most.
const moreWindows = 2

// visit is one server's turn in one round: recover, overwrite, overwrite with readers, kill.
func (m *measurements) visit(p *plan, s *server, g *grown, round int) error {
	took, err := m.recover(s, g)
	if err != nil {
		return err
	}
	win, err := s.overwrite(p.window, g.keys, uint64(10*round+2))
	if err != nil {
		return err
	}
	for i := 0; i < moreWindows && g.keys >= bigEnough && (math.IsNaN(win.besideRate) || win.calm.Count == 0); i++ {
		if s.save != nil {
			if err := s.save(s); err != nil {
				return err
			}
		}
		more, err := s.overwrite(p.window, g.keys, uint64(10*round+3+i))
		if err != nil {
			return err
		}
		win.adopt(more)
	}
	if err := s.mixed(&win, p.window/4, g.keys, uint64(10*round+9)); err != nil {
		return err
	}
	g.windows = append(g.windows, win)
	fmt.Fprintf(m.w, "round %d  %-7s %6s keys  recovered %6.2f s  %8.0f writes/s (worst %7.0f)  p99 %7.0f µs  server %5.2f µs  resident %6.0f MiB\n",
		round+1, s.name, sizeName(g.keys), took.Seconds(), win.rate, win.worst, rig.Micros(win.all.Quantile(0.99)), win.server, win.resident/(1<<20))
	if round == p.rounds-1 {
		if err := s.stop(syscall.SIGKILL); err != nil {
			return err
		}
		if _, err = m.recover(s, g); err != nil {
			return err
		}
	}
	return s.stop(syscall.SIGKILL)
}

// recover starts a server that was killed.
func (m *measurements) recover(s *server, g *grown) (time.Duration, error) {
	read := float64(rig.DiskBytes(s.dir))
	files, err := filepath.Glob(filepath.Join(s.dir, "*", "*.snap"))
	if err != nil {
		return 0, err
	}
	for _, name := range files { // ascending
		if info, err := os.Stat(name); err == nil {
			g.saved = float64(info.Size())
		}
	}
	took, err := s.start(false)
	if err != nil {
		return 0, fmt.Errorf("recover: %w", err)
	}
	g.recovery, g.read = append(g.recovery, took.Seconds()), append(g.read, read)
	return took, nil
}

// adopt takes over from a later window what was measured beside a snapshot and without one.
func (w *window) adopt(more window) {
	w.took = append(w.took, more.took...)
	w.beside.Merge(&more.beside)
	w.calm.Merge(&more.calm)
	if math.IsNaN(w.besideRate) {
		w.besideRate = more.besideRate
	}
	if len(more.snapshots) > 0 && w.further == nil {
		w.further = &more
	}
}

// overwrite measures random overwrites.
func (s *server) overwrite(length time.Duration, keys, seed uint64) (win window, err error) {
	var from time.Time
	var cpu, own [2]time.Duration
	var errs [2]error
	eyes := watch(s)
	out, err := rig.Run(rig.Job{
		Addrs: s.ports[:1], Codec: rig.RESP{}, Set: true, Shape: shape, Keys: keys, Seed: seed, Warm: length / 20, Window: length, Slice: slice,
		Begin: func() { cpu[0], errs[0] = s.cpu(s.proc.PID()); own[0], from = rig.OwnCPU(), time.Now() },
		End:   func() { cpu[1], errs[1] = s.cpu(s.proc.PID()); own[1] = rig.OwnCPU() },
	})
	eyes.end()
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return win, err
	}
	if out.Ops == 0 || len(eyes.seen) == 0 {
		return win, fmt.Errorf("no operation ended within %v, or no metrics came", length)
	}
	win = window{
		all: out.Lat, slices: out.Slices, server: rig.PerOp(cpu[1]-cpu[0], out.Ops), busy: (own[1] - own[0]).Seconds() / out.Took.Seconds(),
		live: eyes.seen[len(eyes.seen)-1].live, logged: eyes.logged(), resident: rig.Median(eyes.residents), peak: float64(eyes.resident),
	}
	whole := span{0, out.Took}
	snapshots, took := eyes.snapshots(from)
	win.snapshots, win.took = slices.DeleteFunc(snapshots, func(s span) bool { return s.within(whole) == 0 }), took
	all, err := s.marks(from)
	if err != nil {
		return win, err
	}
	var collecting time.Duration
	for _, one := range all {
		if in := one.within(whole); in > 0 && one.length() > 0 {
			win.marks = append(win.marks, one)
			collecting += time.Duration(float64(one.cpu) * float64(in) / float64(one.length()))
			if one.to <= whole.to {
				win.live = one.live
			}
		}
	}
	win.collector = collecting.Seconds() / (cpu[1] - cpu[0]).Seconds()
	win.reckon()
	return win, nil
}

// mixed measures overwrites while two connections read.
func (s *server) mixed(win *window, length time.Duration, keys, seed uint64) error {
	length = max(length, shortest)
	nothing := func() {}
	job := rig.Job{Addrs: s.ports[:1], Codec: rig.RESP{}, Shape: readers, Keys: keys, Seed: seed, Warm: length / 10, Window: length, Begin: nothing, End: nothing}
	type result struct {
		out rig.Outcome
		err error
	}
	reads := make(chan result, 1)
	go func() {
		out, err := rig.Run(job)
		reads <- result{out, err}
	}()
	writing := job
	writing.Set, writing.Shape, writing.Seed = true, shape, seed+1
	out, err := rig.Run(writing)
	r := <-reads
	if err := errors.Join(err, r.err); err != nil {
		return err
	}
	win.mixWrites, win.mixRead = float64(out.Ops)/out.Took.Seconds(), float64(r.out.Ops)/r.out.Took.Seconds()
	win.mixP99 = rig.Micros(out.Lat.Quantile(0.99))
	return nil
}
