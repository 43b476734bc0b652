// Command kv compares Skerry with redis-server and etcd as key-value servers that have each write on disk
// before they acknowledge it.
//
// It knows how to start, load, measure, kill and stop the three servers; it must not know Skerry's internals:
// it runs the built program and uses its protocols. Linux only (epoll, /proc).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
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
	dir     string
	out     string
	skerry  string
	systems string
	shapes  string
	keys    uint64
	rounds  int
	window  time.Duration
	warm    time.Duration
	restart int
	quick   bool
}

func main() {
	p := plan{}
	flag.StringVar(&p.dir, "dir", ".", "`folder` on a disk below which the servers keep their data while this runs")
	flag.StringVar(&p.out, "out", "", "`file` for the output (default results/kv-DATE.txt, none with -quick)")
	flag.StringVar(&p.skerry, "skerry", "", "skerry `program` to measure (default: built from this repository)")
	flag.StringVar(&p.systems, "systems", "skerry,redis,etcd", "systems to run, in this order")
	flag.StringVar(&p.shapes, "shapes", "1x1,64x1,512x1,8x64", "connections and requests in flight on each; HTTP takes those with one in flight")
	flag.Uint64Var(&p.keys, "keys", 1_000_000, "keys loaded beforehand, of 16 bytes with values of 100 bytes")
	flag.IntVar(&p.rounds, "rounds", 3, "rounds; the systems take turns in each, and medians are printed")
	flag.DurationVar(&p.window, "window", 4*time.Second, "counted time of one measurement")
	flag.DurationVar(&p.warm, "warm", 500*time.Millisecond, "time before it that is not counted")
	flag.IntVar(&p.restart, "restarts", 3, "restarts after kill -9 to take the recovery time from")
	flag.BoolVar(&p.quick, "quick", false, "a short run to see that all of it works: 100,000 keys, 1 round of 500 ms windows")
	flag.Parse()
	if p.quick {
		p.keys, p.rounds, p.window, p.warm, p.restart = 100_000, 1, 500*time.Millisecond, 100*time.Millisecond, 1
	}
	if err := p.compare(); err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(1)
	}
}

// compare runs the whole plan and prints the report.
func (p *plan) compare() error {
	dir, err := os.MkdirTemp(p.dir, "kv-*.tmp")
	if err != nil {
		return err
	}
	if err := rig.OnDisk(dir); err != nil {
		return err
	}
	w := io.Writer(os.Stdout)
	if p.out == "" && !p.quick {
		p.out = filepath.Join("results", "kv-"+time.Now().Format("2006-01-02")+".txt")
	}
	if p.out != "" {
		if err := os.MkdirAll(filepath.Dir(p.out), 0o755); err != nil {
			return err
		}
		f, err := os.Create(p.out)
		if err != nil {
			return err
		}
		defer f.Close()
		w = io.MultiWriter(w, f)
	}
	systems, err := p.open(dir)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range systems {
			s.stop(syscall.SIGKILL)
		}
	}()
	m := &measurements{w: w, cells: map[string]*cell{}, loads: map[string]*load{}, syncs: map[string][]float64{}}
	m.head(p, systems)
	for r := range p.rounds {
		for _, s := range systems {
			if err := m.visit(p, s, r); err != nil {
				return fmt.Errorf("%s, round %d: %w (its log and data stay in %s)", s.name, r+1, err, dir)
			}
		}
	}
	m.report(p, systems)
	return os.RemoveAll(dir)
}

// open finds the systems, without starting them.
func (p *plan) open(dir string) ([]*system, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	shapes, err := rig.ParseShapes(p.shapes)
	if err != nil {
		return nil, err
	}
	unpipelined := slices.DeleteFunc(slices.Clone(shapes), func(s rig.Shape) bool { return s.Flight > 1 })
	var all []*system
	for name := range strings.SplitSeq(p.systems, ",") {
		var s *system
		switch name {
		case "skerry":
			path, err := p.program(abs)
			if err != nil {
				return nil, err
			}
			s = newSkerry(path, shapes, unpipelined)
		case "redis":
			path, err := rig.Need("redis-server", "redis-server")
			if err != nil {
				return nil, err
			}
			s = newRedis(path, shapes)
		case "etcd":
			path, err := rig.Need("etcd", "etcd-server")
			if err != nil {
				return nil, err
			}
			s = newEtcd(path, shapes, unpipelined)
		default:
			return nil, errors.New("no such system: " + name)
		}
		s.dir = filepath.Join(abs, s.name)
		all = append(all, s)
	}
	return all, nil
}

// program returns the path of the skerry to measure.
func (p *plan) program(dir string) (string, error) {
	if p.skerry != "" {
		return filepath.Abs(p.skerry)
	}
	return rig.Build(dir)
}
