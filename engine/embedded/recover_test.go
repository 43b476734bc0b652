package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// damageLog flips a bit of the last text in the only file of log, and returns what undoes
// that.
func damageLog(t *testing.T, fs *memfs.FS, text string) (mend func()) {
	t.Helper()
	names, err := fs.List("data/log")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	path := filepath.Join("data/log", names[0])
	data, err := fs.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(data, []byte(text))
	flip := func() {
		data[at] ^= 1
		fs.WriteFile(path, data)
	}
	flip()
	return flip
}

// TestSnapshotNewerThanLog: the log's last frame is damaged and taken for an
// interrupted write, but a snapshot has what was in it. Nothing is lost, writing
// goes on, and the history does not pretend to be whole.
func TestSnapshotNewerThanLog(t *testing.T) {
	fs := memfs.New(1)
	o := Options{FS: fs, SnapshotBytes: 1 << 30}
	db := open(t, "data", o)
	for i := range 20 {
		put(t, db, fmt.Sprintf("key %d", i), "v")
	}
	if _, err := db.saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	fs.Crash() // so that Close cannot seal the log
	_ = db.Close()
	damageLog(t, fs, "key 19")
	db = open(t, "data", o)
	want(t, db, "key 19", "v")
	if pos := put(t, db, "more", "v"); pos != 21 {
		t.Errorf("the first write after it is at position %d", pos)
	}
	for _, err := range db.Changes(t.Context(), 5) {
		if !errors.Is(err, engine.ErrTruncated) {
			t.Errorf("changes from before: %v", err)
		}
		break
	}
	_ = db.Close()
	want(t, open(t, "data", o), "more", "v")
}

// TestSnapshotOverRestarts: a process that is restarted before it has written
// enough for a snapshot must not let the log grow without limit.
func TestSnapshotOverRestarts(t *testing.T) {
	fs := memfs.New(1)
	o := Options{FS: fs, SnapshotBytes: 20 << 10}
	for range 8 {
		db := open(t, "data", o)
		put(t, db, "k", string(make([]byte, 4<<10)))
		_ = db.Close()
	}
	if names, err := fs.List("data/snap"); err == nil && len(names) > 0 {
		return // one of them has lived long enough to write it
	}
	awaitSnapshot(t, open(t, "data", o))
}

// TestHistoryOverRestart: a snapshot takes no log that the history needs.
func TestHistoryOverRestart(t *testing.T) {
	o := Options{FS: memfs.New(1), SnapshotBytes: 1 << 30, segmentBytes: 8 << 10}
	db := open(t, "data", o)
	const n = 50
	for range n {
		put(t, db, "k", string(make([]byte, 1<<10)))
	}
	if _, err := db.saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	if segs := db.log.Stats().Segments; segs < 3 {
		t.Fatalf("only %d files of log", segs)
	}
	_ = db.Close()
	db = open(t, "data", o)
	next := engine.Position(1)
	for c, err := range db.Changes(t.Context(), 0) {
		if err != nil || c.Pos != next {
			t.Fatalf("change %d, want %d: %v", c.Pos, next, err)
		}
		if next++; next > n {
			return
		}
	}
}

// TestRestoreOverData: a folder without its lock file is not empty either.
func TestRestoreOverData(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, Options{})
	put(t, db, "k", "v")
	var b bytes.Buffer
	if _, err := db.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), &b, dir, Options{}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("restore over data: %v", err)
	}
}
