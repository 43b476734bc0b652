package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/client/sqldriver"
)

// open opens Skerry's client with Conns connections, and waits for the first.
func (m *meter) open() (*client.Client, error) {
	c, err := client.Open(client.Options{Addrs: []string{m.Addr}, Conns: m.Conns, MaxInFlight: max(m.Flight, 16), Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	if err := c.Ping(context.Background()); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// driveBlocking is Skerry's client with one blocking call per goroutine.
func driveBlocking(m *meter) error {
	c, err := m.open()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := context.Background()
	return m.callers(func(b *ballot) error {
		phone, contestant := b.next()
		_, err := c.Call(ctx, "vote", phone, contestant, int64(maxVotes))
		return err
	})
}

// driveSQL is Skerry's client through database/sql. There is no prepared statement: the driver caches parsed
// statements, and a sql.Stmt allocates more per call (11 against 9) than a text.
func driveSQL(m *meter) error {
	c, err := m.open()
	if err != nil {
		return err
	}
	defer c.Close()
	db := sql.OpenDB(sqldriver.NewConnector(c, sqldriver.Options{}))
	defer db.Close()
	db.SetMaxOpenConns(m.Flight)
	db.SetMaxIdleConns(m.Flight)
	ctx := context.Background()
	return m.callers(func(b *ballot) error {
		phone, contestant := b.next()
		var cast int64
		return db.QueryRowContext(ctx, "CALL vote(?, ?, ?)", phone, contestant, int64(maxVotes)).Scan(&cast)
	})
}

// sampled is how many calls there are per measured latency.
const sampled = 64

// weighed is the number of calls in flight from which on their memory is measured: with fewer, the runtime's
// own memory dominates.
const weighed = 10_000

// stopwatch times one of sampled calls; there are as many as calls can be under way.
type stopwatch struct {
	from time.Time
	done func(client.Result, error)
}

// asyncRun counts the callbacks of one run.
type asyncRun struct {
	*meter
	out    sync.WaitGroup
	lock   sync.Mutex // guards what follows
	lat    *rig.Hist
	failed error
}

func (r *asyncRun) ended(err error) {
	if err == nil {
		r.votes.Add(1)
	} else {
		r.lock.Lock()
		r.failed = err
		r.lock.Unlock()
		r.done.Store(true)
	}
	r.out.Done()
}

// stopwatches returns n of them.
func (r *asyncRun) stopwatches(n int) chan *stopwatch {
	free := make(chan *stopwatch, n)
	for range n {
		s := &stopwatch{}
		s.done = func(_ client.Result, err error) {
			took := time.Since(s.from)
			if r.count.Load() && s.from.After(r.start.Add(r.before.at)) {
				r.lock.Lock()
				r.lat.Add(took)
				r.lock.Unlock()
			}
			free <- s
			r.ended(err)
		}
		free <- s
	}
	return free
}

// driveAsync is Skerry's client without waiting: one goroutine makes calls, limited by the client's bound on
// calls in flight. Most calls share one callback, which counts, so the driver allocates nothing per call.
func driveAsync(m *meter) error {
	c, err := m.open()
	if err != nil {
		return err
	}
	defer c.Close()
	r := &asyncRun{meter: m, lat: m.hist()}
	free := r.stopwatches(m.Flight/sampled + 1)
	plain := func(_ client.Result, err error) { r.ended(err) }
	base := idle()
	ctx := context.Background()
	m.start = time.Now()
	var workers sync.WaitGroup
	if m.Flight >= weighed {
		workers.Go(func() { m.callMemory(base) })
	}
	workers.Go(func() {
		b := m.ballot(0)
		for n := 0; !m.done.Load(); n++ {
			done := plain
			if n%sampled == 0 {
				select {
				case s := <-free:
					s.from = time.Now()
					done = s.done
				default:
				}
			}
			phone, contestant := b.next()
			r.out.Add(1)
			if err := c.CallAsync(ctx, done, "vote", phone, contestant, int64(maxVotes)); err != nil {
				done(client.Result{}, err)
			}
		}
	})
	m.window()
	workers.Wait()
	r.out.Wait()
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.failed != nil {
		return fmt.Errorf("a call failed: %w", r.failed)
	}
	return nil
}
