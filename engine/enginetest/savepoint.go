package enginetest

import (
	"errors"
	"fmt"
	"maps"

	"github.com/skerrydb/skerry/engine"
)

// kept is the expected state of a transaction at one of its savepoints.
type kept struct {
	mark    int
	m       model
	touched map[string]bool
}

// savepointCase rolls back to random savepoints, and compares everything with the model:
// within the transaction, after it and in its change.
func savepointCase(e *env) {
	m := model{}
	last := e.view(m.check)
	for range max(40, e.o.Steps/20) {
		after := kept{}
		undo := e.rng.IntN(6) == 0
		offered := true
		pos, err := e.eng.Update(e.ctx, func(tx engine.Tx) (err error) {
			sp, ok := tx.(engine.Savepointer)
			if offered = ok; !ok {
				return nil
			}
			if after, err = e.savepoints(sp, tx, m); err == nil && undo {
				err = errUndo
			}
			return err
		})
		switch {
		case !offered:
			e.Skipf("skipped: the transactions are no engine.Savepointer")
		case undo && errors.Is(err, errUndo):
			after = kept{m: m}
		case err != nil:
			e.Fatalf("savepoints: %v", err)
		case e.p.Feed && pos > last:
			e.checkSavepointChange(last, pos, m, after)
			last = pos
		}
		m = after.m
		e.view(m.check)
	}
}

var errUndo = errors.New("undo")

// savepoints runs one transaction and returns its expected final state.
func (e *env) savepoints(sp engine.Savepointer, tx engine.Tx, m model) (kept, error) {
	now := kept{m: m, touched: map[string]bool{}}
	var marks []kept
	for range 1 + e.rng.IntN(12) {
		switch e.rng.IntN(4) {
		case 0:
			marks = append(marks, kept{sp.Savepoint(), now.m, maps.Clone(now.touched)})
		case 1:
			if len(marks) == 0 {
				continue
			}
			i := e.rng.IntN(len(marks))
			marks = marks[:i+1] // mark i stays valid
			if err := sp.RollbackTo(marks[i].mark); err != nil {
				return now, fmt.Errorf("roll back to %d: %w", marks[i].mark, err)
			}
			now = kept{m: marks[i].m, touched: maps.Clone(marks[i].touched)}
			if err := now.m.check(tx); err != nil {
				return now, fmt.Errorf("after a roll-back to %d: %w", marks[i].mark, err)
			}
		default:
			ops := randomOps(e.rng, 1+e.rng.IntN(12))
			next, err := now.m.apply(tx, ops)
			if err != nil {
				return now, err
			}
			now.m = next
			for _, o := range ops {
				if o.kind == opPut || o.kind == opDelete {
					now.touched[o.key] = true
				}
			}
		}
	}
	return now, now.m.check(tx)
}

// checkSavepointChange checks that undone writes are not in a transaction's change.
func (e *env) checkSavepointChange(last, pos engine.Position, before model, after kept) {
	e.Helper()
	got := maps.Clone(before)
	for _, c := range e.changes(last, pos) {
		for _, w := range c.Writes {
			if !after.touched[string(w.Key)] {
				e.Fatalf("the change %d has key %q, whose writes were undone", c.Pos, w.Key)
			}
			if got[string(w.Key)] = string(w.Val); w.Deleted {
				delete(got, string(w.Key))
			}
		}
	}
	if !maps.Equal(got, after.m) {
		e.Fatalf("the changes up to %d lead to %q, want %q", pos, got, after.m)
	}
}

// savepointMisuse rolls back to marks that are not savepoints.
func savepointMisuse(e *env) {
	var ended engine.Savepointer
	offered := true
	e.update(func(tx engine.Tx) error {
		sp, ok := tx.(engine.Savepointer)
		if offered = ok; !ok {
			return nil
		}
		ended = sp
		if err := putAll(tx, "a", "1"); err != nil {
			return err
		}
		first := sp.Savepoint()
		if err := putAll(tx, "a", "2", "b", "2"); err != nil {
			return err
		}
		second := sp.Savepoint()
		if err := putAll(tx, "c", "3"); err != nil {
			return err
		}
		for _, err := range tx.Scan(nil, nil) {
			if err != nil {
				return err
			}
			if err := sp.RollbackTo(first); !errors.Is(err, engine.ErrInvalid) {
				return fmt.Errorf("roll back within a scan: %w", err)
			}
		}
		if err := sp.RollbackTo(first); err != nil {
			return err
		}
		for _, mark := range []int{-1, second, second + 1000} {
			if err := sp.RollbackTo(mark); !errors.Is(err, engine.ErrInvalid) {
				return fmt.Errorf("roll back to %d, which is no savepoint: %v", mark, err)
			}
		}
		for _, err := range tx.Scan(nil, nil) { // there is nothing to undo
			if err != nil {
				return err
			}
			if err := sp.RollbackTo(first); err != nil {
				return fmt.Errorf("roll back nothing within a scan: %w", err)
			}
		}
		return nil
	})
	if !offered {
		e.Skipf("skipped: the transactions are no engine.Savepointer")
	}
	if err := ended.RollbackTo(0); !errors.Is(err, engine.ErrInvalid) {
		e.Errorf("roll back a transaction that has ended: %v", err)
	}
	e.has("a", "1")
	e.lacks("b", "c")
}
