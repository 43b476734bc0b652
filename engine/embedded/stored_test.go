package embedded

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

var rewrite = flag.Bool("rewrite", false, "make the stored folders in testdata anew: only for a format that is new")

// Folders that this version has written. Every later one must open them, so they
// are never recreated: a new format gets a separate folder.
const (
	storedAlone = "testdata/alone-1" // log records and snapshot head of format 1
	storedNode  = "testdata/node-2"  // format 2, with a vote; the only node of a cluster
	storedAddr  = "127.0.0.1:7101"
)

var small = Options{segmentBytes: 16 << 10, LogReserveBytes: 4 << 10, HistoryBytes: 1 << 10, Logger: quiet()}

// TestStoredFolders opens what earlier versions have written.
func TestStoredFolders(t *testing.T) {
	if *rewrite {
		makeStored(t)
	}
	for _, from := range []string{storedAlone, storedNode} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		rep, err := Check(dir, Options{}, nil)
		if err != nil || !rep.OK() || rep.Snapshots == 0 || rep.Records == 0 {
			t.Errorf("%s: check: %+v, %v", from, rep, err)
		}
		o := small
		o.Cluster = ClusterOptions{Addr: "127.0.0.1:0", Tick: 10 * time.Millisecond}
		db, err := Open(dir, o)
		if err != nil {
			t.Errorf("%s: %v", from, err)
			continue
		}
		defer db.Close()
		pos, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
			for i := range 40 {
				val, ok, err := tx.Get(fmt.Appendf(nil, "key%02d", i))
				if gone := i%10 == 3; err != nil || ok == gone || ok && string(val) != fmt.Sprint("value ", i) {
					return fmt.Errorf("key %d: %q, %v, %v", i, val, ok, err)
				}
			}
			return nil
		})
		if err != nil || pos != 44 {
			t.Errorf("%s: at position %d, not 44: %v", from, pos, err)
		}
	}
}

// makeStored writes the folders: forty keys, a snapshot in the middle, some keys
// removed.
func makeStored(t *testing.T) {
	t.Helper()
	for _, dir := range []string{storedAlone, storedNode} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if dir == storedNode {
			if _, _, err := InitCluster(t.Context(), dir, storedAddr, small); err != nil {
				t.Fatal(err)
			}
		}
		db, err := Open(dir, small)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			write(t, db, func(tx engine.Tx) error {
				return tx.Put(fmt.Appendf(nil, "key%02d", i), fmt.Append(nil, "value ", i))
			})
			if i == 20 {
				if _, err := db.saveSnapshot(); err != nil {
					t.Fatal(err)
				}
			}
			if i%10 == 3 {
				write(t, db, func(tx engine.Tx) error { return tx.Delete(fmt.Appendf(nil, "key%02d", i)) })
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// write retries until there is a leader.
func write(t *testing.T, db *DB, fn func(engine.Tx) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := db.Update(ctx, fn)
		if err == nil {
			return
		}
		if !errors.Is(err, engine.ErrNotLeader) {
			t.Fatal(err)
		}
		if _, err := db.group.AwaitLeader(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
