package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestRestoreWithSpill restores a backup and changes after it with long values in files:
// the same data as without, in as many value files as it takes.
func TestRestoreWithSpill(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs})
	for i := range 30 {
		put(t, db, fmt.Sprintf("key %02d", i), long(i))
		put(t, db, fmt.Sprintf("short %02d", i), "value")
	}
	var backup bytes.Buffer
	base, err := db.Backup(t.Context(), &backup)
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, "key 00", long(100)) // in a file, again
	put(t, db, "key 01", "short")
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Delete([]byte("key 02")) }); err != nil {
		t.Fatal(err)
	}
	put(t, db, "short 00", long(101))
	put(t, db, "huge", strings.Repeat("x", 2*spillStep)) // which makes the values before it move
	put(t, db, "short 01", long(102))
	var after []engine.Change
	for c, err := range db.Changes(t.Context(), base) {
		if err != nil {
			t.Fatal(err)
		}
		if after = append(after, c); c.Pos == engine.Position(db.durable.Load()) {
			break
		}
	}
	changes := func(yield func(engine.Change, error) bool) {
		for _, c := range after {
			if !yield(c, nil) {
				return
			}
		}
	}
	plain, err := RestoreChanges(t.Context(), bytes.NewReader(backup.Bytes()), changes, "plain", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := RestoreChanges(t.Context(), bytes.NewReader(backup.Bytes()), changes, "spilled", spilling(fs))
	if err != nil || sum != plain {
		t.Errorf("%+v, %v, without files %+v", sum, err, plain)
	}
	if rep, err := Check("spilled", Options{FS: fs}, nil); err != nil || !rep.OK() {
		t.Errorf("check: %v, %v", rep.Problems, err)
	}
	if names, err := fs.List("spilled/vals"); err != nil || len(names) < 2 {
		t.Errorf("value files: %v, %v", names, err)
	}
	fs.Crash()
	in := map[string]*DB{"plain": open(t, "plain", Options{FS: fs}), "spilled": open(t, "spilled", Options{FS: fs})}
	if n := inFiles(t, in["spilled"]); n != 31 {
		t.Errorf("%d values in files", n)
	}
	var want []engine.Pair
	for _, name := range []string{"plain", "spilled"} {
		got := scanAll(t, in[name])
		if want == nil {
			want = got
		}
		if !slices.EqualFunc(got, want, func(a, b engine.Pair) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Val, b.Val) }) {
			t.Errorf("%s has other data", name)
		}
	}
}

func scanAll(t *testing.T, db *DB) (all []engine.Pair) {
	t.Helper()
	if _, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			all = append(all, engine.Pair{Key: bytes.Clone(p.Key), Val: bytes.Clone(p.Val)})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRestoreWithSpillFails: a damaged backup, a gap in the changes and a full disk leave no
// value files, and a folder that is empty.
func TestRestoreWithSpillFails(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs})
	for i := range 5 {
		put(t, db, fmt.Sprintf("key %d", i), strings.Repeat("x", spillStep))
	}
	var backup bytes.Buffer
	if _, err := db.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(backup.Bytes())
	bad[len(bad)-10] ^= 1
	gap := func(yield func(engine.Change, error) bool) { yield(engine.Change{Pos: 99}, nil) }
	none := func(func(engine.Change, error) bool) {}
	for name, fails := range map[string]struct {
		backup []byte
		after  func(func(engine.Change, error) bool)
		space  int64
		code   engine.Code
	}{
		"damaged":   {bad, none, -1, engine.CodeCorrupt},
		"gap":       {backup.Bytes(), gap, -1, engine.CodeCorrupt},
		"full disk": {backup.Bytes(), none, 3 * spillStep, engine.CodeDiskFull},
	} {
		fs.LimitSpace(fails.space)
		_, err := RestoreChanges(t.Context(), bytes.NewReader(fails.backup), fails.after, name, spilling(fs))
		fs.LimitSpace(-1)
		if engine.CodeOf(err) != fails.code || fails.space > 0 && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
		for _, dir := range []string{"/vals", "/snap", "/log"} {
			if names, _ := fs.List(name + dir); len(names) > 0 {
				t.Errorf("%s left %s: %v", name, dir, names)
			}
		}
	}
}
