package kv_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// many is an engine whose views are engine.ManyGetter; it counts the calls of the last one.
type many struct {
	engine.Engine
	calls int
}

func (m *many) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	return m.Engine.View(ctx, r, func(tx engine.Tx) error {
		m.calls = 0
		return fn(manyTx{tx, m})
	})
}

type manyTx struct {
	engine.Tx
	m *many
}

func (t manyTx) GetMany(keys [][]byte) ([][]byte, error) {
	t.m.calls++
	vals := make([][]byte, len(keys))
	for i, key := range keys {
		v, ok, err := t.Get(key)
		if err != nil {
			return nil, err
		}
		if ok {
			vals[i] = append([]byte{}, v...)
		}
	}
	return vals, nil
}

// TestMGetAtOnce checks that MGet reads all keys in one call if the engine supports it, with the same results.
func TestMGetAtOnce(t *testing.T) {
	plain, eng, c := open(t)
	m := &many{Engine: eng}
	s, err := kv.New(m, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "a", "1", kv.SetOptions{})
	set(t, s, "empty", "", kv.SetOptions{})
	set(t, s, "expired", "1", kv.SetOptions{TTL: time.Second})
	c.Add(time.Minute)
	keys := [][]byte{[]byte("a"), []byte("none"), []byte("empty"), []byte("expired"), []byte("a")}
	got, _, err := s.MGet(t.Context(), engine.Read{}, 0, keys)
	want, _, err2 := plain.MGet(t.Context(), engine.Read{}, 0, keys)
	if err != nil || err2 != nil || fmt.Sprint(got) != fmt.Sprint(want) || m.calls != 1 {
		t.Errorf("%v, %v in %d calls; want %v, %v", got, err, m.calls, want, err2)
	}
	if _, _, err := s.MGet(t.Context(), engine.Read{}, 0, [][]byte{nil}); engine.CodeOf(err) != engine.CodeKeyEmpty {
		t.Errorf("an empty key: %v", err)
	}
}
