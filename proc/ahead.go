package proc

import (
	"context"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Hints collects the keys that a procedure is about to use; see Func.Hint. It is valid only
// until the hint returns.
type Hints struct {
	keys *kv.Tx // nil: the hint has returned
	full bool
}

// Key names a key of tx.KV(space), which is not retained. It reports whether there is room
// for more: a batch of calls may name up to kv.MaxExpected keys together, and others are
// ignored, as are invalid ones.
func (h *Hints) Key(space uint8, key []byte) bool {
	h.full = h.full || h.keys == nil || !h.keys.Expect(space, key)
	return !h.full
}

// Hint sets a function that names keys that the procedure will read or write, as far as
// they follow from the arguments. It returns f.
//
// With much data, most of the time of a short procedure is the wait for memory in look-ups
// of keys. The engine looks up the keys that one call names, or several that arrive
// together, at once, so that these waits overlap. Keys that most calls use are not worth naming: they are in the
// processor's caches.
//
// A hint is advice, on which no result depends: keys may be missing, wrong or never used.
// It is called before the procedure, in the transaction of another call or of its own; or
// not at all. It must be quick, like a procedure, and has to keep the same rules; nothing
// stops one that takes too long. A panic in it is ignored, and logged the first time.
func (f *Func[In, Out]) Hint(fn func(h *Hints, in In)) *Func[In, Out] {
	f.hint = fn
	f.def.hinted = fn != nil
	return f
}

// Hinted reports whether there is a procedure with that name and a hint.
func (s *Set) Hinted(name []byte) bool {
	p := s.procs[string(name)]
	return p != nil && p.hinted
}

// Expect names the keys that c will use to t.Expect: its idempotency key and those of the
// procedure's hint. It reports whether there was room for all. It is for a face that runs
// several calls and knows from t.Expects that the engine can use them: call it for each,
// once its arguments are set, then t.Announce, then Run for each. c need not run. Do does
// this for one call.
func (c *Call) Expect(t *kv.Tx) bool {
	if len(c.once.key) > 0 && !c.ReadOnly() && !t.Expect(kv.OnceSpace, c.once.key) {
		return false
	}
	if !c.proc.hinted {
		return true
	}
	c.hints = Hints{keys: t}
	c.hint()
	return !c.hints.full
}

// announce announces the keys of c for a face that runs it alone in tx.
func (c *Call) announce(tx engine.Tx) {
	if e, ok := tx.(engine.Expecter); !ok || !c.proc.hinted || !e.Expects() {
		return
	}
	if c.keys == nil {
		c.keys = new(kv.Tx)
	}
	c.keys.Bind(tx, 0)
	c.Expect(c.keys)
	c.keys.Announce()
	c.keys.Bind(nil, 0)
}

// update is Update of the engine, which may read the keys of the hint beforehand.
func (c *Call) update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	p, ok := c.set.eng.(engine.Preparer)
	if !ok || !c.proc.hinted {
		return c.set.eng.Update(ctx, fn)
	}
	if c.keys == nil {
		c.keys = new(kv.Tx)
	}
	c.Expect(c.keys)
	return p.UpdateOf(ctx, c.keys.Expected(), fn)
}

// hint calls the hint of the procedure.
func (c *Call) hint() {
	returned := false
	defer func() {
		c.hints.keys = nil
		if !returned {
			c.badHint(recover())
		}
	}()
	c.frame.hint(&c.hints)
	returned = true
}

// badHint logs the first panic of a hint. The deferred function that recovered calls it.
func (c *Call) badHint(v any) {
	if c.proc.badHint.Swap(true) {
		return
	}
	text := "the hint of a procedure panicked, which changes no result; this is logged once"
	if v == nil {
		text = "the hint of a procedure ended its goroutine"
	}
	c.set.logCrash(c.proc.definition, text, v)
}
