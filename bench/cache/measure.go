package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/bench/rig"
)

// measurements collects what was measured, by system and distribution.
type measurements struct {
	w       io.Writer
	cells   map[string]*cell
	arrived []float64 // milliseconds until a change was seen, sorted
	applied []float64 // changes for a second of CPU time
}

type cell struct{ rate, p99, cpu, rss []float64 }

func newMeasurements(w io.Writer) *measurements {
	return &measurements{w: w, cells: map[string]*cell{}}
}

func distributions() []string { return []string{"zipf", "uniform"} }

func (m *measurements) head(p *plan) {
	fmt.Fprintf(m.w, "%s\n%s; load %s\n", time.Now().Format("2006-01-02 15:04"), rig.Machine(), rig.LoadAverage())
	fmt.Fprintf(m.w, "%d departments of about 1.8 kB, wrk with %d connections on the same machine, %d rounds of %v\n", p.departments, p.conns, p.Rounds, p.Window)
	fmt.Fprintf(m.w, "CPU is that of the server and of PostgreSQL together; medians at the end\n\n")
	fmt.Fprintf(m.w, "%-9s %-8s %10s %8s %8s %9s\n", "system", "keys", "requests/s", "p99 ms", "CPU µs", "RSS MiB")
}

func (m *measurements) cell(s *system, keys string) *cell {
	c := m.cells[s.name+keys]
	if c == nil {
		c = &cell{}
		m.cells[s.name+keys] = c
	}
	return c
}

// visit measures one system with each distribution.
func (m *measurements) visit(p *plan, s *system) error {
	for _, keys := range distributions() {
		if err := m.sample(p, s, keys, keys); err != nil {
			return err
		}
	}
	return nil
}

// changing measures a system beside 1,000 updates a second.
func (m *measurements) changing(p *plan, s *system) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- p.update(ctx) }()
	for range p.Rounds {
		if err := m.sample(p, s, "zipf", "changing"); err != nil {
			return err
		}
	}
	cancel()
	return <-stopped
}

// sample measures one system with one distribution.
func (m *measurements) sample(p *plan, s *system, keys, as string) error {
	if _, err := p.wrk(s, keys, p.Warm); err != nil {
		return err
	}
	before, err := p.cpu(s)
	if err != nil {
		return err
	}
	r, err := p.wrk(s, keys, p.Window)
	if err != nil {
		return err
	}
	after, err := p.cpu(s)
	if err != nil {
		return err
	}
	rss, err := rig.RSS(s.process.PID())
	if err != nil {
		return err
	}
	if r.errors > 0 {
		return fmt.Errorf("%s answered %d requests with errors", s.name, r.errors)
	}
	c := m.cell(s, as)
	c.rate = append(c.rate, float64(r.requests)/r.took.Seconds())
	c.p99 = append(c.p99, float64(r.p99)/float64(time.Millisecond))
	c.cpu = append(c.cpu, rig.Micros(after-before)/float64(r.requests))
	c.rss = append(c.rss, float64(rss)/(1<<20))
	n := len(c.rate) - 1
	fmt.Fprintf(m.w, "%-9s %-8s %10.0f %8.2f %8.1f %9.0f\n", s.name, as, c.rate[n], c.p99[n], c.cpu[n], c.rss[n])
	return nil
}

// cpu returns the time that a server and PostgreSQL have used.
func (p *plan) cpu(s *system) (time.Duration, error) {
	own, err := rig.CPUTree(s.process.PID())
	if err != nil || !s.database {
		return own, err
	}
	database, err := rig.CPUTree(p.postgres.PID())
	return own + database, err
}

type result struct {
	requests int64
	took     time.Duration
	p99      time.Duration
	errors   int64
}

var resultLine = regexp.MustCompile(`RESULT (\d+) (\d+) (\d+) (\d+)`)

// fill reads every department once.
func (p *plan) fill(s *system) error {
	ids, failed := make(chan int), make(chan error, fillers)
	for range fillers {
		go func() {
			var err error
			for id := range ids {
				if err == nil {
					err = s.read(id, io.Discard)
				}
			}
			failed <- err
		}()
	}
	for id := 1; id <= p.departments; id++ {
		ids <- id
	}
	close(ids)
	var err error
	for range fillers {
		err = errors.Join(err, <-failed)
	}
	return err
}

const fillers = 16

// client keeps as many connections as fill uses.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: fillers}}

// read reads one department.
func (s *system) read(id int, to io.Writer) error {
	res, err := client.Get(fmt.Sprintf("http://%s/dept/%d", s.addr, id))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("department %d from %s: %s", id, s.name, res.Status)
	}
	_, err = io.Copy(to, res.Body)
	return err
}

// wrk runs one load.
func (p *plan) wrk(s *system, keys string, d time.Duration) (r result, err error) {
	seconds := max(int(d/time.Second), 1)
	out, err := exec.Command("wrk", "-t1", "-c"+strconv.Itoa(p.conns), "-d"+strconv.Itoa(seconds)+"s", "-s", filepath.Join(p.dir, keys+".lua"), "http://"+s.addr).CombinedOutput()
	if err != nil {
		return r, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	f := resultLine.FindSubmatch(out)
	if f == nil {
		return r, fmt.Errorf("wrk printed no result:\n%s", out)
	}
	n := [4]int64{}
	for i := range n {
		n[i], _ = strconv.ParseInt(string(f[i+1]), 10, 64)
	}
	return result{n[0], time.Duration(n[1]) * time.Microsecond, time.Duration(n[2]) * time.Microsecond, n[3]}, nil
}

const probes = 200

// invalidate measures how long a committed change takes to reach readers, beside 1,000 other updates a second.
func (m *measurements) invalidate(p *plan, s *system) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- p.update(ctx) }()
	db, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer db.Close(context.Background())
	for i := range probes {
		id, mark := 1+i*31%p.departments, fmt.Sprintf("probe %d of %d", i, time.Now().UnixNano())
		if err := m.see(s, id, "", 0); err != nil {
			return err
		}
		if _, err := db.Exec(ctx, "update dept set name = $1 where id = $2", mark, id); err != nil {
			return err
		}
		committed := time.Now()
		if err := m.see(s, id, mark, 0); err != nil {
			return err
		}
		m.arrived = append(m.arrived, float64(time.Since(committed))/float64(time.Millisecond))
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	return <-stopped
}

// see reads a department until it has a text, with pauses.
func (m *measurements) see(s *system, id int, text string, pause time.Duration) error {
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		var body strings.Builder
		if err := s.read(id, &body); err != nil {
			return err
		}
		if strings.Contains(body.String(), text) {
			return nil
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("department %d never showed %q", id, text)
}

// burst measures the CPU time of the server for each of many changes that are committed at once, from the commit until the
// last of them has reached readers.
func (m *measurements) burst(p *plan, s *system) error {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for range p.Rounds {
		mark := fmt.Sprintf("burst %d", time.Now().UnixNano())
		if err := m.see(s, p.departments, "", 0); err != nil {
			return err
		}
		before, err := rig.CPUTime(s.process.PID())
		if err != nil {
			return err
		}
		_, err = db.Exec(ctx, "with all_of_them as (update emp set salary = salary + 1 returning 1), marked as (update dept set name = '"+mark+"' where id = "+strconv.Itoa(p.departments)+") select count(*) from all_of_them")
		if err != nil {
			return err
		}
		if err := m.see(s, p.departments, mark, burstPause); err != nil {
			return err
		}
		after, err := rig.CPUTime(s.process.PID())
		if err != nil {
			return err
		}
		m.applied = append(m.applied, float64(p.departments*employees)/(after-before).Seconds())
	}
	return nil
}

// burstPause keeps the reads of burst from being measured themselves.
const burstPause = 20 * time.Millisecond

// employees of a department.
const employees = 10

// update makes 1,000 updates a second, in transactions of ten.
func (p *plan) update(ctx context.Context) error {
	db, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer db.Close(context.Background())
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i += 10 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if _, err := db.Exec(ctx, "update emp set salary = salary + 1 where no = 1 and dept_id between $1 and $1 + 9", 1+i%max(p.departments-10, 1)); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
