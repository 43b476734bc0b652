package record_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
)

// TestBefore: functions within the transaction change a record, make other changes, or refuse.
func TestBefore(t *testing.T) {
	db := openWith(t, recordengine.Options{Memory: true}, blog()...)
	db.Before("posts", func(tx *record.Tx, w *record.Writing) error {
		switch {
		case w.Op == keys.Create:
			return w.Set([]byte(`{"title":"set"}`))
		case w.Op == keys.Update && w.After.Value("likes") == w.Before.Value("likes"):
			return nil
		case w.Op == keys.Update:
			_, err := tx.As(record.Program()).Update("users", "u", []byte(`{"name":"liked"}`), 0)
			return err
		}
		return errors.New("no")
	})
	do(t, db, func(tx *record.Tx) error {
		return errors.Join(ignore(tx.Create("users", "u", []byte(`{"name":"U"}`))), ignore(tx.Create("posts", "a", []byte(`{"owner":"u"}`))))
	})
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Update("posts", "a", []byte(`{"likes":5}`), 0)) })
	for _, fn := range []func(tx *record.Tx) error{
		func(tx *record.Tx) error { return ignore(tx.Delete("posts", "a", 0)) },
		func(tx *record.Tx) error { return ignore(tx.Delete("users", "u", 0)) }, // and the post with it
	} {
		if err := update(t, db, record.Program(), fn); err == nil || err.Error() != "no" {
			t.Errorf("a deletion that the function refuses: %v", err)
		}
	}
	do(t, db, func(tx *record.Tx) error {
		u, err := tx.Get("users", "u")
		if name, _ := u.Value("name").Text(); name != "liked" {
			t.Errorf("the user is called %s", name)
		}
		a, err2 := tx.Get("posts", "a")
		if title, _ := a.Value("title").Text(); title != "set" {
			t.Errorf("the title is %s", title)
		}
		return errors.Join(err, err2)
	})
}

// TestBeforeDepth: functions that cause each other do not run for ever.
func TestBeforeDepth(t *testing.T) {
	db := openWith(t, recordengine.Options{Memory: true}, accounts())
	db.Before("accounts", func(tx *record.Tx, _ *record.Writing) error { return ignore(tx.Create("accounts", "", []byte(`{}`))) })
	if err := update(t, db, record.Program(), func(tx *record.Tx) error { return ignore(tx.Create("accounts", "", []byte(`{}`))) }); !errors.Is(err, engine.ErrLimit) {
		t.Error(err)
	}
}

// heard collects the changes that functions of After are called for.
type heard struct {
	mu  sync.Mutex
	ids []string
}

func (s *heard) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, id)
}

func (s *heard) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

// unsure is an engine whose transactions are committed, and then, for the next of them, nobody knows.
type unsure struct {
	engine.Engine
	next atomic.Int32
}

func (e *unsure) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	pos, err := e.Engine.Update(ctx, fn)
	if err == nil && e.next.Add(-1) >= 0 {
		return 0, engine.ErrOutcomeUnknown
	}
	return pos, err
}

// TestRunUnsure: background work goes on after a transaction of unknown outcome, as when the leader is deposed.
func TestRunUnsure(t *testing.T) {
	eng := &unsure{Engine: recordengine.Open(t, recordengine.Options{Memory: true})}
	db, err := record.Open(eng, record.Options{})
	must(t, err)
	must(t, db.Define(blog()[0]))
	var got heard
	must(t, db.After("mail", "users", func(_ context.Context, c *record.Committed) error {
		got.add(c.ID)
		return nil
	}))
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Create("users", "u", []byte(`{"name":"U"}`))) })
	eng.next.Store(5)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- db.Run(ctx) }()
	eventually.True(t, "five transactions of unknown outcome", func() bool { return eng.next.Load() <= 0 || len(ended) > 0 })
	do(t, db, func(tx *record.Tx) error { return ignore(tx.Create("users", "v", []byte(`{"name":"V"}`))) })
	eventually.True(t, "a call for the last change", func() bool {
		all := got.all()
		return len(all) > 0 && all[len(all)-1] == "users/2" || len(ended) > 0
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
}

// TestAfter: each change is seen once and in order; one that fails is seen again, and none is skipped by a restart.
func TestAfter(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{Memory: true})
	var got heard
	failed := false
	var log logbuf.Buffer
	run := func(n int, during func(db *record.DB)) {
		db, err := record.Open(eng, record.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		must(t, db.Define(blog()[0]))
		begun := false
		must(t, db.After("mail", "users", func(_ context.Context, c *record.Committed) error {
			if all := got.all(); !begun && len(all) > 0 && strings.HasPrefix(all[len(all)-1], c.ID+" ") {
				return nil // the run before has ended before it could store that it had seen this
			}
			begun = true
			if c.Change.Rev == 2 && !failed {
				failed = true
				return errors.New("not now")
			}
			got.add(fmt.Sprintf("%s %s %v %v", c.ID, c.Change.Op, c.Before != nil, c.After != nil))
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = db.Run(ctx) }()
		during(db)
		eventually.True(t, fmt.Sprint(n, " calls"), func() bool { return len(got.all()) >= n })
		cancel()
		<-ended
	}
	run(3, func(db *record.DB) {
		do(t, db, func(tx *record.Tx) error {
			return errors.Join(ignore(tx.Create("users", "u", []byte(`{"name":"U"}`))), ignore(tx.Update("users", "u", []byte(`{"name":"V"}`), 0)))
		})
		do(t, db, func(tx *record.Tx) error { return ignore(tx.Delete("users", "u", 0)) })
	})
	run(4, func(db *record.DB) {
		do(t, db, func(tx *record.Tx) error { return tx.Purge("users", "u", 0) })
	})
	if !strings.Contains(log.String(), `name=mail change=users/2`) || !strings.Contains(log.String(), "not now") {
		t.Errorf("the log says %q of the function that failed", log.String())
	}
	want := []string{"users/1 create false false", "users/2 update false false", "users/3 delete false false", "users/4 purge false false"}
	for i, id := range got.all() {
		if len(got.all()) != len(want) || id[:len("users/1 ")] != want[i][:len("users/1 ")] {
			t.Fatalf("%q, want %q", got.all(), want)
		}
	}
	if last := got.all()[3]; last != want[3] {
		t.Errorf("%s, want %s", last, want[3])
	}
	db, err := record.Open(eng, record.Options{})
	must(t, err)
	nothing := func(context.Context, *record.Committed) error { return nil }
	must(t, db.After("mail", "users", nothing))
	if err := db.After("mail", "users", nothing); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("two of the same name: %v", err)
	}
}

// openCluster opens three nodes in one process.
func openCluster(t *testing.T) map[uint64]*embedded.DB {
	t.Helper()
	all := map[uint64]*embedded.DB{}
	quiet := slog.New(slog.DiscardHandler)
	var first, dir string
	for node := uint64(1); node <= 3; node++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		o := embedded.Options{Logger: quiet, Cluster: embedded.ClusterOptions{Listener: l, Version: "0.1.0", Tick: 30 * time.Millisecond}}
		d := t.TempDir()
		if node == 1 {
			first, dir = l.Addr().String(), d
			_, _, err = embedded.InitCluster(t.Context(), d, first, o)
		} else {
			var inv []byte
			inv, err = embedded.Invite(dir)
			must(t, err)
			_, err = embedded.Accept(d, inv, o)
			o.Cluster.Addr, o.Cluster.Join = l.Addr().String(), []string{first}
		}
		must(t, err)
		db, err := embedded.Open(d, o)
		must(t, err)
		all[db.Cluster().State().Self] = db
		t.Cleanup(func() { _ = db.Close() })
		eventually.True(t, "the node to join", func() bool { return len(all[1].Cluster().State().Nodes) == int(node) })
	}
	eventually.True(t, "all to have a vote", func() bool {
		voters := 0
		for _, n := range all[1].Cluster().State().Nodes {
			if n.Voter {
				voters++
			}
		}
		return voters == 3
	})
	return all
}

// TestAfterInCluster: of three nodes that all run, one calls the function for each change. When the leader ends, the
// next goes on, and no change is lost; at most the one that was under way is repeated.
func TestAfterInCluster(t *testing.T) {
	nodes := openCluster(t)
	var got heard
	dbs := map[uint64]*record.DB{}
	for id, eng := range nodes {
		db, err := record.Open(eng, record.Options{})
		must(t, err)
		must(t, db.Define(accounts()))
		must(t, db.After("mail", "accounts", func(_ context.Context, c *record.Committed) error { got.add(c.ID); return nil }))
		dbs[id] = db
		go func() { _ = db.Run(t.Context()) }()
	}
	made := 0
	create := func() {
		t.Helper()
		made++
		eventually.True(t, "a write", func() bool {
			for id, db := range dbs {
				_, err := db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
					if _, err := tx.Get("accounts", fmt.Sprint("a", made)); err == nil {
						return nil // the answer to an earlier try was lost
					}
					return ignore(tx.Create("accounts", fmt.Sprint("a", made), []byte(`{}`)))
				})
				if err == nil {
					return true
				}
				if !engine.Retryable(err) && !errors.Is(err, engine.ErrOutcomeUnknown) {
					t.Fatalf("node %d: %v", id, err)
				}
			}
			return false
		})
	}
	term := nodes[1].Cluster().State().Term
	for range 20 {
		create()
	}
	eventually.True(t, "20 calls", func() bool { return slices.Contains(got.all(), "accounts/20") })
	calls := got.all()
	if changes := nodes[1].Cluster().State().Term - term; changes > 0 {
		t.Logf("%d elections on a busy machine", changes)
	} else if !slices.Equal(calls, numbered(20)) {
		t.Fatalf("without faults: %q", calls)
	}
	for range 10 {
		create()
	}
	var leader uint64
	eventually.True(t, "a leader", func() bool { leader = nodes[1].Cluster().State().Leader; return leader != 0 })
	survivor := nodes[leader%3+1]
	must(t, nodes[leader].Close())
	delete(dbs, leader)
	for range 10 {
		create()
	}
	eventually.True(t, "all calls", func() bool { return slices.Contains(got.all(), "accounts/40") })
	elections := int(survivor.Cluster().State().Term - term)
	calls = got.all()
	slices.Sort(calls)
	if distinct := slices.Compact(slices.Clone(calls)); len(distinct) != 40 || len(calls) > 40+elections {
		t.Errorf("%d calls for %d of 40 changes in %d elections: %q", len(calls), len(distinct), elections, got.all())
	}
}

// numbered returns the ids of the first n changes of accounts.
func numbered(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint("accounts/", i+1))
	}
	return ids
}
