package record_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// gate is an engine whose changes wait while the gate is shut.
type gate struct {
	*embedded.DB
	shut func() bool
}

func (g gate) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	for g.shut() {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return g.DB.Update(ctx, fn)
}

// trio are three nodes that carry out a migration while records are written.
type trio struct {
	t     *testing.T
	nodes map[uint64]*embedded.DB

	mu   sync.Mutex // guards open
	open map[uint64]*record.DB

	done, of atomic.Uint64 // of the migration, as it was seen last
	until    atomic.Uint64 // the work waits when so many records are done
}

// live returns the nodes that run.
func (c *trio) live() (all []*record.DB) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, db := range c.open {
		all = append(all, db)
	}
	return all
}

// write runs a transaction on the leader, whichever that is. It may run again after a change of leader.
func (c *trio) write(ctx context.Context, fn func(tx *record.Tx) error) {
	for ctx.Err() == nil {
		for _, db := range c.live() {
			_, err := db.Update(ctx, record.Program(), fn)
			if err == nil || ctx.Err() != nil {
				return
			}
			if !engine.Retryable(err) && !errors.Is(err, engine.ErrOutcomeUnknown) && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrNotLeader) {
				c.t.Error(err)
				return
			}
		}
	}
}

// look reads how far the migration is, from any node, and checks that it never goes back. It reports whether it is done.
func (c *trio) look() bool {
	c.t.Helper()
	for _, db := range c.live() {
		all, err := db.Migrations(c.t.Context())
		if err != nil {
			continue
		}
		p := all[slices.IndexFunc(all, func(m record.Migration) bool { return m.Collection == "notes" })].Progress
		if p == nil {
			return c.of.Load() > 0
		}
		if p.Failed != "" {
			c.t.Fatal(p.Failed)
		}
		if was := c.done.Swap(p.Done); p.Done < was || p.Done > p.Of {
			c.t.Errorf("the migration was at %d, and is at %d of %d", was, p.Done, p.Of)
		}
		c.of.Store(p.Of)
		return false
	}
	return false
}

// leader waits for a leader that knows that it is one.
func (c *trio) leader() (id uint64) {
	c.t.Helper()
	eventually.True(c.t, "a leader", func() bool {
		for n, db := range c.nodes {
			if s := db.Cluster().State(); s.Leader == n && s.Self == n {
				id = n
				return true
			}
		}
		return false
	})
	return id
}

// TestMigrateThroughElections: a migration builds indexes and writes records anew on three nodes while others write. In
// the middle of it the leadership is transferred, and later the leader ends. The work goes on where it was, and its
// indexes have exactly the records.
func TestMigrateThroughElections(t *testing.T) {
	records := 6_000 // at least six steps of work
	if testing.Short() {
		records = 3_000
	}
	c := &trio{t: t, nodes: openCluster(t), open: map[uint64]*record.DB{}}
	next := notes()
	next.Fields = append(next.Fields[:2:2], schema.Field{Name: "kind", Type: schema.Int, Required: true, Default: "5"})
	next.Indexes = []schema.Index{{Name: "by_n", Fields: []schema.IndexField{{Name: "n", Desc: true}, {Name: "title"}}}, {Name: "by_title", Unique: true, Fields: []schema.IndexField{{Name: "title"}}}}
	first := c.leader()
	fill(t, withCollections(t, c.nodes[first], notes()), 0, records)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	c.until.Store(uint64(records / 3))
	stop := map[uint64]context.CancelFunc{}
	for id, eng := range c.nodes {
		c.open[id] = withCollections(t, eng, next)
		worker := withCollections(t, gate{eng, func() bool { return c.done.Load() >= c.until.Load() }}, next)
		var own context.Context
		own, stop[id] = context.WithCancel(ctx)
		running.Go(func() { _ = worker.Run(own) })
	}
	c.migrate()
	s := seed.Of(t)
	for w := range 3 {
		r := rand.New(rand.NewPCG(s, uint64(w)))
		running.Go(func() {
			for ctx.Err() == nil {
				c.write(ctx, func(tx *record.Tx) error { return writeSome(tx, r, records) })
			}
		})
	}
	middle := func() bool { return !c.look() && c.done.Load() >= c.until.Load() }
	eventually.True(t, "a third of the work", middle)
	old := c.leader()
	c.until.Store(uint64(records * 2 / 3)) // the work goes on while the leadership is transferred
	eventually.True(t, "another leader", func() bool { c.nodes[old].HandOver(); return c.leader() != old })
	eventually.True(t, "two thirds of the work", middle)
	old = c.leader()
	c.until.Store(uint64(records * 5 / 6))
	c.mu.Lock()
	delete(c.open, old)
	c.mu.Unlock()
	must(t, c.nodes[old].Close())
	stop[old]()
	delete(c.nodes, old)
	eventually.True(t, "more of the work", middle)
	if c.done.Load() >= c.of.Load() {
		t.Errorf("the work was done before the leader had ended: %d of %d", c.done.Load(), c.of.Load())
	}
	c.until.Store(1 << 62)
	eventually.True(t, "the end of the work", c.look)
	cancel()
	running.Wait()
	for id, db := range c.open {
		sound(t, c.nodes[id], db, "notes")
	}
	c.compare()
}

// migrate changes the description on the leader.
func (c *trio) migrate() {
	c.t.Helper()
	eventually.True(c.t, "the migration", func() bool {
		all, err := c.open[c.leader()].Migrate(c.t.Context(), record.MigrateOptions{AllowLoss: true})
		if err != nil && !engine.Retryable(err) && !errors.Is(err, engine.ErrOutcomeUnknown) {
			c.t.Fatal(err)
		}
		return err == nil && len(all) == 1 && len(all[0].Steps) > 0
	})
	if c.look() || c.of.Load() == 0 {
		c.t.Fatal("the migration has nothing to do")
	}
}

// compare checks on each node that queries that use an index find what a scan finds.
func (c *trio) compare() {
	c.t.Helper()
	for id, db := range c.open {
		_, pages, err := list(c.t, db, record.Program(), "notes", "limit=1000")
		must(c.t, err)
		want := map[string][]string{} // ids by number
		for _, p := range pages {
			for _, r := range p.Items {
				if n, ok := r.Value("n").Int(); ok {
					want[fmt.Sprint(n)] = append(want[fmt.Sprint(n)], r.ID)
				}
				if kind, _ := r.Value("kind").Int(); kind != 5 {
					c.t.Errorf("node %d: record %s has the kind %d", id, r.ID, kind)
				}
			}
		}
		for n := range 10 {
			ids, _, err := list(c.t, db, record.Program(), "notes", fmt.Sprintf("filter=n=%d&limit=1000", n))
			must(c.t, err)
			slices.Sort(ids)
			if scan := want[fmt.Sprint(n)]; !slices.Equal(ids, slices.Sorted(slices.Values(scan))) {
				c.t.Errorf("node %d: the index has %d records with n=%d, a scan %d: %s", id, len(ids), n, len(scan), strings.Join(ids[:min(len(ids), 5)], " "))
			}
		}
	}
}
