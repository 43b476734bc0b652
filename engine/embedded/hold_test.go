package embedded

import (
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// heldDB is a database with a small limit and 64 KiB of data, and its log.
func heldDB(t *testing.T, heap *atomic.Int64) (*DB, *logbuf.Buffer) {
	t.Helper()
	var log logbuf.Buffer
	db := open(t, "data", Options{
		FS: memfs.New(1), MemoryBytes: 100 << 10, liveHeap: heap.Load, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	overwrite(t, db)
	return db, &log
}

// overwrite writes all the data anew.
func overwrite(t *testing.T, db *DB) {
	t.Helper()
	for k := range 16 {
		put(t, db, string(rune('a'+k)), strings.Repeat("v", 4<<10))
	}
}

func metric(t *testing.T, db *DB, name string) float64 {
	t.Helper()
	for m := range db.Metrics() {
		if m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// holding starts a View that continues when the channel is closed, and then gets a key
// and returns the error.
func holding(t *testing.T, db *DB) (goOn chan struct{}, ended <-chan error) {
	t.Helper()
	goOn = make(chan struct{})
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
			close(begun)
			<-goOn
			_, _, err := tx.Get([]byte("a"))
			return err
		})
		done <- err
	}()
	<-begun
	return goOn, done
}

// TestLongReadIsReported: a read that lasts is in the metrics, and then in the log with
// the function that holds it.
func TestLongReadIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log := heldDB(t, new(atomic.Int64))
		goOn, ended := holding(t, db)
		time.Sleep(LongHold - time.Second)
		if strings.Contains(log.String(), "held its snapshot") {
			t.Errorf("too early: %s", log)
		}
		if n, age := metric(t, db, "engine_held_snapshots"), metric(t, db, "engine_held_snapshot_oldest_seconds"); n != 1 || age < 590 || age > 600 {
			t.Errorf("%v reads, the oldest for %v s", n, age)
		}
		if n := metric(t, db, "engine_held_bytes"); n != 0 {
			t.Errorf("%v bytes are held although nothing was overwritten", n)
		}
		time.Sleep(2 * MaxHold)
		if n := strings.Count(log.String(), "held its snapshot"); n != 1 || !strings.Contains(log.String(), "embedded.holding.func1") {
			t.Errorf("the log has %d lines: %s", n, log)
		}
		close(goOn)
		if err := <-ended; err != nil {
			t.Errorf("a read that holds nothing: %v", err)
		}
		time.Sleep(2 * tidyEvery)
		if n := metric(t, db, "engine_held_snapshots"); n != 0 {
			t.Errorf("%v reads are left", n)
		}
	})
}

// TestLongReadIsEnded: reads and backups that hold much for very long fail when they
// continue.
func TestLongReadIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, log := heldDB(t, new(atomic.Int64))
		goOn, ended := holding(t, db)
		scanned := make(chan error, 1)
		go func() {
			_, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
				for _, err := range tx.Scan(nil, nil) {
					if err != nil {
						return err
					}
					<-goOn
				}
				return nil
			})
			scanned <- err
		}()
		saved := make(chan error, 1)
		go func() {
			_, err := db.Backup(t.Context(), &slow{goOn: goOn})
			saved <- err
		}()
		synctest.Wait()
		overwrite(t, db)
		time.Sleep(MaxHold - time.Second)
		if n, tree := metric(t, db, "engine_held_bytes"), metric(t, db, "engine_tree_bytes"); n < 64<<10 || n > 2*tree {
			t.Errorf("%v bytes are held after 64 KiB were overwritten, in a tree of %v", n, tree)
		}
		if strings.Contains(log.String(), "is ended") {
			t.Errorf("too early: %s", log)
		}
		time.Sleep(3 * time.Second)
		close(goOn)
		for what, err := range map[string]error{"get": <-ended, "scan": <-scanned, "backup": <-saved} {
			if engine.CodeOf(err) != engine.CodeUnavailable {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := strings.Count(log.String(), "is ended"); n != 3 {
			t.Errorf("the log names %d: %s", n, log)
		}
		if _, err := db.Backup(t.Context(), io.Discard); err != nil {
			t.Errorf("the next backup: %v", err)
		}
	})
}

// slow is a client that takes the beginning of a backup, and the rest when goOn is closed.
type slow struct {
	goOn chan struct{}
	n    int
}

func (s *slow) Write(b []byte) (int, error) {
	if s.n += len(b); s.n > 0 {
		<-s.goOn
	}
	return len(b), nil
}

// TestReadsThatHoldTooMuch: when reads hold more than the limit and the process takes
// more than twice the limit, writes are refused with the reason until a read ends.
func TestReadsThatHoldTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heap atomic.Int64
		db, log := heldDB(t, &heap)
		first, firstEnded := holding(t, db)
		time.Sleep(2 * time.Second)
		overwrite(t, db)
		second, secondEnded := holding(t, db)
		time.Sleep(2 * time.Second)
		overwrite(t, db)
		time.Sleep(2 * time.Second)
		overwrite(t, db) // the heap has room
		heap.Store(201 << 10)
		time.Sleep(2 * time.Second)
		_, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("a"), nil) })
		if engine.CodeOf(err) != engine.CodeMemoryFull || !strings.Contains(err.Error(), "embedded.holding.func1") {
			t.Errorf("a write: %v", err)
		}
		if metric(t, db, "engine_held_refusing") != 1 {
			t.Error("the metrics do not show it")
		}
		if _, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Delete([]byte("b")) }); err != nil {
			t.Errorf("a delete: %v", err)
		}
		if _, ok := get(t, db, "b"); ok {
			t.Error("the deleted key is there")
		}
		close(first)
		if err := <-firstEnded; engine.CodeOf(err) != engine.CodeUnavailable {
			t.Errorf("the oldest read goes on: %v", err)
		}
		time.Sleep(2 * time.Second) // the heap is as large until the next run of the collector
		put(t, db, "a", "accepted")
		close(second)
		if err := <-secondEnded; err != nil {
			t.Errorf("the other read: %v", err)
		}
		for _, want := range []string{"writes are refused", "is ended", "accepted again"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log has not one %q: %s", want, log)
			}
		}
	})
}
