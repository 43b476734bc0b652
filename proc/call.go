package proc

import (
	"context"
	"encoding/json"
	"runtime/debug"

	"github.com/skerrydb/skerry/engine"
)

// Sink takes a result as RESP has it; *wire.Writer of resp/wire is one. After
// Array(n) come n values, after Map(n) n pairs of a BulkString and a value.
type Sink interface {
	Null()
	Bool(v bool)
	Int(v int64)
	Double(v float64)
	Bulk(v []byte)
	BulkString(v string)
	Array(n int)
	Map(n int)
}

// Call is one call of a procedure on its way through a face: Begin, then
// Arguments or JSON, then Run within a transaction of the face's, or Do. Its
// memory is used again, so that a call allocates nothing of its own. It is used
// by one goroutine at a time.
type Call struct {
	set    *Set
	def    *definition
	frame  frame
	frames map[*definition]frame
	tx     Tx
	once   onceCall
}

// onceCall is what a call with a key needs.
type onceCall struct {
	key []byte
}

// Begin takes a Call for the procedure of that name, or is CodeUnknownProcedure.
// The caller must End it.
func (s *Set) Begin(name []byte) (*Call, error) {
	d, err := s.find(name)
	if err != nil {
		return nil, err
	}
	c := s.calls.Get().(*Call)
	c.def = d
	if c.frame = c.frames[d]; c.frame == nil {
		c.frame = d.frame()
		c.frames[d] = c.frame
	}
	return c, nil
}

// End gives c back. Nothing of it may be used afterwards.
func (c *Call) End() {
	c.frame.reset()
	c.def, c.frame = nil, nil
	c.set.calls.Put(c)
}

// ReadOnly reports whether the procedure only reads.
func (c *Call) ReadOnly() bool { return c.def.schema.ReadOnly }

// Arguments sets the arguments from text, in the order of the schema; those at
// the end that are optional may be missing. Objects, lists, maps and json are
// JSON texts; bytes are as they are; an empty text is null where null may be. A
// single argument that begins with { is all arguments as one JSON object, unless
// the only argument is a string, bytes or json. args is not kept.
//
// Errors are CodeInvalid or CodeLimit, and name the argument.
func (c *Call) Arguments(args [][]byte) error { return c.def.decodeText(c.frame.in(), args) }

// JSON sets the arguments from a JSON object; an empty body is {}. body is not
// kept. Errors are CodeInvalid or CodeLimit; see ArgumentError.
func (c *Call) JSON(body []byte) error { return c.def.decodeJSON(c.frame.in(), body) }

// Run calls the procedure in tx. An error means that the transaction must be
// undone: nothing of the procedure's writes is undone here. If the engine runs
// the transaction again, Run is called again. The result is read by AppendTo or
// Encode before the transaction ends.
func (c *Call) Run(tx engine.Tx) (err error) {
	t := &c.tx
	t.tx, t.call, t.def, t.depth, t.rng = tx, c, c.def, 1, nil
	t.used = t.used[:0]
	defer func() {
		t.tx = nil
		if v := recover(); v != nil {
			c.set.o.Logger.Error("a procedure panicked; nothing was written", "procedure", c.def.schema.Name, "panic", v, "stack", string(debug.Stack()))
			err = engine.Errorf(engine.CodeInternal, "procedure %s failed; the server's log has the details", c.def.schema.Name)
		}
	}()
	return c.failed(c.frame.run(t))
}

// failed gives an error of user code its code.
func (c *Call) failed(err error) error {
	if err == nil || engine.CodeOf(err) != engine.CodeInternal {
		return err
	}
	return engine.Errorf(engine.CodeProcedureFailed, "%w", err)
}

// Write gives the result to sink. CodeLimit if it is larger than
// Options.MaxResult.
func (c *Call) Write(sink Sink) error { return c.def.writeResult(c.frame.out(), sink) }

// AppendJSON appends the result as encoding/json writes it; CodeLimit if it is
// larger than Options.MaxResult.
func (c *Call) AppendJSON(dst []byte) ([]byte, error) {
	b, err := json.Marshal(c.frame.out().Addr().Interface())
	if err != nil {
		return dst, engine.Errorf(engine.CodeInternal, "write the result of %s: %w", c.def.schema.Name, err)
	}
	if len(b) > c.set.o.MaxResult {
		return dst, engine.Errorf(engine.CodeLimit, "the result of %s has %d bytes, over the limit of %d", c.def.schema.Name, len(b), c.set.o.MaxResult)
	}
	return append(dst, b...), nil
}

// Do runs c as a transaction of its own, and then reads its result by then,
// before the transaction commits: an error of then undoes it too. r matters if
// the procedure only reads.
func (c *Call) Do(ctx context.Context, r engine.Read, then func(*Call) error) (engine.Position, error) {
	fn := func(tx engine.Tx) error {
		if err := c.Run(tx); err != nil {
			return err
		}
		return then(c)
	}
	if c.ReadOnly() {
		return c.set.eng.View(ctx, r, fn)
	}
	return c.set.eng.Update(ctx, fn)
}

// callTyped is Func.Call.
func callTyped[In, Out any](ctx context.Context, s *Set, f *Func[In, Out], in In) (out Out, pos engine.Position, err error) {
	c, err := s.Begin([]byte(f.def.schema.Name))
	if err != nil {
		return out, 0, err
	}
	frame, ok := c.frame.(*typedFrame[In, Out])
	if !ok || c.def != &f.def {
		c.End()
		return out, 0, engine.Errorf(engine.CodeInvalid, "the procedure %s of this set is another one", f.def.schema.Name)
	}
	frame.arg = in
	pos, err = c.Do(ctx, engine.Read{}, func(*Call) error {
		out = frame.res
		return nil
	})
	c.End()
	return out, pos, err
}
