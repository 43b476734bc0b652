package keys

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/record/schema"
)

// MaxCollections is how many collections a store can have.
const MaxCollections = 1_000

// Collection is a stored collection. It is immutable.
type Collection struct {
	*schema.Compiled
	ID      uint32 // never used again
	Version uint64 // 1 after the creation, one more with each change of the description
	form    uint64 // Version of the first of the descriptions up to this one that have the same form of data
	stored  []Index
	lastID  uint16 // of an index
	place   place
}

// place says where the documents and changes of a collection are.
type place struct {
	native bool   // in the Driver of the engine, not in keys
	also   bool   // a Conversion is copying them to the other one, which is written too
	driver Driver // for that; nil: ordered
}

// Stored returns the stored indexes: the declared ones and those that references need.
func (c *Collection) Stored() []Index { return c.stored }

// description is a Collection as JSON.
type description struct {
	ID      uint32            `json:"id"`
	Version uint64            `json:"version"`
	Form    uint64            `json:"form"`
	LastID  uint16            `json:"last_index_id"`
	Native  bool              `json:"native,omitempty"` // its records are in the Driver of the engine
	Also    bool              `json:"also,omitempty"`   // and are being copied to the other one
	Indexes map[string]state  `json:"indexes"`
	Schema  schema.Collection `json:"schema"`
}

// state is what is stored of an index besides its declaration.
type state struct {
	ID    uint16 `json:"id"`
	Ready bool   `json:"ready"`
}

// Next returns c with another description and its indexes. If c is new, the indexes are ready. Otherwise, new indexes,
// and indexes whose fields have changed or have other types, must be built first.
func (c *Collection) Next(k *schema.Compiled) *Collection {
	n := &Collection{Compiled: k, ID: c.ID, Version: c.Version + 1, lastID: c.lastID, place: c.place}
	if n.form = n.Version; c.Version > 0 && k.SameForm(c.Compiled) {
		n.form = c.form
	}
	old := map[string]Index{}
	for _, x := range c.stored {
		old[x.Name] = x
	}
	for _, x := range append(k.Indexes[:len(k.Indexes):len(k.Indexes)], k.Implied()...) {
		was, ok := old[x.Name]
		if !ok || !c.sameIndex(was.Index, k, x) {
			n.lastID++
			was = Index{ID: n.lastID, Ready: c.Version == 0}
		}
		n.stored = append(n.stored, newIndex(k, x, was.ID, was.Ready))
	}
	return n
}

// New returns a collection that is not stored, and empty.
func New(tx engine.Tx, k *schema.Compiled) *Collection {
	c := (&Collection{}).Next(k)
	if own, ok := native(tx).Driver.(parted); ok {
		c.place = place{native: true, driver: own}
	}
	return c
}

// sameIndex reports whether an index of c has the same entries as one of another description.
func (c *Collection) sameIndex(a schema.Index, k *schema.Compiled, b schema.Index) bool {
	return a.Unique == b.Unique && slices.EqualFunc(a.Fields, b.Fields, func(f, g schema.IndexField) bool {
		if f.Desc != g.Desc || k.Current(f.Name) != g.Name {
			return false
		}
		i, field := c.Index(f.Name)
		j, still := k.Index(g.Name)
		return field == still && (!field || c.Fields[i].Type == k.Fields[j].Type)
	})
}

// complete returns c with all indexes ready.
func (c *Collection) complete() *Collection {
	n := *c
	n.stored = slices.Clone(c.stored)
	for i := range n.stored {
		n.stored[i].Ready = true
	}
	return &n
}

func (c *Collection) appendDescription() ([]byte, error) {
	d := description{ID: c.ID, Version: c.Version, Form: c.form, LastID: c.lastID, Native: c.place.native, Also: c.place.also, Indexes: map[string]state{}, Schema: c.Collection}
	for _, x := range c.stored {
		d.Indexes[x.Name] = state{x.ID, x.Ready}
	}
	return json.Marshal(d)
}

// readDescription reads what appendDescription has written. own is the Driver of the engine, nil if it has none.
func readDescription(b []byte, own Driver) (*Collection, error) {
	var d description
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, err
	}
	k, err := d.Schema.Compile()
	if err != nil {
		return nil, err
	}
	c := &Collection{Compiled: k, ID: d.ID, Version: d.Version, form: d.Form, lastID: d.LastID}
	if c.place, err = placeOf(d.Native, d.Also, own); err != nil {
		return nil, err
	}
	for _, x := range append(k.Indexes[:len(k.Indexes):len(k.Indexes)], k.Implied()...) {
		s, ok := d.Indexes[x.Name]
		if !ok {
			return nil, fmt.Errorf("index %s has no number", x.Name)
		}
		c.stored = append(c.stored, newIndex(k, x, s.ID, s.Ready))
	}
	return c, nil
}

func schemaKey(name string) []byte {
	return append([]byte{keyspace.Records, schemaKeys}, name...)
}

var epoch = []byte{keyspace.Records, epochKey}

// Epoch returns a string that changes with every change of a description; it is "" before the first. As long as it is
// the same, Load returns the same collections.
func Epoch(tx engine.Tx) (string, error) {
	val, _, err := tx.Get(epoch)
	return string(val), err
}

// ExpectEpoch announces Epoch, if the engine can read it together with what is read before; see engine.Expecter.
func ExpectEpoch(tx engine.Tx) bool {
	x, ok := tx.(engine.Expecter)
	if ok = ok && x.Expects(); ok {
		x.Expect([][]byte{epoch})
	}
	return ok
}

// Load reads all collections.
func Load(tx engine.Tx) ([]*Collection, error) {
	var all []*Collection
	for p, err := range tx.Scan(schemaKey(""), []byte{keyspace.Records, schemaKeys + 1}) {
		if err != nil {
			return nil, err
		}
		c, err := readDescription(p.Val, native(tx).Driver)
		if err == errNoTables {
			return nil, engine.Errorf(engine.CodeUnsupported, "record: open collection %s: %w", p.Key[2:], err)
		}
		if err != nil {
			return nil, engine.Errorf(engine.CodeCorrupt, "record: read the description of collection %s: %w", p.Key[2:], err)
		}
		all = append(all, c)
	}
	return all, nil
}

// Save stores a collection. One that is new, with ID 0, gets an ID. all are those of Load.
func Save(tx engine.Tx, all []*Collection, c *Collection) error {
	if c.ID == 0 {
		if len(all) >= MaxCollections {
			return engine.Errorf(engine.CodeLimit, "record: there are %d collections; the limit is %d", len(all), MaxCollections)
		}
		n, err := nextCollection(tx)
		if err != nil {
			return err
		}
		c.ID = n
		if own := native(tx); own.Create {
			c.place = place{native: true, driver: own.Driver}
		}
	}
	text, err := c.appendDescription()
	if err != nil {
		return err
	}
	if err := tx.Put(schemaKey(c.Name), text); err != nil {
		return err
	}
	if err := bumpEpoch(tx); err != nil {
		return err
	}
	return c.driver().Describe(tx, c)
}

func bumpEpoch(tx engine.Tx) error { return tx.Put(epoch, []byte(rand.Text())) }

var lastCollection = []byte{keyspace.Records, lastKey}

// nextCollection returns an id that no collection has had.
func nextCollection(tx engine.Tx) (uint32, error) {
	val, ok, err := tx.Get(lastCollection)
	if err != nil {
		return 0, err
	}
	var n uint64
	if ok {
		n, _ = binary.Uvarint(val)
	}
	n++
	return uint32(n), tx.Put(lastCollection, binary.AppendUvarint(nil, n))
}
