package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/cache/postgres"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// site is a database with a table of numbers, and a cache of it.
type site struct {
	t      *testing.T
	server *pgserver.Server
	url    string
	pool   *pgxpool.Pool
	c      *cache.Cache
	stop   func()
}

const columns = "create table item (id text primary key, v bigint not null)"

// start starts a server for the test.
func startServer(t *testing.T, settings ...string) *pgserver.Server {
	t.Helper()
	return pgserver.Start(t, append([]string{"wal_level=logical", "max_wal_senders=10", "max_replication_slots=10"}, settings...)...)
}

// newSite makes a database on a server, with the table.
func newSite(t *testing.T, server *pgserver.Server) *site {
	t.Helper()
	s := &site{t: t, server: server, url: server.Database(t)}
	pool, err := postgres.NewPool(t.Context(), s.url, postgres.PoolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.pool = pool
	t.Cleanup(pool.Close)
	s.exec(columns)
	return s
}

func (s *site) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// replication returns the options of a feed of the table.
func (s *site) replication() postgres.ReplicationOptions {
	return postgres.ReplicationOptions{URL: s.url, Tables: []postgres.Table{{Name: "item", Columns: []string{"id"}}}, Create: true, Every: 20 * time.Millisecond}
}

func (s *site) replicated(o postgres.ReplicationOptions) cache.Feed {
	s.t.Helper()
	f, err := postgres.Replication(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// notified makes the triggers and returns a feed of their notifications.
func (s *site) notified() cache.Feed {
	s.t.Helper()
	s.exec(postgres.NotifySQL("item", "", "new.id"))
	f, err := postgres.Notify(postgres.NotifyOptions{URL: s.url, Every: 20 * time.Millisecond})
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// open runs a cache of the table until the test ends, or stop is called.
func (s *site) open(o cache.Options) {
	s.t.Helper()
	source, err := postgres.Query(postgres.QueryOptions{Pool: s.pool, SQL: "select id, v::text from item where id = any($1)", Type: "text/plain"})
	if err != nil {
		s.t.Fatal(err)
	}
	o.Source, o.Gather, o.Wait, o.LoadTimeout = source, 10, 2*time.Minute, time.Minute
	if s.c, err = cache.New(o); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.c.Run(ctx)
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		eventually.True(s.t, "no slot is in use", func() bool {
			var used int
			err := s.pool.QueryRow(context.Background(), "select count(*) from pg_replication_slots where active and database = current_database()").Scan(&used)
			return err == nil && used == 0
		})
	})
	s.t.Cleanup(s.stop)
	s.fresh()
}

// dropSlots removes the permanent slots of the server, once the server has noticed that nobody follows them anymore.
func (s *site) dropSlots() {
	s.t.Helper()
	eventually.True(s.t, "the slots are dropped", func() bool {
		_, err := s.pool.Exec(s.t.Context(), "select pg_drop_replication_slot(slot_name) from pg_replication_slots where not temporary")
		return err == nil
	})
}

func (s *site) fresh() {
	s.t.Helper()
	eventually.True(s.t, "the cache is fresh", func() bool { return s.c.Stats().Fresh })
}

// put writes a value and returns a position after it.
func (s *site) put(key string, v int) (cache.Position, error) {
	if _, err := s.pool.Exec(s.t.Context(), "insert into item values ($1, $2) on conflict (id) do update set v = excluded.v", key, v); err != nil {
		return 0, err
	}
	return postgres.Position(s.t.Context(), s.pool)
}

// get returns the value of a key; -1 is missing.
func (s *site) get(key string, atLeast cache.Position) (int, error) {
	e, err := s.c.Get(s.t.Context(), key, cache.Read{AtLeast: atLeast})
	if engine.CodeOf(err) == engine.CodeNotFound {
		return -1, nil
	} else if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(e.Body))
}

// history is what was written to a key, and when it was acknowledged.
type history struct {
	mu sync.Mutex // guards at
	at []time.Time
}

func (h *history) add() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = append(h.at, time.Now())
}

// oldest returns the oldest value that a read may return that begins now.
func (h *history) oldest(staleness time.Duration) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := -1
	for v, at := range h.at {
		if time.Since(at) > staleness {
			oldest = v
		}
	}
	return oldest
}

// use lets users write and read for a while, each writing a key of its own. A read may fail while the database is away,
// but never returns what is older than promised.
func (s *site) use(staleness time.Duration, steps int, meanwhile func()) {
	s.t.Helper()
	r := seed.Rand(s.t)
	const users = 4
	keys := make([]history, users)
	var running sync.WaitGroup
	for i := range users {
		u := rand.New(rand.NewPCG(r.Uint64(), 0))
		running.Go(func() {
			mine := &keys[i]
			var own cache.Position
			written := -1 // its own last value, if own is its position
			for n := range steps {
				if u.IntN(4) == 0 {
					mine.mu.Lock()
					next := len(mine.at)
					mine.mu.Unlock()
					pos, err := s.put(strconv.Itoa(i), next)
					if err != nil {
						time.Sleep(10 * time.Millisecond)
						continue // perhaps it was written: then a read may return it
					}
					mine.add()
					own, written = pos, next
				}
				k := u.IntN(users)
				oldest, atLeast := keys[k].oldest(staleness), cache.Position(0)
				if k == i {
					oldest, atLeast = max(oldest, written), own
				}
				got, err := s.get(strconv.Itoa(k), atLeast)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				if got < oldest {
					s.t.Errorf("user %d, step %d: key %d is %d; %d was promised", i, n, k, got, oldest)
					return
				}
			}
		})
	}
	if meanwhile != nil {
		meanwhile()
	}
	running.Wait()
	s.fresh()
	end := s.position()
	for k := range keys {
		if got := s.read(strconv.Itoa(k), end); got < len(keys[k].at)-1 {
			s.t.Errorf("at the end key %d is %d; %d values were written", k, got, len(keys[k].at))
		}
	}
}

func steps(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// TestCoherence: readers see their own writes and no value that is older than promised.
func TestCoherence(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for name, feed := range map[string]func(s *site) cache.Feed{
		"replication":   func(s *site) cache.Feed { return s.replicated(s.replication()) },
		"slot":          func(s *site) cache.Feed { o := s.replication(); o.Slot = "coherence"; return s.replicated(o) },
		"notifications": (*site).notified,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, server)
			s.open(cache.Options{Feed: feed(s), Staleness: 20 * time.Second})
			s.use(20*time.Second, steps(400), nil)
			n := s.c.Stats()
			t.Logf("%d answers from memory, %d loads, %d invalidations", n.MemoryHits, n.Loads, n.Invalidations)
			s.stop()
			s.dropSlots()
		})
	}
}

// TestFaults: the same while connections of the feed are cut and the server dies.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, feed := range map[string]func(s *site) cache.Feed{
		"slot":          func(s *site) cache.Feed { o := s.replication(); o.Slot = "faults"; return s.replicated(o) },
		"notifications": (*site).notified,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			s := newSite(t, server)
			s.open(cache.Options{Feed: feed(s), Staleness: 5 * time.Second})
			s.use(5*time.Second, steps(600), func() {
				for range 3 {
					server.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type in ('walsender', 'client backend')")
					time.Sleep(50 * time.Millisecond)
				}
				server.Kill(t)
				server.Restart(t)
			})
			eventually.True(t, "the feed was lost", func() bool { return s.c.Stats().Lost > 0 })
			s.stop()
			s.dropSlots()
		})
	}
}

// TestTablesChange: TRUNCATE, a transaction of many keys, and a table that is altered under the feed.
func TestTablesChange(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for name, feed := range map[string]func(s *site) cache.Feed{
		"replication":   func(s *site) cache.Feed { return s.replicated(s.replication()) },
		"notifications": (*site).notified,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, server)
			s.open(cache.Options{Feed: feed(s), Staleness: time.Minute})
			expect := func(key string, want int) {
				t.Helper()
				pos, err := postgres.Position(t.Context(), s.pool)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := s.get(key, pos); err != nil || got != want {
					t.Fatalf("%s is %d (%v), want %d", key, got, err, want)
				}
			}
			s.exec("insert into item select g::text, 1 from generate_series(1, 5000) g")
			expect("1", 1)
			s.exec("update item set v = 2")
			expect("1", 2)
			expect("5000", 2)
			s.exec("alter table item add column more int default 7")
			s.exec("update item set v = 3, more = 8 where id = '1'")
			expect("1", 3)
			s.exec("update item set id = 'one' where id = '1'")
			expect("1", -1)
			expect("one", 3)
			s.exec("delete from item where id = '2'")
			expect("2", -1)
			s.exec("truncate item")
			expect("one", -1)
			s.exec(fmt.Sprintf("insert into item values ('%s', 9)", "long"))
			expect("long", 9)
		})
	}
}
