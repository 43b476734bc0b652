package keys

import (
	"errors"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record/schema"
)

// counting is an engine's own Driver: the ordered one, which counts what is asked of it.
type counting struct {
	ordered
	asked map[string]int
}

func (n counting) Put(tx engine.Tx, c *Collection, before, after *Doc, val []byte) error {
	n.asked["put"]++
	return n.ordered.Put(tx, c, before, after, val)
}

func (n counting) Drop(tx engine.Tx, collection uint32) (int, error) {
	n.asked["drop"]++
	return n.ordered.Drop(tx, collection)
}

// providing is a transaction of an engine with a Driver of its own.
type providing struct {
	engine.Tx
	own Native
}

func (p providing) Attached() any { return p.own }

// TestOwnDriver: a collection belongs for ever to the Driver of the engine in which it was created. One from before the
// engine had any, or one for which it was not to be used, stays with the ordered keys. Without its Driver a collection is
// not opened.
func TestOwnDriver(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{Memory: true})
	own := counting{asked: map[string]int{}}
	in := func(fn func(tx engine.Tx) error) {
		t.Helper()
		edit(t, eng, func(tx engine.Tx) error { return fn(providing{tx, Native{own, true}}) })
	}
	edit(t, eng, func(tx engine.Tx) error { return save(tx, "before") })
	in(func(tx engine.Tx) error { return save(tx, "since") })
	edit(t, eng, func(tx engine.Tx) error { return save(providing{tx, Native{own, false}}, "beside") })
	for name, asked := range map[string]bool{"before": false, "since": true, "beside": false} {
		clear(own.asked)
		in(func(tx engine.Tx) error {
			d := &Doc{ID: "r", Rev: 1, Marks: [Stamps]Mark{Created: {At: tx.Now().UTC()}}}
			return Put(tx, named(t, tx, name), nil, d, &Change{Op: Create, At: tx.Now().UTC()})
		})
		in(func(tx engine.Tx) error { return Drop(tx, named(t, tx, name)) })
		for left := 1; left > 0; {
			in(func(tx engine.Tx) error {
				works, err := Works(tx)
				if left = len(works); left == 0 || err != nil {
					return err
				}
				return works[0].Step(tx, nil, nil)
			})
		}
		in(func(tx engine.Tx) error { return save(tx, name) })
		for _, what := range []string{"put", "drop"} {
			if own.asked[what] > 0 != asked {
				t.Errorf("%s: the engine's own driver was asked for %v", name, own.asked)
			}
		}
	}
	edit(t, eng, func(tx engine.Tx) error {
		if _, err := Load(tx); !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("without its driver the collection opens: %v", err)
		}
		return nil
	})
}

// save creates a collection.
func save(tx engine.Tx, name string) error {
	k, err := schema.Collection{Name: name, Fields: []schema.Field{{Name: "n", Type: schema.Int}}}.Compile()
	all, err2 := Load(tx)
	return errors.Join(err, err2, Save(tx, all, (&Collection{}).Next(k)))
}

// named returns a stored collection.
func named(t *testing.T, tx engine.Tx, name string) *Collection {
	all, err := Load(tx)
	i := slices.IndexFunc(all, func(c *Collection) bool { return c.Name == name })
	if err != nil || i < 0 {
		t.Fatal(name, err)
	}
	return all[i]
}
