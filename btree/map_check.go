package btree

import (
	"fmt"
	"unsafe"
)

// Check verifies every invariant of the tree (DESIGN.md lists them) and returns
// the first violation. It reads the whole tree and is for tests and tools.
func (t *Map[K, V]) Check() error {
	if t.root == nil {
		if t.n != 0 || t.height != 0 {
			return fmt.Errorf("btree: no root, but %d keys, height %d", t.n, t.height)
		}
		return nil
	}
	c := mapChecker[K, V]{own: t.owner.Load(), top: highest[K]()}
	n, err := c.node(t.root, t.height, mapSpan[K]{})
	if err != nil {
		return fmt.Errorf("btree: after %d keys: %w", c.seen, err)
	}
	if n != t.n || n == 0 {
		return fmt.Errorf("btree: %d keys in the leaves, Len is %d", n, t.n)
	}
	if t.height > 0 && (*mapInner[K, V])(t.root).n < 2 {
		return fmt.Errorf("btree: inner root with a single kid")
	}
	return nil
}

type mapChecker[K Fixed, V any] struct {
	own  *token
	top  K
	prev K
	seen int
}

// node checks the subtree of a node, whose keys must be in s, and returns the number of
// keys.
func (c *mapChecker[K, V]) node(node unsafe.Pointer, height int, s mapSpan[K]) (int, error) {
	if node == nil {
		return 0, fmt.Errorf("kid is missing at height %d", height)
	}
	if height == 0 {
		lf := (*mapLeaf[K, V])(node)
		return int(lf.n), c.leaf(lf, s)
	}
	in := (*mapInner[K, V])(node)
	if err := c.inner(in); err != nil {
		return 0, err
	}
	total := 0
	for i := range in.n {
		kid := s
		if i > 0 {
			kid.lo, kid.hasLo = in.seps[i-1], true
		}
		if i+1 < in.n {
			kid.hi, kid.hasHi = in.seps[i], true
		}
		if owner := mapOwner[K, V](in.kids[i], height-1); c.own != nil && owner == c.own && in.owner != c.own {
			return 0, fmt.Errorf("owned node below one that is not, height %d", height)
		}
		n, err := c.node(in.kids[i], height-1, kid)
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

func mapOwner[K Fixed, V any](node unsafe.Pointer, height int) *token {
	if height == 0 {
		return (*mapLeaf[K, V])(node).owner
	}
	return (*mapInner[K, V])(node).owner
}

// inner checks the separators and unused slots of an inner node.
func (c *mapChecker[K, V]) inner(in *mapInner[K, V]) error {
	n := in.n
	if n < 1 || n > innerKids {
		return fmt.Errorf("inner node with %d kids", n)
	}
	for i := range innerKids {
		switch {
		case i >= n && in.kids[i] != nil:
			return fmt.Errorf("kid %d of %d", i, n)
		case i >= n-1 && in.seps[i] != c.top:
			return fmt.Errorf("separator %d of %d", i, n-1)
		case i > 0 && i < n-1 && in.seps[i-1] >= in.seps[i]:
			return fmt.Errorf("separator %v is not above %v", in.seps[i], in.seps[i-1])
		}
	}
	return nil
}

// leaf checks a leaf whose keys must be in s.
func (c *mapChecker[K, V]) leaf(lf *mapLeaf[K, V], s mapSpan[K]) error {
	n := int(lf.n)
	if n < 1 || n > mapKeys {
		return fmt.Errorf("leaf of %d keys", n)
	}
	for i, k := range lf.keys {
		switch {
		case i >= n && k != c.top:
			return fmt.Errorf("key %d of %d", i, n)
		case i >= n:
			continue
		case c.seen > 0 && c.prev >= k:
			return fmt.Errorf("key %v is not above %v", k, c.prev)
		case s.hasLo && k < s.lo || s.hasHi && k >= s.hi:
			return fmt.Errorf("key %v is outside of %v to %v", k, s.lo, s.hi)
		}
		c.prev = k
		c.seen++
	}
	return nil
}
