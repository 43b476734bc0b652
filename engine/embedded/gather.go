package embedded

import (
	"encoding/binary"
	"slices"
)

// gathered is a part of the log whose writes are applied in the order of their keys, and
// of each key only the last one. The state after it is the same as in the order of the
// log, but neighbouring keys share a leaf of the tree, so that there is one cache miss
// for several writes.
type gathered struct {
	data    []byte    // records, one after the other
	writes  []wroteAt // in the order of the log
	spare   []wroteAt // for sorting
	first   []byte    // key of the first write; aliases data
	common  int       // length of the prefix that all keys have in common
	touched byte      // keeps the compiler from removing reads
}

// wroteAt is a write in gathered.data. It is sorted by eight bytes of its key at a time,
// so that a comparison rarely reads the key itself.
type wroteAt struct {
	word uint64 // the bytes of the key at the depth of the current sort, as a big-endian number
	at   uint32 // offset of the write in data, which is less than 4 GiB
	left uint32 // bytes of the key in word; keyGoesOn: there are more
}

// touchAhead is how many writes before it is used a write is read, so that the cache has
// it in time: sorted writes are all over the data.
const touchAhead = 8

// keyGoesOn is wroteAt.left of a key that does not end within the word.
const keyGoesOn = 9

func (g *gathered) reset() { *g = gathered{data: g.data[:0], writes: g.writes[:0], spare: g.spare} }

// add appends a record's batch after verifying that it is well-formed. On an error, g is
// not usable.
func (g *gathered) add(batch []byte) (transactions uint64, last int64, err error) {
	from := len(g.data)
	if cap(g.data)-from < len(batch) {
		g.data = slices.Grow(g.data, max(from, len(batch))) // at least doubled: append grows in small steps
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
	g.common = commonPrefix(g.first[:g.common], key)
	g.writes = append(g.writes, wroteAt{at: uint32(at)})
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// write decodes the write at offset at.
func (g *gathered) write(at uint32) (key, val []byte, deleted bool) {
	d := decoder{rest: g.data[at:]}
	w := d.write()
	return w.Key, w.Val, w.Deleted
}

// sorted calls fn for the last write of each key, in the order of the keys.
func (g *gathered) sorted(fn func(key, val []byte, deleted bool)) {
	g.sort(g.writes, g.common, fn)
}

// sort is sorted for writes whose keys agree up to depth.
func (g *gathered) sort(writes []wroteAt, depth int, fn func(key, val []byte, deleted bool)) {
	for i := range writes {
		d := decoder{rest: g.data[writes[i].at:]}
		writes[i].word, writes[i].left = wordAt(d.bytes(d.uvarint() >> 1)[depth:])
	}
	if len(writes) < radixLeast {
		slices.SortFunc(writes, compareWrites)
	} else {
		g.radixSort(writes)
	}
	for len(writes) > 0 {
		if len(writes) > touchAhead {
			g.touched += g.data[writes[touchAhead].at]
		}
		n := 1
		for n < len(writes) && writes[n].word == writes[0].word && writes[n].left == writes[0].left {
			n++
		}
		if n > 1 && writes[0].left == keyGoesOn {
			g.sort(writes[:n], depth+8, fn)
		} else {
			fn(g.write(writes[n-1].at))
		}
		writes = writes[n:]
	}
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

// wordAt returns the first eight bytes of key as a number, and how many there are.
func wordAt(key []byte) (word uint64, left uint32) {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key), uint32(min(len(key), keyGoesOn))
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:]), uint32(len(key))
}
