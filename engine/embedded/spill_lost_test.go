package embedded

import (
	"errors"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestSpillLostBatch: a long value that was overwritten by a lost batch is in memory again,
// and is moved then. A value that was moved in the meantime stays in its file.
func TestSpillLostBatch(t *testing.T) {
	db := open(t, "data", spilling(memfs.New(1)))
	db.spill.close() // the test does its work
	db.spill.began, db.spill.all, db.spill.stop = false, false, make(chan struct{})
	move := func(sum uint64) {
		t.Helper()
		if err := db.spill.work(); err != nil {
			t.Error(err)
		}
		if n := db.spill.spilled.Load(); n != sum {
			t.Errorf("%d values were moved, not %d", n, sum)
		}
	}
	begun, let := make(chan struct{}), make(chan error)
	db.exec.log = commitFunc(func(b *batch) error {
		begun <- struct{}{}
		if err := <-let; err != nil {
			return err
		}
		return journalCommitter{db.log}.commit(b)
	})
	kept := start(t.Context(), db.exec, func(tx engine.Tx) error {
		return errors.Join(tx.Put([]byte("kept"), []byte(long(1))), tx.Put([]byte("other"), []byte(long(2))))
	})
	<-begun
	lost := start(t.Context(), db.exec, putting("kept", "short"))
	eventually.True(t, "the next batch", func() bool {
		db.exec.mu.Lock()
		defer db.exec.mu.Unlock()
		return !db.exec.running && !db.exec.open.empty()
	})
	let <- nil // from here on nothing becomes visible before the second batch is durable or lost
	<-begun
	if err := <-kept; err != nil {
		t.Fatal(err)
	}
	move(1)
	let <- engine.ErrDiskFull
	if err := <-lost; !errors.Is(err, engine.ErrDiskFull) {
		t.Fatal(err)
	}
	move(2)
	want(t, db, "kept", long(1))
	want(t, db, "other", long(2))
}
