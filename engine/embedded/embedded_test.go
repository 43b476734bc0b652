package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// open opens an engine in dir and closes it with the test.
func open(t *testing.T, dir string, o Options) *DB {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func put(t *testing.T, db *DB, key, val string) engine.Position {
	t.Helper()
	pos, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte(key), []byte(val)) })
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return pos
}

func get(t *testing.T, db *DB, key string) (val string, ok bool) {
	t.Helper()
	_, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		b, found, err := tx.Get([]byte(key))
		val, ok = string(b), found
		return err
	})
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return val, ok
}

func want(t *testing.T, db *DB, key, val string) {
	t.Helper()
	if have, ok := get(t, db, key); have != val || !ok {
		t.Errorf("%s = %q, %v; want %q", key, have, ok, val)
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, Options{})
	put(t, db, "a", "1")
	put(t, db, "b", "2")
	pos := put(t, db, "a", "3")
	if pos != 3 {
		t.Errorf("position %d after 3 transactions", pos)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir, Options{})
	want(t, db, "a", "3")
	want(t, db, "b", "2")
	if pos := put(t, db, "c", "4"); pos != 4 {
		t.Errorf("position %d after reopening, want 4", pos)
	}
	var got []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for c, err := range db.Changes(ctx, 1) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s=%s", c.Pos, c.Writes[0].Key, c.Writes[0].Val))
		if c.Pos == 4 {
			cancel()
		}
	}
	if s := fmt.Sprint(got); s != "[2 b=2 3 a=3 4 c=4]" {
		t.Errorf("changes after 1: %s", s)
	}
}

// TestClockGoesBack: transaction times still rise, also over a restart.
func TestClockGoesBack(t *testing.T) {
	dir, now := t.TempDir(), time.UnixMicro(1_000_000_000)
	o := Options{Now: func() time.Time { return now }}
	var times []int64
	write := func(db *DB) {
		if _, err := db.Update(t.Context(), func(tx engine.Tx) error {
			times = append(times, tx.Now().UnixMicro())
			return tx.Put([]byte("k"), nil)
		}); err != nil {
			t.Fatal(err)
		}
	}
	db := open(t, dir, o)
	write(db)
	now = now.Add(time.Hour)
	read := func() (at time.Time) {
		if _, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error { at = tx.Now(); return nil }); err != nil {
			t.Fatal(err)
		}
		return at
	}
	late := read()
	now = now.Add(-2 * time.Hour)
	if early := read(); early.Before(late) {
		t.Errorf("a view at %v came after one at %v", early, late)
	}
	write(db)
	write(db)
	_ = db.Close()
	db = open(t, dir, o)
	write(db)
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			t.Fatalf("times %v do not rise", times)
		}
	}
	if _, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		if tx.Now().UnixMicro() < times[len(times)-1] {
			t.Errorf("a view's time %v is before a transaction that it holds", tx.Now())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestMemoryLimit(t *testing.T) {
	db := open(t, t.TempDir(), Options{MemoryBytes: 100_000})
	val := make([]byte, 10_000)
	fill := func(i int) error {
		_, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte{byte(i)}, val) })
		return err
	}
	n := 0
	for ; n < 100; n++ {
		if err := fill(n); errors.Is(err, engine.ErrMemoryFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n != 9 {
		t.Errorf("%d values of 10 kB fitted into 100 kB", n)
	}
	if err := fill(0); err != nil {
		t.Errorf("a write that does not grow the data: %v", err)
	}
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Delete([]byte{0}) }); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := fill(50); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Options{})
	_, err := Open(dir, Options{})
	if !errors.Is(err, engine.ErrLocked) {
		t.Fatalf("second open: %v", err)
	}
	if pid := strconv.Itoa(os.Getpid()); !strings.Contains(err.Error(), pid) {
		t.Errorf("%q does not name the process %s", err, pid)
	}
}
