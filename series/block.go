package series

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/skerrydb/skerry/series/chunk"
)

// A block has the chunks of some series of one part: the version, how many chunks, for each the difference of its id
// to the one before and its length, the chunks, and a checksum of all that. A series can have several chunks, in the
// order of time. On disk: do not change.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry is one chunk of a block.
type entry struct {
	id   uint32
	data []byte
}

// blockWriter makes blocks.
type blockWriter struct {
	first   uint32
	last    uint32
	n       int
	heads   []byte
	data    []byte
	samples int
}

// add adds a chunk of a series whose id is not below the last one.
func (w *blockWriter) add(id uint32, times []int64, values []float64) {
	if w.n == 0 {
		w.first, w.last = id, id
	}
	before := len(w.data)
	w.data = chunk.Append(w.data, times, values)
	w.heads = appendUvarint(w.heads, uint64(id-w.last))
	w.heads = appendUvarint(w.heads, uint64(len(w.data)-before))
	w.last = id
	w.n++
	w.samples += len(times)
}

// size returns about how long the block is.
func (w *blockWriter) size() int { return len(w.heads) + len(w.data) }

// finish returns the block and empties the writer.
func (w *blockWriter) finish() []byte {
	b := make([]byte, 0, w.size()+20)
	b = appendUvarint(append(b, formatVersion), uint64(w.first))
	b = appendUvarint(b, uint64(w.n))
	b = append(append(b, w.heads...), w.data...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	*w = blockWriter{heads: w.heads[:0], data: w.data[:0]}
	return b
}

// readBlock returns the chunks of a block, which alias it.
func readBlock(b []byte) ([]entry, bool) {
	if len(b) < 7 || b[0] != formatVersion {
		return nil, false
	}
	b, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(b, castagnoli) != sum {
		return nil, false
	}
	id, b, ok := uvarint(b[1:])
	if !ok {
		return nil, false
	}
	n, b, ok := uvarint(b)
	if !ok || n == 0 || n > uint64(len(b)) {
		return nil, false
	}
	entries := make([]entry, n)
	lens := make([]uint64, n)
	for i := range entries {
		var d uint64
		if d, b, ok = uvarint(b); !ok {
			return nil, false
		}
		if id += d; id > maxID {
			return nil, false
		}
		if lens[i], b, ok = uvarint(b); !ok {
			return nil, false
		}
		entries[i].id = uint32(id)
	}
	for i, size := range lens {
		if size > uint64(len(b)) {
			return nil, false
		}
		entries[i].data, b = b[:size], b[size:]
	}
	return entries, len(b) == 0
}

// columns are samples with ascending times.
type columns struct {
	times  []int64
	values []float64
}

func (c *columns) reset() { c.times, c.values = c.times[:0], c.values[:0] }

func (c *columns) add(s Sample) {
	c.times = append(c.times, s.Time)
	c.values = append(c.values, s.Value)
}

// decode appends a chunk.
func (c *columns) decode(data []byte) (err error) {
	c.times, c.values, err = chunk.Decode(data, c.times, c.values)
	return err
}

// sorter brings samples of several sources in order. Of samples with the same time the one that was added last stays.
type sorter struct {
	samples []Sample
	runs    []int // where ascending runs of samples end
	spare   []Sample
}

func (o *sorter) add(s ...Sample) { o.samples = append(o.samples, s...) }

func (o *sorter) addColumns(c *columns) {
	for i, t := range c.times {
		o.samples = append(o.samples, Sample{t, c.values[i]})
	}
}

// columns moves the samples into c, which it empties first.
func (o *sorter) columns(c *columns) {
	o.sort()
	s := o.samples
	c.reset()
	for i, x := range s {
		if i+1 < len(s) && s[i+1].Time == x.Time {
			continue
		}
		c.add(x)
	}
	o.samples = s[:0]
}

// sort sorts the samples by time; those of one time stay in their order. Samples mostly come in order, or as a few
// ascending runs, which it merges.
func (o *sorter) sort() {
	s := o.samples
	o.runs = o.runs[:0]
	for i := 1; i < len(s); i++ {
		if s[i].Time < s[i-1].Time {
			o.runs = append(o.runs, i)
		}
	}
	if len(o.runs) == 0 {
		return
	}
	o.runs = append(o.runs, len(s))
	if cap(o.spare) < len(s) {
		o.spare = make([]Sample, len(s), cap(s))
	}
	to := o.spare[:len(s)]
	for len(o.runs) > 1 {
		from, merged := 0, o.runs[:0]
		for i := 0; i < len(o.runs); i += 2 {
			middle, end := o.runs[i], o.runs[min(i+1, len(o.runs)-1)]
			mergeRuns(to[from:end], s[from:middle], s[middle:end])
			from, merged = end, append(merged, end)
		}
		o.runs = merged
		s, to = to, s
	}
	o.samples, o.spare = s, to
}

// mergeRuns merges a and b, both ascending. Of one time, those of a come first.
func mergeRuns(to, a, b []Sample) {
	for i := range to {
		if len(b) == 0 || len(a) > 0 && a[0].Time <= b[0].Time {
			to[i], a = a[0], a[1:]
		} else {
			to[i], b = b[0], b[1:]
		}
	}
}

// cut returns the samples from one time to another.
func (c *columns) cut(from, to int64) columns {
	lo, _ := slices.BinarySearch(c.times, from)
	hi, found := slices.BinarySearch(c.times, to)
	if found {
		hi++
	}
	return columns{c.times[lo:max(lo, hi)], c.values[lo:max(lo, hi)]}
}

func chunkInfo(data []byte) (n int, first, last int64, err error) { return chunk.Info(data) }
