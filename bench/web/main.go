// Command web compares an application on Skerry's web and sessions with the same pages on net/http,
// html/template and sessions in redis-server, and with fasthttp as the limit.
//
// It knows how to start the three systems and their results; it must not know how they serve: that is in the
// program web/site, which runs in its own process. Linux only (epoll, /proc).
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	dir      string
	out      string
	systems  string
	sessions int
	rounds   int
	window   time.Duration
	warm     time.Duration
	shapes   string
	quick    bool
}

func main() {
	p := plan{}
	flag.StringVar(&p.dir, "dir", ".", "`folder` on a disk below which the servers keep their data while this runs")
	flag.StringVar(&p.out, "out", "", "`file` for the output (default results/web-DATE.txt, none with -quick)")
	flag.StringVar(&p.systems, "systems", "skerry,redis,fasthttp", "systems to run")
	flag.IntVar(&p.sessions, "sessions", 10_000, "sessions that the requests belong to, uniformly at random")
	flag.IntVar(&p.rounds, "rounds", 5, "rounds; the systems take turns in each, backwards in every second one, and medians are printed")
	flag.DurationVar(&p.window, "window", 4*time.Second, "counted time of one measurement")
	flag.DurationVar(&p.warm, "warm", time.Second, "time before it that is not counted")
	flag.StringVar(&p.shapes, "shapes", "8x1,64x1", "connections and requests in flight on each")
	flag.BoolVar(&p.quick, "quick", false, "a short run to see that all of it works: 500 sessions, 1 round of 500 ms windows")
	flag.Parse()
	if p.quick {
		p.sessions, p.rounds, p.window, p.warm = 500, 1, 500*time.Millisecond, 200*time.Millisecond
	}
	if err := p.compare(); err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

// compare runs the whole plan and prints the report.
func (p *plan) compare() (err error) {
	dir, err := os.MkdirTemp(p.dir, "web-*.tmp")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := rig.OnDisk(dir); err != nil {
		return err
	}
	shapes, err := rig.ParseShapes(p.shapes)
	if err != nil {
		return err
	}
	w, closeOut, err := rig.Report(p.out, "web", p.quick)
	if err != nil {
		return err
	}
	defer closeOut()
	systems, err := p.open(dir)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range systems {
			err = errors.Join(err, s.stop())
		}
	}()
	m := &measurements{w: w, cells: map[string]*cell{}, shapes: shapes}
	m.head(p, systems)
	for r := range p.rounds {
		turn := slices.Clone(systems)
		if r%2 == 1 {
			slices.Reverse(turn)
		}
		for _, s := range turn {
			if err := m.visit(p, s, r); err != nil {
				return fmt.Errorf("%s, round %d: %w (its logs and data stay in %s)", s.name, r+1, err, dir)
			}
		}
	}
	m.report(p, systems)
	return os.RemoveAll(dir)
}

// open finds the requested systems, without starting them.
func (p *plan) open(dir string) (all []*system, err error) {
	path := filepath.Join(dir, "site.bin")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", path, "./web/site").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the site (run this in bench/): %w\n%s", err, out)
	}
	for name := range strings.SplitSeq(p.systems, ",") {
		s := &system{name: name, site: path, dir: filepath.Join(dir, name), sessions: p.sessions}
		switch name {
		case "skerry":
			s.about = "web, web/view (html/template), session and the embedded engine in one process"
		case "redis":
			if s.redis, err = rig.Need("redis-server", "redis-server"); err != nil {
				return nil, err
			}
			s.about = "net/http, html/template, rueidis; " + rig.OutputLine(s.redis, "--version")
		case "fasthttp":
			s.about = "the same bytes, finished beforehand, without sessions: the bare limit"
		default:
			return nil, errors.New("no such system: " + name)
		}
		all = append(all, s)
	}
	return all, nil
}
