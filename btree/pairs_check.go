package btree

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"
)

// Check verifies every invariant of the tree (DESIGN.md lists them) and returns the first
// violation. It reads the whole tree and is for tests and tools.
func (p *Pairs) Check() error {
	if p.root == nil {
		if p.n != 0 || p.height != 0 || p.stats != (Stats{}) {
			return fmt.Errorf("btree: no root, but %d keys, height %d, %+v", p.n, p.height, p.stats)
		}
		return nil
	}
	c := checker{own: p.owner.Load()}
	n, err := c.node(p.root, p.height, nil, nil)
	if err != nil {
		return fmt.Errorf("btree: after %d keys: %w", c.seen, err)
	}
	if n != p.n || n == 0 {
		return fmt.Errorf("btree: %d keys in the leaves, Len is %d", n, p.n)
	}
	if p.height > 0 && (*inner)(p.root).n < 2 {
		return fmt.Errorf("btree: inner root with a single kid")
	}
	if c.stats != p.stats {
		return fmt.Errorf("btree: the nodes have %+v, Stats are %+v", c.stats, p.stats)
	}
	return nil
}

type checker struct {
	own   *token
	prev  []byte
	seen  int
	stats Stats
}

// node checks the subtree of a node, whose keys must be in lo <= k < hi, and returns the
// number of keys.
func (c *checker) node(node unsafe.Pointer, height int, lo, hi []byte) (int, error) {
	if node == nil {
		return 0, fmt.Errorf("kid is missing at height %d", height)
	}
	if height == 0 {
		lf := (*leaf)(node)
		if err := c.blob(lf); err != nil {
			return 0, err
		}
		return int(lf.n), c.leaf(lf, lo, hi)
	}
	in := (*inner)(node)
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
		if owner := ownerOf(in.kids[i], height-1); c.own != nil && owner == c.own && in.owner != c.own {
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

func ownerOf(node unsafe.Pointer, height int) *token {
	if height == 0 {
		return (*leaf)(node).owner
	}
	return (*inner)(node).owner
}

// inner checks the separators and unused slots of an inner node.
func (c *checker) inner(in *inner) error {
	n := in.n
	if n < 1 || n > innerKids {
		return fmt.Errorf("inner node with %d kids", n)
	}
	c.stats.addInner(in, 1)
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
		if !bytes.HasPrefix(s, in.seps.blob[:in.seps.plen]) || Head(s, in.seps.plen) != in.seps.heads[i] {
			return fmt.Errorf("prefix of %d bytes or head wrong for separator %q", in.seps.plen, s)
		}
	}
	if got := int(in.seps.offs[n-1]); got != len(in.seps.blob) {
		return fmt.Errorf("separators of %d bytes in %d", got, len(in.seps.blob))
	}
	return nil
}

// leaf checks the keys of a leaf, which must be in lo <= k < hi.
func (c *checker) leaf(lf *leaf, lo, hi []byte) error {
	n := int(lf.n)
	for i := range leafKeys {
		if i >= n {
			if lf.heads[i] != noHead {
				return fmt.Errorf("head of key %d of %d", i, n)
			}
			continue
		}
		k := lf.key(i)
		if c.seen > 0 && bytes.Compare(c.prev, k) >= 0 {
			return fmt.Errorf("key %q is not above %q", k, c.prev)
		}
		if bytes.Compare(k, lo) < 0 || hi != nil && bytes.Compare(k, hi) >= 0 {
			return fmt.Errorf("key %q is outside of %q to %q", k, lo, hi)
		}
		if !bytes.HasPrefix(k, lf.key(0)[:lf.plen]) || Head(k, int(lf.plen)) != lf.heads[i] {
			return fmt.Errorf("prefix of %d bytes or head wrong for key %q", lf.plen, k)
		}
		c.prev = k
		c.seen++
	}
	return nil
}

// blob checks the records of a leaf, without a look at their keys.
func (c *checker) blob(lf *leaf) error {
	n, claimed := int(lf.n), atomic.LoadUint32(lf.claimWord())
	if n < 1 || n > leafKeys {
		return fmt.Errorf("leaf of %d keys", n)
	}
	if lf.fence < blobHead || lf.fence > lf.used || lf.used > claimed || int(claimed) > len(lf.blob) {
		return fmt.Errorf("blob of %d bytes: fence at %d, used %d, claimed %d", len(lf.blob), lf.fence, lf.used, claimed)
	}
	if len(lf.blob) > maxBlob || len(lf.blob) != cap(lf.blob) || len(lf.blob) > maxBlobFor(lf.live) {
		return fmt.Errorf("blob of %d bytes, allocated %d, for %d", len(lf.blob), cap(lf.blob), lf.live)
	}
	offs := slices.Clone(lf.offs[:n])
	slices.Sort(offs)
	end, live := blobHead, 0
	for _, o := range offs {
		at := int(o) * recordUnit
		if at < end {
			return fmt.Errorf("record at %d begins before %d, the end of the one before", at, end)
		}
		if at+recordHead > int(lf.used) {
			return fmt.Errorf("record at %d is behind the end at %d", at, lf.used)
		}
		k, v := int(binary.LittleEndian.Uint16(lf.blob[at:])&^markBit), int(binary.LittleEndian.Uint16(lf.blob[at+2:]))
		size := recordBytes(k, v, v != isOutside)
		if end = at + size; end > int(lf.used) || k > MaxKeyBytes || v > maxInline && v != isOutside {
			return fmt.Errorf("record at %d has %d bytes, the key %d, the value %d; the leaf ends at %d", at, size, k, v, lf.used)
		}
		live += size
	}
	if live != int(lf.live) || live > maxLive+2*leafKeys {
		return fmt.Errorf("records of %d bytes, counted %d", live, lf.live)
	}
	c.stats.add(lf, 1)
	return c.outside(lf)
}

// outside checks that every outside value of a leaf belongs to one record.
func (c *checker) outside(lf *leaf) error {
	var seen [leafKeys + 2]bool
	bytes := 0
	for i := range int(lf.n) {
		b := lf.blob[int(lf.offs[i])*recordUnit:]
		if binary.LittleEndian.Uint16(b[2:]) != isOutside {
			continue
		}
		at := int(binary.LittleEndian.Uint16(b[recordHead+int(binary.LittleEndian.Uint16(b)&^markBit):]))
		if lf.out == nil || at >= len(lf.out.vals) || lf.out.vals[at] == nil || seen[at] {
			return fmt.Errorf("key %q has no outside value %d of its own", lf.key(i), at)
		}
		seen[at] = true
		bytes += cap(lf.out.vals[at])
	}
	if lf.out == nil {
		return nil
	}
	for i, v := range lf.out.vals {
		if v != nil && !seen[i] {
			return fmt.Errorf("outside value %d has no key", i)
		}
	}
	if bytes != lf.out.bytes || bytes == 0 {
		return fmt.Errorf("outside values of %d bytes, counted %d", bytes, lf.out.bytes)
	}
	return nil
}
