package record

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// Watched returns the prefixes of the engine's keys whose changes Touched understands.
func Watched() [][]byte { return keys.Watched() }

// Touched calls yield with the collection and the id of each record that a change of the engine wrote or removed; it may
// name a record whose content is the same as before. It returns true if any record may look different: the description
// of a collection has changed, or a collection is not known on this node yet.
func (db *DB) Touched(c engine.Change, yield func(collection, id string)) (all bool) {
	if keys.EpochOf(c) {
		return true
	}
	known := db.catalog.Load()
	keys.Documents(c, func(number uint32, id string) {
		if known != nil {
			for _, k := range known.all {
				if k.ID == number {
					yield(k.Name, id)
					return
				}
			}
		}
		all = true
	})
	return all
}
