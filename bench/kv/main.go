// Command kv compares Skerry with redis-server and etcd as key-value servers that have each write on disk
// before they acknowledge it.
//
// It knows how to start, load, measure, kill and stop the three servers; it must not know Skerry's internals:
// it runs the built program and uses its protocols. Linux only (epoll, /proc).
package main

import (
	"flag"
	"io"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	skerry  string
	shapes  string
	keys    uint64
	restart int
}

func main() {
	p := plan{Plan: rig.Plan{Name: "kv", Systems: "skerry,redis,etcd", Rounds: 3, Window: 4 * time.Second, Warm: 500 * time.Millisecond}}
	p.Flags("100,000 keys")
	flag.StringVar(&p.skerry, "skerry", "", "skerry `program` to measure (default: built from this repository)")
	flag.StringVar(&p.shapes, "shapes", "1x1,64x1,512x1,8x64", "connections and requests in flight on each; HTTP uses those with one in flight")
	flag.Uint64Var(&p.keys, "keys", 1_000_000, "keys loaded beforehand, of 16 bytes with values of 100 bytes")
	flag.IntVar(&p.restart, "restarts", 3, "restarts after kill -9 that the recovery time is measured over")
	flag.Parse()
	if p.Quick {
		p.keys, p.restart = 100_000, 1
	}
	p.Main(p.compare)
}

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) error {
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
	if err := rig.Turns(&p.Plan, systems, func(s *system, round int) error { return m.visit(p, s, round) }); err != nil {
		return err
	}
	m.report(p, systems)
	return nil
}

// open finds the systems, without starting them.
func (p *plan) open(dir string) ([]*system, error) {
	shapes, err := rig.ParseShapes(p.shapes)
	if err != nil {
		return nil, err
	}
	unpipelined := slices.DeleteFunc(slices.Clone(shapes), func(s rig.Shape) bool { return s.Flight > 1 })
	systems, err := rig.Open(&p.Plan, map[string]func() (*system, error){
		"skerry": func() (*system, error) {
			path, err := rig.Skerry(p.skerry, dir)
			return newSkerry(path, shapes, unpipelined), err
		},
		"redis": func() (*system, error) {
			path, err := rig.Need("redis-server", "redis-server")
			return newRedis(path, shapes), err
		},
		"etcd": func() (*system, error) {
			path, err := rig.Need("etcd", "etcd-server")
			return newEtcd(path, shapes, unpipelined), err
		},
	})
	for _, s := range systems {
		s.dir = filepath.Join(dir, s.name)
	}
	return systems, err
}
