package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/spill"
)

// spilling returns options with which values of more than 100 bytes are in files.
func spilling(fs *memfs.FS) Options {
	return Options{FS: fs, SpillBytes: 100, spillSoon: true, valueFileBytes: 4 << 10, Logger: quiet()}
}

func long(i int) string { return strings.Repeat(fmt.Sprintf("value %d;", i), 50) }

// inFiles returns how many values of the newest state are in files.
func inFiles(t *testing.T, db *DB) (n int) {
	t.Helper()
	db.exec.withTree(func(x *speculation) {
		for _, val := range x.tree.Ascend(nil, nil) {
			if val.Marked {
				n++
			}
		}
	})
	return n
}

func awaitInFiles(t *testing.T, db *DB, n int) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d values in files", n), func() bool { return inFiles(t, db) == n })
}

// TestSpill: long values move to files, and are read from there, also after a restart
// with and without the option.
func TestSpill(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", spilling(fs))
	for i := range 20 {
		put(t, db, fmt.Sprintf("key %02d", i), long(i))
	}
	put(t, db, "short", "stays in memory")
	awaitInFiles(t, db, 20)
	check := func(db *DB) {
		t.Helper()
		for i := range 20 {
			want(t, db, fmt.Sprintf("key %02d", i), long(i))
		}
		want(t, db, "short", "stays in memory")
	}
	check(db)
	if n := db.exec.bytes; n > 21*40 {
		t.Errorf("%d bytes are counted as in memory", n)
	}
	if _, err := db.saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	fs.Crash()
	db = open(t, "data", spilling(fs))
	check(db)
	awaitInFiles(t, db, 20)
	if _, err := db.saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	db = open(t, "data", Options{FS: fs})
	if n := inFiles(t, db); n != 20 {
		t.Errorf("%d values in files after a start without the option", n)
	}
	check(db)
	put(t, db, "key 00", long(0))
	if n := inFiles(t, db); n != 19 {
		t.Errorf("%d values in files after one was written without the option", n)
	}
}

// TestPowerLossWithSpill is TestPowerLoss with values in files: the power fails while
// they are written, while references take their places, during snapshots that have them,
// compactions and the removal of files.
func TestPowerLossWithSpill(t *testing.T) {
	powerLoss(t, 60, func(fs *memfs.FS) Options {
		o := crashOptions(fs)
		o.SpillBytes, o.spillSoon, o.valueFileBytes = 20, true, 1<<10
		return o
	})
}

// TestKillWithSpill is TestKill with values in files.
func TestKillWithSpill(t *testing.T) {
	t.Setenv(killSpill, "1")
	killAgain(t, 60)
}

// TestSpillCompaction: files that are mostly dead disappear, and those that a reader
// still needs can be read until it ends.
func TestSpillCompaction(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", spilling(fs))
	for i := range 40 {
		put(t, db, fmt.Sprintf("key %02d", i), long(i))
	}
	awaitInFiles(t, db, 40)
	if _, err := db.View(t.Context(), engine.Read{}, func(old engine.Tx) error {
		for i := range 40 { // three of four in each file
			if i%4 > 0 {
				put(t, db, fmt.Sprintf("key %02d", i), long(100+i))
			}
		}
		awaitInFiles(t, db, 40)
		eventually.True(t, "the first file to be removed", func() bool {
			put(t, db, "changing", fmt.Sprint(db.durable.Load()))
			if _, err := db.saveSnapshot(); err != nil {
				t.Fatal(err)
			}
			_, err := fs.ReadFile("data/vals/00000001.val")
			return err != nil
		})
		for i := range 40 {
			if val, ok, err := old.Get(fmt.Appendf(nil, "key %02d", i)); !ok || err != nil || string(val) != long(i) {
				t.Errorf("key %d as of before: %.20q, %v, %v", i, val, ok, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "a compaction", func() bool { return db.spill.compactedBytes.Load() > 400 })
	_ = db.Close()
	fs.Crash()
	db = open(t, "data", spilling(fs))
	for i := range 40 {
		val := i
		if i%4 > 0 {
			val += 100
		}
		want(t, db, fmt.Sprintf("key %02d", i), long(val))
	}
}

// showSwaps waits until the visible state has n references.
func showSwaps(t *testing.T, db *DB, n int) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d visible references", n), func() bool {
		seen := 0
		for _, val := range visible(db).tree.Ascend(nil, nil) {
			if val.Marked {
				seen++
			}
		}
		return seen == n
	})
}

// TestSpillDamage flips a bit in every value: each read fails with the file and the
// offset, or gives the right bytes, and Check names what is damaged.
func TestSpillDamage(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", spilling(fs))
	for i := range 10 {
		put(t, db, fmt.Sprintf("key %02d", i), long(i))
	}
	awaitInFiles(t, db, 10)
	showSwaps(t, db, 10)
	if _, err := db.saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	const path = "data/vals/00000001.val"
	data, err := fs.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for off := 24; off < len(data); off += 97 {
		bad := slices.Clone(data)
		bad[off] ^= 1 << (off % 8)
		c := fs.Clone(0)
		c.WriteFile(path, bad)
		refused := 0
		db := open(t, "data", Options{FS: c, Logger: quiet()})
		for i := range 10 {
			key := fmt.Appendf(nil, "key %02d", i)
			if _, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
				val, _, err := tx.Get(key)
				if err == nil && string(val) != long(i) {
					t.Errorf("bit at %d: wrong bytes", off)
				}
				return err
			}); err != nil {
				refused++
				if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), path) {
					t.Errorf("bit at %d: %v", off, err)
				}
			}
		}
		if refused != 1 {
			t.Errorf("bit at %d: %d values refused", off, refused)
		}
		if _, err := db.Backup(t.Context(), io.Discard); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("bit at %d: the backup: %v", off, err)
		}
		_ = db.Close()
		rep, err := Check("data", Options{FS: c}, nil)
		if err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0], path) {
			t.Errorf("bit at %d: %v, %v", off, rep.Problems, err)
		}
	}
}

// TestSpillInCluster: nodes with and without files for long values send each other
// snapshots, which have whole values.
func TestSpillInCluster(t *testing.T) {
	c := newTrioOf(t, 2, func(node uint64, o *Options) {
		if node != 2 {
			o.SpillBytes, o.spillSoon = 100, true
		}
	})
	for i := range 30 {
		c.put(fmt.Sprintf("key %02d", i), long(i))
	}
	c.transfer(1) // it has the values in files, and sends the snapshot
	awaitInFiles(t, c.dbs[1], 30)
	showSwaps(t, c.dbs[1], 30)
	if _, err := c.dbs[1].saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	for _, node := range []uint64{3, 4} {
		if node == 4 { // without files
			c.with = plainNode
		}
		c.invite(c.dbs[1].id, node)
		db := c.start(node)
		last := c.put("last", fmt.Sprint(node))
		for i := range 30 {
			if got, err := c.get(node, fmt.Sprintf("key %02d", i), engine.Read{AtLeast: last}); err != nil || got != long(i) {
				t.Errorf("node %d, key %d: %.20q, %v", node, i, got, err)
			}
		}
		if n := inFiles(t, db); node == 3 && n != 30 || node == 4 && n != 0 {
			t.Errorf("node %d has %d values in files", node, n)
		}
	}
	if _, err := c.dbs[3].saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	_ = c.dbs[3].Close()
	c.start(3)
	for i := range 30 {
		if got, err := c.get(3, fmt.Sprintf("key %02d", i), engine.Read{}); err != nil || got != long(i) {
			t.Errorf("node 3 after a restart, key %d: %.20q, %v", i, got, err)
		}
	}
}

// TestSpillHeals: a damaged value is replaced by another node's copy, one that needs
// several calls too.
func TestSpillHeals(t *testing.T) {
	c := newTrioOf(t, 2, func(_ uint64, o *Options) { o.SpillBytes, o.spillSoon = 100, true })
	vals := map[string]string{"a": long(1), "b": long(2), "huge": strings.Repeat("x", 5<<20)}
	for key, val := range vals {
		c.put(key, val)
	}
	awaitInFiles(t, c.dbs[2], 3)
	showSwaps(t, c.dbs[2], 3)
	names, err := filepath.Glob(filepath.Join(c.dirs[2], valueDir, "*.val"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 20; i < len(data); i += 97 {
			data[i] ^= 1
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for key, val := range vals {
		if got, err := c.get(2, key, engine.Read{}); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%s, damaged: %.20q, %v", key, got, err)
		}
		eventually.True(t, "the other node's copy of "+key, func() bool {
			got, err := c.get(2, key, engine.Read{})
			if err == nil && got != val {
				t.Fatalf("%s: wrong bytes", key)
			}
			return err == nil
		})
	}
	if n := c.dbs[2].spill.healed.Load(); n != 3 {
		t.Errorf("%d values were healed", n)
	}
}

// TestSpillDiskFull: values that cannot be moved for lack of space stay in memory, and
// are moved when there is space.
func TestSpillDiskFull(t *testing.T) {
	fs := memfs.New(1)
	o := spilling(fs)
	o.LogReserveBytes = 1 << 20
	db := open(t, "data", o)
	put(t, db, "first", "short") // the log has reserved its space
	fs.LimitSpace(0)
	for i := range 10 {
		put(t, db, fmt.Sprintf("key %02d", i), long(i))
	}
	eventually.True(t, "the metric", db.spill.failing.Load)
	if n := inFiles(t, db); n != 0 {
		t.Errorf("%d values in files of a full disk", n)
	}
	for i := range 10 {
		want(t, db, fmt.Sprintf("key %02d", i), long(i))
	}
	fs.LimitSpace(-1)
	awaitInFiles(t, db, 10)
	eventually.True(t, "the metric to clear", func() bool { return !db.spill.failing.Load() })
}

// TestSpillMissingFile: a folder whose value file is missing is refused, and Check names
// the file.
func TestSpillMissingFile(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", spilling(fs))
	put(t, db, "key", long(1))
	showSwaps(t, db, 1)
	if _, err := db.saveSnapshot(); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	const path = "data/vals/00000001.val"
	if err := fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("data", spilling(fs)); !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "put the file back from a copy, or restore a backup") {
		t.Errorf("open without the file: %v", err)
	}
	if rep, err := Check("data", Options{FS: fs}, nil); err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0], path) {
		t.Errorf("check: %v, %v", rep.Problems, err)
	}
}

// FuzzPairs decodes any content of a snapshot of format 3 and encodes it again.
func FuzzPairs(f *testing.F) {
	f.Add(appendPair(appendPair(nil, pair{[]byte("a"), btree.Value{Bytes: []byte("value")}}, true),
		pair{[]byte("b"), btree.Value{Bytes: spill.Ref{File: 1, Off: 20, Len: 5}.Append(nil), Marked: true}}, true), uint64(2))
	f.Fuzz(func(t *testing.T, b []byte, n uint64) {
		var again []byte
		for p, err := range readPairs(bytes.NewReader(b), head{pairs: n, refs: true}) {
			if err != nil {
				return
			}
			again = appendPair(again, p, true)
		}
		if len(again) > len(b) { // lengths may have been longer than necessary
			t.Errorf("%x became %x", b, again)
		}
	})
}
