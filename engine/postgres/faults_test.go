package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

const writers = 4

// workload runs writers, a reader and a reader of the feed until harm returns, and checks that no acknowledged write
// is lost, that no write is made twice, and that the feed is complete and in order.
func workload(t *testing.T, d *DB, harm func(acked *atomic.Int64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var acked, unknown [writers]int
	var total atomic.Int64
	for i := range writers {
		all.Go(func() {
			var err error
			if acked[i], unknown[i], err = bank(ctx, d, fmt.Sprint("w", i), func() { total.Add(1) }); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	all.Go(func() { readUp(ctx, t, d) })
	harm(&total)
	cancel()
	all.Wait()
	last := put(t, d, "end", "")
	for i := range writers {
		val, _, err := get(t.Context(), d, engine.Read{}, fmt.Sprint("w", i))
		if n := number([]byte(val)); err != nil || n < acked[i] || n > acked[i]+unknown[i] {
			t.Errorf("writer %d: %d additions acknowledged, %d unknown, but the sum is %d, %v", i, acked[i], unknown[i], n, err)
		}
	}
	feedComplete(t, d, last)
	t.Logf("%v acknowledged, %v unknown, %d settled, %d retries", acked, unknown, d.settled.Load(), d.retries.Load())
}

// readUp checks that what a reader sees never goes back.
func readUp(ctx context.Context, t *testing.T, d *DB) {
	var last engine.Position
	sum := 0
	for ctx.Err() == nil {
		n := 0
		pos, err := d.View(ctx, engine.Read{}, func(tx engine.Tx) error {
			n = 0
			for i := range writers {
				v, _, err := tx.Get(fmt.Append(nil, "w", i))
				if err != nil {
					return err
				}
				n += number(v)
			}
			return nil
		})
		if err != nil {
			if ctx.Err() == nil && engine.CodeOf(err) != engine.CodeUnavailable {
				t.Errorf("view: %v", err)
			}
			continue
		}
		if n < sum || pos < last {
			t.Errorf("a view shows %d at position %d after %d at %d", n, pos, sum, last)
		}
		sum, last = n, pos
	}
}

// feedComplete checks that the changes up to last have every addition once, in order.
func feedComplete(t *testing.T, d *DB, last engine.Position) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sums := map[string]int{}
	pos := engine.Position(0)
	for c, err := range d.Changes(ctx, 0) {
		if err != nil || c.Pos <= pos {
			t.Fatalf("the feed has %d after %d: %v", c.Pos, pos, err)
		}
		pos = c.Pos
		for _, w := range c.Writes {
			if n := number(w.Val); string(w.Key) != "end" && n != sums[string(w.Key)]+1 {
				t.Fatalf("the feed has %s=%d after %d", w.Key, n, sums[string(w.Key)])
			}
			sums[string(w.Key)]++
		}
		if pos >= last {
			break
		}
	}
	for i := range writers {
		key := fmt.Sprint("w", i)
		if val, _, err := get(t.Context(), d, engine.Read{}, key); number([]byte(val)) != sums[key] || err != nil {
			t.Errorf("%s is %s, but the feed ends with %d, %v", key, val, sums[key], err)
		}
	}
}

// more waits until n more writes are acknowledged.
func more(t *testing.T, acked *atomic.Int64, n int64) {
	t.Helper()
	goal := acked.Load() + n
	eventually.True(t, "writes are acknowledged", func() bool { return acked.Load() >= goal })
}

func TestServerKilled(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t)
	s.Exec(t, "CREATE DATABASE app")
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	workload(t, openT(t, s.URL("app"), Options{}), func(acked *atomic.Int64) {
		for range rounds {
			more(t, acked, 30)
			s.Kill(t)
			s.Restart(t)
		}
		more(t, acked, 30)
	})
}

func TestSessionsTerminated(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	workload(t, openT(t, at, Options{}), func(acked *atomic.Int64) {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 30 {
			<-tick.C
			cut(enginetest.Adapt(t), at)
		}
		more(t, acked, 10)
	})
}

// TestSynchronousFailover kills a primary with a synchronous standby and promotes that.
func TestSynchronousFailover(t *testing.T) {
	t.Parallel()
	one := pgserver.Start(t)
	one.Exec(t, "CREATE DATABASE app")
	two := one.Standby(t, "two")
	one.Restart(t, "synchronous_standby_names=two")
	d := openT(t, hosts(one.URL("app"), one, two), Options{Patience: 30 * time.Second})
	if !d.Synchronous() {
		t.Error("the engine does not report the synchronous standby")
	}
	workload(t, d, func(acked *atomic.Int64) {
		more(t, acked, 50)
		one.Kill(t)
		two.Promote(t)
		more(t, acked, 50)
	})
}

// TestDiskFull lets the server report a full disk.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	d := openT(t, at, Options{})
	put(t, d, "a", "1")
	exec(t, at, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON skerry.kv FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	_, err := d.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("a"), []byte("2")) })
	wantCode(t, err, engine.CodeDiskFull, "the disk of the database server is full")
	if val, _, err := get(t.Context(), d, engine.Read{}, "a"); val != "1" || err != nil {
		t.Errorf("after a full disk: %q, %v", val, err)
	}
	exec(t, at, "DROP FUNCTION full_disk CASCADE")
	put(t, d, "a", "3")
}

// TestSynchronousCancelled cancels the wait for a synchronous standby, as operators do whose standby is away. PostgreSQL
// reports success then, but the commit is acknowledged only once there is no standby to wait for.
func TestSynchronousCancelled(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t)
	at := s.URL("postgres")
	d := openT(t, at, Options{Patience: time.Minute})
	put(t, d, "a", "1")
	exec(t, at, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
	const waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'skerry'"
	done, last := make(chan error, 1), 1
	for stuck := false; !stuck; { // the setting arrives a little later
		last++
		go func() {
			_, err := d.Update(context.Background(), func(tx engine.Tx) error { return tx.Put([]byte("a"), fmt.Append(nil, last)) })
			done <- err
		}()
		eventually.True(t, "a commit is acknowledged or waits for the standby", func() bool {
			stuck = query[int](t, at, "SELECT count(*) "+waiting) > 0
			return stuck || len(done) > 0
		})
		if !stuck {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // the commit, and one that asks for it
		pid := query[int](t, at, "SELECT min(pid) "+waiting)
		exec(t, at, fmt.Sprintf("SELECT pg_cancel_backend(%d)", pid))
		eventually.True(t, "another session waits", func() bool {
			return query[int](t, at, fmt.Sprintf("SELECT count(*) %s AND pid <> %d", waiting, pid)) > 0
		})
	}
	if len(done) > 0 {
		t.Errorf("a commit was acknowledged that no standby has: %v", <-done)
	}
	exec(t, at, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
	if err := <-done; err != nil {
		t.Errorf("the commit once no standby is needed: %v", err)
	}
	if val, _, err := get(t.Context(), d, engine.Read{}, "a"); val != fmt.Sprint(last) || err != nil || d.settled.Load() != 1 || d.Position() != engine.Position(last) {
		t.Errorf("the value is %q at position %d, %v, want %d at that position; %d commits were settled", val, d.Position(), err, last, d.settled.Load())
	}
}
