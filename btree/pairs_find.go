package btree

// hint is where the last Find ended. It is valid until the next write, because
// nodes change only then.
type hint struct {
	path  path
	leaf  *leaf  // nil: there was a write since
	i     int    // index of the key in leaf, or -1 if it is missing
	key   []byte // a copy of the key, if it is missing
	stale bool   // path is of an older tree and keeps its nodes alive
}

// Find is Get for the tree's writer: if the next write is a Set or Delete of the same
// key, it starts where Find ended instead of searching for the key again. For
// concurrency Find counts as a write, although it changes nothing that other methods
// show, and keys of the tree stay valid.
func (p *Pairs) Find(key []byte) (v Value, ok bool) {
	if p.root == nil {
		return v, false
	}
	h := p.hint
	if h == nil {
		h = new(hint)
		p.hint = h
	}
	if h.leaf != nil && string(h.at()) == string(key) {
		if h.i < 0 {
			return v, false
		}
		return h.leaf.val(h.i), true
	}
	lf := p.descend(key, &h.path)
	i := lf.find(key)
	h.leaf, h.i, h.stale = lf, i, false
	if i < 0 {
		h.key = append(h.key[:0], key...)
		return v, false
	}
	return lf.val(i), true
}

// at returns the key of the hint.
func (h *hint) at() []byte {
	if h.i < 0 {
		return h.key
	}
	return h.leaf.key(h.i)
}

// hinted returns the hint if it is for key, else nil. The caller is about to write, so
// the hint is used up.
func (p *Pairs) hinted(key []byte) *hint {
	h := p.hint
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
