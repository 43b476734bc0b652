package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestFailedRestoreLeavesNothing: after a restore that fails, folders and files are as they
// were before, and another attempt succeeds.
func TestFailedRestoreLeavesNothing(t *testing.T) {
	db := open(t, "data", Options{FS: memfs.New(1)})
	for i := range 3000 {
		put(t, db, fmt.Sprintf("key %04d", i), long(i))
	}
	var backup bytes.Buffer
	pos, err := db.Backup(t.Context(), &backup)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(backup.Bytes())
	bad[len(bad)*3/4] ^= 1
	before := map[string]func(dir string) error{
		"missing": func(string) error { return nil },
		"empty":   func(dir string) error { return os.MkdirAll(dir, 0o700) },
		"with a lock and a folder": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, snapshotDir), 0o700), os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o600))
		},
	}
	failures := map[string]func(dir string, o Options) error{
		"damaged": func(dir string, o Options) error {
			_, err := Restore(t.Context(), bytes.NewReader(bad), dir, o)
			return err
		},
		"stopped": func(dir string, o Options) error {
			ctx, cancel := context.WithCancel(t.Context())
			after := func(yield func(engine.Change, error) bool) { // the last ends it: while files are written
				yield(engine.Change{Pos: pos + 1, Writes: []engine.Write{{Key: []byte("last"), Val: []byte(long(1))}}}, nil)
				cancel()
			}
			_, err := RestoreChanges(ctx, bytes.NewReader(backup.Bytes()), after, dir, o)
			return err
		},
	}
	for state, prepare := range before {
		for failure, fails := range failures {
			for _, o := range []Options{{}, {SpillBytes: 100, valueFileBytes: 64 << 10}} {
				t.Run(fmt.Sprintf("%s, %s, spill %d", state, failure, o.SpillBytes), func(t *testing.T) {
					root := t.TempDir()
					dir := filepath.Join(root, "inside", "data")
					if err := prepare(dir); err != nil {
						t.Fatal(err)
					}
					was := tree(t, root)
					if err := fails(dir, o); engine.CodeOf(err) != engine.CodeCorrupt && !errors.Is(err, context.Canceled) {
						t.Errorf("the restore: %v", err)
					}
					if now := tree(t, root); !slices.Equal(now, was) {
						t.Errorf("left %q, there were %q", now, was)
					}
					if sum, err := Restore(t.Context(), bytes.NewReader(backup.Bytes()), dir, o); err != nil || sum.Keys != 3000 {
						t.Errorf("the next restore: %+v, %v", sum, err)
					}
				})
			}
		}
	}
}

// tree returns the names of all files and folders below root.
func tree(t *testing.T, root string) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}
