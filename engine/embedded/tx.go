package embedded

import (
	"iter"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// writeTx is the Tx of Update's functions. It has ended once x is nil.
type writeTx struct{ x *speculation }

// txState is the running transaction. Its memory is reused.
type txState struct {
	now      int64 // microseconds
	touched  []touch
	keys     []byte         // of touched
	vals     []byte         // of touched and steps; the tree may overwrite its own
	byKey    map[string]int // index in touched; empty up to linearTouches
	written  int            // bytes passed to Put and Delete
	scanned  int            // pairs
	scanning int            // scans in progress
	fencing  bool           // it has written engine.FenceKey
	saving   bool           // there is a savepoint: writes are added to steps
	steps    []undoStep     // writes since the first savepoint
}

// touch is one key that the transaction wrote, with the data to undo it.
type touch struct {
	off, len int // of the key in txState.keys
	old, new saved
	had, has bool // there was a value before, there is one now
}

// saved is a copy of a value, in txState.vals.
type saved struct {
	off, len int
	marked   bool
}

// linearTouches is up to how many touched keys are searched linearly.
const linearTouches = 8

// keepTouches is the size up to which byKey is reused: the time to clear a map grows
// with its capacity, however few entries it has.
const keepTouches = 4096

func (s *txState) begin(now int64) {
	if cap(s.keys) > batchBytes || len(s.touched) > keepTouches {
		s.keys, s.touched, s.byKey = nil, nil, nil
	}
	if cap(s.vals) > batchBytes {
		s.vals = nil
	}
	clear(s.byKey)
	s.touched, s.keys, s.vals = s.touched[:0], s.keys[:0], s.vals[:0]
	if s.saving {
		s.forget()
	}
	s.now, s.written, s.scanned, s.scanning, s.fencing = now, 0, 0, 0, false
}

func (s *txState) key(t touch) []byte { return s.keys[t.off : t.off+t.len] }

// find returns the index of key's touch, or -1.
func (s *txState) find(key []byte) int {
	if len(s.touched) > linearTouches {
		if i, ok := s.byKey[string(key)]; ok {
			return i
		}
		return -1
	}
	for i := range s.touched {
		if string(s.key(s.touched[i])) == string(key) {
			return i
		}
	}
	return -1
}

// value returns a saved value. It is valid until the next save.
func (s *txState) value(h saved) btree.Value {
	return btree.Value{Bytes: s.vals[h.off : h.off+h.len : h.off+h.len], Marked: h.marked}
}

// save copies v to the end of vals.
func (s *txState) save(v btree.Value) saved {
	h := saved{len(s.vals), len(v.Bytes), v.Marked}
	s.vals = append(s.vals, v.Bytes...)
	return h
}

// record records that key is about to change from old to val. It returns copies of key
// and val, which the tree's next write does not change: the caller may have got key and
// val from a read of the tree. The copies are valid until the next record.
func (s *txState) record(key []byte, old btree.Value, had bool, val btree.Value, has bool) ([]byte, btree.Value) {
	before := len(s.vals)
	now := s.save(val)
	if i := s.find(key); i >= 0 {
		t := &s.touched[i]
		if s.saving {
			s.steps = append(s.steps, undoStep{touch: i, held: before, val: t.new, has: t.has})
		}
		t.new, t.has = now, has
		return s.key(*t), s.value(now)
	}
	t := touch{off: len(s.keys), len: len(key), old: s.save(old), had: had, new: now, has: has}
	s.keys = append(s.keys, key...)
	s.touched = append(s.touched, t)
	s.index(t)
	if s.saving {
		s.steps = append(s.steps, undoStep{touch: len(s.touched) - 1, held: before, val: t.old, has: had, first: true})
	}
	return s.key(t), s.value(now)
}

// index makes find find t, which is the last of touched.
func (s *txState) index(t touch) {
	if len(s.touched) <= linearTouches {
		return
	}
	if s.byKey == nil {
		s.byKey = make(map[string]int)
	}
	if len(s.byKey) == 0 {
		for i, t := range s.touched {
			s.byKey[string(s.key(t))] = i
		}
	}
	s.byKey[string(s.key(t))] = len(s.touched) - 1
}

// undo removes the transaction's writes from the tree.
func (x *speculation) undo() {
	for _, t := range x.tx.touched {
		key := x.tx.key(t)
		if t.has {
			x.bytes -= size(key, t.new.len)
		}
		if t.had {
			x.bytes += size(key, t.old.len)
			x.tree.Set(key, x.tx.value(t.old))
		} else {
			x.tree.Delete(key)
		}
	}
}

// keep adds the transaction's effects, if there are any, to the open batch.
func (x *speculation) keep() {
	n := 0
	for _, t := range x.tx.touched {
		if t.had || t.has {
			n++
		}
	}
	if n == 0 {
		return
	}
	x.clock = x.tx.now
	x.open.add(x.clock, n)
	for _, t := range x.tx.touched {
		switch {
		case t.has:
			x.open.replaced(x.tx.value(t.old), t.had)
			x.open.put(x.tx.key(t), x.tx.value(t.new).Bytes)
		case t.had:
			x.open.replaced(x.tx.value(t.old), true)
			x.open.remove(x.tx.key(t))
		}
	}
}

// size returns the bytes of a pair in the tree, without what the tree needs beside it. Nodes
// with the same pairs count the same; the memory that their trees take can differ.
func size(key []byte, val int) int64 { return int64(len(key) + val) }

// Get implements engine.Tx.
func (h *writeTx) Get(key []byte) ([]byte, bool, error) {
	if h.x == nil {
		return nil, false, errEnded()
	}
	val, ok := h.x.tree.Find(key) // a write of the same key often follows
	return h.x.vals.found(key, val, ok)
}

// Put implements engine.Tx.
func (h *writeTx) Put(key, val []byte) error {
	if err := h.mayWrite(key, len(val)); err != nil {
		return err
	}
	x := h.x
	if err := x.pressed.Load(); err != nil {
		return err
	}
	old, had := x.tree.Find(key)
	grows := size(key, len(val))
	if had {
		grows -= size(key, len(old.Bytes))
	}
	if !x.fits(grows, had) {
		return engine.Errorf(engine.CodeMemoryFull, "the data has reached the memory limit of %d bytes", x.limit)
	}
	x.bytes += grows
	x.tree.Set(x.tx.record(key, old, had, btree.Value{Bytes: val}, true))
	return nil
}

// Delete implements engine.Tx.
func (h *writeTx) Delete(key []byte) error {
	if err := h.mayWrite(key, 0); err != nil {
		return err
	}
	x := h.x
	old, had := x.tree.Find(key)
	if !had {
		return nil
	}
	x.bytes -= size(key, len(old.Bytes))
	key, _ = x.tx.record(key, old, true, btree.Value{}, false)
	x.tree.Delete(key)
	return nil
}

// fits reports whether the memory limit permits a write that grows the data by so many
// bytes, with a new key or not. A write that does not grow the data always passes.
func (x *speculation) fits(grows int64, had bool) bool {
	if !had {
		grows += keyOverhead
	}
	return grows <= 0 || x.tree.Memory()+grows <= x.limit
}

// mayWrite checks one write and counts it.
func (h *writeTx) mayWrite(key []byte, val int) error {
	switch {
	case h.x == nil:
		return errEnded()
	case len(key) == 0:
		return engine.ErrKeyEmpty
	case len(key) > MaxKeyBytes:
		return engine.Errorf(engine.CodeKeyTooLarge, "a key of %d bytes is over the limit of %d", len(key), MaxKeyBytes)
	case val > MaxValBytes:
		return engine.Errorf(engine.CodeValueTooLarge, "a value of %d bytes is over the limit of %d", val, MaxValBytes)
	case h.x.tx.written+len(key)+val > MaxTxBytes:
		return engine.Errorf(engine.CodeTxTooLarge, "the transaction writes more than the limit of %d bytes", MaxTxBytes)
	case h.x.tx.scanning > 0:
		return engine.Errorf(engine.CodeInvalid, "a transaction must not write while it scans")
	}
	if err := h.x.passFence(key); err != nil {
		return err
	}
	h.x.tx.written += len(key) + val
	return nil
}

// Scan implements engine.Tx.
func (h *writeTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] { return h.scan(lo, hi, ascend) }

// ScanBack implements engine.Tx.
func (h *writeTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return h.scan(lo, hi, descend)
}

func (h *writeTx) scan(lo, hi []byte, dir direction) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		if h.x == nil {
			yield(engine.Pair{}, errEnded())
			return
		}
		s := &h.x.tx
		s.scanning++
		defer func() { s.scanning-- }()
		for key, val := range dir(h.x.tree, lo, hi) {
			if s.scanned++; s.scanned > MaxTxScan {
				yield(engine.Pair{}, engine.Errorf(engine.CodeTxTooLarge, "the transaction scans more than the limit of %d pairs", MaxTxScan))
				return
			}
			if p, err := h.x.vals.pair(key, val); !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Now implements engine.Tx.
func (h *writeTx) Now() time.Time {
	if h.x == nil {
		return time.Time{}
	}
	return time.UnixMicro(h.x.tx.now)
}

// AsOf implements engine.Tx.
func (h *writeTx) AsOf() time.Time { return h.Now() }

// Count implements engine.Ranker.
func (h *writeTx) Count(lo, hi []byte) (int, error) {
	if h.x == nil {
		return 0, errEnded()
	}
	return count(h.x.tree, lo, hi), nil
}

// At implements engine.Ranker.
func (h *writeTx) At(lo, hi []byte, i int) (engine.Pair, bool, error) {
	if h.x == nil {
		return engine.Pair{}, false, errEnded()
	}
	return h.x.vals.at(h.x.tree, lo, hi, i)
}

func errEnded() error {
	return engine.Errorf(engine.CodeInvalid, "the transaction has ended")
}

// direction is ascend or descend.
type direction func(t *btree.Pairs, lo, hi []byte) iter.Seq2[[]byte, btree.Value]

func ascend(t *btree.Pairs, lo, hi []byte) iter.Seq2[[]byte, btree.Value] {
	return t.Ascend(lo, hi)
}

func descend(t *btree.Pairs, lo, hi []byte) iter.Seq2[[]byte, btree.Value] {
	return t.Descend(lo, hi)
}

func count(t *btree.Pairs, lo, hi []byte) int {
	n := t.Len()
	if hi != nil {
		n = t.Rank(hi)
	}
	return max(0, n-t.Rank(lo))
}
