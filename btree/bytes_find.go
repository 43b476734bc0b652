package btree

// bytesHint is where the last Find ended. It holds until the next write: nodes
// change only then.
type bytesHint[V any] struct {
	path  bytesPath[V]
	leaf  *bytesLeaf[V] // nil: there was a write since
	i     int           // of the key in leaf, -1 if it is not there
	key   []byte        // a copy, if it is not there
	stale bool          // path is of an older tree and keeps its nodes alive
}

// Find is Get for the tree's writer: if the next write is a Set or Delete of the
// same key, it begins where Find ended instead of looking for the key again. For
// the rules of concurrency Find is a write, although it changes nothing that other
// methods show, and keys of the tree stay valid.
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

// at is the key that the hint is about.
func (h *bytesHint[V]) at() []byte {
	if h.i < 0 {
		return h.key
	}
	return h.leaf.key(h.i)
}

// hinted returns the hint if it is about key, else nil. A write is about to come,
// so that it is the last time.
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
