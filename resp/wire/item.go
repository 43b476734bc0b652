package wire

import (
	"bytes"

	"github.com/skerrydb/skerry/decimal"
)

// Item is the head of one value in a reply. It lets callers iterate over a reply without
// building Values, and so without allocating.
type Item struct {
	Kind byte
	Int  int64  // of KindInt; 1 or 0 for KindBool
	Str  []byte // like Value.Str; aliases the reply
	Len  int    // how many of the following values are parts of this one; a map has two per pair
}

// IsNull reports whether the value is one of RESP's three nulls.
func (it *Item) IsNull() bool { return it.Kind == KindNull }

// IsError reports whether the value is an error.
func (it *Item) IsError() bool { return it.Kind == KindError || it.Kind == KindBlobError }

// Cut splits the first value off b, a reply as returned by NextRaw. rest is what follows.
// For an array, map, set or push, it begins with the Len parts of the value. An attribute
// is an Item, followed by its parts and the value that it belongs to. ok is false if b does
// not begin with a complete value. b may contain any bytes.
func Cut(b []byte) (it Item, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 2 || b[i-1] != '\r' {
		return Item{}, nil, false
	}
	body, parts, _, err := head(b[:i-1], DefaultMaxReply)
	if err != nil {
		return Item{}, nil, false
	}
	it.Kind, it.Str, rest = b[0], b[1:i-1:i-1], b[i+1:]
	switch it.Kind {
	case KindSimple, KindError, KindDouble, KindBig:
		return it, rest, true
	case KindInt:
		it.Int = parsedInt(it.Str)
		it.Str = nil
		return it, rest, true
	case KindBool:
		if len(it.Str) == 1 && it.Str[0] == 't' {
			it.Int = 1
		}
		it.Str = nil
		return it, rest, true
	}
	null := it.Kind == KindNull || len(it.Str) > 0 && it.Str[0] == '-'
	it.Str = nil
	if null {
		it.Kind = KindNull
		return it, rest, true
	}
	if body < 0 {
		it.Len = parts
		return it, rest, true
	}
	if len(rest) < body+2 || rest[body] != '\r' || rest[body+1] != '\n' {
		return Item{}, nil, false
	}
	it.Str, rest = rest[:body:body], rest[body+2:]
	if it.Kind == KindVerbatim {
		it.Str = it.Str[4:]
	}
	return it, rest, true
}

// Skip returns what follows the first value of b and all of its parts. If the value is an
// attribute, Skip also skips the value that it belongs to. ok is false as for Cut, and if
// values are nested deeper than MaxReplyDepth.
func Skip(b []byte) (rest []byte, ok bool) {
	var want [MaxReplyDepth + 1]int
	depth := 0
	want[0] = 1
	for {
		for want[depth] == 0 {
			if depth == 0 {
				return b, true
			}
			depth--
		}
		it, rest, ok := Cut(b)
		if !ok {
			return nil, false
		}
		b = rest
		if it.Kind != KindAttribute {
			want[depth]--
		}
		if it.Len > 0 {
			if depth == MaxReplyDepth {
				return nil, false
			}
			depth++
			want[depth] = it.Len
		}
	}
}

// parsedInt returns the number in a line that head has accepted.
func parsedInt(s []byte) int64 {
	if n, ok := decimal.Parse(s); ok {
		return n
	}
	neg, n := false, uint64(0) // leading zeros or a plus sign
	for i, c := range s {
		if i == 0 && (c == '-' || c == '+') {
			neg = c == '-'
			continue
		}
		n = n*10 + uint64(c-'0')
	}
	if neg {
		return int64(-n)
	}
	return int64(n)
}
