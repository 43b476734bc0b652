package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
	"github.com/skerrydb/skerry/spill"
)

// TestManyDamaged: of more damaged values than are remembered, the rest is healed when
// it is read again. The log names each that is remembered once.
func TestManyDamaged(t *testing.T) {
	const values = MaxAiling + 100
	db := open(t, "data", spilling(memfs.New(1)))
	if _, err := db.UpdateEach(t.Context(), values, func(tx engine.Tx, i int) error {
		return tx.Put(fmt.Appendf(nil, "key %04d", i), []byte(long(i)))
	}); err != nil {
		t.Fatal(err)
	}
	awaitInFiles(t, db, values)
	db.spill.close() // it would move the values again
	db.spill.began = false
	o, log := db.opts, &logbuf.Buffer{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	s := newSpiller(o, db.spill.store) // which has no goroutine
	s.exec = db.exec
	s.fetch = func(key []byte, _ spill.Ref) ([]byte, error) {
		var i int
		_, err := fmt.Sscanf(string(key), "key %d", &i)
		return []byte(long(i)), err
	}
	total := 0
	for _, left := range []int{values - MaxAiling, 0} {
		for range 2 {
			db.exec.withTree(func(x *speculation) {
				for key, val := range x.tree.Ascend(nil, nil) {
					if val.Marked {
						r, err := spill.ParseRef(val.Bytes)
						if err != nil {
							t.Error(err)
						}
						s.damaged(key, r, errors.New("as a test wants it"))
					}
				}
			})
		}
		total += len(s.ailing)
		if n := strings.Count(log.String(), "a value on disk is damaged"); n != total || len(s.ailing) != values-MaxAiling && len(s.ailing) != MaxAiling {
			t.Errorf("%d values were logged, %d are remembered, %d altogether", n, len(s.ailing), total)
		}
		s.heal()
		if n := inFiles(t, db); n != left {
			t.Errorf("%d values are still damaged, want %d", n, left)
		}
	}
	for i := range values {
		want(t, db, fmt.Sprintf("key %04d", i), long(i))
	}
}

// TestMissingFileHeals: a node of a cluster starts without its value files, or with ones
// that are too short, and gets all values from another node, unread ones too. It logs each
// file once.
func TestMissingFileHeals(t *testing.T) {
	const values = MaxAiling + 200 // in more than one round
	log := &logbuf.Buffer{}
	c := newTrioOf(t, 2, func(node uint64, o *Options) {
		if o.SpillBytes, o.spillSoon = 100, true; node == 2 {
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
		}
	})
	if _, err := c.leader().UpdateEach(t.Context(), values, func(tx engine.Tx, i int) error {
		return tx.Put(fmt.Appendf(nil, "key %04d", i), []byte(long(i)))
	}); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(name string) error{
		"is missing": os.Remove,
		"ends early": func(name string) error { return os.Truncate(name, 30_000) },
		"header":     func(name string) error { return os.Truncate(name, 3) },
	} {
		if testing.Short() && what != "ends early" {
			continue
		}
		last := c.put("something new for a snapshot", what)
		if _, err := c.get(2, "key 0500", engine.Read{AtLeast: last}); err != nil {
			t.Fatal(err)
		}
		awaitInFiles(t, c.dbs[2], values)
		showSwaps(t, c.dbs[2], values)
		if _, err := c.dbs[2].saveSnapshot(); err != nil {
			t.Fatal(err)
		}
		if err := c.dbs[2].Close(); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(c.dirs[2], valueDir, "*.val"))
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			if err := spoil(name); err != nil {
				t.Fatal(err)
			}
		}
		seen := len(log.String())
		db := c.start(2)
		if _, err := c.get(2, "key 0500", engine.Read{}); err != nil && !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		eventually.True(t, what+": all values to be healed", func() bool {
			db.spill.mu.Lock()
			defer db.spill.mu.Unlock()
			return len(db.spill.suspect) == 0 && len(db.spill.ailing) == 0
		})
		for i := range values {
			if got, err := c.get(2, fmt.Sprintf("key %04d", i), engine.Read{}); err != nil || got != long(i) {
				t.Fatalf("%s: key %d: %.20q, %v", what, i, got, err)
			}
		}
		logged := log.String()[seen:]
		if n := strings.Count(logged, "a value file is damaged"); n == 0 || n > len(names) || !strings.Contains(logged, what) || strings.Contains(logged, "a value on disk is damaged") {
			t.Errorf("%s: %d of %d files were logged\n%s", what, n, len(names), logged[:min(len(logged), 3000)])
		}
	}
}
