package postgres_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/cache/postgres"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
)

// muffler is a proxy before a server. While it is silent, it swallows what both sides send, and nobody learns that.
type muffler struct {
	net.Listener
	to string

	mu     sync.Mutex // guards the fields below
	silent chan struct{}
	conns  []net.Conn
}

func newMuffler(t *testing.T, to string) *muffler {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &muffler{Listener: l, to: to}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); m.end() })
	return m
}

func (m *muffler) serve(c net.Conn) {
	s, err := net.Dial("tcp", m.to)
	if err != nil {
		_ = c.Close()
		return
	}
	m.mu.Lock()
	m.conns = append(m.conns, c, s)
	m.mu.Unlock()
	go m.copy(s, c)
	m.copy(c, s)
}

func (m *muffler) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		m.mu.Lock()
		silent := m.silent
		m.mu.Unlock()
		if silent != nil {
			<-silent
			err = io.EOF
		} else if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			_, _ = to.Close(), from.Close()
			return
		}
	}
}

// hush makes the network silent.
func (m *muffler) hush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = make(chan struct{})
}

// end ends that, and all connections.
func (m *muffler) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent != nil {
		close(m.silent)
		m.silent = nil
	}
	for _, c := range m.conns {
		_ = c.Close()
	}
	m.conns = nil
}

// TestSilentNetwork: while the network between the feed and the server swallows everything, readers get what the server
// has. Afterwards the feed goes on where it was.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for name, feed := range map[string]func(s *site, url string) cache.Feed{
		"replication": func(s *site, url string) cache.Feed {
			o := s.replication()
			o.URL, o.Slot = url, "silent"
			return s.replicated(o)
		},
		"notifications": func(s *site, url string) cache.Feed {
			s.exec(postgres.NotifySQL("item", "", "new.id"))
			f, err := postgres.Notify(postgres.NotifyOptions{URL: url, Every: 20 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, server)
			m := newMuffler(t, server.Addr())
			s.open(cache.Options{Feed: feed(s, strings.Replace(s.url, server.Addr(), m.Addr().String(), 1)), Staleness: time.Second})
			s.exec("insert into item values ('k', 1)")
			pos, err := postgres.Position(t.Context(), s.pool)
			if err != nil {
				t.Fatal(err)
			}
			s.must("k", pos, 1)
			m.hush()
			s.exec("update item set v = 2 where id = 'k'")
			eventually.True(t, "the cache knows that it may be stale", func() bool { return !s.c.Stats().Fresh })
			s.must("k", 0, 2)
			s.exec("update item set v = 3 where id = 'k'")
			s.must("k", 0, 3)
			m.end()
			s.fresh()
			s.exec("update item set v = 4 where id = 'k'")
			if pos, err = postgres.Position(t.Context(), s.pool); err != nil {
				t.Fatal(err)
			}
			s.must("k", pos, 4)
			s.stop()
			s.dropSlots()
		})
	}
}

// TestDroppedSlot: a slot that is dropped under the feed loses changes; the cache is emptied.
func TestDroppedSlot(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := newSite(t, server)
	o := s.replication()
	o.Slot = "dropped"
	s.open(cache.Options{Feed: s.replicated(o), Staleness: 10 * time.Minute})
	s.exec("insert into item values ('k', 1)")
	eventually.True(t, "the slot is dropped", func() bool {
		pos, err := postgres.Position(t.Context(), s.pool)
		if err != nil {
			t.Fatal(err)
		}
		s.must("k", pos, 1)
		s.exec("select pg_terminate_backend(active_pid) from pg_replication_slots where active")
		_, err = s.pool.Exec(t.Context(), "select pg_drop_replication_slot('dropped')")
		return err == nil
	})
	s.exec("update item set v = 2 where id = 'k'")
	eventually.True(t, "the cache was emptied", func() bool { return s.c.Stats().Gaps > 1 })
	s.fresh()
	s.must("k", 0, 2)
	s.stop()
	s.dropSlots()
}

// TestLongTransaction: what a transaction changed that runs for long is dropped when it commits, and not what it took back.
func TestLongTransaction(t *testing.T) {
	t.Parallel()
	s := newSite(t, startServer(t))
	s.exec("insert into item select g::text, 1 from generate_series(1, 9) g")
	s.open(cache.Options{Feed: s.replicated(s.replication()), Staleness: 10 * time.Minute})
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }() // if the test fails
	if _, err := tx.Exec(t.Context(), "update item set v = 2 where id = '1'; savepoint a; update item set v = 2 where id = '2'; rollback to savepoint a; update item set v = 2 where id = '3'"); err != nil {
		t.Fatal(err)
	}
	for v := range 20 {
		pos, err := s.put("4", v)
		if err != nil {
			t.Fatal(err)
		}
		s.must("4", pos, v)
		s.must("1", pos, 1)
		s.must("3", 0, 1)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	pos, err := postgres.Position(t.Context(), s.pool)
	if err != nil {
		t.Fatal(err)
	}
	s.must("1", pos, 2)
	s.must("2", pos, 1)
	s.must("3", pos, 2)
}

// TestFullLogDisk: the disk with the server's log is full, so the server stops. Afterwards no reader sees what is old.
func TestFullLogDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	disk := pgserver.NewDisk(t, 32<<20)
	server := pgserver.StartOn(t, disk, true, "wal_level=logical", "min_wal_size=2MB", "max_wal_size=4MB")
	s := newSite(t, server)
	o := s.replication()
	o.Slot = "full"
	s.open(cache.Options{Feed: s.replicated(o), Staleness: 10 * time.Minute})
	last := 0
	if _, err := s.put("k", last); err != nil {
		t.Fatal(err)
	}
	disk.Fill(t)
	eventually.True(t, "the server stops", func() bool {
		_, err := s.pool.Exec(t.Context(), "insert into item select gen_random_uuid()::text, g from generate_series(1, 500) g")
		return err != nil
	})
	server.Kill(t)
	disk.Free(t)
	server.Restart(t)
	eventually.True(t, "writes go on", func() bool {
		last++
		pos, err := s.put("k", last)
		if err != nil {
			return false
		}
		s.must("k", pos, last)
		return true
	})
	s.fresh()
	s.must("k", 0, last)
	s.stop()
	s.dropSlots()
}
