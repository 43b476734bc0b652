// Package chunk encodes a run of samples of one time series, a column of times and a column of
// values, as compact bytes and decodes them fast. It knows the bytes of a chunk: how times and
// values are laid out, which encodings a block of values may use and how to choose the smallest.
// It must not know where chunks are kept, what a series is called, or how chunks are found,
// merged or checksummed.
//
// A chunk is a header, the times, and the values in blocks of 1024. All integers of fixed size
// are little-endian; varint and uvarint are those of encoding/binary.
//
//	byte     time mode << 5 | exponent of the time unit, 10^exponent nanoseconds; modes from 2 up
//	         are for later formats
//	uvarint  number of samples - 1
//	8 bytes  first time, in nanoseconds
//	uvarint  constant step: the step; otherwise: last time - first time; in time units.
//	         Absent if there is one sample.
//	...      other steps: one block of integers for each 1024 differences of times
//	...      blocks of values: see values.go
package chunk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// MaxSamples is the largest number of samples of one chunk.
const MaxSamples = 8192

// blockSize is the number of values in a block; only the last block of a chunk is shorter.
// On disk: do not change.
const blockSize = 1024

// ErrCorrupt is returned for bytes that are not exactly one chunk.
var ErrCorrupt = errors.New("chunk: corrupt data")

// Append appends the encoded samples to dst and returns the extended slice. Values are kept bit
// by bit. It panics unless times and values have the same length, between 1 and MaxSamples, and
// the times, in nanoseconds, are strictly ascending. It retains none of the slices.
func Append(dst []byte, times []int64, values []float64) []byte {
	if len(times) != len(values) || len(times) == 0 || len(times) > MaxSamples {
		panic(fmt.Sprintf("BUG: chunk: %d times and %d values, want the same number, 1 to %d", len(times), len(values), MaxSamples))
	}
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			panic(fmt.Sprintf("BUG: chunk: time %d, %d, is not after the one before it, %d", i, times[i], times[i-1]))
		}
	}
	var e encoder
	dst = e.appendTimes(dst, times)
	for block := range slices.Chunk(values, blockSize) {
		dst = e.appendBlock(dst, block)
	}
	return dst
}

// Decode appends the samples of data, which must be exactly one chunk, to times and values and
// returns the extended slices. If data is damaged in a way that shows, it returns ErrCorrupt and
// the slices as they were, though their spare capacity may have been written to. Damage that
// leaves a valid chunk is for a checksum of the caller to detect. Decode never allocates for more
// than MaxSamples samples, and retains none of the slices.
func Decode(data []byte, times []int64, values []float64) ([]int64, []float64, error) {
	r := reader{data: data}
	h := r.header()
	if r.bad {
		return times, values, ErrCorrupt
	}
	nt, nv := len(times), len(values)
	newTimes := slices.Grow(times, h.n)[:nt+h.n]
	newValues := slices.Grow(values, h.n)[:nv+h.n]
	d := decoder{reader: r}
	d.times(newTimes[nt:], h)
	for out := newValues[nv:]; len(out) > 0 && !d.bad; {
		m := min(len(out), blockSize)
		d.block(out[:m])
		out = out[m:]
	}
	if d.bad || len(d.data) > 0 {
		return times, values, ErrCorrupt
	}
	return newTimes, newValues, nil
}

// Info returns the number of samples of the chunk and its first and last times, in nanoseconds.
// It reads only the header, so damage after it goes unnoticed.
func Info(data []byte) (n int, first, last int64, err error) {
	r := reader{data: data}
	h := r.header()
	if r.bad {
		return 0, 0, 0, ErrCorrupt
	}
	return h.n, h.first, h.last, nil
}

// encoder holds the scratch space of Append.
type encoder struct {
	ints   [blockSize]int64  // times or values as integers
	deltas [blockSize]int64  // their differences
	codes  [blockSize]uint64 // what is packed
	bits   [blockSize]int64  // the bits of values that are not decimals
}

// decoder holds the rest of the data and the scratch space of Decode.
type decoder struct {
	reader
	ints [blockSize]int64
}

// reader reads from the front of data. After the first failure, bad is set and everything reads
// as zero.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) fail() {
	r.data, r.bad = nil, true
}

// take returns the next n bytes, or nil after a failure.
func (r *reader) take(n int) []byte {
	if n > len(r.data) {
		r.fail()
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	x, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return x
}

func (r *reader) varint() int64 {
	return unzigzag(r.uvarint())
}

func zigzag(x int64) uint64   { return uint64(x)<<1 ^ uint64(x>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// header is the decoded header of a chunk.
type header struct {
	mode        byte
	n           int
	unit        uint64 // nanoseconds
	length      uint64 // the step or the whole, in units
	first, last int64
}

func (r *reader) header() header {
	b := r.byte()
	h := header{mode: b >> 5}
	n := r.uvarint()
	h.first = int64(r.uint64())
	h.last = h.first
	if r.bad || h.mode > timesOther || int(b&31) >= len(unitsOfTime) || n >= MaxSamples {
		r.fail()
		return header{}
	}
	h.n, h.unit = int(n)+1, unitsOfTime[b&31]
	if h.n == 1 {
		if b != 0 {
			r.fail()
		}
		return h
	}
	h.length = r.uvarint()
	span, over := h.length, uint64(0)
	if h.mode == timesRegular {
		over, span = bits.Mul64(span, n)
	}
	more, span := bits.Mul64(span, h.unit)
	room := uint64(math.MaxInt64) - uint64(h.first)
	if over != 0 || more != 0 || span == 0 || span > room {
		r.fail()
		return header{}
	}
	h.last = int64(uint64(h.first) + span)
	return h
}
