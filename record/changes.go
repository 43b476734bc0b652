package record

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// Changes returns at most n changes of a collection with numbers (Seq) below before, newest first. If before is 0, it
// begins with the latest change. A page may be shorter than n if its changes are large; an empty page is the end. Only
// system actors may read it.
func (t *Tx) Changes(collection string, before uint64, n int) ([]*Change, error) {
	if n < 1 || n > MaxHistory {
		return nil, engine.Errorf(engine.CodeLimit, "a page of history must have 1 to %d changes, not %d", MaxHistory, n)
	}
	c, err := t.collection(collection)
	if err != nil {
		return nil, err
	}
	if !t.actor.System {
		return nil, engine.Errorf(CodeRefused, "only the program and superadmins may read the changes of a collection")
	}
	if err := c.Refused("list of changes"); err != nil {
		return nil, err
	}
	var all []*Change
	size := 0
	for ch, err := range keys.Changes(t.tx, c.Collection, before) {
		if err != nil {
			return nil, err
		}
		x := newChange(c, ch)
		if size += len(x.Patch); size > MaxHistoryBytes && len(all) > 0 {
			break
		}
		if all = append(all, x); len(all) == n {
			break
		}
	}
	return all, nil
}
