package embedded

import (
	"bytes"
	"slices"

	"github.com/skerrydb/skerry/btree"
)

// gathered is a part of the log whose writes are applied in the order of their keys, and
// of each key only the last one. The state after it is the same as in the order of the
// log, but neighbouring keys share a leaf of the tree, so that there is one cache miss
// for several writes.
type gathered struct {
	data   []byte    // records, one after the other
	writes []wroteAt // in the order of the log, or sorted
	spare  []wroteAt // for sorting
	first  []byte    // key of the first write; aliases data
	common int       // length of the prefix that all keys have in common
	stale  int       // so many writes have a word at the depth of a longer prefix
}

// wroteAt is a write in gathered.data. It is sorted by eight bytes of its key at a time,
// so that a comparison rarely reads the key itself.
type wroteAt struct {
	word uint64 // the bytes of the key at the depth of the current sort, as a big-endian number
	at   uint32 // offset of the write in data, which is less than 4 GiB
	left uint32 // bytes of the key in word; keyGoesOn: there are more
}

// keyGoesOn is wroteAt.left of a key that does not end within the word.
const keyGoesOn = 9

func (g *gathered) reset() { *g = gathered{data: g.data[:0], writes: g.writes[:0], spare: g.spare} }

// add appends a record's batch after verifying that it is well-formed. On an error, g is
// not usable.
func (g *gathered) add(batch []byte) (transactions uint64, last int64, err error) {
	from := len(g.data)
	if cap(g.data)-from < len(batch) {
		g.data = append(make([]byte, 0, from+max(len(batch), min(3*from, roundBytes-from))), g.data...)
	}
	g.data = append(g.data, batch...)
	d := decoder{rest: g.data[from+batchHeader:]}
	var micros int64
	for len(d.rest) > 0 {
		transactions++
		micros += int64(d.uvarint())
		n := d.uvarint()
		if d.bad || n == 0 || n > uint64(len(d.rest)) {
			return 0, 0, errBatch
		}
		for range n {
			at := len(g.data) - len(d.rest)
			w := d.write()
			if d.bad {
				return 0, 0, errBatch
			}
			g.note(at, w.Key)
		}
	}
	return transactions, micros, nil
}

// note adds the write at offset at.
func (g *gathered) note(at int, key []byte) {
	if len(g.writes) == 0 {
		g.first, g.common = key, len(key)
	}
	if prefix := g.first[:g.common]; !bytes.HasPrefix(key, prefix) {
		g.common, g.stale = btree.CommonPrefix(prefix, key), len(g.writes)
	}
	w := wroteAt{at: uint32(at)}
	w.look(key, g.common)
	g.writes = append(g.writes, w)
}

// look sets the word to that of the key at a depth.
func (w *wroteAt) look(key []byte, depth int) {
	w.word, w.left = btree.Head(key, depth), uint32(min(len(key)-depth, keyGoesOn))
}

// lookAll sets the words of writes to those at a depth.
func (g *gathered) lookAll(writes []wroteAt, depth int) {
	for i := range writes {
		d := decoder{rest: g.data[writes[i].at:]}
		writes[i].look(d.bytes(d.uvarint()>>1), depth)
	}
}

// sort leaves the last write of each key, in the order of the keys.
func (g *gathered) sort() {
	g.lookAll(g.writes[:g.stale], g.common)
	g.writes = g.sorted(g.writes[:0], g.writes, g.common)
}

// sorted appends the last write of each key, in the order of the keys, to out, which may be
// the room before writes. The words are those at depth, up to which the keys agree.
func (g *gathered) sorted(out, writes []wroteAt, depth int) []wroteAt {
	if len(writes) < radixLeast {
		slices.SortFunc(writes, compareWrites)
	} else {
		g.radixSort(writes)
	}
	for len(writes) > 0 {
		n := 1
		for n < len(writes) && writes[n].word == writes[0].word && writes[n].left == writes[0].left {
			n++
		}
		if same := writes[:n]; n > 1 && writes[0].left == keyGoesOn {
			g.lookAll(same, depth+8)
			out = g.sorted(out, same, depth+8)
		} else {
			out = append(out, same[n-1])
		}
		writes = writes[n:]
	}
	return out
}

// decode appends writes in the form that the tree applies. They alias g.
func (g *gathered) decode(to []btree.Write, writes []wroteAt) []btree.Write {
	g.touch(writes)
	for _, at := range writes {
		d := decoder{rest: g.data[at.at:]}
		w := d.write()
		to = append(to, btree.Write{Key: w.Key, Value: btree.Value{Bytes: w.Val}, Delete: w.Deleted})
	}
	return to
}

// touch reads from each write, all over the data, so that the waits for memory overlap. It
// returns a meaningless sum and is not inlined, so that the reads are not optimised away.
//
//go:noinline
func (g *gathered) touch(writes []wroteAt) (sum byte) {
	for _, w := range writes {
		sum += btree.Touch(g.data[w.at:])
	}
	return sum
}

// compareWrites orders by key and, for the same key, by place in the log.
func compareWrites(a, b wroteAt) int {
	switch {
	case a.word < b.word:
		return -1
	case a.word > b.word:
		return 1
	case a.left != b.left:
		return int(a.left) - int(b.left)
	}
	return int(a.at) - int(b.at)
}

// radixLeast is the least number of writes for which a radix sort is faster.
const radixLeast = 1024

// radixSort is a stable sort by word and left: byte by byte, the least significant first,
// except for bytes that are the same in all.
func (g *gathered) radixSort(writes []wroteAt) {
	var counts [9][256]int
	for _, w := range writes {
		counts[0][w.left]++
		for i := range 8 {
			counts[i+1][byte(w.word>>(8*i))]++
		}
	}
	if cap(g.spare) < len(writes) {
		g.spare = make([]wroteAt, len(writes))
	}
	from, to := writes, g.spare[:len(writes)]
	digit := func(w wroteAt, i int) byte {
		if i == 0 {
			return byte(w.left)
		}
		return byte(w.word >> (8 * (i - 1)))
	}
	for i := range counts {
		at := &counts[i]
		if at[digit(from[0], i)] == len(from) {
			continue
		}
		sum := 0
		for d, n := range at {
			at[d] = sum
			sum += n
		}
		for _, w := range from {
			d := digit(w, i)
			to[at[d]] = w
			at[d]++
		}
		from, to = to, from
	}
	copy(writes, from) // nothing if they are the same
}
