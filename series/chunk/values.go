package chunk

import (
	"encoding/binary"
	"math"
)

// A block of values is a byte, its kind in the low three bits, and then:
//
//	blockConstant  8 bytes: the bits of all values
//	blockDecimal   value = integer / 10^exponent; the exponent is in the high four bits of the
//	               first byte. If it has blockExceptions: their number as uvarint, and for each the
//	               distance from the one before as uvarint and 8 bytes, the bits of the value.
//	               Then a block of integers.
//	blockBits      a block of integers: the bits of the values
//	blockXOR       the difference to the value before, see xor.go
//	blockRaw       8 bytes for each value

// Kinds of blocks and their flag. On disk: do not change.
const (
	blockConstant   = 0
	blockDecimal    = 1
	blockBits       = 2
	blockXOR        = 3
	blockRaw        = 4
	blockKind       = 1<<3 - 1
	blockExceptions = 1 << 3
)

// goodWidth is the size of a value, in bits, below which decimals are used without a look at
// the other kinds.
const goodWidth = 24

// appendBlock appends a block of at most blockSize values in the cheapest way.
func (e *encoder) appendBlock(dst []byte, values []float64) []byte {
	if constant(values) {
		dst = append(dst, blockConstant)
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(values[0]))
	}
	n := len(values)
	kind, cost := byte(blockRaw), 64*n
	exponent, exceptions, ok := e.decimals(values)
	var p plan
	if ok {
		p = e.planBlock(e.ints[:n])
		if c := p.cost + exceptions*exceptionBits; c < cost {
			kind, cost = blockDecimal, c
		}
	}
	if kind == blockDecimal && cost <= goodWidth*n {
		return e.appendDecimals(dst, values, exponent, exceptions, p)
	}
	for i, v := range values {
		e.bits[i] = int64(math.Float64bits(v))
	}
	if c := xorCost(values); c < cost {
		kind, cost = blockXOR, c
	}
	if q := e.planBlock(e.bits[:n]); q.cost+24 < cost {
		return e.appendPlanned(append(dst, blockBits), e.bits[:n], q)
	}
	switch kind {
	case blockDecimal:
		return e.appendDecimals(dst, values, exponent, exceptions, e.planBlock(e.ints[:n]))
	case blockXOR:
		return appendXOR(append(dst, blockXOR), values)
	}
	dst = append(dst, blockRaw)
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

func constant(values []float64) bool {
	first := math.Float64bits(values[0])
	for _, v := range values[1:] {
		if math.Float64bits(v) != first {
			return false
		}
	}
	return true
}

// block decodes a block of values into out.
func (d *decoder) block(out []float64) {
	b := d.byte()
	kind := b & blockKind
	if kind != blockDecimal && b != kind {
		d.fail()
		return
	}
	switch kind {
	case blockConstant:
		v := math.Float64frombits(d.uint64())
		for i := range out {
			out[i] = v
		}
	case blockDecimal:
		d.decimals(out, int(b>>4), b&blockExceptions != 0)
	case blockBits:
		ints := d.ints[:len(out)]
		d.intBlock(ints)
		for i, x := range ints {
			out[i] = math.Float64frombits(uint64(x))
		}
	case blockXOR:
		d.xor(out)
	case blockRaw:
		data := d.take(8 * len(out))
		for i := range len(data) / 8 {
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
	default:
		d.fail()
	}
}
