package embedded

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestBatchMemoryIsReused: batches are built in the memory of published ones, and neither
// the history nor its readers see that.
func TestBatchMemoryIsReused(t *testing.T) {
	db := open(t, "data", Options{FS: memfs.New(1)})
	val := make([]byte, 300)
	put := func(n uint64) {
		_, err := db.Update(t.Context(), func(tx engine.Tx) error {
			binary.LittleEndian.PutUint64(val, n)
			return tx.Put([]byte("k"), val)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	buffers := map[*byte]bool{}
	for n := range uint64(100) {
		put(n)
		db.exec.mu.Lock()
		buffers[&db.exec.open.buf[0]] = true
		db.exec.mu.Unlock()
	}
	if len(buffers) > 2 {
		t.Errorf("100 batches were built in %d buffers", len(buffers))
	}
	n := uint64(0)
	for c, err := range db.Changes(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(c.Writes[0].Val); got != n || uint64(c.Pos) != n+1 {
			t.Fatalf("the change at position %d has value %d, not %d", c.Pos, got, n)
		}
		if n++; n == 100 {
			break
		}
	}
}

// TestBatchMemoryShrinks: after a burst of large batches their memory is released.
func TestBatchMemoryShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t, "data", Options{FS: memfs.New(1)})
		large := bytes.Repeat([]byte("v"), 3<<20)
		for range 3 {
			_, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("k"), large) })
			if err != nil {
				t.Fatal(err)
			}
		}
		held := func() int {
			db.exec.mu.Lock()
			defer db.exec.mu.Unlock()
			return cap(db.exec.open.buf) + cap(db.exec.open.undo) + cap(db.exec.spare.buf) + cap(db.exec.spare.undo)
		}
		if held() < len(large) {
			t.Fatalf("only %d bytes are kept for the next batch", held())
		}
		db.exec.tidy()
		if held() > 2*keepBatch {
			t.Errorf("%d bytes are held at rest", held())
		}
	})
}
