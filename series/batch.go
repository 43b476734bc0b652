package series

import (
	"encoding/binary"
	"math"
)

// Sample is one value at a time.
type Sample struct {
	Time  int64 // Unix time in nanoseconds
	Value float64
}

// ID names a series of one collection. After the series is removed, no other one gets its id.
type ID uint32

// Batch gathers samples for Store.Append. The zero value is an empty one. It is not safe for concurrent use.
type Batch struct {
	data    []byte
	samples int
	id      uint32
	time    int64
	from    int64 // the oldest time
	to      int64 // the newest
	lowest  ID
	highest ID
}

// Add adds a sample. If a batch, or an older one, has a sample of the same series and time, it is replaced. Samples of
// one time that follow each other take less space, and so do series in the order of their ids.
func (b *Batch) Add(id ID, t int64, v float64) {
	head := zigzag(int64(id)-int64(b.id)) << 1
	if b.samples == 0 {
		b.from, b.to = t, t
		b.lowest, b.highest = id, id
	}
	b.lowest, b.highest = min(b.lowest, id), max(b.highest, id)
	if b.samples == 0 || t != b.time {
		head |= 1
	}
	if n := uint64(int64(v)); head < 0x80 && head&1 == 0 && n-1 < 1<<12-1 && float64(n) == v {
		// Most samples: of a near series, of the time of the one before, and a small integer.
		if n < 1<<5 {
			b.data = append(b.data, byte(head), byte(n<<2))
		} else {
			b.data = append(b.data, byte(head), byte(n<<2)|0x80, byte(n>>5))
		}
		b.id = uint32(id)
		b.samples++
		return
	}
	b.data = appendUvarint(b.data, head)
	if head&1 != 0 {
		b.data = binary.AppendUvarint(b.data, zigzag(t-b.time)) // may wrap around, and back when it is read
		b.from, b.to = min(b.from, t), max(b.to, t)
	}
	b.data = appendValue(b.data, v)
	b.id, b.time = uint32(id), t
	b.samples++
}

// Len returns the number of samples.
func (b *Batch) Len() int { return b.samples }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { *b = Batch{data: b.data[:0]} }

func appendUvarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

// appendValue appends an integer as such, and anything else as its bits after a byte 1. On disk: do not change.
func appendValue(b []byte, v float64) []byte {
	const most = 1 << 53
	if n := int64(v); n > -most && n < most && math.Float64bits(float64(n)) == math.Float64bits(v) {
		return appendUvarint(b, zigzag(n)<<1)
	}
	return binary.LittleEndian.AppendUint64(append(b, 1), math.Float64bits(v))
}

// encodeHeader returns what a stored batch begins with.
func (b *Batch) encodeHeader() []byte {
	return binary.AppendUvarint([]byte{formatVersion}, uint64(b.samples))
}

// batchReader reads a stored batch.
type batchReader struct {
	data []byte
	left int // samples
	id   uint32
	s    Sample
}

// readBatch returns a reader of a stored batch, or false if it is damaged.
func readBatch(data []byte) (r batchReader, ok bool) {
	if len(data) == 0 || data[0] != formatVersion {
		return r, false
	}
	n, data, ok := uvarint(data[1:])
	return batchReader{data: data, left: int(n)}, ok && n <= MaxBatchSamples
}

// next reads the next sample into r.id and r.s. It returns false at the end, where r.left is 0, or at damage.
func (r *batchReader) next() bool {
	// Most samples are of a near id, have the time of the one before and a small integer.
	d := r.data
	if r.left == 0 || len(d) < 3 || d[0]&0x81 != 0 || d[1]&1 != 0 || d[1]&d[2] >= 0x80 {
		return r.any()
	}
	v, n := uint64(d[1]), 2
	if v >= 0x80 {
		v, n = v&0x7f|uint64(d[2])<<7, 3
	}
	r.id = uint32(int64(r.id) + unzigzag(uint64(d[0]>>1)))
	r.s.Value = float64(unzigzag(v >> 1))
	r.data = d[n:]
	r.left--
	return true
}

// any is next for all samples.
func (r *batchReader) any() bool {
	if r.left == 0 {
		return false
	}
	head, data, ok := uvarint(r.data)
	if !ok {
		return false
	}
	if head&1 != 0 {
		d, rest, ok := uvarint(data)
		if !ok {
			return false
		}
		data = rest
		r.s.Time += unzigzag(d)
	}
	r.id = uint32(int64(r.id) + unzigzag(head>>1))
	switch v, rest, ok := uvarint(data); {
	case !ok:
		return false
	case v&1 == 0:
		r.s.Value, data = float64(unzigzag(v>>1)), rest
	case v != 1 || len(rest) < 8:
		return false
	default:
		r.s.Value, data = math.Float64frombits(binary.LittleEndian.Uint64(rest)), rest[8:]
	}
	r.data = data
	r.left--
	return true
}
