// Command cluster compares three nodes of Skerry with three of etcd, each with every write on the disks of a
// majority before it is acknowledged. It measures load, growth, and writes while nodes are lost and return.
//
// It knows how to create, load, break and stop both clusters on this machine; it must not know Skerry's
// internals: it runs the built program and uses its protocols. Linux only (epoll, /proc).
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// plan is the measurements of one run.
type plan struct {
	dir, out, skerry string
	systems, parts   []string
	keys             uint64
	rounds           int
	window, warm     time.Duration
	faults           int
	behind           int64 // bytes
	growth           []uint64
	only             *regexp.Regexp // nil: all
	short, keep      bool
}

var allParts = []string{"load", "failover", "catchup", "growth"}

func main() {
	p := plan{growth: []uint64{1_000, 100_000, 10_000_000}, systems: []string{"skerry", "etcd"}, parts: allParts}
	flag.StringVar(&p.dir, "dir", ".", "`folder` on a disk; the nodes keep their data below it during the run")
	flag.StringVar(&p.out, "out", "", "`file` for the output (default results/cluster-DATE.txt, none with -short)")
	flag.StringVar(&p.skerry, "skerry", "", "skerry `program` to measure (default: built from this repository)")
	flag.Func("systems", "systems to run, in this order (default skerry,etcd)", words(&p.systems, "skerry", "etcd"))
	flag.Func("parts", "parts to run (default load,failover,catchup,growth)", words(&p.parts, allParts...))
	flag.Func("only", "`pattern` of what to measure under load, such as 'leader write 8×64'", func(s string) (err error) {
		p.only, err = regexp.Compile(s)
		return err
	})
	flag.Uint64Var(&p.keys, "keys", 1_000_000, "keys loaded beforehand, of 16 bytes with values of 100 bytes")
	flag.IntVar(&p.rounds, "rounds", 3, "rounds; the systems take turns in each, and medians are printed")
	flag.DurationVar(&p.window, "window", 3*time.Second, "counted time of one measurement")
	flag.DurationVar(&p.warm, "warm", 500*time.Millisecond, "time before it that is not counted")
	flag.IntVar(&p.faults, "failovers", 5, "times that the leader is killed, and times that it gets SIGTERM")
	flag.Int64Var(&p.behind, "behind", 1<<30, "`bytes` written while a follower is down")
	flag.Func("growth", "numbers of keys at which the cost of a write is measured (default 1000,100000,10000000; the last needs 12 GiB of memory)", func(s string) (err error) {
		p.growth, err = counts(s)
		return err
	})
	flag.BoolVar(&p.short, "short", false, "a short run to check that everything works; its numbers mean nothing")
	flag.BoolVar(&p.keep, "keep", false, "leave data and logs if the run fails")
	flag.Parse()
	if p.short {
		shorten()
	}
	if err := p.compare(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// shorten sets the options that were not given to values for a short run.
func shorten() {
	values := map[string]string{"keys": "20000", "rounds": "1", "window": "400ms", "warm": "100ms",
		"failovers": "1", "behind": strconv.Itoa(64 << 20), "growth": "1000,20000"}
	flag.Visit(func(f *flag.Flag) { delete(values, f.Name) })
	for name, value := range values {
		if err := flag.Set(name, value); err != nil {
			panic("BUG: " + name + ": " + err.Error())
		}
	}
}

// words parses a list of known words.
func words(into *[]string, known ...string) func(string) error {
	return func(s string) error {
		*into = strings.Split(s, ",")
		for _, w := range *into {
			if !slices.Contains(known, w) {
				return fmt.Errorf("%q is not one of %s", w, strings.Join(known, ", "))
			}
		}
		return nil
	}
}

// counts parses an ascending list of numbers.
func counts(s string) (all []uint64, err error) {
	for w := range strings.SplitSeq(s, ",") {
		n, err := strconv.ParseUint(w, 10, 64)
		if err != nil || n == 0 || len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("%q is not an ascending list of numbers like 1000,100000", s)
		}
		all = append(all, n)
	}
	return all, nil
}

// compare runs the whole plan and prints the report. Whatever happens, it leaves nothing running.
func (p *plan) compare() (err error) {
	dir, err := os.MkdirTemp(p.dir, "cluster-*.tmp")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	f := rig.NewFleet()
	leave := func(failed bool) {
		f.End()
		if p.keep && failed {
			fmt.Fprintln(os.Stderr, "cluster: data and logs are in", dir)
			return
		}
		_ = os.RemoveAll(dir) // best effort
	}
	defer func() { leave(err != nil) }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		leave(false)
		fmt.Fprintln(os.Stderr, "cluster: interrupted; everything is stopped")
		os.Exit(130)
	}()
	if err := rig.OnDisk(dir); err != nil {
		return err
	}
	w, closing, err := rig.Report(p.out, "cluster", p.short)
	if err != nil {
		return err
	}
	defer closing()
	kinds, err := p.kinds(dir)
	if err != nil {
		return err
	}
	m := &measurements{w: w, fleet: f, cells: map[string]*cell{}, faults: map[string]*faults{}, grown: map[string][]grown{}, disk: map[string]float64{}}
	return m.run(p, kinds, dir)
}

// kinds finds the programs.
func (p *plan) kinds(dir string) (all []*trio.Kind, err error) {
	for _, name := range p.systems {
		var path string
		if name == "etcd" {
			if path, err = rig.Need("etcd", "etcd-server"); err != nil {
				return nil, err
			}
			all = append(all, trio.NewEtcd(path))
			continue
		}
		if path, err = rig.Skerry(p.skerry, dir); err != nil {
			return nil, err
		}
		all = append(all, trio.NewSkerry(path))
	}
	return all, nil
}
