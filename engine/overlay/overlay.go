// Package overlay puts writes that are not stored yet over pairs that are.
//
// It knows a map of writes and the order of keys. It must not know where the pairs
// below come from, nor when the writes become theirs.
package overlay

import (
	"bytes"
	"iter"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// Merge yields the pairs of layer with lo <= key < hi over those of below, which must
// be pairs of the same range in the same order: ascending, or descending if back is
// set. A marked value of layer hides its key. A nil hi means no upper bound. layer
// must not change meanwhile.
func Merge(layer *btree.Pairs, lo, hi []byte, back bool, below iter.Seq2[engine.Pair, error]) iter.Seq2[engine.Pair, error] {
	if layer.Len() == 0 {
		return below
	}
	return func(yield func(engine.Pair, error) bool) {
		over := layer.Ascend(lo, hi)
		if back {
			over = layer.Descend(lo, hi)
		}
		next, stop := iter.Pull2(over)
		defer stop()
		k, v, has := next()
		emit := func() bool { return v.Marked || yield(engine.Pair{Key: k, Val: Bytes(v)}, nil) }
		for p, err := range below {
			if err != nil {
				yield(engine.Pair{}, err)
				return
			}
			hidden := false
			for has && !hidden {
				c := bytes.Compare(k, p.Key)
				if back {
					c = -c
				}
				if c > 0 {
					break
				}
				if !emit() {
					return
				}
				hidden = c == 0
				k, v, has = next()
			}
			if !hidden && !yield(p, nil) {
				return
			}
		}
		for ; has; k, v, has = next() {
			if !emit() {
				return
			}
		}
	}
}

// Bytes returns the bytes of a value that is not marked; they are not nil, and
// appending to them copies them.
func Bytes(v btree.Value) []byte {
	if v.Bytes == nil {
		return []byte{}
	}
	return v.Bytes[:len(v.Bytes):len(v.Bytes)]
}
