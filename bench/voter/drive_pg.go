package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/examples/voter"
)

// drivePgx calls the function as a prepared statement in pipeline mode
// (https://www.postgresql.org/docs/15/libpq-pipeline-mode.html), with a Sync after each call, which ends the
// transaction.
func drivePgx(m *meter) error {
	per := m.Flight / m.Conns
	links := make([]*pgLink, m.Conns)
	for i := range links {
		l := &pgLink{m: m, ballot: m.ballot(i), hist: m.hist(), sent: make([]time.Duration, per)}
		c, err := pgx.Connect(context.Background(), rig.PostgresURL(m.Addr))
		if err != nil {
			return err
		}
		defer c.Close(context.Background())
		if _, err := c.Prepare(context.Background(), "vote", "SELECT vote($1, $2, $3)"); err != nil {
			return err
		}
		l.pipe = c.PgConn().StartPipeline(context.Background())
		links[i] = l
	}
	errs := make([]error, m.Conns)
	m.start = time.Now()
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = l.run() })
	}
	m.window()
	wg.Wait()
	return errors.Join(errs...)
}

// pgLink is one connection with many votes in flight.
type pgLink struct {
	m *meter
	*ballot
	hist  *rig.Hist
	pipe  *pgconn.Pipeline
	sent  []time.Duration // a ring
	asked int
	got   int
}

func (l *pgLink) run() error {
	for {
		for !l.m.done.Load() && l.asked-l.got < len(l.sent) {
			phone, contestant := l.next()
			l.pipe.SendQueryPrepared("vote", [][]byte{
				strconv.AppendInt(nil, phone, 10), strconv.AppendInt(nil, int64(contestant), 10), strconv.AppendInt(nil, maxVotes, 10),
			}, nil, nil)
			l.sent[l.asked%len(l.sent)] = time.Since(l.m.start)
			l.asked++
			l.pipe.SendPipelineSync()
		}
		if err := l.pipe.Flush(); err != nil {
			return err
		}
		if l.asked == l.got {
			return l.pipe.Close()
		}
		// Half of the ring, so that the server never has to wait for the next request.
		for n := min(max(len(l.sent)/2, 1), l.asked-l.got); n > 0; n-- {
			if err := l.result(); err != nil {
				return err
			}
		}
	}
}

// result reads one vote's result, and the end of its transaction.
func (l *pgLink) result() error {
	r, err := l.pipe.GetResults()
	if err != nil {
		return err
	}
	rows, ok := r.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("pgx: unexpected %T", r)
	}
	if res := rows.Read(); res.Err != nil {
		return res.Err
	}
	if r, err = l.pipe.GetResults(); err != nil {
		return err
	}
	if _, ok := r.(*pgconn.PipelineSync); !ok {
		return fmt.Errorf("pgx: unexpected %T", r)
	}
	sent := l.sent[l.got%len(l.sent)]
	l.got++
	l.m.votes.Add(1)
	if l.m.count.Load() && sent >= l.m.before.at {
		l.hist.Add(time.Since(l.m.start) - sent)
	}
	return nil
}

// drivePgbench is PostgreSQL's own load generator, with prepared statements and without pipelining.
func drivePgbench(m *meter) error {
	bin, err := rig.PostgresPrograms()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pgbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "vote.sql")
	text := fmt.Sprintf("\\set n random(0, %d)\n\\set c random(1, %d)\nSELECT vote((%s), :c, %d);\n", m.Phones-1, voter.MaxContestants, pgPhone(), maxVotes)
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		return err
	}
	run := func(d time.Duration, logged bool) (votes int64, took time.Duration, err error) {
		host, port, _ := strings.Cut(m.Addr, ":")
		args := []string{"-h", host, "-p", port, "-U", rig.PostgresUser, "-n", "-M", "prepared", "-f", script, "-c", strconv.Itoa(m.Conns), "-j", "2",
			"-T", strconv.Itoa(max(1, int(d.Seconds()+0.5))), "--random-seed=" + strconv.FormatUint(m.Seed, 10)}
		if logged {
			args = append(args, "-l", "--log-prefix="+filepath.Join(dir, "log"))
		}
		cmd := exec.Command(filepath.Join(bin, "pgbench"), append(args, "postgres")...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return 0, 0, fmt.Errorf("pgbench: %w\n%s", err, out)
		}
		m.out.Client = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		for line := range strings.Lines(string(out)) {
			if n, ok := strings.CutPrefix(line, "number of transactions actually processed: "); ok {
				votes, err = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			}
			if n, ok := strings.CutPrefix(line, "tps = "); ok {
				rate, err := strconv.ParseFloat(strings.Fields(n)[0], 64)
				if err != nil {
					return 0, 0, err
				}
				took = time.Duration(float64(votes) / rate * float64(time.Second))
			}
		}
		m.votes.Add(votes)
		return votes, took, err
	}
	if _, _, err := run(m.Warm, false); err != nil {
		return err
	}
	m.start = time.Now()
	m.before = m.read()
	if m.out.Votes, m.out.Took, err = run(m.Window, true); err != nil {
		return err
	}
	m.after = m.read()
	m.out.Server = m.after.server - m.before.server
	m.out.P50, m.out.P99, err = pgbenchLatencies(dir)
	return err
}

// pgPhone is voter.Phone in SQL: not the same numbers, but as many that belong to states.
func pgPhone() string { return "2120000000 + :n" }

// pgbenchLatencies parses the logs: client, transaction, microseconds, …
func pgbenchLatencies(dir string) (p50, p99 time.Duration, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "log.*"))
	if err != nil {
		return 0, 0, err
	}
	var all []time.Duration
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return 0, 0, err
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if words := strings.Fields(s.Text()); len(words) > 2 {
				us, err := strconv.ParseInt(words[2], 10, 64)
				if err != nil {
					return 0, 0, err
				}
				all = append(all, time.Duration(us)*time.Microsecond)
			}
		}
	}
	if len(all) == 0 {
		return 0, 0, errors.New("pgbench logged nothing")
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100], nil
}
