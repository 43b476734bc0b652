package chunk

import (
	"encoding/binary"
	"math"
)

// Modes of times. On disk: do not change.
const (
	timesRegular = 0 // a constant step
	timesOther   = 1
)

// unitsOfTime are the units of time in nanoseconds, by exponent. On disk: do not change.
var unitsOfTime = [19]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// divisor divides by 10^exponent without a division, which is slow: it shifts by the powers of
// two and multiplies by the inverse of 5^exponent modulo 2^64. That is right for the multiples,
// and for them only the quotient is not above the limit.
type divisor struct {
	exponent       int
	inverse, limit uint64
}

func newDivisor(exponent int) divisor {
	five := unitsOfTime[exponent] >> exponent
	inverse := five // right in three bits, and each step doubles them
	for range 5 {
		inverse *= 2 - five*inverse
	}
	return divisor{exponent, inverse, math.MaxUint64 / five}
}

func (v *divisor) divide(x uint64) (quotient uint64, ok bool) {
	quotient = (x >> v.exponent) * v.inverse
	return quotient, quotient <= v.limit && x&(1<<v.exponent-1) == 0
}

// timeUnit returns a divisor by the largest unit that divides all differences of the times, and
// whether the differences are equal.
func timeUnit(times []int64) (unit divisor, regular bool) {
	step := uint64(times[1]) - uint64(times[0])
	e := len(unitsOfTime) - 1
	for step%unitsOfTime[e] != 0 {
		e--
	}
	unit, regular = newDivisor(e), true
	for i := 2; i < len(times); i++ {
		d := uint64(times[i]) - uint64(times[i-1])
		if d == step {
			continue
		}
		regular = false
		for _, ok := unit.divide(d); !ok; _, ok = unit.divide(d) {
			unit = newDivisor(unit.exponent - 1)
		}
	}
	return unit, regular
}

// appendTimes appends the header and the times.
func (e *encoder) appendTimes(dst []byte, times []int64) []byte {
	n := len(times)
	var unit divisor
	mode := byte(timesRegular)
	if n > 1 {
		var regular bool
		if unit, regular = timeUnit(times); !regular {
			mode = timesOther
		}
	}
	dst = append(dst, mode<<5|byte(unit.exponent))
	dst = binary.AppendUvarint(dst, uint64(n-1))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(times[0]))
	if n == 1 {
		return dst
	}
	last := n - 1
	if mode == timesRegular {
		last = 1
	}
	length, _ := unit.divide(uint64(times[last]) - uint64(times[0]))
	dst = binary.AppendUvarint(dst, length)
	if mode == timesRegular {
		return dst
	}
	for from := 1; from < n; from += blockSize {
		m := min(n-from, blockSize)
		for i := range e.ints[:m] {
			steps, _ := unit.divide(uint64(times[from+i]) - uint64(times[from+i-1]))
			e.ints[i] = int64(steps)
		}
		dst = e.appendInts(dst, e.ints[:m])
	}
	return dst
}

// times decodes the times of a chunk with the header h into out.
func (d *decoder) times(out []int64, h header) {
	out[0] = h.first
	t := uint64(h.first)
	if h.mode == timesRegular {
		step := h.length * h.unit
		for i := range out {
			out[i] = int64(t)
			t += step
		}
		return
	}
	rest := h.length // keeps times ascending and within the span of the header
	for out = out[1:]; len(out) > 0 && !d.bad; {
		m := min(len(out), blockSize)
		steps := out[:m]
		d.intBlock(steps)
		for i, step := range steps {
			if uint64(step)-1 >= rest { // zero, or more than the rest
				d.fail()
				return
			}
			rest -= uint64(step)
			t += uint64(step) * h.unit
			steps[i] = int64(t)
		}
		out = out[m:]
	}
	if rest != 0 {
		d.fail()
	}
}
