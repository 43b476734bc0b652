package enginetest

import (
	"errors"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// TestScribble: what a transaction returned has its bytes until the next write or the end, and not after it.
func TestScribble(t *testing.T) {
	ends := map[string]func(tx engine.Tx) error{
		"the end":    func(engine.Tx) error { return nil },
		"a Put":      func(tx engine.Tx) error { return tx.Put([]byte("other"), nil) },
		"a Delete":   func(tx engine.Tx) error { return tx.Delete([]byte("other")) },
		"a rollback": func(tx engine.Tx) error { return tx.(engine.Savepointer).RollbackTo(0) },
	}
	for end, write := range ends {
		eng := Scribble(newRef(refState{}, 0))
		_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
			return errors.Join(tx.Put([]byte("k"), []byte("val")), tx.Put([]byte("l"), []byte("longer")))
		})
		if err != nil {
			t.Fatal(err)
		}
		var kept [][]byte
		_, err = eng.Update(t.Context(), func(tx engine.Tx) error {
			tx.(engine.Savepointer).Savepoint()
			var err error
			if kept, err = readAll(tx); err != nil {
				return err
			}
			for i, want := range []string{"val", "k", "val", "l", "longer", "l", "longer", "k", "val", "l", "longer"} {
				if string(kept[i]) != want {
					t.Errorf("%s: slice %d is %q within the transaction, not %q", end, i, kept[i], want)
				}
			}
			return write(tx)
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range kept {
			for _, c := range b {
				if c >= 'a' && c <= 'z' {
					t.Errorf("%s: slice %d is still %q", end, i, b)
				}
			}
		}
	}
}

// readAll returns the results of every method that reads pairs.
func readAll(tx engine.Tx) (all [][]byte, err error) {
	val, _, err := tx.Get([]byte("k"))
	all = append(all, val)
	for p, e := range tx.Scan(nil, nil) {
		all, err = append(all, p.Key, p.Val), errors.Join(err, e)
	}
	for p, e := range tx.ScanBack(nil, nil) {
		all, err = append(all, p.Key, p.Val), errors.Join(err, e)
	}
	p, _, e := tx.(engine.Ranker).At(nil, nil, 1)
	return append(all, p.Key, p.Val), errors.Join(err, e)
}

// TestScribblePassesArgumentsOn: a key and a value that the transaction returned may be written.
func TestScribblePassesArgumentsOn(t *testing.T) {
	eng := Scribble(newRef(refState{}, 0))
	_, err := eng.Update(t.Context(), func(tx engine.Tx) error {
		if err := tx.Put([]byte("key"), []byte("k2")); err != nil {
			return err
		}
		val, _, err := tx.Get([]byte("key"))
		return errors.Join(err, tx.Put(val, val))
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		val, _, err := tx.Get([]byte("k2"))
		if string(val) != "k2" {
			t.Errorf("k2 = %q", val)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
