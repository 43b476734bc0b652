package btree

import (
	"bytes"
	"iter"
	"unsafe"
)

// Load replaces the contents of t with the pairs of seq, whose keys must be strictly
// ascending. Otherwise it returns an *OrderError, or ErrKeyTooLong, and leaves t
// unchanged. The leaves are nearly full. Load copies the keys. Clones of t keep their
// contents.
func (t *Bytes[V]) Load(seq iter.Seq2[[]byte, V]) error {
	b := bytesLoader[V]{own: new(token)}
	for key, v := range seq {
		if err := b.add(key, v); err != nil {
			return err
		}
	}
	b.closeLeaf()
	t.root, t.height = b.build()
	t.n = b.n
	t.owner.Store(b.own)
	t.hint = nil
	return nil
}

// bytesLoader builds a tree from the leaves up.
type bytesLoader[V any] struct {
	own   *token
	leaf  *bytesLeaf[V] // being filled; nil: none
	blob  []byte        // its keys
	n     int
	prev  []byte // the last key of the leaf before
	level loadLevel
}

func (b *bytesLoader[V]) add(key []byte, v V) error {
	if len(key) > MaxKeyBytes {
		return ErrKeyTooLong
	}
	if b.n > 0 && bytes.Compare(b.last(), key) >= 0 {
		return &OrderError{Index: b.n}
	}
	if lf := b.leaf; lf != nil && (lf.n == loadLeaf || len(b.blob)+len(key) > maxBytesBlob) {
		b.closeLeaf()
	}
	if b.leaf == nil {
		b.leaf = &bytesLeaf[V]{owner: b.own}
		b.blob = b.blob[:0]
		b.level.nodes = append(b.level.nodes, unsafe.Pointer(b.leaf))
		b.level.seps = append(b.level.seps, b.separator(key))
	}
	lf := b.leaf
	b.blob = append(b.blob, key...)
	lf.vals[lf.n] = v
	lf.n++
	lf.offs[lf.n] = uint16(len(b.blob))
	b.n++
	return nil
}

// last returns the last key that was added.
func (b *bytesLoader[V]) last() []byte {
	if lf := b.leaf; lf != nil {
		return b.blob[lf.offs[lf.n-1]:]
	}
	return b.prev
}

// separator returns the separator between key, the first of its leaf, and the leaf before.
func (b *bytesLoader[V]) separator(key []byte) []byte {
	if b.n == 0 {
		return nil
	}
	return bytes.Clone(separator(b.prev, key))
}

// closeLeaf finishes the leaf being filled.
func (b *bytesLoader[V]) closeLeaf() {
	lf := b.leaf
	if lf == nil {
		return
	}
	lf.blob = append(newBytesBlob(len(b.blob)), b.blob...)
	lf.setPrefix()
	b.prev = lf.last()
	b.leaf = nil
}

// build stacks inner levels on the leaves and returns the root and its height.
func (b *bytesLoader[V]) build() (root unsafe.Pointer, height int) {
	level := b.level
	if len(level.nodes) == 0 {
		return nil, 0
	}
	for len(level.nodes) > 1 {
		var up loadLevel
		for from := 0; from < len(level.nodes); from += loadKids {
			to := min(from+loadKids, len(level.nodes))
			in := newBytesInner[V](b.own)
			in.n = copy(in.kids[:], level.nodes[from:to])
			in.setSeps(level.seps[from+1 : to])
			in.count = in.sum(0, in.n, height)
			up.nodes = append(up.nodes, unsafe.Pointer(in))
			up.seps = append(up.seps, level.seps[from])
		}
		level = up
		height++
	}
	return level.nodes[0], height
}
