package chunk

import "encoding/binary"

// Modes of times. On disk: do not change.
const (
	timesRegular = 0 // a constant step
	timesOther   = 1
)

// unitsOfTime are the units of time in nanoseconds, by exponent. On disk: do not change.
var unitsOfTime = [19]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// timeUnit returns the exponent of the largest unit that divides all differences of the times,
// and whether the differences are equal.
func timeUnit(times []int64) (exponent int, regular bool) {
	step := uint64(times[1]) - uint64(times[0])
	e := len(unitsOfTime) - 1
	for step%unitsOfTime[e] != 0 {
		e--
	}
	regular = true
	for i := 2; i < len(times); i++ {
		d := uint64(times[i]) - uint64(times[i-1])
		if d == step {
			continue
		}
		regular = false
		for d%unitsOfTime[e] != 0 {
			e--
		}
	}
	return e, regular
}

// appendTimes appends the header and the times.
func (e *encoder) appendTimes(dst []byte, times []int64) []byte {
	n := len(times)
	exponent, mode := 0, byte(timesRegular)
	if n > 1 {
		var regular bool
		if exponent, regular = timeUnit(times); !regular {
			mode = timesOther
		}
	}
	dst = append(dst, mode<<5|byte(exponent))
	dst = binary.AppendUvarint(dst, uint64(n-1))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(times[0]))
	if n == 1 {
		return dst
	}
	unit := unitsOfTime[exponent]
	if mode == timesRegular {
		return binary.AppendUvarint(dst, (uint64(times[1])-uint64(times[0]))/unit)
	}
	dst = binary.AppendUvarint(dst, (uint64(times[n-1])-uint64(times[0]))/unit)
	for from := 1; from < n; from += blockSize {
		m := min(n-from, blockSize)
		for i := range e.ints[:m] {
			e.ints[i] = int64((uint64(times[from+i]) - uint64(times[from+i-1])) / unit)
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
		ints := d.ints[:m]
		d.intBlock(ints)
		for i, step := range ints {
			if uint64(step)-1 >= rest { // zero, or more than the rest
				d.fail()
				return
			}
			rest -= uint64(step)
			t += uint64(step) * h.unit
			out[i] = int64(t)
		}
		out = out[m:]
	}
	if rest != 0 {
		d.fail()
	}
}
