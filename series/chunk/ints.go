package chunk

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// A block of integers x[i] is stored as unsigned codes:
//
//	byte     flags
//	byte     width of a packed code, in bits; 0 to 64. With intsPrefix see prefix.go
//	varint   intsDelta: x[0]; the codes are then of the differences of neighbours
//	varint   base, subtracted from each integer; then intsZigzag or not
//	...      intsPatched: the number of codes that are wider, as uvarint, and for each the
//	         distance from the one before it and the bits over the width, as uvarints
//	...      the low bits of all codes, packed from the lowest bit up; with intsPrefix see prefix.go
//
// Arithmetic wraps around, so that any int64 works.

// Flags of a block of integers. On disk: do not change.
const (
	intsDelta   = 1 << 0
	intsZigzag  = 1 << 1
	intsPatched = 1 << 2
	intsPrefix  = 1 << 3
	intsKnown   = intsDelta | intsZigzag | intsPatched | intsPrefix
)

// plan says how to store a sequence of integers.
type plan struct {
	flags byte
	width int
	base  int64
	size  int // estimate of the size of the codes in bits
	cost  int // and of all
}

// planInts returns the cheapest plan for s, without a choice between s and its differences.
func planInts(s []int64) plan {
	low, high := s[0], s[0]
	for _, x := range s {
		low, high = min(low, x), max(high, x)
	}
	if low == high {
		return plan{base: low, cost: 8 * len(binary.AppendVarint(nil, low))}
	}
	middle := median(s)
	var plain, zig [65]int
	var odd [2][65]int // neighbours are often of the same width: counting them apart is faster
	rest := s
	for ; len(rest) >= 2; rest = rest[2:] {
		x, y := rest[0], rest[1]
		plain[bits.Len64(uint64(x-low))]++
		odd[0][bits.Len64(uint64(y-low))]++
		zig[bits.Len64(zigzag(x-middle))]++
		odd[1][bits.Len64(zigzag(y-middle))]++
	}
	if len(rest) > 0 {
		plain[bits.Len64(uint64(rest[0]-low))]++
		zig[bits.Len64(zigzag(rest[0]-middle))]++
	}
	for b := range plain {
		plain[b] += odd[0][b]
		zig[b] += odd[1][b]
	}
	p := plan{base: low}
	p.width, p.size = bestWidth(&plain, len(s))
	q := plan{base: middle, flags: intsZigzag}
	if q.width, q.size = bestWidth(&zig, len(s)); q.size < p.size {
		p = q
	}
	p.cost = p.size + 8*varintLen(p.base)
	return p
}

// median estimates the median of s from a few samples.
func median(s []int64) int64 {
	var sample [15]int64
	n := min(len(s), len(sample))
	for i := range n {
		sample[i] = s[i*len(s)/n]
	}
	slices.Sort(sample[:n])
	return sample[n/2]
}

func varintLen(x int64) int {
	return (bits.Len64(zigzag(x)|1) + 6) / 7
}

// bestWidth returns the width that minimises the size of n codes, of which count[b] are of b
// bits, and that size in bits.
func bestWidth(count *[65]int, n int) (width, cost int) {
	top := 64
	for top > 0 && count[top] == 0 {
		top--
	}
	width, cost = top, top*n
	wider := 0
	for w := top - 1; w >= 0; w-- {
		wider += count[w+1]
		if wider > n/4 {
			break
		}
		c := w*n + 8
		for b := w + 1; b <= top; b++ {
			c += count[b] * (9 + 8*((b-w+6)/7))
		}
		if c < cost {
			width, cost = w, c
		}
	}
	return width, cost
}

// planBlock returns a plan for x: the cheapest for x or for its differences, whichever a part of
// them, if x is long, says is smaller. It leaves the differences of x in e.deltas.
func (e *encoder) planBlock(x []int64) plan {
	if len(x) < 2 {
		return planInts(x)
	}
	deltas := e.deltas[:len(x)-1]
	for i := range deltas {
		deltas[i] = x[i+1] - x[i]
	}
	first := 8 * varintLen(x[0])
	long := len(x) > roughParts*roughRun
	if long && roughSize(x) <= roughSize(deltas)+first {
		return planInts(x)
	}
	p := planInts(deltas)
	p.flags |= intsDelta
	p.cost += first
	if !long {
		if q := planInts(x); q.cost <= p.cost {
			return q
		}
	}
	return p
}

// roughSize looks at so many parts of so many integers.
const roughParts, roughRun = 8, 32

// roughSize estimates the size of s in bits.
func roughSize(s []int64) int {
	middle := median(s)
	var count [65]int
	for i := range roughParts {
		from := i * (len(s) - roughRun) / (roughParts - 1)
		for _, x := range s[from : from+roughRun] {
			count[bits.Len64(zigzag(x-middle))]++
		}
	}
	_, size := bestWidth(&count, roughParts*roughRun)
	return size * len(s) / (roughParts * roughRun)
}

// appendInts appends the block of x.
func (e *encoder) appendInts(dst []byte, x []int64) []byte {
	return e.appendPlanned(dst, x, e.planBlock(x))
}

// appendPlanned appends the block of x as planBlock, which was called last for x, has planned.
func (e *encoder) appendPlanned(dst []byte, x []int64, p plan) []byte {
	s := x
	if p.flags&intsDelta != 0 {
		s = e.deltas[:len(x)-1]
	}
	codes := e.codes[:len(s)]
	var all uint64
	if p.flags&intsZigzag != 0 {
		for i, v := range s {
			codes[i] = zigzag(v - p.base)
			all |= codes[i]
		}
	} else {
		for i, v := range s {
			codes[i] = uint64(v - p.base)
			all |= codes[i]
		}
	}
	second, patched := p.width, all>>p.width != 0
	var lengths prefixLengths
	if p.width > 0 && p.width <= prefixWidth && len(codes) >= prefixLeast {
		if l, n, ok := planPrefixes(codes, p.size); ok {
			p.flags |= intsPrefix
			lengths, second, patched = l, n-1, all >= prefixSymbols
		}
	}
	if patched {
		p.flags |= intsPatched
	}
	dst = append(dst, p.flags, byte(second))
	if p.flags&intsDelta != 0 {
		dst = binary.AppendVarint(dst, x[0])
	}
	dst = binary.AppendVarint(dst, p.base)
	if p.flags&intsPrefix != 0 {
		if patched {
			dst = appendPatches(dst, codes, prefixSymbols-1, 0)
		}
		return appendPrefixes(dst, codes, lengths[:second+1])
	}
	if patched {
		dst = appendPatches(dst, codes, 1<<p.width-1, p.width)
	}
	return appendPacked(dst, codes, p.width)
}

// appendPatches appends the bits over the width of the codes above most.
func appendPatches(dst []byte, codes []uint64, most uint64, width int) []byte {
	n := 0
	for _, c := range codes {
		if c > most {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	last := 0
	for i, c := range codes {
		if c > most {
			dst = binary.AppendUvarint(dst, uint64(i-last))
			dst = binary.AppendUvarint(dst, c>>width)
			last = i
		}
	}
	return dst
}

// intBlock decodes a block of integers into out.
func (d *decoder) intBlock(out []int64) {
	flags, width := d.byte(), int(d.byte())
	if flags&^intsKnown != 0 || width > 64 || flags&intsPrefix != 0 && width >= prefixSymbols {
		d.fail()
		return
	}
	var first int64
	s := out // the codes and then, in their place, the integers
	if flags&intsDelta != 0 {
		first = d.varint()
		out[0] = first
		s = out[1:]
	}
	base := d.varint()
	patches := reader{}
	if flags&intsPatched != 0 {
		patches.data = d.data
		d.skipPatches(len(s))
	}
	if flags&intsPrefix != 0 {
		d.prefixes(s, width+1)
		width = 0
	} else {
		unpack(s, d.take((len(s)*width+7)/8), width)
	}
	if d.bad {
		return
	}
	if flags&intsPatched != 0 {
		patches.patch(s, width)
	}
	switch flags & (intsDelta | intsZigzag) {
	case 0:
		for i, c := range s {
			s[i] = base + c
		}
	case intsZigzag:
		for i, c := range s {
			s[i] = base + unzigzag(uint64(c))
		}
	case intsDelta:
		for i, c := range s {
			first += base + c
			s[i] = first
		}
	case intsDelta | intsZigzag:
		for i, c := range s {
			first += base + unzigzag(uint64(c))
			s[i] = first
		}
	}
}

// skipPatches checks and skips the patches of n codes.
func (d *decoder) skipPatches(n int) {
	count := d.uvarint()
	at := uint64(0)
	for range min(count, uint64(n)+1) {
		gap := d.uvarint()
		d.uvarint()
		if at += gap; gap > uint64(n) || at >= uint64(n) {
			d.fail()
		}
		if d.bad {
			return
		}
	}
	if count > uint64(n) {
		d.fail()
	}
}

// patch adds the patches, which skipPatches has checked, to the codes.
func (r *reader) patch(codes []int64, width int) {
	at := uint64(0)
	for range r.uvarint() {
		at += r.uvarint()
		codes[at] |= int64(r.uvarint() << width)
	}
}
