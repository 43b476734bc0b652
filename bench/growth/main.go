// Command growth measures how Skerry grows: one node with redis-server beside it at 1 k to 50 M keys, three nodes with
// three of etcd, and Voter's engine alone. It prints tables, compares them with the project's targets and draws a picture.
//
// It knows how to start, fill, watch and kill the servers, and the times of their snapshots and of the garbage
// collector; it must not know Skerry's internals: it runs the built program and uses its protocols. Linux only
// (epoll, /proc).
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// Parts of a run.
const (
	partSkerry = "skerry" // one node
	partRedis  = "redis"
	partThree  = "three" // three nodes of Skerry
	partEtcd   = "etcd"  // three nodes of etcd
	partVoter  = "voter"
)

var allParts = []string{partSkerry, partRedis, partThree, partEtcd, partVoter}

// plan is the measurements of one run.
type plan struct {
	dir, out, html, skerry string
	sizes                  []uint64
	window                 time.Duration
	rounds                 int
	parts                  []string
}

func main() {
	p := plan{sizes: []uint64{1_000, 100_000, 1_000_000, 10_000_000, 50_000_000}, parts: allParts}
	flag.StringVar(&p.dir, "dir", ".", "`folder` on a disk; the servers keep their data below it during the run")
	flag.StringVar(&p.out, "out", "", "`file` for the output (default results/growth-DATE.txt)")
	flag.StringVar(&p.html, "html", "", "`file` for the picture (default that of the output with .html)")
	flag.StringVar(&p.skerry, "skerry", "", "skerry `program` to measure (default: built from this repository)")
	flag.Func("sizes", "numbers of keys, ascending (default 1k,100k,1M,10M,50M; sizes that do not fit into memory are left out)", func(s string) (err error) {
		p.sizes, err = parseSizes(s)
		return err
	})
	seconds := flag.Float64("seconds", 20, "counted time of one measurement")
	flag.IntVar(&p.rounds, "rounds", 2, "rounds; the systems take turns in each, and medians are printed")
	flag.Func("only", "`parts` to run (default "+strings.Join(allParts, ",")+")", func(s string) error {
		p.parts = strings.Split(s, ",")
		for _, w := range p.parts {
			if !slices.Contains(allParts, w) {
				return fmt.Errorf("%q is not one of %s", w, strings.Join(allParts, ", "))
			}
		}
		return nil
	})
	flag.Parse()
	p.window = time.Duration(*seconds * float64(time.Second))
	if err := p.mistake(); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(2)
	}
	if err := p.main(); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// shortest is the shortest counted time of one measurement.
const shortest = 500 * time.Millisecond

func (p *plan) mistake() error {
	switch {
	case p.window < shortest:
		return fmt.Errorf("-seconds must be at least %v", shortest.Seconds())
	case p.rounds < 1:
		return fmt.Errorf("-rounds must be at least 1")
	}
	return nil
}

func (p *plan) has(part string) bool { return slices.Contains(p.parts, part) }

// parseSizes parses "1k,100k,1M".
func parseSizes(s string) (all []uint64, err error) {
	for w := range strings.SplitSeq(s, ",") {
		digits, unit := w, uint64(1)
		if d, ok := strings.CutSuffix(w, "k"); ok {
			digits, unit = d, 1_000
		} else if d, ok := strings.CutSuffix(w, "M"); ok {
			digits, unit = d, 1_000_000
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || n == 0 || len(all) > 0 && n*unit <= all[len(all)-1] {
			return nil, fmt.Errorf("%q is not an ascending list of numbers like 1k,100k,1M", s)
		}
		all = append(all, n*unit)
	}
	return all, nil
}

// sizeName is the reverse of parseSizes.
func sizeName(n uint64) string {
	switch {
	case n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n%1_000 == 0:
		return fmt.Sprintf("%d k", n/1_000)
	}
	return strconv.FormatUint(n, 10)
}

// needed is the memory that must be available for each key on each node: Skerry's worst measured resident memory, and
// room for the page cache, without which the disk would be measured.
const needed = 600

// fits reports whether nodes with that many keys fit into the available memory.
func fits(keys uint64, nodes int) bool {
	have := rig.MemAvailable()
	return have == 0 || keys*needed*uint64(nodes) <= have
}

// main runs the whole plan and writes the report and the picture. Whatever happens, it leaves nothing running.
func (p *plan) main() (err error) {
	dir, err := os.MkdirTemp(p.dir, "growth-*.tmp")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	f := rig.NewFleet()
	leave := func() {
		f.End()
		_ = os.RemoveAll(dir) // best effort
	}
	defer leave()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		leave()
		fmt.Fprintln(os.Stderr, "growth: interrupted; everything is stopped")
		os.Exit(130)
	}()
	if err := rig.OnDisk(dir); err != nil {
		return err
	}
	if p.out == "" {
		p.out = filepath.Join("results", "growth-"+time.Now().Format(time.DateOnly)+".txt")
	}
	if p.html == "" {
		p.html = strings.TrimSuffix(p.out, ".txt") + ".html"
	}
	w, closing, err := rig.Report(p.out, "growth", false)
	if err != nil {
		return err
	}
	defer closing()
	m := &measurements{w: w, fleet: f}
	if err := m.run(p, dir); err != nil {
		return err
	}
	return m.draw(p.html)
}

// run runs the parts and prints the report.
func (m *measurements) run(p *plan, dir string) error {
	if err := m.head(p, dir); err != nil {
		return err
	}
	began := time.Now()
	if p.has(partSkerry) || p.has(partRedis) {
		if err := m.single(p, dir); err != nil {
			return err
		}
	}
	if p.has(partThree) || p.has(partEtcd) {
		if err := m.clusters(p, dir); err != nil {
			return err
		}
	}
	if p.has(partVoter) {
		if err := m.voter(p, dir); err != nil {
			return err
		}
	}
	m.report(p)
	fmt.Fprintf(m.w, "\nThe run took %v.\n", time.Since(began).Round(time.Second))
	return nil
}

// measurements are all results for the report.
type measurements struct {
	w      io.Writer
	fleet  *rig.Fleet
	path   string // of the skerry program
	began  time.Time
	one    []*grown
	three  []*trioGrown
	engine []float64 // votes a second, in the engine alone
}
