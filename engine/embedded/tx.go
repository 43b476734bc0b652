package embedded

import (
	"iter"
	"time"
	"unsafe"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// asBytes returns val as a byte slice without copying, which must not be modified. The
// tree stores values as strings: they are one word smaller than slices, and immutable.
func asBytes(val string) []byte {
	return unsafe.Slice(unsafe.StringData(val), len(val))
}

// writeTx is the Tx of Update's functions. It has ended once x is nil.
type writeTx struct{ x *speculation }

// txState is the running transaction. Its memory is reused.
type txState struct {
	now      int64 // microseconds
	touched  []touch
	keys     []byte         // of touched
	byKey    map[string]int // index in touched; empty up to linearTouches
	written  int            // bytes passed to Put and Delete
	scanned  int            // pairs
	scanning int            // scans in progress
	saving   bool           // there is a savepoint: writes are added to steps
	steps    []undoStep     // writes since the first savepoint
}

// touch is one key that the transaction wrote, with the data to undo it.
type touch struct {
	off, len int // of the key in txState.keys
	old, new string
	had, has bool // there was a value before, there is one now
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
	clear(s.touched)
	clear(s.byKey)
	s.touched, s.keys = s.touched[:0], s.keys[:0]
	if s.saving {
		s.forget()
	}
	s.now, s.written, s.scanned, s.scanning = now, 0, 0, 0
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

// hold copies key to the end of keys. A key that the caller got from a scan
// aliases the tree, and its bytes move when the tree is written.
func (s *txState) hold(key []byte) []byte {
	s.keys = append(s.keys, key...)
	return s.keys[len(s.keys)-len(key):]
}

// drop undoes the last hold, which returned held.
func (s *txState) drop(held []byte) { s.keys = s.keys[:len(s.keys)-len(held)] }

// record records that key, the result of the last hold, changed from old to val.
func (s *txState) record(key []byte, old string, had bool, val string, has bool) {
	if i := s.find(key); i >= 0 {
		t := &s.touched[i]
		if s.saving {
			s.steps = append(s.steps, undoStep{touch: i, val: t.new, has: t.has})
		}
		t.new, t.has = val, has
		s.drop(key)
		return
	}
	t := touch{off: len(s.keys) - len(key), len: len(key), old: old, had: had, new: val, has: has}
	s.touched = append(s.touched, t)
	if s.saving {
		s.steps = append(s.steps, undoStep{touch: len(s.touched) - 1, val: old, has: had, first: true})
	}
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
	s.byKey[string(key)] = len(s.touched) - 1
}

// undo removes the transaction's writes from the tree.
func (x *speculation) undo() {
	for _, t := range x.tx.touched {
		key := x.tx.key(t)
		if t.has {
			x.bytes -= size(key, t.new)
		}
		if t.had {
			x.bytes += size(key, t.old)
			x.tree.Set(key, t.old)
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
			x.open.put(x.tx.key(t), t.new)
		case t.had:
			x.open.remove(x.tx.key(t))
		}
	}
}

// size returns the bytes that a pair counts against the memory limit.
func size(key []byte, val string) int64 { return int64(len(key) + len(val) + keyOverhead) }

// Get implements engine.Tx.
func (h *writeTx) Get(key []byte) ([]byte, bool, error) {
	if h.x == nil {
		return nil, false, errEnded()
	}
	val, ok := h.x.tree.Find(key) // a write of the same key often follows
	return asBytes(val), ok, nil
}

// Put implements engine.Tx.
func (h *writeTx) Put(key, val []byte) error {
	if err := h.mayWrite(key, len(val)); err != nil {
		return err
	}
	x := h.x
	if x.bytes+int64(len(key)+len(val)+keyOverhead) > x.limit && !x.mayGrow(key, len(val)) {
		return engine.Errorf(engine.CodeMemoryFull, "the data has reached the memory limit of %d bytes", x.limit)
	}
	kept := string(val)
	key = x.tx.hold(key)
	old, had := x.tree.Set(key, kept)
	x.bytes += size(key, kept)
	if had {
		x.bytes -= size(key, old)
	}
	x.tx.record(key, old, had, kept, true)
	return nil
}

// Delete implements engine.Tx.
func (h *writeTx) Delete(key []byte) error {
	if err := h.mayWrite(key, 0); err != nil {
		return err
	}
	x := h.x
	key = x.tx.hold(key)
	old, had := x.tree.Delete(key)
	if !had {
		x.tx.drop(key)
		return nil
	}
	x.bytes -= size(key, old)
	x.tx.record(key, old, true, "", false)
	return nil
}

// mayGrow reports whether key may get a value of val bytes: the data must not grow, or
// must stay within the memory limit.
func (x *speculation) mayGrow(key []byte, val int) bool {
	old, had := x.tree.Get(key)
	grows := int64(val - len(old))
	if !had {
		grows += int64(len(key) + keyOverhead)
	}
	return grows <= 0 || x.bytes+grows <= x.limit
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
			if !yield(engine.Pair{Key: key, Val: asBytes(val)}, nil) {
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
	p, ok := at(h.x.tree, lo, hi, i)
	return p, ok, nil
}

func errEnded() error {
	return engine.Errorf(engine.CodeInvalid, "the transaction has ended")
}

// direction is ascend or descend.
type direction func(t *btree.Bytes[string], lo, hi []byte) iter.Seq2[[]byte, string]

func ascend(t *btree.Bytes[string], lo, hi []byte) iter.Seq2[[]byte, string] {
	return t.Ascend(lo, hi)
}

func descend(t *btree.Bytes[string], lo, hi []byte) iter.Seq2[[]byte, string] {
	return t.Descend(lo, hi)
}

func count(t *btree.Bytes[string], lo, hi []byte) int {
	n := t.Len()
	if hi != nil {
		n = t.Rank(hi)
	}
	return max(0, n-t.Rank(lo))
}

func at(t *btree.Bytes[string], lo, hi []byte, i int) (engine.Pair, bool) {
	if i < 0 || i >= count(t, lo, hi) {
		return engine.Pair{}, false
	}
	key, val, ok := t.At(t.Rank(lo) + i)
	return engine.Pair{Key: key, Val: asBytes(val)}, ok
}
