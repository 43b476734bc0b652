package series

import (
	"encoding/binary"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series/chunk"
)

// part is what is stored of the samples of one bucket and of some generations: blocks in the order of series.
type part struct {
	bucket  uint64
	no      uint64
	order   uint64 // the newest generation in it: of samples with the same time, those of the higher order count
	level   uint64 // how often its samples were merged
	samples uint64
	bytes   uint64
	from    int64 // the time of the oldest sample
	to      int64 // the time of the newest
}

func (p *part) key(no uint32) []byte { return keyOf(keyPart, no, p.bucket, p.no) }

// encode returns the value of the part's key. On disk: do not change.
func (p *part) encode() []byte {
	b := []byte{formatVersion}
	for _, n := range []uint64{p.order, p.level, p.samples, p.bytes, zigzag(p.from), zigzag(p.to)} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func readPart(key, val []byte) (p part, err error) {
	n := numbersOf(key)
	p.bucket, p.no = n[0], n[1]
	if len(val) == 0 || val[0] != formatVersion {
		return p, corrupt("part %d", p.no)
	}
	var f [6]uint64
	b := val[1:]
	for i := range f {
		n, rest, ok := uvarint(b)
		if !ok {
			return p, corrupt("part %d", p.no)
		}
		f[i], b = n, rest
	}
	p.order, p.level, p.samples, p.bytes, p.from, p.to = f[0], f[1], f[2], f[3], unzigzag(f[4]), unzigzag(f[5])
	return p, nil
}

// partsBetween returns the parts that may have samples from one time to another, by bucket and order.
func partsBetween(tx engine.Tx, no uint32, from, to int64) ([]part, error) {
	var parts []part
	for p, err := range tx.Scan(keyOf(keyPart, no, bucketOf(from)), keyOf(keyPart, no, bucketOf(to)+1)) {
		if err != nil {
			return nil, err
		}
		x, err := readPart(p.Key, p.Val)
		if err != nil {
			return nil, err
		}
		if x.to >= from && x.from <= to {
			parts = append(parts, x)
		}
	}
	sortParts(parts)
	return parts, nil
}

func sortParts(parts []part) {
	slices.SortFunc(parts, func(a, b part) int {
		if a.bucket != b.bucket {
			return cmpUint(a.bucket, b.bucket)
		}
		return cmpUint(a.order, b.order)
	})
}

func cmpUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// partWriter makes the blocks of one part.
type partWriter struct {
	part
	block blockWriter
	n     uint32 // of the next block with the same first series
	last  uint32 // first series of the last block
	out   func(key, val []byte) error
	coll  uint32
}

// add adds samples of a series whose id is not below the last one.
func (w *partWriter) add(id uint32, c *columns) error {
	if w.samples == 0 {
		w.from, w.to = c.times[0], c.times[len(c.times)-1]
	}
	w.from, w.to = min(w.from, c.times[0]), max(w.to, c.times[len(c.times)-1])
	w.samples += uint64(len(c.times))
	for times, values := c.times, c.values; len(times) > 0; {
		n := min(len(times), chunk.MaxSamples)
		w.block.add(id, times[:n], values[:n])
		times, values = times[n:], values[n:]
		if w.block.size() >= blockBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush ends the block.
func (w *partWriter) flush() error {
	if w.block.n == 0 {
		return nil
	}
	first := w.block.first
	if first != w.last {
		w.n = 0
	}
	k := blockKey(w.coll, w.no, first, w.n)
	w.n, w.last = w.n+1, first
	b := w.block.finish()
	w.bytes += uint64(len(b))
	return w.out(k, b)
}

// partReader finds chunks in a part. Series are asked for in the order of their ids, so that a block is read once.
type partReader struct {
	part
	coll   uint32
	blocks []entry // those of the block that was read last
}

// chunks calls fn with the chunks of a series, in the order of time.
func (r *partReader) chunks(tx engine.Tx, id uint32, fn func(data []byte) error) error {
	if n := len(r.blocks); n == 0 || id < r.blocks[0].id || id >= r.blocks[n-1].id {
		found, err := r.seek(tx, id)
		if err != nil || !found {
			return err
		}
	}
	i, _ := slices.BinarySearchFunc(r.blocks, id, func(e entry, id uint32) int { return int(e.id) - int(id) })
	for ; i < len(r.blocks) && r.blocks[i].id == id; i++ {
		if err := fn(r.blocks[i].data); err != nil {
			return err
		}
	}
	return nil
}

// seek reads the blocks that may have a series: the last one that begins before it, and those that begin with it.
func (r *partReader) seek(tx engine.Tx, id uint32) (found bool, err error) {
	var blocks [][]entry
	lo := keyOf(keyBlock, r.coll, r.no)
	for p, err := range tx.ScanBack(lo, blockKey(r.coll, r.no, id+1, 0)) {
		if err != nil {
			return false, err
		}
		entries, ok := readBlock(slices.Clone(p.Val))
		if !ok {
			return false, corrupt("a block of part %d", r.no)
		}
		blocks = append(blocks, entries)
		if entries[0].id < id {
			break
		}
	}
	r.blocks = nil
	for _, entries := range slices.Backward(blocks) {
		r.blocks = append(r.blocks, entries...)
	}
	return len(r.blocks) > 0, nil
}
