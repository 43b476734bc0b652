package btree

// bytesHint is where the last Find ended. It is valid until the next write, because
// nodes change only then.
type bytesHint[V any] struct {
	path  bytesPath[V]
	leaf  *bytesLeaf[V] // nil: there was a write since
	i     int           // index of the key in leaf, or -1 if it is missing
	key   []byte        // a copy of the key, if it is missing
	stale bool          // path is of an older tree and keeps its nodes alive
}

// Find is Get for the tree's writer: if the next write is a Set or Delete of the same
// key, it starts where Find ended instead of searching for the key again. For
// concurrency Find counts as a write, although it changes nothing that other methods
// show, and keys of the tree stay valid.
func (t *Bytes[V]) Find(key []byte) (v V, ok bool) {
	if t.root == nil {
		return v, false
	}
	h := t.hint
	if h == nil {
		h = new(bytesHint[V])
		t.hint = h
	}
	if h.leaf != nil && string(h.at()) == string(key) {
		if h.i < 0 {
			return v, false
		}
		return h.leaf.vals[h.i], true
	}
	lf := t.descend(key, &h.path)
	i := lf.find(key)
	h.leaf, h.i, h.stale = lf, i, false
	if i < 0 {
		h.key = append(h.key[:0], key...)
		return v, false
	}
	return lf.vals[i], true
}

// at returns the key of the hint.
func (h *bytesHint[V]) at() []byte {
	if h.i < 0 {
		return h.key
	}
	return h.leaf.key(h.i)
}

// hinted returns the hint if it is for key, else nil. The caller is about to write, so
// the hint is used up.
func (t *Bytes[V]) hinted(key []byte) *bytesHint[V] {
	h := t.hint
	if h == nil || h.leaf == nil {
		if h != nil && h.stale {
			h.stale = false
			clear(h.path[:])
		}
		return nil
	}
	if h.stale = true; string(h.at()) == string(key) {
		return h
	}
	h.leaf = nil
	return nil
}
