package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// awaitSnapshot waits for the first snapshot, which is written in the background.
func awaitSnapshot(t *testing.T, db *DB) {
	t.Helper()
	eventually.True(t, "a snapshot", func() bool { return db.counts.snapshots.Load() > 0 })
}

// filled is a folder with a snapshot and log after it.
func filled(t *testing.T, fs *memfs.FS) {
	t.Helper()
	db := open(t, "data", Options{FS: fs, SnapshotBytes: 2 << 10, HistoryBytes: 1 << 10})
	for i := range 100 {
		put(t, db, fmt.Sprintf("key %03d", i), "value")
	}
	awaitSnapshot(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	fs := memfs.New(1)
	filled(t, fs)
	rep, err := Check("data", Options{FS: fs}, nil)
	if err != nil || !rep.OK() {
		t.Fatalf("a sound folder: %v, %v", err, rep.Problems)
	}
	if rep.Keys != 100 || rep.Position != 100 || rep.Bytes != 100*12 || rep.Snapshots != 1 || rep.Records == 0 {
		t.Errorf("report %+v", rep)
	}
	names, _ := fs.List("data/snap")
	path := filepath.Join("data/snap", names[0])
	data, err := fs.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	fs.WriteFile(path, data)
	rep, err = Check("data", Options{FS: fs}, nil)
	if err != nil || rep.OK() {
		t.Errorf("a damaged snapshot: %v, %v", err, rep.Problems)
	}
	if _, err := Check("nowhere", Options{}, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("no folder: %v", err)
	}
}

func TestCheckWhileOpen(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Options{})
	if _, err := Check(dir, Options{}, nil); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("check of an open folder: %v", err)
	}
}

// TestMissingSnapshot: without the snapshot that the log goes on from, the
// folder is refused: an empty start would be a silent loss.
func TestMissingSnapshot(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs, SnapshotBytes: 8 << 10, HistoryBytes: 1 << 10, segmentBytes: 16 << 10})
	val := string(make([]byte, 1<<10))
	for i := 0; db.log.First() == 1; i++ { // until a snapshot has replaced some log
		if i == 10_000 {
			t.Fatal("the log is never truncated")
		}
		put(t, db, fmt.Sprintf("key %03d", i%20), val)
	}
	_ = db.Close()
	names, _ := fs.List("data/snap")
	if len(names) == 0 {
		t.Fatal("no snapshot was written")
	}
	for _, n := range names {
		_ = fs.Remove(filepath.Join("data/snap", n))
	}
	if _, err := Open("data", Options{FS: fs, Logger: quiet()}); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("open without its snapshot: %v", err)
	}
	if rep, err := Check("data", Options{FS: fs}, nil); err != nil || rep.OK() {
		t.Errorf("check without its snapshot: %v, %+v", err, rep)
	}
}

func TestBackup(t *testing.T) {
	fs := memfs.New(1)
	filled(t, fs)
	db := open(t, "data", Options{FS: fs})
	var b bytes.Buffer
	pos, err := db.Backup(t.Context(), &b)
	if err != nil || pos != 100 {
		t.Fatalf("backup: %d, %v", pos, err)
	}
	sum, err := VerifyBackup(bytes.NewReader(b.Bytes()))
	if err != nil || sum.Keys != 100 || sum.Position != 100 {
		t.Errorf("verify: %+v, %v", sum, err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := Restore(t.Context(), bytes.NewReader(b.Bytes()), dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if rep, err := Check(dir, Options{}, nil); err != nil || !rep.OK() || rep.Keys != 100 {
		t.Errorf("check of a restored folder that was never opened: %+v, %v", rep, err)
	}
	restored := open(t, dir, Options{})
	want(t, restored, "key 099", "value")
	if pos := put(t, restored, "more", "1"); pos != 101 {
		t.Errorf("the first write after restoring is at position %d", pos)
	}
	for _, err := range restored.Changes(t.Context(), 50) {
		if !errors.Is(err, engine.ErrTruncated) {
			t.Errorf("changes from before the backup: %v", err)
		}
	}
	if _, err := Restore(t.Context(), bytes.NewReader(b.Bytes()), dir, Options{}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("restore over data: %v", err)
	}
	for _, n := range []int{0, 1, 50, b.Len() / 2, b.Len() - 1} {
		if _, err := VerifyBackup(bytes.NewReader(b.Bytes()[:n])); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("a backup cut at %d of %d: %v", n, b.Len(), err)
		}
	}
	longer := append(bytes.Clone(b.Bytes()), 'x')
	fresh := filepath.Join(t.TempDir(), "fresh")
	if _, err := Restore(t.Context(), bytes.NewReader(longer), fresh, Options{}); !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprint(b.Len())) {
		t.Errorf("a backup with data after its end: %v", err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a restore that was refused left a folder: %v", err)
	}
	for off := 0; off < b.Len(); off += 11 {
		bad := bytes.Clone(b.Bytes())
		bad[off] ^= 4
		if _, err := VerifyBackup(bytes.NewReader(bad)); err == nil {
			t.Errorf("a bit at %d was flipped unnoticed", off)
		}
	}
}

func TestRestoreChanges(t *testing.T) {
	fs := memfs.New(1)
	filled(t, fs)
	db := open(t, "data", Options{FS: fs})
	var backup bytes.Buffer
	if _, err := db.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	put(t, db, "later", "1")
	put(t, db, "later", "2")
	var later []engine.Change
	for c, err := range db.Changes(t.Context(), 100) {
		if err != nil {
			t.Fatal(err)
		}
		if later = append(later, c); len(later) == 2 {
			break
		}
	}
	restore := func(dir string, failed error, after ...engine.Change) (Summary, error) {
		return RestoreChanges(t.Context(), bytes.NewReader(backup.Bytes()), func(yield func(engine.Change, error) bool) {
			for _, c := range after {
				if !yield(c, nil) {
					return
				}
			}
			if failed != nil {
				yield(engine.Change{}, failed)
			}
		}, dir, Options{FS: fs})
	}
	sum, err := restore("to", nil, later...)
	if err != nil || sum.Position != 102 || sum.Keys != 101 || !sum.Time.Equal(later[1].Time) {
		t.Errorf("restored %+v, %v", sum, err)
	}
	if rep, err := Check("to", Options{FS: fs}, nil); err != nil || !rep.OK() || rep.Position != 102 {
		t.Errorf("the restored folder: %+v, %v", rep, err)
	}
	if _, err := restore("gap", nil, later[1]); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("a gap: %v", err)
	}
	mine := errors.New("mine")
	if _, err := restore("gap", mine, later[0]); !errors.Is(err, mine) {
		t.Errorf("an error of the changes: %v", err)
	}
	for _, sub := range []string{"gap", "gap/snap", "gap/log"} {
		if names, _ := fs.List(sub); len(names) > 0 {
			t.Errorf("a restore that failed left %s/%v", sub, names)
		}
	}
}
