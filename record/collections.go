package record

import (
	"context"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
)

// Collections returns the descriptions of all collections, sorted by name: the stored ones, and those that the program
// defines and no transaction has stored yet.
func (db *DB) Collections(ctx context.Context, r engine.Read) ([]schema.Collection, error) {
	var list []schema.Collection
	_, err := db.View(ctx, r, Program(), func(tx *Tx) error {
		list = nil
		for _, k := range tx.catalog.all {
			list = append(list, k.Compiled.Collection)
		}
		for _, d := range db.definitions() {
			if tx.catalog.byName[d.Name] == nil {
				list = append(list, d.Collection)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b schema.Collection) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}
