package embedded

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestSavepointIndex: a transaction knows every key that it wrote, once, however
// its number went up and down around linearTouches.
func TestSavepointIndex(t *testing.T) {
	rng := seed.Rand(t)
	db := open(t, "data", Options{FS: memfs.New(1)})
	is, errUndo := map[string]string{}, errors.New("undo")
	for range 300 {
		now := maps.Clone(is)
		var marks []int
		var saved []map[string]string
		_, err := db.Update(t.Context(), func(tx engine.Tx) error {
			h := tx.(*writeTx)
			if s := &h.x.tx; s.saving || len(s.steps) > 0 {
				t.Errorf("a transaction begins with %d steps of the one before", len(s.steps))
			}
			for i := range 60 {
				key := fmt.Sprint(rng.IntN(14))
				switch r := rng.IntN(10); {
				case r == 0:
					marks, saved = append(marks, h.Savepoint()), append(saved, maps.Clone(now))
				case r == 1 && len(marks) > 0:
					at := rng.IntN(len(marks))
					if err := h.RollbackTo(marks[at]); err != nil {
						return err
					}
					now = maps.Clone(saved[at])
					marks, saved = marks[:at+1], saved[:at+1]
				case r < 4:
					delete(now, key)
					if err := h.Delete([]byte(key)); err != nil {
						return err
					}
				default:
					now[key] = fmt.Sprint(i)
					if err := h.Put([]byte(key), []byte(now[key])); err != nil {
						return err
					}
				}
				checkTouched(t, &h.x.tx)
			}
			if rng.IntN(2) == 0 {
				return errUndo
			}
			return nil
		})
		switch {
		case err == nil:
			is = now
		case err != errUndo:
			t.Fatal(err)
		}
		if got := allOf(t, db); !maps.Equal(got, is) {
			t.Fatalf("there is %v, want %v", got, is)
		}
	}
}

// checkTouched: each key that was touched is found where it is.
func checkTouched(t *testing.T, s *txState) {
	t.Helper()
	for i := range s.touched {
		if at := s.find(s.key(s.touched[i])); at != i {
			t.Fatalf("key %s, touch %d of %d, is found at %d", s.key(s.touched[i]), i, len(s.touched), at)
		}
	}
}

// allOf returns what is in db.
func allOf(t *testing.T, db *DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	_, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			all[string(p.Key)] = string(p.Val)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
