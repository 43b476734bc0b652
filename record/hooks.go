package record

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// MaxHookDepth is how deeply changes made by Before functions may be nested.
const MaxHookDepth = 8

// Writing is a change that is about to be stored.
type Writing struct {
	Op     keys.Op
	Before *Record // nil for a creation
	After  *Record // nil for a purge

	c *collection
	d *keys.Doc // of After
}

// Set applies a JSON merge patch (RFC 7396) to the data of After. It is allowed in creations and updates only. The
// result is validated afterwards.
func (w *Writing) Set(patch []byte) error {
	if w.Op != keys.Create && w.Op != keys.Update || w.d == nil {
		return engine.Errorf(engine.CodeInvalid, "a Before function cannot change the data of a record when the operation is %v", w.Op)
	}
	data, err := w.c.Patch(w.d.Data, patch)
	if err != nil {
		return invalid(w.c, err)
	}
	w.d.Data = data
	return nil
}

// hooks are the functions that are called before and after changes.
type hooks struct {
	before map[string][]func(*Tx, *Writing) error // by collection
	after  []*hook
}

// hook is a function that is called after changes.
type hook struct {
	name, collection string
	fn               func(ctx context.Context, c *Committed) error
	begun            atomic.Bool   // where it begins is stored and committed
	wait             time.Duration // before the next try, after an error
	next             time.Time
}

// Before registers a function that is called in every transaction that changes a record of the collection, after the
// rule has allowed the change and before it is stored. fn may modify the data with Writing.Set, make other changes, or
// refuse the change by returning an error, which the transaction must then return. It may run more than once for one
// change and must not have effects outside the transaction. Do not call Before after the first transaction.
func (db *DB) Before(collection string, fn func(tx *Tx, w *Writing) error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.hooks.before == nil {
		db.hooks.before = map[string][]func(*Tx, *Writing) error{}
	}
	db.hooks.before[collection] = append(db.hooks.before[collection], fn)
}

// runBefore calls the Before functions, which may change after.
func (t *Tx) runBefore(c *collection, op keys.Op, before, after *keys.Doc) error {
	t.db.mu.Lock()
	all := t.db.hooks.before[c.Name]
	t.db.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	if *t.depth++; *t.depth > MaxHookDepth {
		return engine.Errorf(engine.CodeLimit, "Before functions are nested more than %d deep", MaxHookDepth)
	}
	defer func() { *t.depth-- }()
	w := &Writing{Op: op, c: c, d: after}
	if before != nil {
		w.Before = newRecord(c, before)
	}
	if after != nil {
		w.After = newRecord(c, after)
	}
	for _, fn := range all {
		if err := fn(t, w); err != nil {
			return t.broken(err)
		}
	}
	return nil
}

// broken prevents the transaction from committing, if the engine supports that, because a change may be half written.
func (t *Tx) broken(err error) error {
	if b, ok := t.tx.(engine.Breaker); ok {
		b.Break(err)
	}
	return err
}

// Committed is a change that was committed.
type Committed struct {
	ID     string // of the change, the same whenever it is delivered again
	Change *Change
	Before *Record // without passwords; nil if there was none, or it is not known any more
	After  *Record // likewise
}

// After registers a function that is called after each change of a collection, in order, by the leader of the cluster.
// Its progress is stored under its name, so the name must be unique in the collection and must not change. A new
// function begins with the changes after its first transaction.
//
// fn is called at least once for each change. It is called again for the same change if it returns an error, or if the
// node stops or loses leadership during the call or right after it. After an error, the call is repeated with growing
// pauses, and later changes wait. If the collection keeps no history, fn sees only the last of several changes of a
// record. Do not call After after the first transaction.
func (db *DB) After(name, collection string, fn func(ctx context.Context, c *Committed) error) error {
	if name == "" || len(name) > schema.MaxNameBytes {
		return engine.Errorf(engine.CodeInvalid, "the name of an After function must have 1 to %d bytes, not %d", schema.MaxNameBytes, len(name))
	}
	if err := db.refuses("After function " + name + " of " + collection); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if slices.ContainsFunc(db.hooks.after, func(h *hook) bool { return h.name == name && h.collection == collection }) {
		return engine.Errorf(engine.CodeInvalid, "After function %s is defined twice for %s", name, collection)
	}
	db.hooks.after = append(db.hooks.after, &hook{name: name, collection: collection, fn: fn})
	return nil
}

func (db *DB) afterHooks() []*hook {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.hooks.after
}

// begin stores the starting positions of new After functions.
func (db *DB) begin(tx engine.Tx, c *catalog) error {
	for _, h := range db.afterHooks() {
		k := c.byName[h.collection]
		if k == nil || h.begun.Load() {
			continue
		}
		_, ok, err := keys.Cursor(tx, k.Collection, h.name)
		if err != nil || ok {
			if err != nil {
				return err
			}
			continue
		}
		n, err := keys.ReadCounters(tx, k.Collection)
		if err == nil {
			err = keys.SetCursor(tx, k.Collection, h.name, n.Seq)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Limits of the pause after an error of a function of After.
const (
	minHookPause = 100 * time.Millisecond
	maxHookPause = time.Minute
)

// runHooks calls the After functions while this node leads.
func (db *DB) runHooks(ctx context.Context) error {
	for {
		var pos engine.Position
		for _, h := range db.afterHooks() {
			for more := db.leads(); more && ctx.Err() == nil; {
				var err error
				more, pos, err = db.runHook(ctx, h)
				if err != nil && ctx.Err() == nil && !engine.Passes(err) {
					return err
				}
				more = more && err == nil
			}
		}
		db.awaitChange(ctx, pos)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// leads reports whether this node calls the After functions.
func (db *DB) leads() bool {
	c, ok := db.eng.(engine.Clustered)
	if !ok || c.Cluster() == nil {
		return true
	}
	s := c.Cluster().State()
	return s.Leader == s.Self
}

// awaitChange waits for a change of records after pos, for at most workEvery.
func (db *DB) awaitChange(ctx context.Context, pos engine.Position) {
	ctx, cancel := context.WithTimeout(ctx, workEvery)
	defer cancel()
	if db.eng.Promises().Feed && len(db.afterHooks()) > 0 && pos > 0 && db.leads() {
		for c, err := range db.eng.Changes(ctx, pos) {
			if err != nil {
				break
			}
			if slices.ContainsFunc(c.Writes, func(w engine.Write) bool { return keys.IsLog(w.Key) }) {
				return
			}
		}
	}
	<-ctx.Done()
}

// runHook calls a function for the next change that it has not processed, and reports whether there was one.
func (db *DB) runHook(ctx context.Context, h *hook) (more bool, pos engine.Position, err error) {
	var x *Committed
	var from uint64
	var k *collection
	pos, err = db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		x = nil
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		if k = c.byName[h.collection]; k == nil {
			return nil
		}
		seq, ok, err := keys.Cursor(tx, k.Collection, h.name)
		if err != nil || !ok {
			return err
		}
		h.begun.Store(true)
		from = seq
		ch, err := keys.After(tx, k.Collection, seq)
		if err == nil && ch != nil {
			x, err = committed(tx, k, ch)
		}
		return err
	})
	if err != nil || x == nil || time.Now().Before(h.next) {
		return false, pos, err
	}
	if !db.call(ctx, h, x) {
		return false, pos, nil
	}
	pos, err = db.eng.Update(ctx, func(tx engine.Tx) error {
		seq, ok, err := keys.Cursor(tx, k.Collection, h.name)
		if err != nil || !ok || seq != from { // another node has led meanwhile
			return err
		}
		return keys.SetCursor(tx, k.Collection, h.name, x.Change.Seq)
	})
	return true, pos, err
}

// call calls the function of a hook and reports whether it succeeded. After an error it schedules the next attempt.
func (db *DB) call(ctx context.Context, h *hook, x *Committed) bool {
	if err := h.fn(ctx, x); err != nil {
		h.wait = min(max(2*h.wait, minHookPause), maxHookPause)
		h.next = time.Now().Add(h.wait)
		if ctx.Err() == nil {
			db.o.Logger.Warn("an After function failed; it will be called again", "name", h.name, "change", x.ID, "after", h.wait, "err", err)
		}
		return false
	}
	h.wait = 0
	return true
}

func committed(tx engine.Tx, c *collection, ch *keys.Change) (*Committed, error) {
	x := &Committed{ID: fmt.Sprintf("%s/%d", c.Name, ch.Seq), Change: newChange(c, ch)}
	for _, side := range []struct {
		rev uint64
		to  **Record
	}{{ch.Rev - 1, &x.Before}, {ch.Rev, &x.After}} {
		if side.rev == 0 {
			continue
		}
		d, err := keys.Past(tx, c.Collection, ch.ID, Moment{Rev: side.rev})
		if _, gone := errors.AsType[*keys.GoneError](err); gone {
			continue
		}
		if err != nil {
			return nil, err
		}
		if d != nil {
			*side.to = newRecord(c, d)
		}
	}
	return x, nil
}

// seenBy returns the number of the last change of a collection that all After functions have processed.
func (db *DB) seenBy(tx engine.Tx, c *keys.Collection) (uint64, error) {
	seen := uint64(math.MaxUint64)
	for _, h := range db.afterHooks() {
		if h.collection != c.Name {
			continue
		}
		seq, ok, err := keys.Cursor(tx, c, h.name)
		if err != nil {
			return 0, err
		}
		if ok {
			seen = min(seen, seq)
		}
	}
	return seen, nil
}
