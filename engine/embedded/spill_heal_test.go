package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

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
