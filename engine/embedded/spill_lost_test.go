package embedded

import (
	"errors"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestSpillLostBatch: a swap that is dropped with a lost batch is made again.
func TestSpillLostBatch(t *testing.T) {
	db := open(t, "data", spilling(memfs.New(1)))
	begun, let := make(chan struct{}), make(chan error)
	db.exec.log = commitFunc(func(b *batch) error {
		begun <- struct{}{}
		if err := <-let; err != nil {
			return err
		}
		return journalCommitter{db.log}.commit(b)
	})
	kept := start(t.Context(), db.exec, putting("kept", long(1)))
	<-begun
	lost := start(t.Context(), db.exec, putting("lost", "short"))
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
	awaitInFiles(t, db, 1)
	let <- engine.ErrDiskFull
	if err := <-lost; !errors.Is(err, engine.ErrDiskFull) {
		t.Fatal(err)
	}
	awaitInFiles(t, db, 1)
	want(t, db, "kept", long(1))
	if n := db.spill.spilled.Load(); n != 2 {
		t.Errorf("%d values were moved: the swap was not lost", n)
	}
}
