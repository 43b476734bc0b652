package btree

import (
	"bytes"
	"iter"
)

// Value is the value of a key in a Pairs. Marked is one bit that the tree stores for its
// user and does not look at.
type Value struct {
	Bytes  []byte
	Marked bool
}

// Pairs is an ordered map from byte strings to byte strings, in the order of
// bytes.Compare. The empty key is a valid key and equals nil. The zero value is an empty
// map. Do not copy a Pairs, Clone it.
//
// Set copies its key and value. Keys and values that methods return or yield alias the
// tree. They must not be modified and are valid until the next write to the tree; those
// of a clone that is never written stay valid.
type Pairs struct{ t Bytes[heldValue] }

type heldValue struct {
	bytes  string
	marked bool
}

// NewPairs returns an empty map.
func NewPairs() *Pairs { return &Pairs{} }

// Len returns the number of keys.
func (p *Pairs) Len() int { return p.t.Len() }

// Clone returns a map with the same contents, in constant time. Afterwards both may be
// written, even concurrently, without affecting each other. Clone may run concurrently
// with reads and other Clones, but not with a write.
func (p *Pairs) Clone() *Pairs {
	c := p.t.Clone()
	return &Pairs{t: Bytes[heldValue]{root: c.root, height: c.height, n: c.n}}
}

func (h heldValue) value() Value { return Value{Bytes: []byte(h.bytes), Marked: h.marked} }

// Get returns the value of key, and whether there is one.
func (p *Pairs) Get(key []byte) (v Value, ok bool) {
	h, ok := p.t.Get(key)
	return h.value(), ok
}

// Find is Get for the tree's writer: if the next write is a Set or Delete of the same
// key, it does not search again. Find counts as a write for concurrency, but returned
// keys and values stay valid.
func (p *Pairs) Find(key []byte) (v Value, ok bool) {
	h, ok := p.t.Find(key)
	return h.value(), ok
}

// Set sets key to v, and returns the length of the value that it replaced, if any.
func (p *Pairs) Set(key []byte, v Value) (old int, replaced bool) {
	h, ok := p.t.Set(key, heldValue{string(v.Bytes), v.Marked})
	return len(h.bytes), ok
}

// Delete removes key, and returns the length of its value and whether there was one.
func (p *Pairs) Delete(key []byte) (old int, ok bool) {
	h, ok := p.t.Delete(key)
	return len(h.bytes), ok
}

// Load replaces the contents of p with the pairs of seq, whose keys must be strictly
// ascending. Otherwise it returns an *OrderError, or ErrKeyTooLong, and leaves p
// unchanged. Load copies keys and values. Clones of p keep their contents.
func (p *Pairs) Load(seq iter.Seq2[[]byte, Value]) error {
	return p.t.Load(func(yield func([]byte, heldValue) bool) {
		for k, v := range seq {
			if !yield(k, heldValue{string(v.Bytes), v.Marked}) {
				return
			}
		}
	})
}

// Ascend yields the keys k with lo <= k < hi and their values, in order. A nil lo or hi
// means no bound. The map must not be written during the loop, but a Clone of it may be.
func (p *Pairs) Ascend(lo, hi []byte) iter.Seq2[[]byte, Value] { return values(p.t.Ascend(lo, hi)) }

// Descend yields the same as Ascend, in reverse order.
func (p *Pairs) Descend(lo, hi []byte) iter.Seq2[[]byte, Value] { return values(p.t.Descend(lo, hi)) }

func values(seq iter.Seq2[[]byte, heldValue]) iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		for k, h := range seq {
			if !yield(k, h.value()) {
				return
			}
		}
	}
}

// At returns the key that has exactly i keys before it, and its value. There is none if
// i is negative or not below Len.
func (p *Pairs) At(i int) (key []byte, v Value, ok bool) {
	k, h, ok := p.t.At(i)
	return k, h.value(), ok
}

// Rank returns the number of keys below key.
func (p *Pairs) Rank(key []byte) int { return p.t.Rank(key) }

// Seek returns the first key that is not below key, and its value.
func (p *Pairs) Seek(key []byte) (found []byte, v Value, ok bool) {
	k, h, ok := p.t.Seek(key)
	return k, h.value(), ok
}

// Check verifies the invariants of the tree.
func (p *Pairs) Check() error { return p.t.Check() }

// Equal reports whether the values have the same bytes and mark.
func (v Value) Equal(w Value) bool { return v.Marked == w.Marked && bytes.Equal(v.Bytes, w.Bytes) }
