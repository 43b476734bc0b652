package kv_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

func TestRemember(t *testing.T) {
	s, _, c := open(t)
	key, a := []byte("request"), kv.Answered{Sum: sha256.Sum256([]byte("PUT")), Answer: []byte("done")}
	update := func(fn func(tx *kv.Tx) error) {
		t.Helper()
		if _, err := s.Update(t.Context(), 3, fn); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx *kv.Tx) error {
		if _, ok, err := tx.Recall(key); ok || err != nil {
			t.Errorf("a response is stored already: %v", err)
		}
		if _, err := tx.Set([]byte("a"), []byte("1"), kv.SetOptions{}); err != nil {
			return err
		}
		return tx.Remember(key, a, time.Hour)
	})
	update(func(tx *kv.Tx) error {
		got, ok, err := tx.Recall(key)
		if !ok || err != nil || got.Sum != a.Sum || !bytes.Equal(got.Answer, a.Answer) {
			t.Errorf("remembered %+v %v %v", got, ok, err)
		}
		if _, ok, err := tx.Get([]byte("a")); tx.Space() != 3 || !ok || err != nil {
			t.Errorf("the transaction is in space %d now: %v %v", tx.Space(), ok, err)
		}
		return nil
	})
	c.Add(time.Hour)
	update(func(tx *kv.Tx) error {
		if _, ok, err := tx.Recall(key); ok || err != nil {
			t.Errorf("stored beyond its time to live: %v", err)
		}
		return nil
	})
	if _, err := s.ExpireStep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.View(t.Context(), engine.Read{}, kv.OnceSpace, func(tx *kv.Tx) error {
		if n, err := tx.Count(); n != 0 || err != nil {
			t.Errorf("%d records are left: %v", n, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestRememberUndone checks that a transaction that fails leaves nothing to recall.
func TestRememberUndone(t *testing.T) {
	s, _, _ := open(t)
	failed := errors.New("not today")
	if _, err := s.Update(t.Context(), 0, func(tx *kv.Tx) error {
		if err := tx.Remember([]byte("request"), kv.Answered{}, time.Hour); err != nil {
			return err
		}
		return failed
	}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), 0, func(tx *kv.Tx) error {
		if _, ok, err := tx.Recall([]byte("request")); ok || err != nil {
			t.Errorf("stored although the transaction was undone: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestRememberBad(t *testing.T) {
	s, _, _ := open(t)
	remember := func(key string, answer int, ttl time.Duration) func(tx *kv.Tx) error {
		return func(tx *kv.Tx) error {
			return tx.Remember([]byte(key), kv.Answered{Answer: make([]byte, answer)}, ttl)
		}
	}
	recall := func(key string) func(tx *kv.Tx) error {
		return func(tx *kv.Tx) error { _, _, err := tx.Recall([]byte(key)); return err }
	}
	plant := func(val string) func(tx *kv.Tx) error {
		return func(tx *kv.Tx) error {
			tx.Select(kv.OnceSpace)
			if _, err := tx.Set([]byte("planted"), []byte(val), kv.SetOptions{}); err != nil {
				return err
			}
			return recall("planted")(tx)
		}
	}
	longest := strings.Repeat("k", kv.MaxOnceKeyBytes)
	for _, c := range []struct {
		name string
		fn   func(tx *kv.Tx) error
		code engine.Code
	}{
		{"the longest key and response", remember(longest, kv.MaxOnceAnswerBytes, 1), ""},
		{"a key too long", remember(longest+"k", 0, time.Hour), engine.CodeLimit},
		{"recall of a key too long", recall(longest + "k"), engine.CodeLimit},
		{"a response too long", remember("k", kv.MaxOnceAnswerBytes+1, time.Hour), engine.CodeLimit},
		{"no key", remember("", 0, time.Hour), engine.CodeInvalid},
		{"recall of no key", recall(""), engine.CodeInvalid},
		{"no time to live", remember("k", 0, 0), engine.CodeInvalid},
		{"truncated", plant("\x01half"), engine.CodeCorrupt},
		{"of a newer format", plant("\x02" + strings.Repeat("x", 40)), engine.CodeFormatNewer},
	} {
		if _, err := s.Update(t.Context(), 0, c.fn); engine.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRememberRace checks that of many concurrent attempts only one runs.
func TestRememberRace(t *testing.T) {
	s, _, _ := open(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := s.Update(t.Context(), 0, func(tx *kv.Tx) error {
				if _, ok, err := tx.Recall([]byte("request")); ok || err != nil {
					return err
				}
				if _, err := tx.Add([]byte("n"), 1); err != nil {
					return err
				}
				return tx.Remember([]byte("request"), kv.Answered{}, time.Hour)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if e, _ := get(t, s, "n"); string(e.Val) != "1" {
		t.Errorf("it ran %s times", e.Val)
	}
}
