package chunk

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A block of XORs is the bits of the first value, the length of a stream of bits in bytes as
// uvarint, and the stream, written from the lowest bit up. For each other value it has
//
//	0                      the same as the value before
//	1 0, bits              the XOR with the value before, within the window used last
//	1 1, 6 bits, 6 bits    a new window: leading zeros and length - 1; then the bits
//
// as in Gorilla (Pelkonen et al., VLDB 2015), but with 64 leading zeros at most instead of 31.

// xorWindow is the window of the bits that are stored.
type xorWindow struct{ lead, length int }

// next returns the window for x, which is not 0, and whether it is a new one.
func (w xorWindow) next(x uint64) (xorWindow, bool) {
	lead, trail := bits.LeadingZeros64(x), bits.TrailingZeros64(x)
	own := xorWindow{lead, 64 - lead - trail}
	fits := lead >= w.lead && trail >= 64-w.lead-w.length
	if w.length > 0 && fits && w.length <= own.length+12 {
		return w, false
	}
	return own, true
}

// xorCost returns the size of a block of XORs in bits.
func xorCost(values []float64) int {
	cost := 64 + 24 + len(values) - 1
	var w xorWindow
	last := math.Float64bits(values[0])
	for _, v := range values[1:] {
		x := math.Float64bits(v) ^ last
		last ^= x
		if x == 0 {
			continue
		}
		var fresh bool
		if w, fresh = w.next(x); fresh {
			cost += 12
		}
		cost += 1 + w.length
	}
	return cost
}

func appendXOR(dst []byte, values []float64) []byte {
	last := math.Float64bits(values[0])
	dst = binary.LittleEndian.AppendUint64(dst, last)
	dst = binary.AppendUvarint(dst, uint64(xorCost(values)-64-24+7)/8)
	b := bitWriter{dst: dst}
	var w xorWindow
	for _, v := range values[1:] {
		x := math.Float64bits(v) ^ last
		last ^= x
		if x == 0 {
			b.write(0, 1)
			continue
		}
		var fresh bool
		if w, fresh = w.next(x); fresh {
			b.write(3|uint64(w.lead)<<2|uint64(w.length-1)<<8, 14)
		} else {
			b.write(1, 2)
		}
		b.write(x>>(64-w.lead-w.length), uint(w.length))
	}
	return b.flush()
}

// bitWriter appends bits to dst.
type bitWriter struct {
	dst []byte
	acc uint64
	n   uint
}

// write writes the low n bits of x, 1 to 64; the others are 0.
func (b *bitWriter) write(x uint64, n uint) {
	b.acc |= x << b.n
	if b.n += n; b.n >= 64 {
		b.dst = binary.LittleEndian.AppendUint64(b.dst, b.acc)
		b.n -= 64
		b.acc = x >> (n - b.n)
	}
}

func (b *bitWriter) flush() []byte {
	for ; b.n > 0; b.n -= min(b.n, 8) {
		b.dst = append(b.dst, byte(b.acc))
		b.acc >>= 8
	}
	return b.dst
}

// xor decodes a block of XORs into out.
func (d *decoder) xor(out []float64) {
	last := d.uint64()
	n := d.uvarint()
	if n > uint64(len(d.data)) {
		d.fail()
		return
	}
	data := d.take(int(n))
	out[0] = math.Float64frombits(last)
	at, end := uint(0), uint(n)*8
	shift, length := uint(0), uint(0)
	for i := 1; i < len(out); i++ {
		head := peek(data, at)
		switch {
		case head&1 == 0:
			at++
		default:
			if at += 2; head&2 != 0 {
				lead := uint(head >> 2 & 63)
				length = uint(head>>8&63) + 1
				if at += 12; lead+length > 64 {
					d.fail()
					return
				}
				shift = 64 - lead - length
			}
			if length == 0 { // no window yet
				d.fail()
				return
			}
			x := peek(data, at) & (^uint64(0) >> (64 - length))
			if length > 56 {
				x = (peek(data, at)&(1<<32-1) | peek(data, at+32)<<32) & (^uint64(0) >> (64 - length))
			}
			last ^= x << shift
			at += length
		}
		out[i] = math.Float64frombits(last)
	}
	if at > end || at+8 <= end {
		d.fail()
	}
}

// peek returns at least the next 57 bits from the bit at; behind the end of data are zeros.
func peek(data []byte, at uint) uint64 {
	from := at >> 3
	if from+8 <= uint(len(data)) {
		return binary.LittleEndian.Uint64(data[from:]) >> (at & 7)
	}
	var b [8]byte
	if from < uint(len(data)) {
		copy(b[:], data[from:])
	}
	return binary.LittleEndian.Uint64(b[:]) >> (at & 7)
}
