// Command cache compares the departments of examples/deptemp from Skerry's cache, in memory and on disk, with the same
// straight from PostgreSQL, from net/http with the cache otter, and as files of nginx. wrk is the load.
//
// It knows how to start, load and measure the servers; it must not know how they keep entries. Linux only (/proc).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/examples/deptemp"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	departments int
	conns       int
	dir         string
	postgres    *rig.Process
	url         string
	updates     bool // while a load runs, another program updates departments
}

func main() {
	p := plan{Plan: rig.Plan{Name: "cache", Systems: "postgres,otter,memory,disk,nginx", Rounds: 3, Window: 4 * time.Second, Warm: time.Second}}
	p.Flags("2,000 departments")
	flag.IntVar(&p.departments, "departments", 100_000, "departments in the database")
	flag.IntVar(&p.conns, "conns", 64, "connections of wrk")
	flag.Parse()
	if p.Quick {
		p.departments = 2000
	}
	p.Main(p.compare)
}

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) (err error) {
	p.dir = dir
	if _, err := rig.Need("wrk", "wrk"); err != nil {
		return err
	}
	if err := p.prepare(w); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.postgres.Stop(syscall.SIGINT)) }()
	systems, err := rig.Open(&p.Plan, p.makers())
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range systems {
			err = errors.Join(err, s.stop())
		}
	}()
	m := newMeasurements(w)
	m.head(p)
	for _, s := range systems { // all run all the time; those without a load are idle
		if err := s.start(); err != nil {
			return err
		}
	}
	for _, s := range systems {
		if s.keeps {
			if err := p.fill(s); err != nil {
				return err
			}
		}
	}
	if err := rig.Turns(&p.Plan, systems, func(s *system, round int) error { return m.visit(p, s) }); err != nil {
		return err
	}
	for _, s := range systems {
		if s.name == "memory" {
			if err := errors.Join(m.changing(p, s), m.invalidate(p, s), m.burst(p, s)); err != nil {
				return err
			}
		}
	}
	m.report(p, systems)
	return nil
}

// prepare starts PostgreSQL, fills it, and writes the keys that wrk asks for.
func (p *plan) prepare(w io.Writer) error {
	bin, err := rig.PostgresPrograms()
	if err != nil {
		return err
	}
	addrs, err := rig.FreePorts(1)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(p.dir, 0o755), os.Mkdir(filepath.Join(p.dir, "pg"), 0o755)); err != nil { // PostgreSQL has a user of its own
		return err
	}
	if p.postgres, err = rig.StartPostgres(bin, filepath.Join(p.dir, "pg"), addrs[0], filepath.Join(p.dir, "postgres.log"), "wal_level=logical"); err != nil {
		return err
	}
	p.url = rig.PostgresURL(addrs[0])
	fmt.Fprintf(w, "filling the database with %d departments\n", p.departments)
	if err := deptemp.Generate(context.Background(), p.url, int64(p.departments), func(deptemp.Progress) {}); err != nil {
		return errors.Join(err, p.postgres.Stop(syscall.SIGINT))
	}
	return errors.Join(p.script("zipf"), p.script("uniform"))
}

// requests is how many requests of one script differ in their order.
const requests = 100_000

// script writes a script for wrk that asks for departments by a distribution.
func (p *plan) script(distribution string) error {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.01, 1, uint64(p.departments-1))
	f, err := os.Create(filepath.Join(p.dir, distribution+".lua"))
	if err != nil {
		return err
	}
	fmt.Fprintln(f, "local list = {")
	for range requests {
		id := uint64(r.IntN(p.departments))
		if distribution == "zipf" {
			id = zipf.Uint64() * 7919 % uint64(p.departments) // what is asked for often is spread out
		}
		fmt.Fprintf(f, "%d,\n", id+1)
	}
	_, _ = io.WriteString(f, `}
local made, at, threads = {}, 0, 0
function setup(thread) thread:set("offset", threads * 7919) threads = threads + 1 end
function init()
	for i, id in ipairs(list) do made[i] = wrk.format("GET", "/dept/" .. id) end
	at = offset or 0
end
function request() at = at % #made + 1 return made[at] end
function done(summary, latency)
	io.write(string.format("RESULT %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(99), summary.errors.status + summary.errors.read + summary.errors.timeout))
end
`)
	return f.Close()
}
