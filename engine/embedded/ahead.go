package embedded

import "github.com/skerrydb/skerry/btree"

// This file looks up keys that are about to be used. That brings the nodes of the tree
// that have them into the processor's caches, with the waits for memory in parallel; one
// key after the other they are in sequence. It pays if the tree is larger than the caches.

const (
	aheadKeys = 64      // looked up together
	aheadFrom = 1 << 17 // pairs from which on it pays
)

// lookAhead looks up keys. The values are not read, so nothing is read from files.
func lookAhead(tree *btree.Pairs, keys [][]byte) {
	var vals [aheadKeys]btree.Value
	for len(keys) > 0 {
		n := min(len(keys), aheadKeys)
		tree.GetMany(keys[:n], vals[:])
		keys = keys[n:]
	}
}

// Expects implements engine.Expecter.
func (h *writeTx) Expects() bool { return h.x != nil && h.x.tree.Len() >= h.x.ahead }

// Expect implements engine.Expecter.
func (h *writeTx) Expect(keys [][]byte) {
	if h.Expects() {
		lookAhead(h.x.tree, keys)
	}
}

// Expects implements engine.Expecter.
func (v *viewTx) Expects() bool { return v.snap != nil && v.snap.tree.Len() >= v.db.opts.aheadFrom }

// Expect implements engine.Expecter.
func (v *viewTx) Expect(keys [][]byte) {
	if v.Expects() {
		lookAhead(v.snap.tree, keys)
	}
}
