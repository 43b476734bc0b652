package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/record"
)

// TestChanges: the changes of a collection have pages, and are for system actors.
func TestChanges(t *testing.T) {
	t.Parallel()
	db := openWith(t, recordengine.Options{Memory: true}, blog()...)
	do(t, db, func(tx *record.Tx) error {
		return errors.Join(ignore(tx.Create("users", "u", []byte(`{"name":"U"}`))), ignore(tx.Create("users", "v", []byte(`{"name":"V"}`))),
			ignore(tx.Update("users", "u", []byte(`{"name":"W"}`), 0)))
	})
	do(t, db, func(tx *record.Tx) error {
		var got []string
		for before := uint64(0); ; {
			all, err := tx.Changes("users", before, 2)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				break
			}
			for _, ch := range all {
				got = append(got, fmt.Sprint(ch.Seq, " ", ch.Op, " ", ch.ID))
				before = ch.Seq
			}
		}
		if is := strings.Join(got, ", "); is != "3 update u, 2 create v, 1 create u" {
			t.Errorf("changes: %s", is)
		}
		if _, err := tx.As(record.Actor{ID: "ann"}).Changes("users", 0, 1); err == nil {
			t.Error("everybody may read the changes")
		}
		if _, err := tx.Changes("users", 0, 0); err == nil {
			t.Error("a page of no changes")
		}
		return nil
	})
}
