package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/cache/postgres"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
)

// must fails the test if a read of a key with a position does not return want.
func (s *site) must(key string, atLeast cache.Position, want int) {
	s.t.Helper()
	if got := s.read(key, atLeast); got != want {
		s.t.Fatalf("%s is %d, want %d", key, got, want)
	}
}

// read is get, once the database answers: connections of the pool may have been cut.
func (s *site) read(key string, atLeast cache.Position) (v int) {
	s.t.Helper()
	eventually.True(s.t, "the database answers", func() (ok bool) {
		got, err := s.get(key, atLeast)
		v = got
		return err == nil
	})
	return v
}

// position returns a position after everything that was committed.
func (s *site) position() (pos cache.Position) {
	s.t.Helper()
	eventually.True(s.t, "the database answers", func() bool {
		p, err := postgres.Position(s.t.Context(), s.pool)
		pos = p
		return err == nil
	})
	return pos
}

// TestBarrier: the stream has a commit that nobody sees yet, because it waits for a standby. The value that readers load
// meanwhile is the old one; it must be dropped when the commit becomes visible.
func TestBarrier(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := newSite(t, server)
	s.exec("insert into item values ('k', 1), ('other', 1)")
	s.open(cache.Options{Feed: s.replicated(s.replication()), Staleness: 5 * time.Minute})
	s.must("k", 0, 1)
	server.Exec(t, "alter system set synchronous_standby_names = 'nobody'")
	server.Exec(t, "select pg_reload_conf()")
	committed := make(chan error, 2)
	commit := func(sql string) {
		_, err := s.pool.Exec(context.Background(), sql)
		committed <- err
	}
	waiting := func() (n int) {
		if err := s.pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where wait_event = 'SyncRep'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	go commit("update item set v = 1 where id = 'other'")
	eventually.True(t, "commits wait for a standby", func() bool { // not all processes reload the configuration at once
		select {
		case err := <-committed:
			if err != nil {
				t.Fatal(err)
			}
			go commit("update item set v = 1 where id = 'other'")
		default:
		}
		return waiting() == 1
	})
	go commit("update item set v = 2 where id = 'k'")
	eventually.True(t, "the commit waits for a standby", func() bool { return waiting() == 2 })
	before := s.c.Stats().Position
	for range 20 { // while proofs come and go
		began := time.Now()
		eventually.True(t, "another proof", func() bool { return s.c.Stats().Age < time.Since(began) })
		s.must("k", 0, 1)
	}
	var end string
	if err := s.pool.QueryRow(t.Context(), "select pg_current_wal_flush_lsn()::text").Scan(&end); err != nil {
		t.Fatal(err)
	}
	t.Logf("the position went from %d to %d, the log ends at %s", before, s.c.Stats().Position, end)
	server.Exec(t, "alter system set synchronous_standby_names = ''")
	server.Exec(t, "select pg_reload_conf()")
	for range 2 {
		if err := <-committed; err != nil {
			t.Fatal(err)
		}
	}
	pos, err := postgres.Position(t.Context(), s.pool)
	if err != nil {
		t.Fatal(err)
	}
	s.must("k", pos, 2)
	s.must("other", pos, 1)
}

// TestWarmRestart: a cache that is opened again resumes from its slot: what was not changed comes from the disk tier.
// A slot that was made anew empties it.
func TestWarmRestart(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := newSite(t, server)
	o := s.replication()
	o.Slot = "warm"
	feed := s.replicated(o)
	disk := cache.Options{Feed: feed, Staleness: time.Minute, Dir: t.TempDir(), DiskBytes: 1 << 20, Identity: "item"}
	s.exec("insert into item values ('k', 1), ('l', 1)")
	s.open(disk)
	s.must("k", 0, 1)
	s.must("l", 0, 1)
	for i, remake := range []bool{false, true, false} {
		s.stop()
		if remake {
			s.dropSlots()
		}
		s.exec("update item set v = v + 1 where id = 'k'")
		if remake {
			s.exec("select pg_create_logical_replication_slot('warm', 'pgoutput')")
		}
		s.open(disk)
		pos, err := postgres.Position(t.Context(), s.pool)
		if err != nil {
			t.Fatal(err)
		}
		s.must("k", pos, i+2)
		before := s.c.Stats().Loaded
		s.must("l", pos, 1)
		if loaded := s.c.Stats().Loaded > before; loaded != remake {
			t.Errorf("restart %d: an entry that has not changed was loaded: %v", i+1, loaded)
		}
	}
	s.stop()
	s.dropSlots()
}

// run runs a feed on its own and returns why it ended.
func run(t *testing.T, f cache.Feed) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return f.Run(ctx, deaf{})
}

// deaf is a sink that ignores everything.
type deaf struct{}

func (deaf) Resume() (string, cache.Position)   { return "", 0 }
func (deaf) Begin(string, cache.Position, bool) {}
func (deaf) Changed(...string)                  {}
func (deaf) ChangedAll(string)                  {}
func (deaf) Reached(cache.Position, time.Time)  {}
func (deaf) Lag(int64)                          {}

// TestRefusals: what the server or the role lacks is named, with the SQL that helps.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := newSite(t, server)
	s.exec("create table loose (id text, v bigint)")
	s.exec("create role plain login password 'p'")
	t.Cleanup(func() { server.Exec(t, "drop role plain") })
	s.exec("create publication half for table item with (publish = 'insert')")
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("plain", "p")
	for name, c := range map[string]struct {
		change func(o *postgres.ReplicationOptions)
		code   engine.Code
		want   string
	}{
		"no publication": {func(o *postgres.ReplicationOptions) { o.Create = false }, engine.CodeUnsupported, "CREATE PUBLICATION"},
		"half":           {func(o *postgres.ReplicationOptions) { o.Publication = "half" }, engine.CodeUnsupported, "leaves out"},
		"no identity":    {func(o *postgres.ReplicationOptions) { o.Tables[0].Name = "loose" }, engine.CodeUnsupported, "REPLICA IDENTITY FULL"},
		"other column":   {func(o *postgres.ReplicationOptions) { o.Tables[0].Columns = []string{"v"} }, engine.CodeUnsupported, "REPLICA IDENTITY FULL"},
		"no table":       {func(o *postgres.ReplicationOptions) { o.Tables[0].Name = "nothing" }, engine.CodeInvalid, "there is no table nothing"},
		"no right":       {func(o *postgres.ReplicationOptions) { o.URL = u.String() }, engine.CodeUnsupported, "run: "},
	} {
		t.Run(name, func(t *testing.T) {
			o := s.replication()
			o.Publication = "refusals"
			c.change(&o)
			err := run(t, s.replicated(o))
			if engine.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%v, want %q [%s]", err, c.want, c.code)
			}
		})
	}
	t.Run("fallback", func(t *testing.T) {
		o := s.replication()
		o.URL = u.String()
		fell := errors.New("fell back")
		o.Fallback = failing{fell}
		if err := run(t, s.replicated(o)); !errors.Is(err, fell) {
			t.Error(err)
		}
	})
}

type failing struct{ err error }

func (f failing) Run(context.Context, cache.Sink) error { return f.err }

// TestLowLevel: a server whose wal_level is too low says what to do.
func TestLowLevel(t *testing.T) {
	t.Parallel()
	s := newSite(t, startServer(t, "wal_level=replica"))
	if err := run(t, s.replicated(s.replication())); engine.CodeOf(err) != engine.CodeUnsupported || !strings.Contains(err.Error(), "ALTER SYSTEM SET wal_level = logical") {
		t.Error(err)
	}
}

// TestHeldSlot: a slot that another program follows is refused by name, and followed once it is free.
func TestHeldSlot(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := newSite(t, server)
	o := s.replication()
	o.Slot = "held"
	s.open(cache.Options{Feed: s.replicated(o), Staleness: time.Minute})
	if err := run(t, s.replicated(o)); engine.CodeOf(err) != engine.CodeUnavailable || !strings.Contains(err.Error(), "each cache needs a slot of its own") {
		t.Error(err)
	}
	s.stop()
	s.dropSlots()
}

// TestBadOptions: options that make no sense are refused at once, and no error tells the password.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	table := postgres.Table{Name: "item", Columns: []string{"id"}}
	for name, o := range map[string]postgres.ReplicationOptions{
		"no tables":   {URL: "postgres://x"},
		"no name":     {URL: "postgres://x", Tables: []postgres.Table{{Columns: []string{"id"}}}},
		"two columns": {URL: "postgres://x", Tables: []postgres.Table{{Name: "item", Columns: []string{"a", "b"}}}},
		"twice":       {URL: "postgres://x", Tables: []postgres.Table{table, table}},
		"slot":        {URL: "postgres://x", Tables: []postgres.Table{table}, Slot: "No"},
		"URL":         {URL: "postgres://u:secret@%", Tables: []postgres.Table{table}},
		"Every":       {URL: "postgres://x", Tables: []postgres.Table{table}, Every: -1},
	} {
		if _, err := postgres.Replication(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]postgres.NotifyOptions{"channel": {Channel: "a b"}, "URL": {URL: "postgres://u:secret@%"}, "Every": {URL: "postgres://x", Every: -1}} {
		if _, err := postgres.Notify(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := postgres.NewPool(t.Context(), "postgres://u:secret@%", postgres.PoolOptions{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if _, err := postgres.Query(postgres.QueryOptions{}); err == nil {
		t.Error("a query without a pool is accepted")
	}
}
