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
	l := NewLoading()
	r, err := l.NewPacker().Pack(seq)
	if err == nil {
		err = l.Add(r)
	}
	if err != nil {
		return err
	}
	p.LoadRuns(l)
	return nil
}

// Loading is Load of pairs in consecutive runs, which several goroutines pack into leaves
// at the same time.
type Loading struct {
	own  *token
	runs Run
}

// Run is pairs that are packed into leaves.
type Run struct {
	n     int
	stats Stats
	level loadLevel
}

// loadLevel is one level of the tree being built. Separator i is between nodes i-1 and i;
// the first is nil.
type loadLevel struct {
	nodes []unsafe.Pointer
	seps  [][]byte
}

// NewLoading returns a Loading without pairs.
func NewLoading() *Loading { return &Loading{own: new(token)} }

// Add appends a run that was packed for l. If its keys are not above those of the runs
// before, the error is an *OrderError, and l is unchanged.
func (l *Loading) Add(r *Run) error {
	all := &l.runs
	if r.n == 0 {
		return nil
	}
	if all.n > 0 {
		last, first := (*leaf)(all.level.nodes[len(all.level.nodes)-1]).last(), (*leaf)(r.level.nodes[0]).key(0)
		if bytes.Compare(last, first) >= 0 {
			return &OrderError{Index: all.n}
		}
		r.level.seps[0] = bytes.Clone(separator(last, first))
	}
	all.n += r.n
	all.stats.join(&r.stats)
	all.level.nodes = append(all.level.nodes, r.level.nodes...)
	all.level.seps = append(all.level.seps, r.level.seps...)
	return nil
}

// LoadRuns replaces the contents of p with the pairs of l, which must not be used again.
// Clones of p keep their contents.
func (p *Pairs) LoadRuns(l *Loading) {
	if l.runs.n == 0 {
		p.root, p.height, p.n, p.stats, p.hint = nil, 0, 0, Stats{}, nil
		return
	}
	next := Pairs{n: l.runs.n, stats: l.runs.stats}
	next.owner.Store(l.own)
	next.build(l.runs.level)
	p.root, p.height, p.n, p.stats, p.hint = next.root, next.height, next.n, next.stats, nil
	p.owner.Store(l.own)
}

// Packer packs runs for a Loading. Only one goroutine may use it at a time.
type Packer struct {
	own         *token
	next, spare *leaf  // what the next leaf will have, and an empty one; their blobs are large
	prev        []byte // the last key of the leaf before
	run         *Run
}

// NewPacker returns a packer of runs for l. Several goroutines may call it.
func (l *Loading) NewPacker() *Packer { return &Packer{own: l.own} }

// Pack packs pairs, whose keys must be strictly ascending. Otherwise it returns an
// *OrderError with the index in seq, or ErrKeyTooLong. It copies keys and values.
func (b *Packer) Pack(seq iter.Seq2[[]byte, Value]) (*Run, error) {
	b.run, b.prev = &Run{}, nil
	for key, v := range seq {
		if err := b.add(key, v); err != nil {
			b.next = nil
			return nil, err
		}
	}
	for b.run.n > 0 && b.next.n > 0 {
		b.closeLeaf()
	}
	return b.run, nil
}

// add adds a pair to the run.
func (b *Packer) add(key []byte, v Value) error {
	switch {
	case len(key) > MaxKeyBytes:
		return ErrKeyTooLong
	case b.next == nil:
		b.next, b.spare = newLeaf(b.own, maxBlob-blobHead, 0), newLeaf(b.own, maxBlob-blobHead, 0)
	}
	if b.run.n > 0 && bytes.Compare(b.last(), key) >= 0 {
		return &OrderError{Index: b.run.n}
	}
	for b.next.n == loadLeaf || !b.next.fits(len(key), len(v.Bytes)) { // closeLeaf may leave long keys
		b.closeLeaf()
	}
	lf := b.next
	inline, size := lf.recordSize(len(key), len(v.Bytes))
	lf.offs[lf.n] = lf.write(int(lf.used), size, key, v, inline) // there is room, and nobody else claims it
	lf.n++
	b.run.n++
	return nil
}

// last returns the last key that was added.
func (b *Packer) last() []byte {
	if b.next.n > 0 {
		return b.next.last()
	}
	return b.prev
}

// closeLeaf makes a leaf of what was added, or of the first part of it.
func (b *Packer) closeLeaf() {
	all := b.next
	keys := loadPoint(all)
	lf := b.firstOf(all, keys)
	lf.setPrefix()
	b.run.stats.add(lf, 1)
	level, sep := &b.run.level, []byte(nil)
	if len(level.nodes) > 0 {
		sep = bytes.Clone(separator(b.prev, lf.key(0)))
	}
	level.nodes = append(level.nodes, unsafe.Pointer(lf))
	level.seps = append(level.seps, sep)
	b.prev = lf.last()

	b.spare.appendFrom(all, keys, int(all.n))
	b.next, b.spare = b.spare, all
	all.n, all.used, all.live, all.out = 0, blobHead, 0, nil
	all.setClaimed(blobHead)
}

// firstOf returns a leaf with the first keys of a large one, whose records are in order and
// without gaps. The caller calls setPrefix afterwards.
func (b *Packer) firstOf(all *leaf, keys int) *leaf {
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
