package btree

import (
	"bytes"
	"iter"
	"unsafe"
)

const (
	loadLeaf    = leafKeys * 15 / 16 // keys of a loaded leaf at most: the first inserts need not split it
	loadLeafMin = leafKeys * 13 / 16 // and at least; between the two what wastes the least memory
	loadKids    = 30                 // kids of a loaded inner node
)

// Load replaces the contents of p with the pairs of seq, whose keys must be strictly
// ascending. Otherwise it returns an *OrderError, or ErrKeyTooLong, and leaves p
// unchanged. The leaves are nearly full. Load copies keys and values. Clones of p keep
// their contents.
func (p *Pairs) Load(seq iter.Seq2[[]byte, Value]) error {
	b := loader{own: new(token)}
	for key, v := range seq {
		if err := b.add(key, v); err != nil {
			return err
		}
	}
	if b.n == 0 {
		p.root, p.height, p.n, p.stats, p.hint = nil, 0, 0, Stats{}, nil
		return nil
	}
	for b.next.n > 0 {
		b.closeLeaf()
	}
	next := Pairs{n: b.n, stats: b.stats}
	next.owner.Store(b.own)
	next.build(b.level)
	p.root, p.height, p.n, p.stats, p.hint = next.root, next.height, next.n, next.stats, nil
	p.owner.Store(b.own)
	return nil
}

// loader builds the leaves of a tree.
type loader struct {
	own         *token
	next, spare *leaf // what the next leaf will have, and an empty one; their blobs are large
	n           int
	prev        []byte // the last key of the leaf before
	stats       Stats
	level       loadLevel
}

// loadLevel is one level of the tree being built. Separator i is between nodes i-1 and i;
// the first is nil.
type loadLevel struct {
	nodes []unsafe.Pointer
	seps  [][]byte
}

func (b *loader) add(key []byte, v Value) error {
	switch {
	case len(key) > MaxKeyBytes:
		return ErrKeyTooLong
	case b.n == 0:
		b.next, b.spare = newLeaf(b.own, maxBlob-blobHead, 0), newLeaf(b.own, maxBlob-blobHead, 0)
	case bytes.Compare(b.last(), key) >= 0:
		return &OrderError{Index: b.n}
	}
	for b.next.n == loadLeaf || !b.next.fits(len(key), len(v.Bytes)) { // closeLeaf may leave long keys
		b.closeLeaf()
	}
	lf := b.next
	inline, size := lf.recordSize(len(key), len(v.Bytes))
	lf.offs[lf.n] = lf.write(int(lf.used), size, key, v, inline) // there is room, and nobody else claims it
	lf.n++
	b.n++
	return nil
}

// last returns the last key that was added.
func (b *loader) last() []byte {
	if b.next.n > 0 {
		return b.next.last()
	}
	return b.prev
}

// closeLeaf makes a leaf of what was added, or of the first part of it.
func (b *loader) closeLeaf() {
	all := b.next
	keys := loadPoint(all)
	lf := b.firstOf(all, keys)
	lf.setPrefix()
	b.stats.add(lf, 1)
	var sep []byte
	if len(b.level.nodes) > 0 {
		sep = bytes.Clone(separator(b.prev, lf.key(0)))
	}
	b.level.nodes = append(b.level.nodes, unsafe.Pointer(lf))
	b.level.seps = append(b.level.seps, sep)
	b.prev = lf.last()

	b.spare.appendFrom(all, keys, int(all.n))
	b.next, b.spare = b.spare, all
	all.n, all.used, all.live, all.out = 0, blobHead, 0, nil
	all.setClaimed(blobHead)
}

// firstOf returns a leaf with the first keys of a large one, whose records are in order and
// without gaps. The caller calls setPrefix afterwards.
func (b *loader) firstOf(all *leaf, keys int) *leaf {
	end := int(all.used)
	if keys < int(all.n) {
		end = int(all.offs[keys]) * recordUnit
	}
	if all.out != nil {
		lf := newLeaf(b.own, end-blobHead, 0)
		lf.appendFrom(all, 0, keys)
		return lf
	}
	blob := append([]byte(nil), all.blob[:end]...) // as makeBlob, but not cleared before the copy
	lf := &leaf{owner: b.own, blob: blob[:cap(blob)], used: uint32(end), fence: blobHead, live: uint32(end - blobHead), n: uint16(keys)}
	lf.offs = all.offs
	clear(lf.offs[keys:])
	lf.setClaimed(lf.used)
	return lf
}

// loadPoint returns how many of the keys of a leaf to take so that it needs the least
// memory for each.
func loadPoint(lf *leaf) (best int) {
	n := int(lf.n)
	if n < loadLeaf {
		return n
	}
	size, least := 0, 0.0
	for k := 1; k <= n; k++ {
		size += lf.recordLen(k - 1)
		if k < loadLeafMin {
			continue
		}
		if each := float64(leafBytes+sizeClass(blobHead+size)) / float64(k); best == 0 || each <= least {
			best, least = k, each
		}
	}
	return best
}

// build stacks inner levels on the leaves of an empty map.
func (p *Pairs) build(level loadLevel) {
	for len(level.nodes) > 1 {
		var up loadLevel
		for from := 0; from < len(level.nodes); from += loadKids {
			var b branches
			for i := from; i < min(from+loadKids, len(level.nodes)); i++ {
				b.add(level.seps[i], level.nodes[i])
			}
			in := p.newInner(&b, 0, b.n)
			in.count = in.sum(0, in.n, p.height)
			up.nodes = append(up.nodes, unsafe.Pointer(in))
			up.seps = append(up.seps, level.seps[from])
		}
		level = up
		p.height++
	}
	p.root = level.nodes[0]
}
