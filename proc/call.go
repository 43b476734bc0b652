package proc

import (
	"context"
	"errors"
	"math"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/jsonscan"
)

// Call is one call of a procedure on its way through a face: Begin, then
// Arguments or JSON, then Run within a transaction of the face's, or Do. Its
// memory is used again, so that a call allocates nothing of its own. It is used
// by one goroutine at a time.
type Call struct {
	set    *Set
	proc   *procedure
	frame  frame
	active bool // between Begin and End
	wrote  bool // the last Run, whatever became of it
	once   onceCall
	writer writer
}

// keepScratch is the largest buffer in bytes that a Call keeps for its next use.
const keepScratch = 64 << 10

// Begin takes a Call for the procedure of that name, or is CodeUnknownProcedure
// with the name that was probably meant. The caller must End it.
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

// End gives c back. Nothing of it may be used afterwards; ending it again does
// nothing.
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

// Arguments sets the arguments from text, in the order of the schema; those at
// the end that are optional may be missing. Objects, lists, maps and json are
// JSON texts; numbers are as JSON writes them; bytes are as they are; an empty
// text is null where null may be, and leaves out what is optional and neither
// text nor bytes. A single argument that begins with { is all arguments as one
// JSON object, unless the only argument is a string, bytes or json. args is not
// kept.
//
// Errors are CodeInvalid or CodeLimit, and name the argument; see ArgumentError.
func (c *Call) Arguments(args [][]byte) error { return c.proc.decodeText(c.frame.in(), args) }

// JSON sets the arguments from a JSON object; an empty body is {}. Names are
// exact, none may be given twice or be unknown, in objects within it too. body
// is not kept. Errors are CodeInvalid or CodeLimit; see ArgumentError.
func (c *Call) JSON(body []byte) error { return c.proc.decodeJSON(c.frame.in(), body) }

// Run calls the procedure in tx. An error means that the transaction must be
// undone: nothing of the procedure's writes is undone here. If the engine runs
// the transaction again, Run is called again. The result is read by Write or
// AppendJSON before the transaction ends.
//
// A call with a key can have failed for good although Run returns nil; see
// Verdict.
func (c *Call) Run(tx engine.Tx) error {
	c.once.forget()
	c.wrote = false
	return c.set.protect(tx, c.proc.definition, func(t *Tx) error {
		defer func() { c.wrote = t.wrote }()
		if len(c.once.key) > 0 && !c.ReadOnly() {
			return c.runOnce(t)
		}
		return t.outcome(c.frame.run(t))
	})
}

// RunWithin is Run as one of several steps of tx: if the call fails, what it wrote
// is undone and the transaction may go on and be committed. Where tx is no
// engine.Savepointer that cannot be done: spoiled reports that a failed call has
// left writes behind, so that the whole transaction must be undone.
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

// Verdict is the error of a call with a key that was carried out and failed, now
// or when the key was used first. Its writes are undone in the transaction, which
// is committed so that the answer is remembered: that is why Run returned nil.
// The answer of the call is the Verdict, if there is one, and otherwise its
// result. Do returns it as its error.
func (c *Call) Verdict() error {
	if c.once.verdict == nil {
		return nil
	}
	return c.once.verdict
}

// Write gives the result to sink. It is CodeLimit if the result is larger than
// Options.MaxResult. After an error sink has a part of the result, which the
// caller has to take back. If there is a Verdict it is the error.
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

// AppendJSON appends the result as encoding/json writes it, but null for structs
// without fields; CodeLimit if it is larger than Options.MaxResult. If there is a Verdict it is the error.
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

// unwritten says why a result cannot be written.
func (c *Call) unwritten(err error, limit int) error {
	switch err {
	case nil:
		return nil
	case errResultSize:
		return engine.Errorf(engine.CodeLimit, "the result of %s is over the limit of %d bytes", c.proc.schema.Name, limit)
	}
	if p, ok := errors.AsType[*writePanic](err); ok {
		c.set.o.Logger.Error("a result could not be written; nothing was written", "procedure", c.proc.schema.Name, "type", p.typ.String(), "panic", p.value, "stack", string(p.stack))
		return engine.Errorf(engine.CodeInternal, "procedure %s failed; the server's log has the details", c.proc.schema.Name)
	}
	return engine.Errorf(engine.CodeOf(err), "write the result of %s: %w", c.proc.schema.Name, err)
}

// Do runs c as a transaction of its own, and then reads its result by then,
// before the transaction commits: an error of then undoes it too. r matters if
// the procedure only reads. If there is a Verdict, it is the error, and then is
// not called.
func (c *Call) Do(ctx context.Context, r engine.Read, then func(*Call) error) (engine.Position, error) {
	fn := func(tx engine.Tx) error {
		if err := c.Run(tx); err != nil || c.Verdict() != nil {
			return err
		}
		return then(c)
	}
	if c.ReadOnly() {
		return c.set.eng.View(ctx, r, fn)
	}
	pos, err := c.set.eng.Update(ctx, fn)
	if err == nil {
		err = c.Verdict()
	}
	return pos, err
}

// callTyped is Func.Call.
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
