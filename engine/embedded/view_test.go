package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// unread writes until no batch is cloned for readers any more. In a bubble of time it
// stays so; elsewhere tidy may clone at any moment.
func unread(t *testing.T, db *DB) (last string) {
	t.Helper()
	for i := range 20 * unreadBatches {
		last = fmt.Sprint(i)
		put(t, db, "k", last)
		if i >= 2*unreadBatches && uint64(db.snap.Load().pos) != db.durable.Load() {
			return last
		}
	}
	t.Fatal("the tree is still cloned for every batch")
	return ""
}

// TestReadAfterUnread: the first reader after a long time without sees all that
// was acknowledged.
func TestReadAfterUnread(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	last := unread(t, db)
	want(t, db, "k", last)
}

// TestLocalRead: a local read takes what is visible without making it newer,
// until that is too old or too early.
func TestLocalRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, t.TempDir(), Options{})
		last := unread(t, db)
		read := func(r engine.Read) (val string) {
			if _, err := db.View(t.Context(), r, func(tx engine.Tx) error {
				b, _, err := tx.Get([]byte("k"))
				val = string(b)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return val
		}
		if val := read(engine.Read{Level: engine.Local, MaxStale: time.Minute}); val == last {
			t.Errorf("a local read saw %q: it waited for newer data", val)
		}
		pos := put(t, db, "k", "mine")
		if val := read(engine.Read{Level: engine.Session, AtLeast: pos, MaxStale: time.Minute}); val != "mine" {
			t.Errorf("a session's read after its own write saw %q", val)
		}
		last = unread(t, db)
		time.Sleep(time.Millisecond)
		if val := read(engine.Read{Level: engine.Local, MaxStale: time.Nanosecond}); val != last {
			t.Errorf("a local read that must not be old saw %q", val)
		}
	})
}

// TestReadWhileUnread: so does one that comes while a batch is being committed
// and the next one is gathered.
func TestReadWhileUnread(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	var acked atomic.Uint64
	var recorded signal
	record := db.exec.record
	db.exec.record = func(b *batch) {
		record(b)
		recorded.fire()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for ctx.Err() == nil {
				pos, err := db.Update(context.Background(), func(tx engine.Tx) error {
					return tx.Put([]byte("k"), nil)
				})
				if err != nil {
					t.Error(err)
					return
				}
				for {
					have := acked.Load()
					if have >= uint64(pos) || acked.CompareAndSwap(have, uint64(pos)) {
						break
					}
				}
			}
		})
	}
	for range 5 {
		from := db.counts.batches.Load()
		for moved := recorded.next(); db.counts.batches.Load() < from+2*unreadBatches; moved = recorded.next() {
			<-moved
		}
		before := acked.Load()
		pos, err := db.View(t.Context(), engine.Read{}, func(engine.Tx) error { return nil })
		if err != nil || uint64(pos) < before {
			t.Errorf("read at %d after %d was acknowledged: %v", pos, before, err)
		}
	}
	cancel()
	writers.Wait()
}

// TestTidy: without any reader an old visible state is let go of after a while, so that its
// memory is free.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, t.TempDir(), Options{})
		last := unread(t, db)
		time.Sleep(tidyEvery)
		synctest.Wait()
		if s := db.snap.Load(); !s.hollow() {
			t.Errorf("the visible state stays at %d, the durable one is %d", s.pos, db.durable.Load())
		}
		want(t, db, "k", last)
		time.Sleep(tidyEvery)
		synctest.Wait()
		if s := db.snap.Load(); s.hollow() {
			t.Error("the newest state is hollow, although it keeps no old data")
		}
	})
}

// TestLostBatchUnread: a lost batch's base is rebuilt from the history where
// nothing was cloned.
func TestLostBatchUnread(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs})
	last := unread(t, db)
	fs.LimitSpace(0)
	big := string(make([]byte, 8<<20))
	if _, err := db.Update(t.Context(), putting("k", big)); !errors.Is(err, engine.ErrDiskFull) {
		t.Fatalf("a write without room: %v", err)
	}
	fs.LimitSpace(-1)
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error {
		if val, _, _ := tx.Get([]byte("k")); string(val) != last {
			t.Errorf("after a lost batch k has %d bytes, want %q", len(val), last)
		}
		return tx.Put([]byte("more"), nil)
	}); err != nil {
		t.Fatal(err)
	}
	want(t, db, "k", last)
	if err := visible(db).tree.Check(); err != nil {
		t.Error(err)
	}
}

func TestPositionWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, t.TempDir(), Options{PositionWait: 20 * time.Millisecond})
		pos := put(t, db, "k", "1")
		_, err := db.View(t.Context(), engine.Read{AtLeast: pos + 1}, func(engine.Tx) error { return nil })
		if !errors.Is(err, engine.ErrPositionTimeout) {
			t.Errorf("a position that never comes: %v", err)
		}
		db.opts.PositionWait = time.Minute
		done := make(chan error, 1)
		go func() {
			_, err := db.View(t.Context(), engine.Read{AtLeast: pos + 1}, func(tx engine.Tx) error {
				if val, _, _ := tx.Get([]byte("k")); string(val) != "2" {
					return fmt.Errorf("read %q", val)
				}
				return nil
			})
			done <- err
		}()
		synctest.Wait() // until it waits for the position
		put(t, db, "k", "2")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestUseAfterEnd: a transaction that was kept after its end does not work.
func TestUseAfterEnd(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	var kept []engine.Tx
	keep := func(tx engine.Tx) error { kept = append(kept, tx); return nil }
	if _, err := db.Update(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	if _, err := db.View(t.Context(), engine.Read{}, keep); err != nil {
		t.Fatal(err)
	}
	for _, tx := range kept {
		if _, _, err := tx.Get([]byte("k")); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%T: get after the end: %v", tx, err)
		}
		if err := tx.Put([]byte("k"), nil); err == nil {
			t.Errorf("%T: a put after the end was accepted", tx)
		}
	}
}

// TestScanLimit: the pairs that one Update may scan are bounded; those of a View are not.
func TestScanLimit(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	const keys = MaxTxScan/4 + 1
	if _, err := db.UpdateEach(t.Context(), keys, func(tx engine.Tx, i int) error {
		return tx.Put(fmt.Appendf(nil, "%08d", i), nil)
	}); err != nil {
		t.Fatal(err)
	}
	scan4 := func(tx engine.Tx) error {
		for range 4 {
			for _, err := range tx.Scan(nil, nil) {
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	if _, err := db.Update(t.Context(), scan4); !errors.Is(err, engine.ErrTxTooLarge) {
		t.Errorf("%d pairs in one Update: %v", 4*keys, err)
	}
	if _, err := db.View(t.Context(), engine.Read{}, scan4); err != nil {
		t.Errorf("%d pairs in one View: %v", 4*keys, err)
	}
}

func TestWriteWhileScanning(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	put(t, db, "a", "1")
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error {
		for range tx.Scan(nil, nil) {
			if err := tx.Put([]byte("b"), nil); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("put while scanning: %v", err)
			}
		}
		return tx.Put([]byte("c"), nil)
	}); err != nil {
		t.Error(err)
	}
}

// TestChangesFollow: a reader of changes far behind catches up through trimmed
// history with an error, never a gap.
func TestChangesFollow(t *testing.T) {
	db := open(t, t.TempDir(), Options{HistoryBytes: 2 << 10})
	for i := range 100 {
		put(t, db, fmt.Sprint(i), "value")
	}
	for _, err := range db.Changes(t.Context(), 0) {
		if !errors.Is(err, engine.ErrTruncated) {
			t.Errorf("changes from the beginning: %v", err)
		}
	}
	for _, err := range db.Changes(t.Context(), 101) {
		if !errors.Is(err, engine.ErrTruncated) {
			t.Errorf("changes after a position of the future: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	next := engine.Position(90)
	for c, err := range db.Changes(ctx, next) {
		if next++; err != nil || c.Pos != next {
			t.Fatalf("change %d, want %d: %v", c.Pos, next, err)
		}
		if next == 100 {
			cancel()
		}
	}
	cancel()
}

// TestViewThenChanges: to follow the changes from the position of a view works
// also while the batch that the view shows is still being published.
func TestViewThenChanges(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	begun, let := make(chan struct{}), make(chan struct{})
	record := db.exec.record
	db.exec.record = func(b *batch) { begun <- struct{}{}; <-let; record(b) }
	first := start(t.Context(), db.exec, putting("k", "1"))
	<-begun
	pos, err := db.View(t.Context(), engine.Read{}, func(engine.Tx) error { return nil })
	if err != nil || pos != 1 {
		t.Fatalf("position %d, %v", pos, err)
	}
	time.AfterFunc(10*time.Millisecond, func() { let <- struct{}{}; <-begun; let <- struct{}{} })
	second := start(t.Context(), db.exec, putting("k", "2"))
	for c, err := range db.Changes(t.Context(), pos) {
		if err != nil || c.Pos != 2 {
			t.Errorf("changes after %d: %d, %v", pos, c.Pos, err)
		}
		break
	}
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
}

// TestChangesThenView: a caller that has seen a change finds it in its next view. So a
// batch counts as durable before it is in the history.
func TestChangesThenView(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	unread(t, db)
	pos := db.durable.Load()
	db.history.mu.Lock() // as if the batch were just being added
	write := start(t.Context(), db.exec, putting("k", "v"))
	if !eventually.Within(2*time.Second, func() bool { return db.durable.Load() == pos+1 }) {
		t.Errorf("Changes yields %d while views need not be newer than %d", pos+1, db.durable.Load())
	}
	db.history.mu.Unlock()
	if err := <-write; err != nil {
		t.Error(err)
	}
}

// TestPositionOfViews: Position is never before that of a view that was answered, also
// of one that comes between a batch's becoming visible and its publication.
func TestPositionOfViews(t *testing.T) {
	db := open(t, t.TempDir(), Options{})
	shown := 0
	db.exec.show = func(s *snapshot) {
		db.show(s)
		shown++
		pos, err := db.View(t.Context(), engine.Read{Level: engine.Local}, func(engine.Tx) error { return nil })
		if now := db.Position(); err != nil || now < pos {
			t.Errorf("a view was answered with position %d (%v), and the position is %d", pos, err, now)
		}
	}
	for range 3 {
		if _, err := db.Update(t.Context(), putting("k", "1")); err != nil {
			t.Fatal(err)
		}
	}
	if shown == 0 {
		t.Error("no batch became visible")
	}
}

// visible returns the visible state, which it brings up to date and fills unless something
// is on its way.
func visible(db *DB) *snapshot {
	db.exec.freshen()
	return db.snap.Load()
}
