package record

import (
	"fmt"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// MaxOps is how many operations Do carries out at once.
const MaxOps = 1_000

// Revert is the Kind of an Op that restores the data of an earlier revision. The history records it as an update.
const Revert keys.Op = 100

// Op is an operation for Do.
type Op struct {
	Kind       keys.Op // Create, Update, Delete, Restore, Purge or Revert
	Collection string
	ID         string // of a new record: "" makes one
	Rev        uint64 // that the record must have; 0: any
	To         uint64 // of Revert: the revision
	Data       []byte // of Create: the data; of Update: a merge patch of it

	// Check, if not nil, is called first, with the revision of the record, or 0 if there is no such record.
	Check func(rev uint64) error
}

// OpError reports which operation failed.
type OpError struct {
	Index int
	Err   error
}

// Error implements error.
func (e *OpError) Error() string { return fmt.Sprintf("operation %d: %v", e.Index, e.Err) }

// Unwrap returns the error of the operation.
func (e *OpError) Unwrap() error { return e.Err }

// Do carries out operations in order. It returns the record after each operation, nil after a Purge. It stops at the
// first failure with an *OpError; the transaction must then return an error.
func (t *Tx) Do(ops ...Op) ([]*Record, error) {
	if len(ops) > MaxOps {
		return nil, engine.Errorf(engine.CodeLimit, "the transaction has %d operations; the limit is %d", len(ops), MaxOps)
	}
	all := make([]*Record, len(ops))
	for i := range ops {
		var err error
		if all[i], err = t.do(&ops[i]); err != nil {
			return nil, &OpError{i, err}
		}
	}
	return all, nil
}

func (t *Tx) do(op *Op) (*Record, error) {
	if op.Check != nil {
		rev := uint64(0)
		if op.Kind != keys.Create {
			_, d, err := t.visible(op.Collection, op.ID, op.Kind == keys.Restore || op.Kind == keys.Purge)
			if err != nil {
				return nil, err
			}
			rev = d.Rev
		}
		if err := op.Check(rev); err != nil {
			return nil, err
		}
	}
	switch op.Kind {
	case keys.Create:
		if op.Rev != 0 {
			return nil, engine.Errorf(CodeRevision, "a new record cannot have revision %d; leave out rev", op.Rev)
		}
		return t.Create(op.Collection, op.ID, op.Data)
	case keys.Update:
		return t.Update(op.Collection, op.ID, op.Data, op.Rev)
	case keys.Delete:
		return t.Delete(op.Collection, op.ID, op.Rev)
	case keys.Restore:
		return t.Restore(op.Collection, op.ID, op.Rev)
	case Revert:
		return t.Revert(op.Collection, op.ID, op.To, op.Rev)
	case keys.Purge:
		return nil, t.Purge(op.Collection, op.ID, op.Rev)
	}
	return nil, engine.Errorf(engine.CodeInvalid, "unknown operation %d", op.Kind)
}
