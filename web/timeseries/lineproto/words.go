package lineproto

import (
	"encoding/binary"
	"math/bits"
)

// Lines are read eight bytes at a time, as words whose lowest byte is the first.
const (
	ones  = 0x0101010101010101 // times a byte: that byte, eight times
	highs = 0x80 * ones
)

// keyEnd returns the offset of the first byte at or after at that has a meaning in keys, or the length of
// line.
func keyEnd(line []byte, at int) int {
	for at+8 <= len(line) {
		w := binary.LittleEndian.Uint64(line[at:])
		// The high bit of the first byte that is below '-', an equals sign or a backslash is set in
		// stops, and none before it: a subtraction borrows only from later bytes.
		equals, backslash := w^'='*ones, w^'\\'*ones
		stops := ((w-'-'*ones)&^w | (equals-ones)&^equals | (backslash-ones)&^backslash) & highs
		if stops == 0 {
			at += 8
			continue
		}
		at += bits.TrailingZeros64(stops) / 8
		if class[line[at]] != 0 {
			return at
		}
		at++
	}
	for at < len(line) && class[line[at]] == 0 {
		at++
	}
	return at
}

// digits reads decimal digits from at on. It returns n followed by them, which overflows beyond 19
// digits, and the offset after them.
func digits(line []byte, at int, n uint64) (uint64, int) {
	for at+8 <= len(line) {
		w := binary.LittleEndian.Uint64(line[at:]) ^ '0'*ones // digits have become 0 to 9
		others := (w&^highs + (128-10)*ones | w) & highs
		if others != 0 {
			// Without a loop over them: how many digits a number has is hard to predict.
			count := bits.TrailingZeros64(others) / 8
			return n*tens[count] + eightDigits(w<<(64-8*count)), at + count
		}
		n = n*tens[8] + eightDigits(w)
		at += 8
	}
	for ; at < len(line) && line[at]-'0' <= 9; at++ {
		n = n*10 + uint64(line[at]-'0')
	}
	return n, at
}

var tens = [9]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// eightDigits returns the number whose decimal digits are the bytes of w.
func eightDigits(w uint64) uint64 {
	w = w * (10<<8 + 1) >> 8                               // four numbers of two digits
	w = w & 0x00FF00FF00FF00FF * (100<<16 + 1) >> 16       // two of four
	return w & 0x0000FFFF0000FFFF * (10_000<<32 + 1) >> 32 // one of eight
}
