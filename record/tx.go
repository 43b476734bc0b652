package record

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
)

// Tx is a transaction on behalf of an actor. It is valid only until the function that received it returns, and must not
// be used by other goroutines.
type Tx struct {
	db      *DB
	tx      engine.Tx
	catalog *catalog
	actor   Actor
	env     query.Env // for rules, which see all records
	seen    query.Env // for filters, which see what the actor may view
	made    int       // ids

	finding   bool       // a query is being answered
	followed  int        // references that it has followed
	passwords *passwords // nil if passwords cannot be set
	depth     *int       // of nested Before functions
}

// Engine returns the underlying transaction of the engine.
func (t *Tx) Engine() engine.Tx { return t.tx }

// Actor returns the actor of the transaction.
func (t *Tx) Actor() Actor { return t.actor }

// As returns the same transaction on behalf of another actor.
func (t *Tx) As(a Actor) *Tx {
	as := t.db.newTx(t.tx, t.catalog, a)
	as.passwords, as.depth = t.passwords, t.depth
	return as
}

// collection returns a collection that is stored. One that the program has defined, and that a View does not find yet, is
// empty.
func (t *Tx) collection(name string) (*collection, error) {
	if c := t.catalog.byName[name]; c != nil {
		return c, nil
	}
	for _, k := range t.db.definitions() {
		if k.Name == name {
			c := &collection{Collection: keys.New(t.tx, k)}
			c.readRules(t.catalog.compiled)
			return c, nil
		}
	}
	return nil, unknownCollection(name)
}

func unknownCollection(name string) error {
	return engine.Errorf(CodeUnknownCollection, "there is no collection %.80q", name)
}

// Get returns a record that the actor may view. It does not find records in the trash; use Find for these. The error
// matches ErrNotFound if there is no such record.
func (t *Tx) Get(collection, id string) (*Record, error) {
	c, d, err := t.visible(collection, id, false)
	if err != nil {
		return nil, err
	}
	return newRecord(c, d), nil
}

// visible returns a record that the actor may view.
func (t *Tx) visible(name, id string, trashed bool) (*collection, *keys.Doc, error) {
	c, err := t.collection(name)
	if err != nil {
		return nil, nil, err
	}
	d, err := keys.Get(t.tx, c.Collection, id)
	if err != nil {
		return nil, nil, err
	}
	if d != nil && d.Deleted == trashed {
		op := View
		if trashed {
			op = Delete
		}
		if ok, err := t.allows(c, op, d, nil); ok || err != nil {
			return c, d, err
		}
	}
	return nil, nil, notFound(c, id)
}

func notFound(c *collection, id string) error {
	return engine.Errorf(CodeNotFound, "there is no record %.80q in %s", id, c.Name)
}

// Create creates a record with the given data, a JSON object. If id is "", it is a new UUID of version 7.
func (t *Tx) Create(collection, id string, data []byte) (*Record, error) {
	c, err := t.collection(collection)
	if err != nil {
		return nil, err
	}
	d, err := c.Patch(schema.Data{}, data)
	if err != nil {
		return nil, invalid(c, err)
	}
	return t.create(c, id, d)
}

// create creates a record. data does not have its defaults yet.
func (t *Tx) create(c *collection, id string, data schema.Data) (*Record, error) {
	d := &keys.Doc{ID: id, Rev: 1}
	var err error
	if id == "" {
		d.ID = t.newID()
	} else if d.Rev, err = t.newRev(c, id); err != nil {
		return nil, err
	}
	t.stamp(d, keys.Created)
	d.Data = c.Complete(data, t.tx.Now(), t.actor.ID)
	if err := t.admit(c, Create, nil, d); err != nil {
		return nil, err
	}
	return t.put(c, nil, d, keys.Create)
}

// admit checks that a record may be written: it asks the rule, calls the Before functions, validates the data, hashes
// new passwords, and checks new references.
func (t *Tx) admit(c *collection, op Operation, before, d *keys.Doc) error {
	row, kind := d, keys.Create
	if before != nil {
		row, kind = before, keys.Update
	}
	if ok, err := t.allows(c, op, row, d); err != nil || !ok {
		return orRefused(err, c, op)
	}
	if err := t.runBefore(c, kind, before, d); err != nil {
		return err
	}
	same := func(i int) bool { return before != nil && before.Data.Get(i) == d.Data.Get(i) }
	if err := c.Check(d.Data, same); err != nil {
		return invalid(c, err)
	}
	if err := t.checkReferences(c, d, same); err != nil {
		return err
	}
	if err := t.hashPasswords(c, d, same); err != nil {
		return err
	}
	if n := len(c.Append(nil, d.Data)); n > schema.MaxDataBytes {
		return invalid(c, schema.Problems{{Code: schema.CodeTooLarge, Detail: fmt.Sprintf("the data has %d bytes; the limit is %d", n, schema.MaxDataBytes)}})
	}
	return nil
}

// newRev validates an id chosen by the client and returns the first revision of the new record.
func (t *Tx) newRev(c *collection, id string) (uint64, error) {
	if err := keys.CheckID(id); err != nil {
		return 0, invalid(c, schema.Problems{{Pointer: "/id", Code: schema.CodePattern, Detail: err.Error()}})
	}
	old, err := keys.Get(t.tx, c.Collection, id)
	if err != nil {
		return 0, err
	}
	if old != nil {
		return 0, engine.Errorf(CodeExists, "%s already has a record with the id %s", c.Name, id)
	}
	last, err := keys.History(t.tx, c.Collection, id, 0, 1)
	if err != nil || len(last) == 0 {
		return 1, err
	}
	return last[0].Rev + 1, nil // it was purged
}

// newID returns a UUID of version 7 (RFC 9562). It sorts after those made before: its random bits begin with the
// microseconds and a counter of the transaction.
func (t *Tx) newID() string {
	var b [16]byte
	_, _ = rand.Read(b[10:]) // never fails
	us := t.tx.Now().UnixMicro()
	ms := us / 1000
	binary.BigEndian.PutUint32(b[:], uint32(ms>>16))
	binary.BigEndian.PutUint16(b[4:], uint16(ms))
	binary.BigEndian.PutUint16(b[6:], 0x7000|uint16(us%1000)<<2)
	binary.BigEndian.PutUint16(b[8:], 0x8000|uint16(min(t.made, 0x3fff)))
	t.made++
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// Update applies a JSON merge patch (RFC 7396) to the data of a record. Unless rev is 0, the record must have that
// revision; otherwise the error matches ErrRevision. A patch that changes nothing does not create a revision.
func (t *Tx) Update(collection, id string, patch []byte, rev uint64) (*Record, error) {
	c, before, err := t.visible(collection, id, false)
	if err != nil {
		return nil, err
	}
	if err := checkRev(c, before, rev); err != nil {
		return nil, err
	}
	data, err := c.Patch(c.Fill(before.Data), patch)
	if err != nil {
		return nil, invalid(c, err)
	}
	return t.save(c, before, data)
}

// save replaces the data of a record if they differ and the rules allow it.
func (t *Tx) save(c *collection, before *keys.Doc, data schema.Data) (*Record, error) {
	after := *before
	after.Data = data
	if err := t.admit(c, Update, before, &after); err != nil {
		return nil, err
	}
	if string(c.Append(nil, before.Data)) == string(c.Append(nil, after.Data)) {
		return newRecord(c, before), nil
	}
	after.Rev++
	t.stamp(&after, keys.Updated)
	return t.put(c, before, &after, keys.Update)
}

func checkRev(c *collection, d *keys.Doc, rev uint64) error {
	if rev != 0 && rev != d.Rev {
		return engine.Errorf(CodeRevision, "record %s of %s has revision %d, not %d; read it and try again", d.ID, c.Name, d.Rev, rev)
	}
	return nil
}

// hashPasswords replaces new passwords with their hashes.
func (t *Tx) hashPasswords(c *collection, d *keys.Doc, skip func(i int) bool) error {
	for i := range c.Fields {
		text, ok := d.Data.Get(i).Text()
		if c.Fields[i].Type != schema.Password || !ok || skip(i) {
			continue
		}
		hash, err := t.hash(text)
		if err != nil {
			return err
		}
		d.Data = d.Data.With(i, hash)
	}
	return nil
}

// checkReferences reports references to records that do not exist or that the actor may not view.
func (t *Tx) checkReferences(c *collection, d *keys.Doc, skip func(i int) bool) error {
	var bad schema.Problems
	for i := range c.Fields {
		f := &c.Fields[i]
		id, ok := d.Data.Get(i).Text()
		if f.Type != schema.Reference || !ok || skip(i) || f.Collection == c.Name && id == d.ID {
			continue
		}
		to, err := t.followSeen(f.Collection, id)
		if err != nil {
			return err
		}
		if to == nil && len(bad) < schema.MaxProblems {
			bad = append(bad, schema.Problem{Pointer: schema.Pointer(f.Name), Code: schema.CodeUnknown, Detail: fmt.Sprintf("%s has no record %.80q", f.Collection, id)})
		}
	}
	if len(bad) > 0 {
		return invalid(c, bad)
	}
	return nil
}

// invalid returns the error for Problems of a record.
func invalid(c *collection, err error) error {
	if p, ok := errors.AsType[schema.Problems](err); ok {
		return engine.Errorf(CodeInvalid, "invalid record of %s: %w", c.Name, p)
	}
	return err
}

// stamp sets one of the marks.
func (t *Tx) stamp(d *keys.Doc, s keys.Stamp) {
	d.Marks[s] = keys.Mark{At: t.tx.Now().UTC(), By: t.actor.ID}
}

// put stores a change of a record.
func (t *Tx) put(c *collection, before, after *keys.Doc, op keys.Op) (*Record, error) {
	if err := t.stored(c, keys.Put(t.tx, c.Collection, before, after, t.change(op))); err != nil {
		return nil, err
	}
	return newRecord(c, after), nil
}

// stored converts an error of package keys.
func (t *Tx) stored(c *collection, err error) error {
	if d, ok := errors.AsType[*keys.DuplicateError](err); ok {
		return engine.Errorf(CodeExists, "%s: %w", c.Name, d)
	}
	if l, ok := errors.AsType[*keys.TooLongError](err); ok {
		return invalid(c, schema.Problems{{Pointer: schema.Pointer(l.Index.Fields[0].Name), Code: schema.CodeTooLarge, Detail: l.Error()}})
	}
	if s, ok := errors.AsType[*keys.StaleError](err); ok {
		return engine.Errorf(CodeRevision, "%s: %w", c.Name, s)
	}
	if g, ok := errors.AsType[*keys.GoneError](err); ok {
		return engine.Errorf(CodeHistoryGone, "%s: %w", c.Name, g)
	}
	return err
}

func (t *Tx) change(op keys.Op) *keys.Change {
	return &keys.Change{Op: op, At: t.tx.Now().UTC(), By: t.actor.ID, Request: t.actor.Request}
}
