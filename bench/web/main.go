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
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	sessions int
	shapes   string
}

func main() {
	p := plan{Plan: rig.Plan{Name: "web", Systems: "skerry,redis,fasthttp", Rounds: 5, Window: 4 * time.Second, Warm: time.Second}}
	p.Flags("500 sessions")
	flag.IntVar(&p.sessions, "sessions", 10_000, "sessions that the requests belong to, uniformly at random")
	flag.StringVar(&p.shapes, "shapes", "8x1,64x1", "connections and requests in flight on each")
	flag.Parse()
	if p.Quick {
		p.sessions = 500
	}
	p.Main(p.compare)
}

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) (err error) {
	shapes, err := rig.ParseShapes(p.shapes)
	if err != nil {
		return err
	}
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
	if err := rig.Turns(&p.Plan, systems, func(s *system, round int) error { return m.visit(p, s, round) }); err != nil {
		return err
	}
	m.report(p, systems)
	return nil
}

// open finds the requested systems, without starting them.
func (p *plan) open(dir string) ([]*system, error) {
	path := filepath.Join(dir, "site.bin")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", path, "./web/site").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the site (run this in bench/): %w\n%s", err, out)
	}
	site := func(name, redis, about string) *system {
		return &system{name: name, site: path, redis: redis, dir: filepath.Join(dir, name), sessions: p.sessions, about: about}
	}
	return rig.Open(&p.Plan, map[string]func() (*system, error){
		"skerry": func() (*system, error) {
			return site("skerry", "", "web, web/view (html/template), session and the embedded engine in one process"), nil
		},
		"redis": func() (*system, error) {
			redis, err := rig.Need("redis-server", "redis-server")
			return site("redis", redis, "net/http, html/template, rueidis; "+rig.OutputLine(redis, "--version")), err
		},
		"fasthttp": func() (*system, error) {
			return site("fasthttp", "", "the same bytes, prepared in advance, without sessions: the bare limit"), nil
		},
	})
}
