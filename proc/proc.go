// Package proc is stored procedures: named Go functions of the program, each
// call of which is one serialisable transaction beside the data.
//
// It knows names, arguments, results, the transaction that a procedure works in,
// and the answers of calls that must be carried out once; it must not know HTTP,
// RESP or raft. User code runs once, where the data is written; what is kept and
// replicated are its effects.
package proc

import (
	"context"
	"errors"
	"reflect"

	"github.com/skerrydb/skerry/engine"
)

// Procedure is what Define and DefineRead make, without its types.
type Procedure interface {
	// Schema describes the procedure. It is the caller's.
	Schema() Schema

	definition() *definition // nil if it is none
}

// definition is a procedure as Set and Call see it. It is never changed after New.
type definition struct {
	schema Schema
	err    error // what is wrong with the name or the types; New returns it
	args   *plan
	result *plan
	fn     any          // the function, to find it in a stack
	frame  func() frame // makes the memory of one call
}

// frame holds the typed argument and result of one call at a time.
type frame interface {
	in() reflect.Value  // the argument struct, settable
	out() reflect.Value // the result, settable
	reset()             // forgets both
	run(tx *Tx) error   // calls the function with in, leaves its result in out
}

// Func is a procedure with its types. It may be called by any number of
// goroutines.
type Func[In, Out any] struct {
	def definition
	fn  func(*Tx, In) (Out, error)
}

// Define makes a procedure that may write. In is a struct: its exported fields
// are the arguments, in order, with the names that encoding/json gives them; one
// that is a pointer or has omitempty or omitzero may be left out. Out may be any
// type that encoding/json can write, but no interface; json.RawMessage is any JSON,
// and []uint8 is []byte. What is wrong with name, types or fn is an error of New.
//
// A write procedure runs alone: while it runs no other one does. If fn returns
// an error or panics, nothing is written. fn may run more than once for one call
// (an engine may try again), so it must have no effect but through its Tx, and
// must not change what in's slices, maps and pointers hold: the next run gets the
// same. It must not keep tx, nor slices that tx gave out, after it returns: also
// what it returns must not hold them, but copies.
func Define[In, Out any](name string, fn func(tx *Tx, in In) (Out, error)) *Func[In, Out] {
	f := &Func[In, Out]{fn: fn}
	f.def = define(name, false, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	if fn == nil && f.def.err == nil {
		f.def.err = errors.New("its function is nil")
	}
	f.def.fn = fn
	f.def.frame = func() frame { return &typedFrame[In, Out]{fn: fn} }
	return f
}

// DefineRead makes a procedure that only reads. It runs on a snapshot, on any
// node and beside others; a write inside it returns ErrReadOnly.
func DefineRead[In, Out any](name string, fn func(tx *Tx, in In) (Out, error)) *Func[In, Out] {
	f := Define(name, fn)
	f.def.schema.ReadOnly = true
	return f
}

// Describe says in one line what the procedure is for, for lists and generated
// code. It returns f.
func (f *Func[In, Out]) Describe(text string) *Func[In, Out] {
	f.def.schema.Text = text
	return f
}

// Schema implements Procedure.
func (f *Func[In, Out]) Schema() Schema { return f.def.schema.clone() }

func (f *Func[In, Out]) definition() *definition {
	if f == nil || f.def.frame == nil {
		return nil // not made by Define
	}
	return &f.def
}

// Call runs the procedure from this program, as a transaction of its own, as a
// face would: on s's engine, linearizable if it only reads. The position is that
// of the commit or of the snapshot. In a cluster a write is ErrNotLeader on a
// node that does not lead. A result that a client could not get, too large for
// instance, is no error here.
func (f *Func[In, Out]) Call(ctx context.Context, s *Set, in In) (Out, engine.Position, error) {
	return callTyped(ctx, s, f, in)
}

// Run runs the procedure inside another one, in the same transaction. If it
// fails, what it wrote is undone, the error is returned unchanged and the caller
// may go on; where the engine is no engine.Savepointer, a call that has written
// and fails spoils the whole transaction, with CodeUnsupported. A procedure that
// writes is ErrReadOnly inside one that only reads, and so is a write of one that
// only reads inside one that writes. Deeper than MaxDepth is CodeLimit.
func (f *Func[In, Out]) Run(tx *Tx, in In) (out Out, err error) {
	err = tx.nested(&f.def, func() error {
		out, err = f.fn(tx, in)
		return err
	})
	if err != nil {
		var none Out
		return none, err
	}
	return out, nil
}

// typedFrame is the frame of a Func.
type typedFrame[In, Out any] struct {
	fn  func(*Tx, In) (Out, error)
	arg In
	res Out
}

func (f *typedFrame[In, Out]) in() reflect.Value  { return reflect.ValueOf(&f.arg).Elem() }
func (f *typedFrame[In, Out]) out() reflect.Value { return reflect.ValueOf(&f.res).Elem() }

func (f *typedFrame[In, Out]) reset() {
	var in In
	var out Out
	f.arg, f.res = in, out
}

func (f *typedFrame[In, Out]) run(tx *Tx) (err error) {
	f.res, err = f.fn(tx, f.arg)
	return err
}
