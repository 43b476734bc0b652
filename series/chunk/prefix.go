package chunk

import (
	"encoding/binary"
	"math/bits"
)

// Small codes may be stored with a prefix code instead of a fixed width. After the patches, which
// are then for the codes from prefixSymbols on and stand in the stream as 0, come
//
//	4 bits   for each code from 0 up, as many as the byte after the flags says + 1: its length in
//	         bits, or 0; two to a byte, the first in the low half
//	...      the stream: the prefixes of all codes, packed from the lowest bit up
//
// Prefixes are assigned in the order of their lengths, and of the codes of the same length, as in
// DEFLATE (RFC 1951, 3.2.2), and stored from their highest bit on. None is left unassigned.

// Bounds of prefix codes. On disk: do not change.
const (
	prefixSymbols = 64
	prefixMax     = 9 // bits
	prefixSpace   = 1 << prefixMax
)

// prefixLengths are the lengths of the prefixes of codes.
type prefixLengths [prefixSymbols]uint8

// prefixWidth is the width of packed codes from which on prefixes are tried, and prefixLeast the
// number of codes.
const (
	prefixWidth = 9
	prefixLeast = 48
)

// planPrefixes returns lengths of prefixes for the codes, how many of the lengths are used, and
// whether they take less than the given bits.
func planPrefixes(codes []uint64, most int) (lengths prefixLengths, n int, ok bool) {
	var count [prefixSymbols]int
	size, patches := 0, 0
	for _, c := range codes {
		if c < prefixSymbols {
			count[c]++
			continue
		}
		patches++
		size += 8 + 8*((bits.Len64(c)+6)/7)
	}
	if count[0] += patches; size > most {
		return lengths, 0, false
	}
	left := prefixSpace
	for s, c := range count {
		if c == 0 {
			continue
		}
		if c == len(codes) {
			return lengths, 0, false
		}
		n = s + 1
		l := 1
		for l < prefixMax && c<<l < len(codes) {
			l++
		}
		lengths[s] = uint8(l)
		left -= prefixSpace >> l
	}
	fillPrefixes(&count, lengths[:n], left)
	size += 8 + 4*n
	for s, l := range lengths[:n] {
		size += count[s] * int(l)
	}
	return lengths, n, size < most
}

// fillPrefixes changes the lengths so that they use the space of prefixes, of which some is left
// or, below zero, missing, where that gains most or costs least.
func fillPrefixes(count *[prefixSymbols]int, lengths []uint8, left int) {
	for left < 0 {
		best := -1
		for s, l := range lengths {
			if l > 0 && l < prefixMax && (best < 0 || count[s]<<l < count[best]<<lengths[best]) {
				best = s
			}
		}
		lengths[best]++
		left += prefixSpace >> lengths[best]
	}
	for left > 0 {
		best := -1
		for s, l := range lengths {
			if l > 1 && prefixSpace>>l <= left && (best < 0 || count[s]<<l > count[best]<<lengths[best]) {
				best = s
			}
		}
		left -= prefixSpace >> lengths[best]
		lengths[best]--
	}
}

// assignPrefixes returns the prefixes, with the first bit lowest, of codes by their lengths. The
// lengths must use exactly all of the space.
func assignPrefixes(lengths []uint8) (prefixes [prefixSymbols]uint16) {
	var next [prefixMax + 2]int // the first prefix of each length
	for _, l := range lengths {
		if l > 0 {
			next[l+1]++
		}
	}
	for l := 1; l < len(next); l++ {
		next[l] = (next[l] + next[l-1]) << 1
	}
	for s, l := range lengths {
		if l > 0 {
			prefixes[s] = bits.Reverse16(uint16(next[l])) >> (16 - l)
			next[l]++
		}
	}
	return prefixes
}

// appendPrefixes appends the lengths and the prefixes of the codes.
func appendPrefixes(dst []byte, codes []uint64, lengths []uint8) []byte {
	for i := 0; i < len(lengths); i += 2 {
		b := lengths[i]
		if i+1 < len(lengths) {
			b |= lengths[i+1] << 4
		}
		dst = append(dst, b)
	}
	prefixes := assignPrefixes(lengths)
	var acc uint64
	var n uint
	for _, c := range codes {
		if c >= prefixSymbols {
			c = 0
		}
		acc |= uint64(prefixes[c]) << n
		if n += uint(lengths[c]); n >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(acc))
			acc >>= 32
			n -= 32
		}
	}
	for ; n > 0; n -= min(n, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// prefixes decodes n lengths and the codes.
func (d *decoder) prefixes(codes []int64, n int) {
	var lengths prefixLengths
	for i, b := range d.take((n + 1) / 2) {
		lengths[2*i] = b & 15
		lengths[2*i+1] = b >> 4
	}
	space := 0
	for _, l := range lengths {
		if l > prefixMax {
			d.fail()
			return
		}
		if l > 0 {
			space += prefixSpace >> l
		}
	}
	if space != prefixSpace {
		d.fail()
		return
	}
	var table [prefixSpace]uint16 // by the next bits: code << 4 | length
	prefixes := assignPrefixes(lengths[:])
	for s, l := range lengths {
		if l > 0 {
			for i := int(prefixes[s]); i < prefixSpace; i += 1 << l {
				table[i] = uint16(s)<<4 | uint16(l)
			}
		}
	}
	used := (readPrefixes(codes, d.data, &table) + 7) / 8
	if used > uint(len(d.data)) {
		d.fail()
		return
	}
	d.take(int(used))
}

// readPrefixes decodes the codes from the front of data and returns the number of bits read,
// which may be more than data has.
func readPrefixes(codes []int64, data []byte, table *[prefixSpace]uint16) uint {
	at := uint(0)
	for len(codes) >= 6 {
		from := at >> 3
		if from+8 > uint(len(data)) {
			break
		}
		window := binary.LittleEndian.Uint64(data[from:from+8:from+8]) >> (at & 7)
		six := (*[6]int64)(codes) // 54 of at least 57 bits
		for i := range six {
			t := table[window%prefixSpace]
			six[i] = int64(t >> 4)
			window >>= t & 15
			at += uint(t & 15)
		}
		codes = codes[6:]
	}
	for i := range codes {
		t := table[peek(data, at)%prefixSpace]
		codes[i] = int64(t >> 4)
		at += uint(t & 15)
	}
	return at
}
