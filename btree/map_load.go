package btree

import (
	"iter"
	"unsafe"
)

// loadMapKeys is the number of keys of a loaded leaf: dense, with a little room.
const loadMapKeys = 58

// Load replaces the contents of t with the pairs of seq, whose keys must be strictly
// ascending. Otherwise it returns an *OrderError, or ErrNotANumber, and leaves t
// unchanged. The leaves are nearly full. Clones of t keep their contents.
func (t *Map[K, V]) Load(seq iter.Seq2[K, V]) error {
	own := new(token)
	var level mapLevel[K]
	var lf *mapLeaf[K, V]
	n := 0
	for key, v := range seq {
		if key != key {
			return ErrNotANumber
		}
		if lf != nil && lf.keys[lf.n-1] >= key {
			return &OrderError{Index: n}
		}
		if lf == nil || lf.n == loadMapKeys {
			lf = newMapLeaf[K, V](own)
			level.nodes = append(level.nodes, unsafe.Pointer(lf))
			level.seps = append(level.seps, key)
		}
		lf.insert(int(lf.n), key, v)
		n++
	}
	t.root, t.height = buildMap[K, V](own, level)
	t.n = n
	t.owner.Store(own)
	return nil
}

// mapLevel is one level of the tree being built. Separator i is the first key below node
// i.
type mapLevel[K Fixed] struct {
	nodes []unsafe.Pointer
	seps  []K
}

// buildMap stacks inner levels on leaves and returns the root and its height.
func buildMap[K Fixed, V any](own *token, level mapLevel[K]) (root unsafe.Pointer, height int) {
	if len(level.nodes) == 0 {
		return nil, 0
	}
	for len(level.nodes) > 1 {
		var up mapLevel[K]
		for from := 0; from < len(level.nodes); from += loadKids {
			to := min(from+loadKids, len(level.nodes))
			in := &mapInner[K, V]{owner: own}
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
