package btree

import (
	"bytes"
	"fmt"
	"unsafe"
)

// Check verifies every invariant of the tree (DESIGN.md lists them) and returns
// the first violation. It reads the whole tree and is for tests and tools.
func (t *Bytes[V]) Check() error {
	if t.root == nil {
		if t.n != 0 || t.height != 0 {
			return fmt.Errorf("btree: no root, but %d keys, height %d", t.n, t.height)
		}
		return nil
	}
	c := bytesChecker[V]{own: t.owner.Load()}
	n, err := c.node(t.root, t.height, nil, nil)
	if err != nil {
		return fmt.Errorf("btree: after %d keys: %w", c.seen, err)
	}
	if n != t.n || n == 0 {
		return fmt.Errorf("btree: %d keys in the leaves, Len is %d", n, t.n)
	}
	if t.height > 0 && (*bytesInner[V])(t.root).n < 2 {
		return fmt.Errorf("btree: inner root with a single kid")
	}
	return nil
}

type bytesChecker[V any] struct {
	own  *token
	prev []byte
	seen int
}

// node checks the subtree of a node, whose keys must be in lo <= k < hi, and returns the
// number of keys.
func (c *bytesChecker[V]) node(node unsafe.Pointer, height int, lo, hi []byte) (int, error) {
	if node == nil {
		return 0, fmt.Errorf("kid is missing at height %d", height)
	}
	if height == 0 {
		lf := (*bytesLeaf[V])(node)
		return int(lf.n), c.leaf(lf, lo, hi)
	}
	in := (*bytesInner[V])(node)
	if err := c.inner(in); err != nil {
		return 0, err
	}
	total := 0
	for i := range in.n {
		l, h := lo, hi
		if i > 0 {
			l = in.seps.at(i - 1)
		}
		if i+1 < in.n {
			h = in.seps.at(i)
		}
		if owner := nodeOwner[V](in.kids[i], height-1); c.own != nil && owner == c.own && in.owner != c.own {
			return 0, fmt.Errorf("owned node below one that is not, height %d", height)
		}
		n, err := c.node(in.kids[i], height-1, l, h)
		if err != nil {
			return 0, err
		}
		total += n
	}
	if total != in.count {
		return 0, fmt.Errorf("inner node counts %d keys, has %d", in.count, total)
	}
	return total, nil
}

func nodeOwner[V any](node unsafe.Pointer, height int) *token {
	if height == 0 {
		return (*bytesLeaf[V])(node).owner
	}
	return (*bytesInner[V])(node).owner
}

// inner checks the separators and unused slots of an inner node.
func (c *bytesChecker[V]) inner(in *bytesInner[V]) error {
	n := in.n
	if n < 1 || n > innerKids {
		return fmt.Errorf("inner node with %d kids", n)
	}
	for i := range innerKids {
		switch {
		case i >= n && in.kids[i] != nil:
			return fmt.Errorf("kid %d of %d", i, n)
		case i >= n-1 && in.seps.heads[i] != noHead:
			return fmt.Errorf("head of separator %d of %d", i, n-1)
		case i >= n-1:
			continue
		}
		s := in.seps.at(i)
		if i > 0 && bytes.Compare(in.seps.at(i-1), s) >= 0 {
			return fmt.Errorf("separator %q is not above %q", s, in.seps.at(i-1))
		}
		if !bytes.HasPrefix(s, in.seps.blob[:in.seps.plen]) || head(s, in.seps.plen) != in.seps.heads[i] {
			return fmt.Errorf("prefix of %d bytes or head wrong for separator %q", in.seps.plen, s)
		}
	}
	if got := int(in.seps.offs[n-1]); got != len(in.seps.blob) {
		return fmt.Errorf("separators of %d bytes in %d", got, len(in.seps.blob))
	}
	return nil
}

// leaf checks a leaf whose keys must be in lo <= k < hi.
func (c *bytesChecker[V]) leaf(lf *bytesLeaf[V], lo, hi []byte) error {
	n := int(lf.n)
	if n < 1 || n > leafKeys || lf.offs[0] != 0 || int(lf.offs[n]) != len(lf.blob) || len(lf.blob) > maxBytesBlob {
		return fmt.Errorf("leaf of %d keys, %d bytes, offsets to %d", n, len(lf.blob), lf.offs[n])
	}
	if !lf.shared && cap(lf.blob) > 8*len(lf.blob)+1024 {
		return fmt.Errorf("leaf holds %d bytes for %d", cap(lf.blob), len(lf.blob))
	}
	for i := range leafKeys {
		if i >= n {
			if lf.heads[i] != noHead {
				return fmt.Errorf("head of key %d of %d", i, n)
			}
			continue
		}
		if lf.offs[i] > lf.offs[i+1] {
			return fmt.Errorf("offsets of key %d descend", i)
		}
		k := lf.key(i)
		if c.seen > 0 && bytes.Compare(c.prev, k) >= 0 {
			return fmt.Errorf("key %q is not above %q", k, c.prev)
		}
		if bytes.Compare(k, lo) < 0 || hi != nil && bytes.Compare(k, hi) >= 0 {
			return fmt.Errorf("key %q is outside of %q to %q", k, lo, hi)
		}
		if !bytes.HasPrefix(k, lf.blob[:lf.plen]) || head(k, int(lf.plen)) != lf.heads[i] {
			return fmt.Errorf("prefix of %d bytes or head wrong for key %q", lf.plen, k)
		}
		c.prev = k
		c.seen++
	}
	return nil
}
