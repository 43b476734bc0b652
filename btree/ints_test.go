package btree

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// ints is a Pairs with numbers as values, so that the tests of Map run on it too. The
// number decides the length and the mark of the value: short and long ones, ones that do not
// fit in a blob, all with bytes that follow from the number.
type ints struct{ p *Pairs }

func newInts() *ints { return &ints{NewPairs()} }

// lengths are of the values, without the number itself. Most are short, so that leaves are
// full of keys.
var lengths = [...]int{0, 1, 2, 3, 5, 8, 100, 0, 16, 24, maxInline - 8, maxInline - 7, 0, 4, 40, 2 * maxInline}

func encode(v int) Value {
	n := lengths[uint(v)%uint(len(lengths))]
	b := binary.BigEndian.AppendUint64(nil, uint64(v))
	for i := range n {
		b = append(b, byte(v+i))
	}
	return Value{b, v&16 != 0}
}

// decode panics if the value is not one of encode: a record was damaged.
func decode(v Value) int {
	if len(v.Bytes) < 8 {
		panic(fmt.Sprintf("value %q is no number", v.Bytes))
	}
	n := int(binary.BigEndian.Uint64(v.Bytes))
	if !encode(n).Equal(v) || cap(v.Bytes) != len(v.Bytes) {
		panic(fmt.Sprintf("value %q (capacity %d, marked %v) is not that of %d", v.Bytes, cap(v.Bytes), v.Marked, n))
	}
	return n
}

func decodeFound(v Value, ok bool) (int, bool) {
	if !ok {
		return 0, false
	}
	return decode(v), true
}

func (t *ints) Len() int                          { return t.p.Len() }
func (t *ints) Get(key []byte) (int, bool)        { return decodeFound(t.p.Get(key)) }
func (t *ints) Find(key []byte) (int, bool)       { return decodeFound(t.p.Find(key)) }
func (t *ints) Rank(key []byte) int               { return t.p.Rank(key) }
func (t *ints) Clone() *ints                      { return &ints{t.p.Clone()} }
func (t *ints) Check() error                      { return t.p.Check() }
func (t *ints) At(i int) ([]byte, int, bool)      { return decodePair(t.p.At(i)) }
func (t *ints) Seek(k []byte) ([]byte, int, bool) { return decodePair(t.p.Seek(k)) }

func decodePair(key []byte, v Value, ok bool) ([]byte, int, bool) {
	n, ok := decodeFound(v, ok)
	return key, n, ok
}

// Set and Delete return the old number. They check the old length.
func (t *ints) Set(key []byte, v int) (old int, replaced bool) {
	old, was := t.Get(key)
	n, ok := t.p.Set(key, encode(v))
	if ok != was || was && n != len(encode(old).Bytes) {
		panic(fmt.Sprintf("Set(%q) replaced %d bytes, %v", key, n, ok))
	}
	return old, ok
}

func (t *ints) Delete(key []byte) (old int, ok bool) {
	old, was := t.Get(key)
	n, ok := t.p.Delete(key)
	if ok != was || was && n != len(encode(old).Bytes) {
		panic(fmt.Sprintf("Delete(%q) removed %d bytes, %v", key, n, ok))
	}
	return old, ok
}

func (t *ints) Ascend(lo, hi []byte) iter.Seq2[[]byte, int]  { return decodeAll(t.p.Ascend(lo, hi)) }
func (t *ints) Descend(lo, hi []byte) iter.Seq2[[]byte, int] { return decodeAll(t.p.Descend(lo, hi)) }

func decodeAll(seq iter.Seq2[[]byte, Value]) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		for k, v := range seq {
			if !yield(k, decode(v)) {
				return
			}
		}
	}
}

func (t *ints) Load(seq iter.Seq2[[]byte, int]) error { return t.p.Load(encodeAll(seq)) }

func encodeAll(seq iter.Seq2[[]byte, int]) iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		for k, v := range seq {
			if !yield(k, encode(v)) {
				return
			}
		}
	}
}
