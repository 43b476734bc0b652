// Command engines compares the capabilities of Skerry on its engines with programs written by hand for the same
// database: pgx on PostgreSQL, go-redis on Redis. Both sides promise the same durability.
//
// It knows the operations and the measurements; it must not know how an engine works. Linux only (/proc).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	callers string
	lanes   string
	keys    int
	records int
}

func main() {
	p := plan{Plan: rig.Plan{Name: "engines", Systems: "embedded,postgres,pgx,redis,go-redis", Rounds: 3, Window: 3 * time.Second, Warm: time.Second}}
	p.Flags("2,000 keys, 1,000 records")
	flag.StringVar(&p.callers, "callers", "1,64", "concurrent callers, each with one call in flight")
	flag.StringVar(&p.lanes, "lanes", "", "operations to run, separated by commas; empty: all")
	flag.IntVar(&p.keys, "keys", 100_000, "keys of 16 bytes with values of about 100 bytes, and as many sessions and phones")
	flag.IntVar(&p.records, "records", 10_000, "records of about 300 bytes")
	flag.Parse()
	if p.Quick {
		p.keys, p.records = 2_000, 1_000
	}
	p.Main(p.compare)
}

// lanes are the operations, in the order of the report.
var lanes = []string{
	"get", "set", "set+log", "vote", "session load", "session save", "record get", "record list", "record create", "record update",
}

// side is one system that is open: its operations by lane, and the processes of its database.
type side struct {
	ops   map[string]op
	pids  []int
	close func() error
}

// op is one operation by one of the callers on a random number.
type op func(ctx context.Context, caller int, n int64) error

// system can be opened. Its data stay in its folder from one round to the next.
type system struct {
	name  string
	about string
	open  func(ctx context.Context, p *plan, dir string, fill bool) (*side, error)
	dir   string
}

func (s *system) String() string { return s.name }

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) error {
	var callers []int
	for word := range strings.SplitSeq(p.callers, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > maxCallers {
			return fmt.Errorf("-callers %q: give numbers from 1 to %d", p.callers, maxCallers)
		}
		callers = append(callers, n)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	makers := map[string]func() (*system, error){}
	for _, s := range systems() {
		makers[s.name] = func() (*system, error) {
			s.dir = filepath.Join(dir, s.name)
			return s, nil
		}
	}
	chosen, err := rig.Open(&p.Plan, makers)
	if err != nil {
		return err
	}
	m := &measurements{w: w, cells: map[string]*cell{}, callers: callers}
	if err := m.head(p, chosen, dir); err != nil {
		return err
	}
	if err := rig.Turns(&p.Plan, chosen, func(s *system, round int) error { return m.visit(p, s, round) }); err != nil {
		return err
	}
	m.report(p, chosen)
	return nil
}

// maxCallers is how many connections the servers have room for.
const maxCallers = 64

// visit is one system's turn in one round.
func (m *measurements) visit(p *plan, s *system, round int) (err error) {
	ctx := context.Background()
	on, err := s.open(ctx, p, s.dir, round == 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.close()) }()
	for _, lane := range lanes {
		do := on.ops[lane]
		if do == nil || p.lanes != "" && !slices.Contains(strings.Split(p.lanes, ","), lane) {
			continue
		}
		for _, callers := range m.callers {
			out, err := p.run(ctx, do, callers, on.pids, uint64(round+1))
			if err != nil {
				return fmt.Errorf("%s, %d callers: %w", lane, callers, err)
			}
			m.add(s.name, lane, callers, round, out)
		}
	}
	return nil
}

// systems returns all systems.
func systems() []*system {
	return slices.Concat(skerrySystems(), []*system{
		{name: "pgx", about: "pgx by hand: one statement a call where that is enough", open: openPgx},
		{name: "go-redis", about: "go-redis by hand", open: openGoRedis},
	})
}
