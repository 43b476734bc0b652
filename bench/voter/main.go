// Command voter compares Skerry with redis-server and PostgreSQL, by a procedure of three statements: does the
// contestant exist, may this phone vote, count the vote. The procedure is that of examples/voter.
//
// It knows how to start and fill the three servers, how to call the procedure in each, and the results; it
// must not know Skerry's internals, except for the lanes that run the engine in process: it runs the built
// program and uses its protocols. Every measurement runs in a new process, which this program starts as itself
// with -worker. Linux only (epoll, /proc).
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	dir, ram string
	out      string
	systems  string
	lanes    string
	phones   uint64
	rounds   int
	window   time.Duration
	warm     time.Duration
	quick    bool
	worker   string
}

func main() {
	p := plan{}
	flag.StringVar(&p.dir, "dir", ".", "`folder` on a disk below which the servers keep their data while this runs")
	flag.StringVar(&p.ram, "ram", "/dev/shm", "`folder` in memory (tmpfs) for the pair without a disk")
	flag.StringVar(&p.out, "out", "", "`file` for the output (default results/voter-DATE.txt, none with -quick)")
	flag.StringVar(&p.systems, "systems", "skerry,redis,postgres,engine,skerry-ram,redis-ram,engine-ram", "systems to run")
	flag.StringVar(&p.lanes, "lanes", "", "only lanes whose name contains one of these words, with commas between them")
	flag.Uint64Var(&p.phones, "phones", 1_000_000, "phones that call, uniformly at random")
	flag.IntVar(&p.rounds, "rounds", 3, "rounds; the systems take turns in each, backwards in every second one, and medians are printed")
	flag.DurationVar(&p.window, "window", 4*time.Second, "counted time of one measurement")
	flag.DurationVar(&p.warm, "warm", time.Second, "time before it that is not counted")
	flag.BoolVar(&p.quick, "quick", false, "a short run to see that all of it works: 20,000 phones, 1 round of 500 ms windows")
	flag.StringVar(&p.worker, "worker", "", "make one measurement: the `job` as JSON; this program starts itself so")
	flag.Parse()
	if p.worker != "" {
		os.Exit(work(p.worker, os.Stdout))
	}
	if p.quick {
		p.phones, p.rounds, p.window, p.warm = 20_000, 1, 500*time.Millisecond, 200*time.Millisecond
	}
	if err := p.compare(); err != nil {
		fmt.Fprintln(os.Stderr, "voter:", err)
		os.Exit(1)
	}
}

// compare runs the whole plan and prints the report.
func (p *plan) compare() error {
	dir, err := os.MkdirTemp(p.dir, "voter-*.tmp")
	if err != nil {
		return err
	}
	if err := rig.OnDisk(dir); err != nil {
		return err
	}
	ram, err := os.MkdirTemp(p.ram, "voter-*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(ram)
	for _, d := range []string{dir, ram} {
		if err := os.Chmod(d, 0o755); err != nil { // PostgreSQL runs as another user
			return err
		}
	}
	w, closeOut, err := rig.Report(p.out, "voter", p.quick)
	if err != nil {
		return err
	}
	defer closeOut()
	systems, err := p.open(dir, ram)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range systems {
			s.stop()
		}
	}()
	m := &measurements{w: w, cells: map[string]*cell{}}
	m.head(p, systems)
	for r := range p.rounds {
		turn := slices.Clone(systems)
		if r%2 == 1 {
			slices.Reverse(turn)
		}
		for _, s := range turn {
			if err := m.visit(p, s, r); err != nil {
				return fmt.Errorf("%s, round %d: %w (its log and data stay in %s)", s.name, r+1, err, dir)
			}
		}
	}
	m.report(p, systems)
	return os.RemoveAll(dir)
}

// open finds the requested systems, without starting them.
func (p *plan) open(dir, ram string) ([]*system, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	make := map[string]func() (*system, error){
		"skerry":     func() (*system, error) { return newSkerry("skerry", abs, abs, false) },
		"redis":      func() (*system, error) { return newRedis("redis", abs, false) },
		"postgres":   func() (*system, error) { return newPostgres(abs) },
		"engine":     func() (*system, error) { return newEngine("engine", abs), nil },
		"skerry-ram": func() (*system, error) { return newSkerry("skerry-ram", ram, abs, true) },
		"redis-ram":  func() (*system, error) { return newRedis("redis-ram", ram, true) },
		"engine-ram": func() (*system, error) { return newEngine("engine-ram", ram), nil },
	}
	var all []*system
	for name := range strings.SplitSeq(p.systems, ",") {
		open := make[name]
		if open == nil {
			return nil, errors.New("no such system: " + name)
		}
		s, err := open()
		if err != nil {
			return nil, err
		}
		s.lanes = slices.DeleteFunc(s.lanes, func(l lane) bool { return !p.wants(l.name) })
		all = append(all, s)
	}
	return all, nil
}

// wants reports whether to measure a lane with that name.
func (p *plan) wants(name string) bool {
	if p.lanes == "" {
		return true
	}
	for word := range strings.SplitSeq(p.lanes, ",") {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// lane is one way to call one system.
type lane struct {
	name   string
	driver string // see drivers
	conns  int    // connections; 0: chosen by the driver
	flight int    // calls in flight, of all connections together
}

// system is one of the compared servers.
type system struct {
	name    string
	version string
	dir     string // of its data
	lanes   []lane
	run     func(s *system) error          // starts the server at s.addr, as s.proc, and waits until it serves
	prepare func(s *system) error          // creates the procedure and the contestants
	votes   func(s *system) (int64, error) // that the server has counted
	addr    string
	proc    *rig.Process // nil: it runs inside the worker
	cast    int64        // votes acknowledged so far
	doubt   int64        // votes that may have been counted without an acknowledgement
	ready   bool         // prepared
}

// start runs the server and fills it if it was not filled yet.
func (s *system) start() error {
	if s.run == nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := s.run(s); err != nil {
		return err
	}
	if s.ready {
		return nil
	}
	s.ready = true
	return s.prepare(s)
}

// check compares the server's count of votes with those that it acknowledged.
func (s *system) check() error {
	if s.votes == nil {
		return nil
	}
	n, err := s.votes(s)
	if err != nil {
		return fmt.Errorf("count the votes: %w", err)
	}
	if n < s.cast || n > s.cast+s.doubt {
		return fmt.Errorf("it has counted %d votes but acknowledged %d (and %d are in doubt)", n, s.cast, s.doubt)
	}
	return nil
}

// stop stops the server by its process id.
func (s *system) stop() error {
	if s.proc == nil {
		return nil
	}
	err := s.proc.Stop(syscall.SIGINT) // PostgreSQL ends its sessions at SIGINT, and waits for them at SIGTERM
	s.proc = nil
	return err
}
