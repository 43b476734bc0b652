// Package proc implements stored procedures: named Go functions of the program. Each call
// is one serializable transaction that runs next to the data.
//
// It knows names, arguments, results, the transaction that a procedure works in, and the
// answers of calls that must run only once; it must not know HTTP, RESP or raft. User code
// runs once, on the node that writes the data; its effects are stored and replicated.
package proc

import (
	"context"
	"errors"
	"reflect"

	"github.com/skerrydb/skerry/engine"
)

// Procedure is the type-independent interface of what Define and DefineRead return.
type Procedure interface {
	// Schema describes the procedure. The caller owns the result.
	Schema() Schema

	definition() *definition // nil if it was not made by Define
}

// definition is a procedure as Set and Call use it. It is never modified after New.
type definition struct {
	schema Schema
	err    error // error in the name or the types; New returns it
	args   *plan
	result *plan
	fn     any          // the function, to find it in a stack
	hinted bool         // it has a hint
	frame  func() frame // allocates the memory of one call
}

// frame stores the typed argument and result of one call at a time.
type frame interface {
	in() reflect.Value  // the argument struct, settable
	out() reflect.Value // the result, settable
	reset()             // clears both
	run(tx *Tx) error   // calls the function with in, stores its result in out
	hint(h *Hints)      // calls the hint with in
}

// Func is a procedure with its types. It is safe for concurrent use.
type Func[In, Out any] struct {
	def  definition
	fn   func(*Tx, In) (Out, error)
	hint func(*Hints, In) // may be nil
}

// Define defines a procedure that may write.
//
// In is a struct. Its exported fields are the arguments, in order, with the names that
// encoding/json gives them. A field that is a pointer or has omitempty or omitzero is
// optional. Out may be any type that encoding/json can encode, except an interface;
// json.RawMessage is any JSON, and []uint8 is []byte. New returns an error if name, types
// or fn are invalid.
//
// A write procedure runs alone: no other one runs at the same time. If fn returns an error
// or panics, nothing is written. The engine may retry the transaction, so fn may run more
// than once for one call. It must have no effects except through its Tx, and must not
// modify the contents of in's slices, maps and pointers, because the next run gets the same
// ones. After it returns, fn must not keep tx or slices that it got from tx. Its result
// must not refer to such slices; copy them instead.
func Define[In, Out any](name string, fn func(tx *Tx, in In) (Out, error)) *Func[In, Out] {
	f := &Func[In, Out]{fn: fn}
	f.def = define(name, false, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	if fn == nil && f.def.err == nil {
		f.def.err = errors.New("its function is nil")
	}
	f.def.fn = fn
	f.def.frame = func() frame { return &typedFrame[In, Out]{of: f} }
	return f
}

// DefineRead defines a procedure that only reads. It runs on a snapshot, on any node and
// concurrently with others. Writes inside it return ErrReadOnly.
func DefineRead[In, Out any](name string, fn func(tx *Tx, in In) (Out, error)) *Func[In, Out] {
	f := Define(name, fn)
	f.def.schema.ReadOnly = true
	return f
}

// Describe sets a one-line description of the procedure for lists and generated code. It
// returns f.
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

// Call runs the procedure from this program as its own transaction on s's engine, like a
// face does. If the procedure is read-only, the read is linearizable. The position is that
// of the commit or of the snapshot. In a cluster, a write returns ErrNotLeader on a node
// that is not the leader. A result that could not be sent to a client, for example because
// it is too large, is not an error here.
func (f *Func[In, Out]) Call(ctx context.Context, s *Set, in In) (Out, engine.Position, error) {
	return callTyped(ctx, s, f, in)
}

// Run runs the procedure inside another one, in the same transaction. If it fails, its
// writes are undone, the error is returned unchanged, and the caller may continue. If the
// engine is not an engine.Savepointer, a call that writes and then fails spoils the whole
// transaction with CodeUnsupported. A procedure that writes returns ErrReadOnly inside one
// that only reads, and so does a write of a read-only procedure inside one that writes.
// Nesting deeper than MaxDepth is CodeLimit.
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

// typedFrame implements frame for a Func.
type typedFrame[In, Out any] struct {
	of  *Func[In, Out]
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
	f.res, err = f.of.fn(tx, f.arg)
	return err
}

func (f *typedFrame[In, Out]) hint(h *Hints) { f.of.hint(h, f.arg) }
