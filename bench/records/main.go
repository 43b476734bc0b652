// Command records compares Skerry's records over REST with PocketBase and with a plain Go program on PostgreSQL: the
// same collection, index and requests, and a history in the same transaction where the other side can keep one.
//
// It knows how to start the systems, their requests and results; it must not know how they serve: that is in the
// program records/site, which runs in its own process. Linux only (/proc).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	records int64  // loaded before the rounds
	big     int64  // of the measurements of size, recovery and index
	clients string // numbers of clients
	loads   string // words in the names of loads
	crud    bool
}

func main() {
	p := plan{Plan: rig.Plan{
		Name: "records", Systems: "skerry,pocketbase-full,pocketbase-history,pocketbase,postgres",
		Rounds: 3, Window: 4 * time.Second, Warm: time.Second,
	}}
	p.Flags("500 records, 2,000 for sizes, recovery and index")
	flag.Int64Var(&p.records, "records", 100_000, "records that are there before the first round")
	flag.Int64Var(&p.big, "big", 100_000, "records of the measurements of size, recovery and index build; 0 leaves them out")
	flag.StringVar(&p.clients, "clients", "1,64", "numbers of clients, each with one request in flight; the burst has the last of them")
	flag.StringVar(&p.loads, "loads", "create,get,list,update,burst", "requests to measure, by words of their names")
	flag.BoolVar(&p.crud, "crud", true, "also run GotRo's comparison of databases")
	flag.Parse()
	if p.Quick {
		p.records, p.big = 2_000, 2_000 // as many as fill a list of every status
	}
	p.Main(p.compare)
}

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) (err error) {
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	var clients []int
	for word := range strings.SplitSeq(p.clients, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 1000 {
			return fmt.Errorf("%q is no number of clients from 1 to 1000", word)
		}
		clients = append(clients, n)
	}
	selected := slices.DeleteFunc(slices.Clone(loads), func(l load) bool {
		return !slices.ContainsFunc(strings.Split(p.loads, ","), func(word string) bool { return strings.Contains(l.name, word) })
	})
	systems, err := p.open(dir)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range systems {
			err = errors.Join(err, s.stop())
		}
	}()
	m := &measurements{w: w, cells: map[string]*cell{}, bigs: map[string]*big{}, clients: clients, loads: selected}
	m.head(p, systems)
	if err := rig.Turns(&p.Plan, systems, func(s *system, round int) error { return m.visit(p, s, round) }); err != nil {
		return err
	}
	for _, s := range systems {
		if p.big == 0 {
			break
		}
		if err := m.visitBig(p, s); err != nil {
			return fmt.Errorf("%v, %d records: %w", s, p.big, err)
		}
	}
	if p.crud {
		if err := m.crud(p, dir, systems); err != nil {
			return err
		}
	}
	m.report(p, systems)
	return nil
}

// open finds the requested systems, without starting them.
func (p *plan) open(dir string) ([]*system, error) {
	path := filepath.Join(dir, "site.bin")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", path, "github.com/skerrydb/skerry/bench/records/site").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the site: %w\n%s", err, out)
	}
	makers := map[string]func() (*system, error){}
	for _, a := range abouts {
		makers[a.system] = func() (*system, error) {
			s := &system{name: a.system, about: a.text, site: path, dir: filepath.Join(dir, a.system), dialect: dialects[a.dialect]}
			var err error
			if a.dialect == "postgres" {
				if s.postgres, err = rig.PostgresPrograms(); err == nil {
					s.about += rig.OutputLine(filepath.Join(s.postgres, "postgres"), "--version")
				}
			}
			return s, err
		}
	}
	return rig.Open(&p.Plan, makers)
}

// abouts are the systems, and what is said about them.
var abouts = []struct{ system, dialect, text string }{
	{"skerry", "skerry", "record and web/records on the embedded engine in one process; history and fsync before the reply"},
	{"pocketbase-full", "pocketbase", "PocketBase v0.39.0 as a Go program, pure Go SQLite, WAL, synchronous=FULL, log of requests off; keeps no history"},
	{"pocketbase-history", "pocketbase", "the same, with a hook that writes a row of history in the transaction of the change"},
	{"pocketbase", "pocketbase", "PocketBase with its defaults: synchronous=NORMAL, so the last commits may be lost with the power, and its log of requests; keeps no history"},
	{"postgres", "postgres", "net/http, pgx with 64 connections, JSONB and a table of history written by the same statement; fsync and synchronous_commit on; "},
}
