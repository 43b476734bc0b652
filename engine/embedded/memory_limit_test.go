package embedded

import (
	"errors"
	"fmt"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// memoryUsed returns the memory of the runner's tree. Nothing may be running.
func memoryUsed(db *DB) int64 {
	db.exec.takeTree()
	defer db.exec.giveTree()
	return db.exec.tree.Memory()
}

// TestReplaceNearLimit: a value may grow up to the limit, and one that does not grow always passes.
func TestReplaceNearLimit(t *testing.T) {
	const limit = 200_000
	db := open(t, t.TempDir(), Options{MemoryBytes: limit})
	put(t, db, "k", string(make([]byte, 120_000)))
	for _, c := range []struct {
		grows int64
		full  bool
	}{{1, true}, {0, false}, {0, false}, {-10_000, false}, {1, true}, {0, false}} {
		room := limit - memoryUsed(db)
		snap, err := db.snapshotAt(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		val := snap.bytes - int64(len("k"))
		if c.grows > 0 {
			val += room
		}
		before := memoryUsed(db)
		_, err = db.Update(t.Context(), putting("k", string(make([]byte, val+c.grows))))
		if errors.Is(err, engine.ErrMemoryFull) != c.full || err != nil && !c.full {
			t.Errorf("a value of %d bytes with room for %d more, %d bytes longer than that: %v", val, room, c.grows, err)
		}
		if c.full && memoryUsed(db) != before {
			t.Errorf("a refused write changes the memory from %d to %d bytes", before, memoryUsed(db))
		}
	}
	_, err := db.Update(t.Context(), putting("k", string(make([]byte, limit-20_000))))
	if err != nil {
		t.Errorf("a value that leaves 20,000 bytes: %v", err)
	}
}

// TestMemoryLimitWithin: transactions that reach the limit in the middle are undone or go on, whatever the tree has to
// copy, split or rebuild for their writes.
func TestMemoryLimitWithin(t *testing.T) {
	for mode, next := range cloneModes {
		t.Run(mode, func(t *testing.T) {
			const limit = 400_000
			rng := seed.Rand(t)
			o := Options{FS: memfs.New(1), MemoryBytes: limit}
			db := open(t, "data", o)
			m := &mutator{rng: rng}
			refused, kept := 0, 0
			for range 1500 {
				next(db, rng)
				before, full := memoryUsed(db), false
				_, err := db.Update(t.Context(), func(tx engine.Tx) error {
					err := m.grow(tx)
					if full = errors.Is(err, engine.ErrMemoryFull); full && rng.IntN(2) == 0 {
						return m.finish(tx) // the application goes on without the refused write
					}
					return err
				})
				switch {
				case full:
					if refused++; err == nil {
						kept++
					}
				case err != nil:
					t.Fatal(err)
				}
				if now := memoryUsed(db); now > limit+memoryOvershoot && now > before {
					t.Fatalf("the data takes %d bytes, %d before: the limit is %d", now, before, limit)
				}
			}
			if refused < 20 || kept < 5 {
				t.Fatalf("%d transactions reached the limit, %d of them went on", refused, kept)
			}
			checkSum(t, db)
			_ = db.Close()
			checkSum(t, open(t, "data", o))
		})
	}
}

// grow is a transaction that adds and lengthens more than it removes.
func (m *mutator) grow(tx engine.Tx) error {
	if err := m.begin(tx); err != nil {
		return err
	}
	for range 1 + m.rng.IntN(20) {
		key := fmt.Append(nil, m.rng.IntN(2000))
		old, had, err := tx.Get(key)
		if err != nil {
			return err
		}
		sum := m.sum
		if had {
			sum ^= pairSum(key, old)
		}
		if m.rng.IntN(4) == 0 {
			err = tx.Delete(key)
		} else {
			val := m.random(len(old)/2 + m.rng.IntN(len(old)+300))
			err, sum = tx.Put(key, val), sum^pairSum(key, val)
		}
		if err != nil {
			return err
		}
		m.sum = sum
	}
	return m.finish(tx)
}

// TestMemoryGivenBack: a full engine accepts as much again after its data were deleted, at run time and after a restart.
func TestMemoryGivenBack(t *testing.T) {
	const limit = 1 << 20
	o := Options{FS: memfs.New(1), MemoryBytes: limit}
	db := open(t, "data", o)
	val := string(make([]byte, 100))
	fill := func() (n int) {
		for ; ; n++ {
			_, err := db.Update(t.Context(), putting(fmt.Sprint("key", n), val))
			if errors.Is(err, engine.ErrMemoryFull) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	first := fill()
	if first < 5000 {
		t.Errorf("%d pairs of 110 bytes fit into 1 MiB", first)
	}
	for round := range 3 {
		for i := range first + 1 {
			_, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Delete(fmt.Append(nil, "key", i)) })
			if err != nil {
				t.Fatal(err)
			}
		}
		if now := memoryUsed(db); now > 4<<10 {
			t.Errorf("round %d: %d bytes are left without a key", round, now)
		}
		if round == 1 {
			_ = db.Close()
			db = open(t, "data", o)
		}
		if n := fill(); n < first-first/10 {
			t.Errorf("round %d: %d pairs fit, at first %d", round, n, first)
		}
	}
}
