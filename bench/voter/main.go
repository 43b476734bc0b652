// Command voter compares Skerry with redis-server and PostgreSQL, by a procedure of three statements: does the
// contestant exist, may this phone vote, count the vote. The procedure is that of examples/voter.
//
// It knows how to start and fill the three servers, how to call the procedure in each, and the results; it
// must not know Skerry's internals, except for the lanes that run the engine in process: it runs the built
// program and uses its protocols. Every measurement runs in a new process, which this program starts as itself
// with -worker. Linux only (epoll, /proc).
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	ram    string
	lanes  string
	phones uint64
}

func main() {
	p := plan{Plan: rig.Plan{Name: "voter", Systems: "skerry,redis,postgres,engine,skerry-ram,redis-ram,engine-ram", Rounds: 3, Window: 4 * time.Second, Warm: time.Second}}
	p.Flags("20,000 phones")
	flag.StringVar(&p.ram, "ram", "/dev/shm", "`folder` in memory (tmpfs) for the systems without a disk")
	flag.StringVar(&p.lanes, "lanes", "", "run only lanes whose name contains one of these `words`, separated by commas")
	flag.Uint64Var(&p.phones, "phones", 1_000_000, "number of phones, which call uniformly at random")
	worker := flag.String("worker", "", "make one measurement, the `job` as JSON; the program starts itself with this flag")
	flag.Parse()
	if *worker != "" {
		os.Exit(work(*worker, os.Stdout))
	}
	if p.Quick {
		p.phones = 20_000
	}
	p.Main(p.compare)
}

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) error {
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
	if err := rig.Turns(&p.Plan, systems, func(s *system, round int) error { return m.visit(p, s, round) }); err != nil {
		return err
	}
	m.report(p, systems)
	return nil
}

// open finds the requested systems, without starting them.
func (p *plan) open(dir, ram string) ([]*system, error) {
	systems, err := rig.Open(&p.Plan, map[string]func() (*system, error){
		"skerry":     func() (*system, error) { return newSkerry("skerry", dir, dir, false) },
		"redis":      func() (*system, error) { return newRedis("redis", dir, false) },
		"postgres":   func() (*system, error) { return newPostgres(dir) },
		"engine":     func() (*system, error) { return newEngine("engine", dir), nil },
		"skerry-ram": func() (*system, error) { return newSkerry("skerry-ram", ram, dir, true) },
		"redis-ram":  func() (*system, error) { return newRedis("redis-ram", ram, true) },
		"engine-ram": func() (*system, error) { return newEngine("engine-ram", ram), nil },
	})
	for _, s := range systems {
		s.lanes = slices.DeleteFunc(s.lanes, func(l lane) bool { return !p.wants(l.name) })
	}
	return systems, err
}

// wants reports whether to measure a lane with that name.
func (p *plan) wants(name string) bool {
	return slices.ContainsFunc(strings.Split(p.lanes, ","), func(word string) bool { return strings.Contains(name, word) })
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

func (s *system) String() string { return s.name }

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
