package proc

import (
	"context"
	"errors"
	"math"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/kv"
)

// Call is one call of a procedure by a face: Begin, then Arguments or JSON, then Run in a
// transaction of the face, or Do. Its memory is reused, so that calls do not allocate. A
// Call is used by one goroutine at a time.
type Call struct {
	set    *Set
	proc   *procedure
	frame  frame
	active bool // between Begin and End
	wrote  bool // the last Run wrote something, even if that was undone
	once   onceCall
	writer writer
	hints  Hints
	keys   *kv.Tx // of announce
}

// keepScratch is the largest buffer in bytes that a Call keeps for its next use.
const keepScratch = 64 << 10

// Begin returns a Call of the procedure with the given name. If there is none, the error is
// CodeUnknownProcedure and suggests a similar name. The caller must End the Call.
func (s *Set) Begin(name []byte) (*Call, error) {
	p, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return p.begin(), nil
}

func (p *procedure) begin() *Call {
	c := p.calls.Get().(*Call)
	c.active = true
	return c
}

// End recycles c. Nothing of it may be used afterwards. Calling End again has no effect.
func (c *Call) End() {
	if !c.active {
		return
	}
	c.active = false
	c.frame.reset()
	c.once.reset()
	c.writer.sink = nil
	if cap(c.writer.scratch) > keepScratch {
		c.writer.scratch = nil
	}
	c.proc.calls.Put(c)
}

// ReadOnly reports whether the procedure only reads.
func (c *Call) ReadOnly() bool { return c.proc.schema.ReadOnly }

// Arguments sets the arguments from text in the order of the schema. Optional arguments at
// the end may be missing.
//
// Objects, lists, maps and json are JSON text, numbers are in JSON syntax, and bytes are
// passed unchanged. Empty text means null for a nullable argument, and omits an optional
// argument that is neither text nor bytes. A single argument that begins with { provides
// all arguments as one JSON object, unless the only argument is a string, bytes or json.
// args is not retained.
//
// Errors are CodeInvalid or CodeLimit and name the argument; see ArgumentError.
func (c *Call) Arguments(args [][]byte) error { return c.proc.decodeText(c.frame.in(), args) }

// JSON sets the arguments from a JSON object. An empty body means {}. Names are
// case-sensitive; duplicate and unknown names are errors, including in nested objects. body
// is not retained. Errors are CodeInvalid or CodeLimit; see ArgumentError.
func (c *Call) JSON(body []byte) error { return c.proc.decodeJSON(c.frame.in(), body) }

// Run calls the procedure in tx. If it returns an error, the caller must undo the
// transaction, because Run does not undo the procedure's writes. If the engine runs the
// transaction again, Run must be called again. The result must be read with Write or
// AppendJSON before the transaction ends.
//
// A call with a key can have failed permanently although Run returns nil; see Verdict.
func (c *Call) Run(tx engine.Tx) error {
	c.once.forget()
	c.wrote = false
	return c.set.protect(tx, c.proc, func(t *Tx) error {
		defer func() { c.wrote = t.wrote }()
		if len(c.once.key) > 0 && !c.ReadOnly() {
			return c.runOnce(t)
		}
		return t.outcome(c.frame.run(t))
	})
}

// RunWithin is like Run for one of several steps of tx: if the call fails, its writes are
// undone, and the transaction may continue and be committed. This requires that tx is an
// engine.Savepointer. If it is not, spoiled reports that a failed call has left writes
// behind, so the whole transaction must be undone.
func (c *Call) RunWithin(tx engine.Tx) (spoiled bool, err error) {
	sp, ok := tx.(engine.Savepointer)
	mark := 0
	if ok {
		mark = sp.Savepoint()
	}
	if err = c.Run(tx); err == nil || !c.wrote {
		return false, err
	}
	return !ok || sp.RollbackTo(mark) != nil, err
}

// Verdict returns the error of a call with a key that ran and failed, either now or when
// the key was first used. Its writes are undone within the transaction, which is committed
// so that the error is remembered. Run returns nil for that reason. If Verdict is not nil,
// it is the outcome of the call; otherwise the outcome is the result. Do returns the
// Verdict as its error.
func (c *Call) Verdict() error {
	if c.once.verdict == nil {
		return nil
	}
	return c.once.verdict
}

// Write writes the result to sink. If the result is larger than Options.MaxResult, the
// error is CodeLimit. After an error, sink may contain a part of the result, which the
// caller has to discard. If there is a Verdict, Write returns it.
func (c *Call) Write(sink Sink) error {
	if err := c.Verdict(); err != nil {
		return err
	}
	w := &c.writer
	w.sink, w.left = sink, c.set.o.MaxResult
	if c.once.replayed {
		return c.unwritten(w.replay(c.proc.result, &cursor{Scanner: jsonscan.New(c.once.result())}), c.set.o.MaxResult)
	}
	return c.unwritten(w.value(c.proc.result, c.frame.out()), c.set.o.MaxResult)
}

// AppendJSON appends the result as encoding/json encodes it, except that structs without
// fields are null. If the result is larger than Options.MaxResult, the error is CodeLimit.
// If there is a Verdict, AppendJSON returns it.
func (c *Call) AppendJSON(dst []byte) ([]byte, error) {
	if err := c.Verdict(); err != nil {
		return dst, err
	}
	if !c.once.replayed {
		return c.appendJSON(dst, c.set.o.MaxResult)
	}
	limit := c.set.o.MaxResult
	look := writer{sink: nowhere{}, left: math.MaxInt}
	if err := look.replay(c.proc.result, &cursor{Scanner: jsonscan.New(c.once.result())}); err != nil {
		return dst, c.unwritten(err, limit)
	}
	w := jsonWriter{b: dst, max: len(dst) + limit}
	if err := w.replay(c.proc.result, &cursor{Scanner: jsonscan.New(c.once.result())}); err != nil {
		return dst, c.unwritten(err, limit)
	}
	return w.b, nil
}

// appendJSON appends the result if it has at most limit bytes.
func (c *Call) appendJSON(dst []byte, limit int) ([]byte, error) {
	w := jsonWriter{b: dst, max: len(dst) + limit}
	if err := w.value(c.proc.result, c.frame.out()); err != nil {
		return dst, c.unwritten(err, limit)
	}
	return w.b, nil
}

// unwritten returns the error for a result that cannot be written.
func (c *Call) unwritten(err error, limit int) error {
	switch err {
	case nil:
		return nil
	case errResultSize:
		return engine.Errorf(engine.CodeLimit, "the result of %s is over the limit of %d bytes", c.proc.schema.Name, limit)
	}
	if p, ok := errors.AsType[*writePanic](err); ok {
		c.set.o.Logger.Error("a result could not be encoded; nothing was written", "procedure", c.proc.schema.Name, "type", p.typ.String(), "panic", p.value, "stack", string(p.stack))
		return engine.Errorf(engine.CodeInternal, "procedure %s failed; the server's log has the details", c.proc.schema.Name)
	}
	return engine.Errorf(engine.CodeOf(err), "write the result of %s: %w", c.proc.schema.Name, err)
}

// Do runs c as its own transaction and calls then to read the result before the transaction
// commits; both may run again. An error of then undoes the transaction. r applies only if the procedure is
// read-only. If there is a Verdict, Do returns it and does not call then.
func (c *Call) Do(ctx context.Context, r engine.Read, then func(*Call) error) (engine.Position, error) {
	fn := func(tx engine.Tx) error {
		c.announce(tx)
		if err := c.Run(tx); err != nil || c.Verdict() != nil {
			return err
		}
		return then(c)
	}
	if c.ReadOnly() {
		return c.set.eng.View(ctx, r, fn)
	}
	pos, err := c.update(ctx, fn)
	if err == nil {
		err = c.Verdict()
	}
	return pos, err
}

// callTyped implements Func.Call.
func callTyped[In, Out any](ctx context.Context, s *Set, f *Func[In, Out], in In) (out Out, pos engine.Position, err error) {
	p := s.procs[f.def.schema.Name]
	if p == nil || p.definition != &f.def {
		return out, 0, engine.Errorf(engine.CodeUnknownProcedure, "the set has no such procedure %s", f.def.schema.Name)
	}
	c := p.begin()
	frame := c.frame.(*typedFrame[In, Out])
	frame.arg = in
	pos, err = c.Do(ctx, engine.Read{}, func(*Call) error {
		out = frame.res
		return nil
	})
	c.End()
	if err != nil {
		var none Out
		return none, pos, err
	}
	return out, pos, nil
}
