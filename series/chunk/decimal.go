package chunk

import (
	"encoding/binary"
	"math"
)

// powers are the powers of ten by which decimals are scaled; a float64 has each exactly.
// On disk: do not change.
var powers = [16]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// exceptionBits is about the size of an exception.
const exceptionBits = 72

// decimal returns the integer x with x / power == v, bit by bit, if there is one that rounding
// finds.
func decimal(v, power float64) (x int64, ok bool) {
	s := math.RoundToEven(v * power)
	if !(s > -1<<63 && s < 1<<63) {
		return 0, false
	}
	x = int64(s)
	return x, math.Float64bits(float64(x)/power) == math.Float64bits(v)
}

// digits returns the smallest exponent that makes v a decimal, or -1.
func digits(v float64) int {
	for e, power := range powers {
		if _, ok := decimal(v, power); ok {
			return e
		}
	}
	return -1
}

// decimals chooses an exponent from a sample of the values and stores the values as integers in
// e.ints. An exception becomes the integer before it, or the first there is, which costs little
// in either form. It reports false if few values are decimals.
func (e *encoder) decimals(values []float64) (exponent, exceptions int, ok bool) {
	var count [len(powers)]int
	n := min(len(values), 24)
	found := 0
	for i := range n {
		if d := digits(values[i*len(values)/n]); d >= 0 {
			count[d]++
			found++
		} else if i == 7 && found == 0 { // looking for digits that are not there takes long
			return 0, 0, false
		}
	}
	if found*2 < n {
		return 0, 0, false
	}
	for left := found; exponent < len(powers)-1; exponent++ { // leave out a few with many digits
		if left -= count[exponent]; left*12 <= n {
			break
		}
	}
	exceptions, wanted := e.scale(values, exponent)
	if exceptions > len(values)/64 && wanted > exponent { // see whether the sample was not like the rest
		if more, _ := e.scale(values, wanted); more <= exceptions*3/4 {
			exponent, exceptions = wanted, more
		} else {
			e.scale(values, exponent)
		}
	}
	return exponent, exceptions, exceptions*2 <= len(values)
}

// scale stores the values as integers in e.ints. It returns the number of exceptions and the
// exponent that the first few of them need.
func (e *encoder) scale(values []float64, exponent int) (exceptions, wanted int) {
	ints, power := e.ints[:len(values)], powers[exponent]
	var last int64
	for i, v := range values {
		var ok bool
		x := int64(v) // not used if it is out of range
		if ok = exponent == 0 && math.Float64bits(float64(x)) == math.Float64bits(v) && x != math.MaxInt64; !ok {
			x, ok = decimal(v, power)
		}
		if !ok {
			if exceptions++; exceptions <= 16 {
				wanted = max(wanted, digits(v))
			}
			x = last
		} else if exceptions == i { // nothing but exceptions before
			for j := range i {
				ints[j] = x
			}
		}
		ints[i], last = x, x
	}
	return exceptions, wanted
}

// appendDecimals appends a block of decimals from e.ints, stored as planned, and the exceptions.
func (e *encoder) appendDecimals(dst []byte, values []float64, exponent, exceptions int, p plan) []byte {
	kind := blockDecimal | byte(exponent)<<4
	ints, power := e.ints[:len(values)], powers[exponent]
	if exceptions == 0 {
		return e.appendPlanned(append(dst, kind), ints, p)
	}
	dst = append(dst, kind|blockExceptions)
	dst = binary.AppendUvarint(dst, uint64(exceptions))
	last := 0
	for i, v := range values {
		if math.Float64bits(float64(ints[i])/power) != math.Float64bits(v) {
			dst = binary.AppendUvarint(dst, uint64(i-last))
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
			last = i
		}
	}
	return e.appendPlanned(dst, ints, p)
}

// decimals decodes a block of decimals into out.
func (d *decoder) decimals(out []float64, exponent int, excepted bool) {
	exceptions := reader{data: d.data}
	count := uint64(0)
	if excepted {
		count = d.uvarint()
		exceptions.data = d.data
		d.skipExceptions(count, len(out))
	}
	ints := d.ints[:len(out)]
	d.intBlock(ints)
	if d.bad {
		return
	}
	out = out[:len(ints)] // saves the bounds checks
	if exponent == 0 {
		for i, x := range ints {
			out[i] = float64(x)
		}
	} else {
		power := powers[exponent]
		for i, x := range ints {
			out[i] = float64(x) / power
		}
	}
	at := uint64(0)
	for range count {
		at += exceptions.uvarint()
		out[at] = math.Float64frombits(exceptions.uint64())
	}
}

// skipExceptions checks and skips the exceptions of a block of n values.
func (d *decoder) skipExceptions(count uint64, n int) {
	at := uint64(0)
	for range min(count, uint64(n)+1) {
		gap := d.uvarint()
		d.uint64()
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
