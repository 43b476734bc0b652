package proc

import (
	"errors"

	"github.com/skerrydb/skerry/engine"
)

// take returns a Tx for a call of p in tx.
func (s *Set) take(tx engine.Tx, p *procedure) *Tx {
	t, def := s.txs.Get().(*Tx), p.definition
	t.tx, t.def, t.depth, t.readOnly, t.wrote, t.half, t.bad = tx, def, 1, def.schema.ReadOnly, false, nil, nil
	if t.what.Load() != def {
		t.what.Store(def)
	}
	t.seq += 2
	t.run.Store(t.seq)
	t.counts = p.shard(t.shard)
	t.began = t.counts.begin(s)
	return t
}

// release ends t and recycles it.
func (t *Tx) release(failed bool) {
	t.counts.end(t.set, t.began, failed || t.verdict, t.replayed)
	t.run.Store(t.seq + 1)
	t.verdict, t.replayed = false, false
	t.tx, t.def, t.half, t.bad, t.seeded = nil, nil, nil, nil, false
	for i := range t.spaces {
		if s := &t.spaces[i]; s.bound {
			s.keys.Bind(engineTx{t}, s.number) // releases large buffers
			s.bound = false
		}
	}
	if len(t.spaces) > keepSpaces {
		t.spaces = nil
	}
	t.set.txs.Put(t)
}

// protect runs fn in tx as a call of p. It converts a panic to an error.
func (s *Set) protect(tx engine.Tx, p *procedure, fn func(t *Tx) error) (err error) {
	t := s.take(tx, p)
	returned := false
	defer func() {
		if !returned {
			err = t.crashed(recover())
		}
		t.release(err != nil)
	}()
	err = fn(t)
	returned = true
	return err
}

// outcome returns the final error of a procedure that returned err. If the transaction
// cannot be committed, that error takes precedence.
func (t *Tx) outcome(err error) error {
	if refused := t.check(); refused != nil {
		return refused
	}
	if t.half != nil {
		return t.half
	}
	return failed(err)
}

// failed adds a code to an error of user code. A nil *engine.Error has none.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*engine.Error](err); ok && e != nil {
		return err
	}
	return engine.Errorf(engine.CodeProcedureFailed, "%w", err)
}

// savepoint is a state of the transaction to roll back to.
type savepoint struct {
	engine engine.Savepointer // nil: the engine has none
	mark   int
}

func (t *Tx) savepoint() savepoint {
	sp, ok := t.tx.(engine.Savepointer)
	if !ok {
		return savepoint{}
	}
	return savepoint{sp, sp.Savepoint()}
}

// rollback undoes the writes of the innermost procedure since sp.
func (t *Tx) rollback(sp savepoint) error {
	if t.wrote {
		if sp.engine == nil {
			return engine.Errorf(engine.CodeUnsupported, "this engine cannot undo part of a transaction")
		}
		if err := sp.engine.RollbackTo(sp.mark); err != nil {
			return err
		}
		t.wrote = false
	}
	if t.half == nil {
		return nil
	}
	t.half = nil // undone with the rest
	for i := range t.spaces {
		if s := &t.spaces[i]; s.bound {
			s.bind(t)
		}
	}
	return nil
}

// nested runs fn as a call of def within t.
func (t *Tx) nested(def *definition, fn func() error) (err error) {
	if err := t.check(); err != nil {
		return err
	}
	name := def.schema.Name
	switch {
	case t.depth >= MaxDepth:
		return engine.Errorf(engine.CodeLimit, "procedure %s: %d procedures are nested already, which is the limit", name, MaxDepth)
	case t.readOnly && !def.schema.ReadOnly:
		return engine.Errorf(engine.CodeReadOnly, "procedure %s may write, and %s only reads", name, t.def.schema.Name)
	}
	if t.half != nil {
		return t.half
	}
	sp := t.savepoint()
	outer, readOnly, wrote := t.def, t.readOnly, t.wrote
	t.def, t.readOnly, t.wrote = def, readOnly || def.schema.ReadOnly, false
	t.depth++
	returned := false
	defer func() {
		if err != nil || !returned {
			if cannot := t.rollback(sp); cannot != nil {
				t.bad = engine.Errorf(engine.CodeOf(cannot), "procedure %s failed within %s, and what it wrote cannot be undone alone: %w", name, outer.schema.Name, cannot)
			}
		}
		t.def, t.readOnly, t.wrote = outer, readOnly, t.wrote || wrote
		t.depth--
	}()
	err = fn()
	returned = true
	if err == nil {
		err = t.half
	}
	return err
}
