package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// Meta has the columns of a record: id, revision, and by whom and when it was created, updated, deleted and restored.
// The structs of a Set embed it.
type Meta = schema.Meta

// Set is a collection whose records are values of T, a struct that embeds Meta and describes the fields with tags; see
// schema.Of. Declare sets as package variables and pass them to DB.Use. A Set is safe for concurrent use.
type Set[T any] struct {
	collection schema.Collection
	err        error
	codec      atomic.Pointer[schema.Codec[T]] // the last one that was used
}

// Of returns a Set of T. c adds what tags cannot express: the name, rules, labels, indexes on several fields, and
// fields that T does not have, which a Set does not change. DB.Use reports errors in c or T.
//
//	var Posts = record.Of[Post](schema.Collection{Name: "posts", Rules: schema.Rules{View: "true", Update: "author = @auth.id"}})
func Of[T any](c schema.Collection) *Set[T] {
	s := &Set[T]{collection: c}
	tags, err := schema.Of[T](c.Name)
	if err != nil {
		s.err = fmt.Errorf("collection %s: %w", c.Name, err)
		return s
	}
	s.collection.Fields = append(tags.Fields, c.Fields...)
	s.collection.Indexes = append(tags.Indexes, c.Indexes...)
	k, err := s.collection.Compile()
	if err != nil {
		return s // DB.Define reports it
	}
	codec, err := schema.NewCodec[T](k)
	if err == nil && codec.Meta(new(T)) == nil {
		err = fmt.Errorf("%T does not embed record.Meta", *new(T))
	}
	if s.err = err; err == nil {
		s.codec.Store(codec)
	}
	return s
}

// Name returns the name of the collection.
func (s *Set[T]) Name() string { return s.collection.Name }

// Definition is a *Set of any type.
type Definition interface {
	define() (schema.Collection, error)
}

func (s *Set[T]) define() (schema.Collection, error) { return s.collection, s.err }

// Use calls Define with the collections of the sets.
func (db *DB) Use(sets ...Definition) error {
	var all []schema.Collection
	var bad error
	for _, s := range sets {
		c, err := s.define()
		if err != nil {
			bad = errors.Join(bad, engine.Errorf(engine.CodeInvalid, "%w", err))
			continue
		}
		all = append(all, c)
	}
	return errors.Join(bad, db.Define(all...))
}

// Runner runs the operations of a Set. A *Tx runs them in its transaction; a *Direct runs each in a separate
// transaction.
type Runner interface {
	run(write bool, fn func(*Tx) error) error
}

func (t *Tx) run(_ bool, fn func(*Tx) error) error { return fn(t) }

// Direct is a Runner that runs each operation in a separate transaction; see DB.As.
type Direct struct {
	// Read is the consistency of reads. The zero value is linearizable.
	Read engine.Read

	db    *DB
	ctx   context.Context
	actor Actor
}

// As returns a Runner that runs single operations on behalf of a.
func (db *DB) As(ctx context.Context, a Actor) *Direct { return &Direct{db: db, ctx: ctx, actor: a} }

func (d *Direct) run(write bool, fn func(*Tx) error) (err error) {
	if write {
		_, err = d.db.Update(d.ctx, d.actor, fn)
	} else {
		_, err = d.db.View(d.ctx, d.Read, d.actor, fn)
	}
	return err
}

// Get returns a record that the actor may view; see Tx.Get.
func (s *Set[T]) Get(r Runner, id string) (v *T, err error) {
	err = r.run(false, func(tx *Tx) error {
		found, err := tx.Get(s.Name(), id)
		if err == nil {
			v, err = s.decode(found)
		}
		return err
	})
	return v, err
}

// Create creates a record from v, with the ID in its Meta if it is set. Null fields get their defaults. Afterwards v is
// the stored record, without passwords. In a transaction function, which may run more than once, create v inside the
// function so that each run starts with the same value.
func (s *Set[T]) Create(r Runner, v *T) error {
	return s.write(r, v, func(tx *Tx, c *collection, codec *schema.Codec[T]) (*Record, error) {
		data, err := codec.Encode(schema.Data{}, v)
		if err != nil {
			return nil, invalid(c, err)
		}
		return tx.create(c, codec.Meta(v).ID, data)
	})
}

// Save stores the fields of v. If the Rev in its Meta is 0, Save creates the record. Otherwise the record must have
// that revision, so that no change by others is lost; if it does not, the error matches ErrRevision. Afterwards v is
// the stored record; see Create.
func (s *Set[T]) Save(r Runner, v *T) error {
	return s.write(r, v, func(tx *Tx, c *collection, codec *schema.Codec[T]) (*Record, error) {
		m := codec.Meta(v)
		var base schema.Data
		var before *keys.Doc
		if m.Rev > 0 {
			var err error
			if _, before, err = tx.visible(c.Name, m.ID, false); err != nil {
				return nil, err
			}
			if err := checkRev(c, before, m.Rev); err != nil {
				return nil, err
			}
			base = c.Fill(before.Data)
		}
		data, err := codec.Encode(base, v)
		if err != nil {
			return nil, invalid(c, err)
		}
		if before == nil {
			return tx.create(c, m.ID, data)
		}
		return tx.save(c, before, data)
	})
}

// write runs an operation that stores v. It changes v only after the transaction, because the operation may run more
// than once.
func (s *Set[T]) write(r Runner, v *T, fn func(*Tx, *collection, *schema.Codec[T]) (*Record, error)) error {
	var stored *T
	err := r.run(true, func(tx *Tx) error {
		c, err := tx.collection(s.Name())
		if err != nil {
			return err
		}
		codec, err := s.codecOf(c)
		if err != nil {
			return err
		}
		written, err := fn(tx, c, codec)
		if err == nil {
			stored, err = s.decode(written)
		}
		return err
	})
	if err == nil {
		*v = *stored
	}
	return err
}

// Delete moves a record into the trash; see Tx.Delete.
func (s *Set[T]) Delete(r Runner, id string, rev uint64) error {
	return r.run(true, func(tx *Tx) error {
		_, err := tx.Delete(s.Name(), id, rev)
		return err
	})
}

// Restore takes a record out of the trash; see Tx.Restore.
func (s *Set[T]) Restore(r Runner, id string, rev uint64) (v *T, err error) {
	err = r.run(true, func(tx *Tx) error {
		restored, err := tx.Restore(s.Name(), id, rev)
		if err == nil {
			v, err = s.decode(restored)
		}
		return err
	})
	return v, err
}

// codecOf returns the codec for the stored collection.
func (s *Set[T]) codecOf(c *collection) (*schema.Codec[T], error) {
	if s.err != nil {
		return nil, s.err
	}
	if codec := s.codec.Load(); codec != nil && codec.Collection() == c.Compiled {
		return codec, nil
	}
	codec, err := schema.NewCodec[T](c.Compiled)
	if err != nil {
		return nil, fmt.Errorf("collection %s is stored with different fields; migrate it: %w", c.Name, err)
	}
	s.codec.Store(codec)
	return codec, nil
}

// decode returns a record as a T. Password fields stay empty.
func (s *Set[T]) decode(r *Record) (*T, error) {
	codec, err := s.codecOf(r.in)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := codec.Decode(r.Data, v); err != nil {
		return nil, fmt.Errorf("record %s of %s: %w", r.ID, s.Name(), err)
	}
	m := &r.Marks
	*codec.Meta(v) = Meta{
		ID: r.ID, Rev: r.Rev, IsDeleted: r.Deleted,
		Created: m[keys.Created].At, CreatedBy: m[keys.Created].By, Updated: m[keys.Updated].At, UpdatedBy: m[keys.Updated].By,
		Deleted: m[keys.Deleted].At, DeletedBy: m[keys.Deleted].By, Restored: m[keys.Restored].At, RestoredBy: m[keys.Restored].By,
	}
	return v, nil
}

// By returns an index on columns and fields; a name with - before it is in descending order. Its name is made of the
// fields: By("state", "-published") is named by_state_published.
func By(fields ...string) schema.Index {
	x := schema.Index{Name: "by"}
	for _, f := range fields {
		name, desc := strings.CutPrefix(f, "-")
		x.Name += "_" + name
		x.Fields = append(x.Fields, schema.IndexField{Name: name, Desc: desc})
	}
	return x
}
