package embedded

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestSpillStarved lets each opening of a file fail in its turn, for one try or for three,
// as where the process has too many files open, while values are moved, read and compacted.
// Everything succeeds in the end, and nothing is lost.
func TestSpillStarved(t *testing.T) {
	for _, more := range []int{0, 2} {
		failed := 0
		for n := 1; ; n++ {
			left := 0
			synctest.Test(t, func(t *testing.T) { // the pauses after failures are long
				fs := memfs.New(uint64(n))
				o := spilling(fs)
				o.LogReserveBytes, o.segmentBytes = 16<<10, 64<<10 // zeros take most of the time
				db := open(t, "data", o)
				fs.FailOpen(n, more)
				failed += starvedSpill(t, db)
				left = fs.Opens()
				fs.FailOpen(0, 0)
				_ = db.Close()
				fs.Crash()
				checkStarved(t, open(t, "data", o))
			})
			if t.Failed() {
				t.Fatalf("opening %d and %d more", n, more)
			}
			if left > 0 {
				if n < 10 || failed == 0 {
					t.Errorf("%d openings, %d errors: the test does not test", n, failed)
				}
				break
			}
		}
	}
}

// starvedSpill writes values, overwrites most, and waits until their files are compacted.
// It returns how often a call failed and was made again.
func starvedSpill(t *testing.T, db *DB) (failures int) {
	t.Helper()
	insist := func(what string, call func() error) {
		t.Helper()
		for range 10 {
			err := call()
			if err == nil {
				return
			}
			if failures++; !journal.Passing(err) && !errors.Is(err, engine.ErrFilesFull) {
				t.Fatalf("%s: %v", what, err)
			}
		}
		t.Fatalf("%s: still fails", what)
	}
	write := func(from, to, val int) {
		for i := from; i < to; i++ {
			insist("put", func() error {
				_, err := db.Update(t.Context(), putting(fmt.Sprintf("key %02d", i), long(i+val)))
				return err
			})
		}
		awaitInFiles(t, db, 40)
	}
	write(0, 40, 0)
	write(0, 30, 100)
	again := 0
	eventually.True(t, "a compaction and the removal of a file", func() bool {
		write(again%30, again%30+1, 100) // so that files become mostly dead
		again++
		insist("snapshot", func() error { _, err := db.saveSnapshot(); return err })
		names, err := db.opts.FS.List("data/vals")
		return db.spill.compactedBytes.Load() > 400 && err == nil && names[0] != "00000001.val"
	})
	checkStarved(t, db)
	eventually.True(t, "the metric to clear", func() bool { return !db.spill.failing.Load() })
	return failures
}

func checkStarved(t *testing.T, db *DB) {
	t.Helper()
	for i := range 40 {
		val := i
		if i < 30 {
			val += 100
		}
		want(t, db, fmt.Sprintf("key %02d", i), long(val))
	}
}
