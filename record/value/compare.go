package value

import (
	"cmp"
	"math"
	"strings"
)

// Compare returns -1, 0 or +1 as a sorts before, with or after b. Values of different kinds sort in the order of
// the kinds, so null is first; numbers of any kind compare exactly by their value. Texts and JSON compare by their
// bytes. Values of one kind that compare as equal are the same value.
func Compare(a, b Value) int {
	if a.kind != b.kind {
		if a.kind.IsNumber() && b.kind.IsNumber() {
			return compareNumbers(a, b)
		}
		return cmp.Compare(a.kind, b.kind)
	}
	switch a.kind {
	case Null:
		return 0
	case Bool:
		return cmp.Compare(a.bits, b.bits)
	case Int, Time:
		return cmp.Compare(int64(a.bits), int64(b.bits))
	case Float:
		return cmp.Compare(math.Float64frombits(a.bits), math.Float64frombits(b.bits))
	case Decimal:
		return compareDecimals(a.text, b.text)
	}
	return strings.Compare(a.text, b.text)
}

// compareNumbers compares numbers of different kinds.
func compareNumbers(a, b Value) int {
	if a.kind != Float && b.kind != Float {
		x, _ := a.Decimal()
		y, _ := b.Decimal()
		return compareDecimals(x, y)
	}
	return a.rat().Cmp(b.rat())
}
