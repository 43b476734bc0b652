package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// fuzzyRun is a store that is written while fuzzy snapshots are taken, and its model.
type fuzzyRun struct {
	t     *testing.T
	rng   *rand.Rand
	db    *DB
	model map[string]string
}

// write changes a few keys, some of them more than once.
func (r *fuzzyRun) write() {
	for range r.rng.IntN(8) {
		key := fmt.Sprintf("key %02d", r.rng.IntN(60))
		if r.rng.IntN(3) == 0 {
			delete(r.model, key)
			if _, err := r.db.Update(r.t.Context(), func(tx engine.Tx) error { return tx.Delete([]byte(key)) }); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		r.model[key] = fmt.Sprint(r.rng.Uint64()) + strings.Repeat(".", r.rng.IntN(40))
		put(r.t, r.db, key, r.model[key])
	}
}

// check compares the store with the model.
func (r *fuzzyRun) check(when string) {
	r.t.Helper()
	have := map[string]string{}
	if _, err := r.db.View(r.t.Context(), engine.Read{}, func(tx engine.Tx) error {
		for p, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			have[string(p.Key)] = string(p.Val)
		}
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	if !maps.Equal(have, r.model) {
		r.t.Fatalf("%s: %v, want %v", when, have, r.model)
	}
	if s := visible(r.db); s.bytes != sizeOf(s) {
		r.t.Fatalf("%s: %d bytes counted, want %d", when, s.bytes, sizeOf(s))
	}
}

// sizeOf counts the bytes of a state anew.
func sizeOf(s *snapshot) (n int64) {
	for key, val := range s.tree.Ascend(nil, nil) {
		n += size(key, len(val.Bytes))
	}
	return n
}

// TestFuzzySnapshots: whatever is written between the pieces of a snapshot, a start after
// a power failure has all of it, and so has a start after a second snapshot and one in
// the middle of a snapshot.
func TestFuzzySnapshots(t *testing.T) {
	s := seed.Of(t)
	for run := range 40 {
		fs := memfs.New(s + uint64(run))
		r := &fuzzyRun{t: t, rng: rand.New(rand.NewPCG(s, uint64(run))), model: map[string]string{}}
		o := Options{FS: fs, SnapshotBytes: 1 << 30, HistoryBytes: 1, segmentBytes: 8 << 10, pieceBytes: 1 + r.rng.IntN(300)}
		for life := range 4 {
			r.db = open(t, "data", o)
			r.check(fmt.Sprintf("seed %d, run %d, life %d", s, run, life))
			for range r.rng.IntN(3) {
				left := r.rng.IntN(60) // pieces until the power fails
				_, err := r.db.saveFuzzy(func(time.Duration) error {
					if left--; left == 0 {
						return errUnsettled
					}
					r.write()
					return nil
				})
				if err != nil && !errors.Is(err, errUnsettled) {
					t.Fatal(err)
				}
				r.write()
			}
			if r.rng.IntN(2) == 0 {
				fs.Crash()
			}
			_ = r.db.Close()
		}
	}
}

// TestFuzzySnapshotOfLostWrites: a piece has writes that are then lost, as the disk is
// full. The snapshot is given up, and the next one has what is there.
func TestFuzzySnapshotOfLostWrites(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs, SnapshotBytes: 1 << 30})
	put(t, db, "a", "1")
	lost := false
	db.exec.log = commitFunc(func(b *batch) error {
		if !lost {
			return journalCommitter{db.log}.commit(b)
		}
		f := db.beginFuzzy() // a is 2 in the tree by now, and not on disk
		if f.piece(); !bytes.Contains(f.buf, []byte("a\x012")) {
			t.Errorf("the piece is %q", f.buf)
		}
		if index, err := f.settled(); index != 0 || err != nil {
			t.Errorf("settled at %d, %v before the write is durable", index, err)
		}
		t.Cleanup(func() {
			if index, err := f.settled(); err != errUnsettled {
				t.Errorf("settled at %d, %v after the write was lost", index, err)
			}
		})
		return engine.ErrDiskFull
	})
	lost = true
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("a"), []byte("2")) }); err == nil {
		t.Fatal("the write was acknowledged")
	}
	lost = false
	put(t, db, "b", "1") // at the position of the write that was lost
	if _, err := db.saveFuzzy(db.resting()); err != nil {
		t.Fatal(err)
	}
	fs.Crash()
	_ = db.Close()
	db = open(t, "data", Options{FS: fs})
	want(t, db, "a", "1")
	want(t, db, "b", "1")
}

// TestFuzzySnapshotWithoutItsLog: damage that looks like an interrupted write has cut a
// record that the snapshot needs. The folder is refused and stays as it is; Check says
// what is wrong.
func TestFuzzySnapshotWithoutItsLog(t *testing.T) {
	fs := memfs.New(1)
	o := Options{FS: fs, SnapshotBytes: 1 << 30, pieceBytes: 1}
	db := open(t, "data", o)
	for i := range 5 {
		put(t, db, fmt.Sprint("key ", i), "old")
	}
	last := 0
	if _, err := db.saveFuzzy(func(time.Duration) error {
		last++
		put(t, db, "key 0", fmt.Sprint("new ", last))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	fs.Crash()
	_ = db.Close()
	mend := damageLog(t, fs, fmt.Sprint("new ", last))
	rep, err := Check("data", Options{FS: fs, Logger: quiet()}, nil)
	if err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0], "but the newest snapshot needs it up to record") {
		t.Errorf("check: %q, %v", rep.Problems, err)
	}
	_, err = Open("data", Options{FS: fs, Logger: quiet()})
	if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), "needs it up to record") {
		t.Fatalf("open: %v", err)
	}
	mend()
	want(t, open(t, "data", o), "key 0", fmt.Sprint("new ", last))
}

// TestFuzzySnapshotIsNoBackup: the file alone is not a state.
func TestFuzzySnapshotIsNoBackup(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs, SnapshotBytes: 1 << 30})
	put(t, db, "a", "1")
	if _, err := db.saveFuzzy(db.resting()); err != nil {
		t.Fatal(err)
	}
	name, err := newestSnapshot(fs, "data")
	if err != nil {
		t.Fatal(err)
	}
	file, err := fs.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyBackup(bytes.NewReader(file)); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("verify: %v", err)
	}
	if _, err := Restore(t.Context(), bytes.NewReader(file), "other", Options{FS: memfs.New(1)}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("restore: %v", err)
	}
	head := (&snapshot{pos: 7, applied: applied{index: 9}}).fuzzyHead()
	for _, c := range []struct {
		settled uint64
		short   int
		ok      bool
	}{{9, 0, true}, {12, 0, true}, {8, 0, false}, {12, 1, false}} {
		completeHead(head, 3, c.settled)
		h, err := parseHead(head[:len(head)-c.short])
		if c.ok != (err == nil) || c.ok && (h.settled != c.settled || h.pairs != 3 || h.index != 9 || h.pos != 7) {
			t.Errorf("%+v: %+v, %v", c, h, err)
		}
	}
}

// TestFuzzySnapshotOfNodes: nodes whose snapshots are fuzzy send whole ones, to a new
// node and after a restart, and start from them.
func TestFuzzySnapshotOfNodes(t *testing.T) {
	t.Parallel()
	c := newTrioOf(t, 2, func(_ uint64, o *Options) { o.SnapshotBytes, o.pieceBytes, o.HistoryBytes = 1<<30, 64, 1 })
	for i := range 20 {
		c.put(fmt.Sprint("key ", i), "old")
	}
	i := 0
	for _, db := range c.dbs {
		if _, err := db.saveFuzzy(func(took time.Duration) error {
			if i++; took > 0 {
				c.put(fmt.Sprint("key ", i%20), fmt.Sprint("new ", i))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if db.group.fuzzy == 0 {
			t.Fatal("the snapshot is not fuzzy")
		}
	}
	have := func(db *DB) string {
		_, r, err := db.group.OpenSnapshot(1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		sr, err := journal.NewSnapshotReader(r)
		if err != nil {
			t.Fatal(err)
		}
		s, err := loadSnapshot(sr.Meta, sr, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		val, _ := s.tree.Get(fmt.Append(nil, "key ", i%20))
		return string(val.Bytes)
	}
	newest := fmt.Sprint("new ", i)
	if got := have(c.leader()); got != newest {
		t.Errorf("a node sends %q, want %q", got, newest)
	}
	for node := range c.dbs {
		_ = c.dbs[node].Close()
	}
	for node := range c.dirs {
		c.start(node)
	}
	c.put("after", "1")
	for node, db := range c.dbs {
		if got := have(db); got != newest {
			t.Errorf("after a restart node %d sends %q, want %q", node, got, newest)
		}
		if got, err := c.get(node, fmt.Sprint("key ", i%20), engine.Read{}); got != newest || err != nil {
			t.Errorf("after a restart node %d has %q, %v", node, got, err)
		}
	}
}

// TestFuzzySnapshotOfNothing: a folder in which nothing was ever written has no snapshot,
// and nothing waits for one; also after a restart. The first write can be in one.
func TestFuzzySnapshotOfNothing(t *testing.T) {
	fs := memfs.New(1)
	for _, when := range []string{"new", "restarted"} {
		db := open(t, "data", Options{FS: fs})
		_, err := db.saveFuzzy(func(time.Duration) error { return errors.New("it waits") })
		if names, _ := fs.List("data/snap"); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", when, err, names)
		}
		if err := db.savePaced(); err != nil {
			t.Errorf("%s: in the background: %v", when, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db := open(t, "data", Options{FS: fs})
	put(t, db, "a", "1")
	if _, err := db.saveFuzzy(func(time.Duration) error { return nil }); err != nil {
		t.Error(err)
	}
	_ = db.Close()
	fs.Crash()
	want(t, open(t, "data", Options{FS: fs}), "a", "1")
}
