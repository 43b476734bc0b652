package embedded

import (
	"errors"
	"fmt"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestWriteScannedKey: a key that the transaction was given aliases the tree,
// which moves its bytes when it is written. It may be what is written: the tree,
// the log and what undoes it must all name the same key.
func TestWriteScannedKey(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, Options{})
	for i := range 20 {
		put(t, db, fmt.Sprintf("key %02d", i), "v")
	}
	unread(t, db) // nothing is cloned now: the tree changes its leaves in place
	first := func(tx engine.Tx, from string) []byte {
		p, _, err := tx.(engine.Ranker).At([]byte(from), nil, 0)
		if err != nil {
			t.Error(err)
		}
		return p.Key
	}
	errUndo := errors.New("undo")
	for _, fn := range []func(tx engine.Tx) error{
		func(tx engine.Tx) error { return tx.Delete(first(tx, "key 10")) },
		func(tx engine.Tx) error { return tx.Put(first(tx, "key 12")[:5], []byte("new")) },
		func(tx engine.Tx) error { return errors.Join(tx.Delete(first(tx, "key 15")), errUndo) },
	} {
		if _, err := db.Update(t.Context(), fn); err != nil && !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
	}
	for range 2 {
		for i := range 20 {
			key := fmt.Sprintf("key %02d", i)
			if val, ok := get(t, db, key); ok != (i != 10) || ok && val != "v" {
				t.Errorf("%s = %q, %v", key, val, ok)
			}
		}
		want(t, db, "key 1", "new")
		_ = db.Close()
		db = open(t, dir, Options{}) // and the same from the log
	}
}

// TestBytesCounted: the bytes that are counted are exactly those of the keys and values, after undone transactions,
// deletions, replay, snapshot and restart.
func TestBytesCounted(t *testing.T) {
	rng := seed.Rand(t)
	o := Options{FS: memfs.New(1), SnapshotBytes: 1 << 30}
	db := open(t, "data", o)
	check := func(when string) {
		t.Helper()
		want := int64(0)
		snap, err := db.snapshotAt(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for key, val := range snap.tree.Ascend(nil, nil) {
			want += size(key, len(val.Bytes))
		}
		if snap.bytes != want || db.exec.bytes != want {
			t.Errorf("%s: %d bytes, counted are %d, and %d by the executor", when, want, snap.bytes, db.exec.bytes)
		}
	}
	errUndo := errors.New("undo")
	for range 300 {
		_, err := db.Update(t.Context(), func(tx engine.Tx) (err error) {
			sp, mark := tx.(engine.Savepointer), -1
			for range 1 + rng.IntN(15) {
				key := fmt.Append(nil, rng.IntN(30))
				switch r := rng.IntN(12); {
				case r == 0:
					mark = sp.Savepoint()
				case r == 1 && mark >= 0:
					err = errors.Join(err, sp.RollbackTo(mark))
				case r < 5:
					err = errors.Join(err, tx.Delete(key))
				default:
					err = errors.Join(err, tx.Put(key, make([]byte, rng.IntN(100))))
				}
			}
			if rng.IntN(2) == 0 {
				return errUndo
			}
			return err
		})
		if err != nil && err != errUndo {
			t.Fatal(err)
		}
	}
	check("at run time")
	_ = db.Close()
	db = open(t, "data", o)
	check("after replay")
	if _, err := db.saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	db = open(t, "data", o)
	check("from a snapshot")
}
