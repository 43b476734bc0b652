package value

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
)

// The first byte of an encoded value. In the data: do not change.
const (
	tagNull    = 0x08
	tagFalse   = 0x10
	tagTrue    = 0x11
	tagInt     = 0x20
	tagFloat   = 0x28
	tagMinus   = 0x30 // a decimal below zero
	tagDecimal = 0x31
	tagTime    = 0x40
	tagText    = 0x50
)

// Escapes within texts, so that a text ends with a byte that sorts before every other. In the data: do not change.
const (
	textEnd    = 0x00
	textEscape = 0x01 // followed by the escaped byte plus one: 0x00 and 0x01 are escaped
)

// AppendKey appends v in a form whose byte order is the order of Compare among values of one kind and null, and
// returns the extended slice. No encoding is a prefix of another. Values of kind JSON have no such form: AppendKey
// panics.
func (v Value) AppendKey(dst []byte) []byte {
	switch v.kind {
	case Null:
		return append(dst, tagNull)
	case Bool:
		return append(dst, tagFalse+byte(v.bits))
	case Int:
		return binary.BigEndian.AppendUint64(append(dst, tagInt), v.bits^1<<63)
	case Time:
		return binary.BigEndian.AppendUint64(append(dst, tagTime), v.bits^1<<63)
	case Float:
		bits := v.bits
		if bits>>63 != 0 {
			bits = ^bits
		} else {
			bits ^= 1 << 63
		}
		return binary.BigEndian.AppendUint64(append(dst, tagFloat), bits)
	case Decimal:
		return appendDecimalKey(dst, v.text)
	case Text:
		dst = append(dst, tagText)
		for _, c := range []byte(v.text) {
			if c <= textEscape {
				dst = append(dst, textEscape, c+1)
			} else {
				dst = append(dst, c)
			}
		}
		return append(dst, textEnd)
	}
	panic("BUG: a value of kind " + v.kind.String() + " has no key")
}

// AppendKeyDesc is AppendKey with the reverse order.
func (v Value) AppendKeyDesc(dst []byte) []byte {
	from := len(dst)
	dst = v.AppendKey(dst)
	invert(dst[from:])
	return dst
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// appendDecimalKey appends how many digits the decimal has before its point, then all digits, then 0. Of a negative
// one, these are inverted.
func appendDecimalKey(dst []byte, text string) []byte {
	magnitude, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(magnitude, ".")
	if whole == "0" {
		whole = ""
	}
	tag := byte(tagDecimal)
	if negative {
		tag = tagMinus
	}
	dst = append(dst, tag)
	from := len(dst)
	dst = append(dst, byte(len(whole)))
	dst = append(dst, whole...)
	dst = append(dst, fraction...)
	dst = append(dst, 0)
	if negative {
		invert(dst[from:])
	}
	return dst
}

// CutKey reads the value that AppendKey has put at the beginning of key, and returns what follows it. It
// accepts no other bytes than those that AppendKey writes.
func CutKey(key []byte) (v Value, rest []byte, err error) {
	if len(key) == 0 {
		return v, nil, errKey
	}
	tag, rest := key[0], key[1:]
	switch tag {
	case tagNull:
		return v, rest, nil
	case tagFalse, tagTrue:
		return OfBool(tag == tagTrue), rest, nil
	case tagInt, tagTime, tagFloat:
		return cutBits(tag, rest)
	case tagMinus, tagDecimal:
		return cutDecimal(tag == tagMinus, rest)
	case tagText:
		return cutText(rest)
	}
	return v, nil, errKey
}

// CutKeyDesc is CutKey for AppendKeyDesc. It does not change key.
func CutKeyDesc(key []byte) (v Value, rest []byte, err error) {
	inverted := append([]byte(nil), key...)
	invert(inverted)
	v, left, err := CutKey(inverted)
	if err != nil {
		return v, nil, err
	}
	return v, key[len(key)-len(left):], nil
}

// SkipKey returns what follows the value that AppendKey, or with desc AppendKeyDesc, has put at the beginning of key.
// It finds the end of the value without checking the value.
func SkipKey(key []byte, desc bool) (rest []byte, err error) {
	flip := byte(0)
	if desc {
		flip = 0xff
	}
	if len(key) == 0 {
		return nil, errKey
	}
	size := 1
	switch tag := key[0] ^ flip; tag {
	case tagNull, tagFalse, tagTrue:
	case tagInt, tagTime, tagFloat:
		size = 9
	case tagText:
		return skipTo(key, 1, textEnd^flip)
	case tagDecimal: // the byte after the tag is a length, and may be the one that ends others
		return skipTo(key, 2, flip)
	case tagMinus:
		return skipTo(key, 2, ^flip)
	default:
		return nil, errKey
	}
	if len(key) < size {
		return nil, errKey
	}
	return key[size:], nil
}

// skipTo returns what follows the first end in key at from or later.
func skipTo(key []byte, from int, end byte) ([]byte, error) {
	if len(key) > from {
		if i := bytes.IndexByte(key[from:], end); i >= 0 {
			return key[from+i+1:], nil
		}
	}
	return nil, errKey
}

var errKey = fmt.Errorf("damaged index key")

func cutBits(tag byte, key []byte) (v Value, rest []byte, err error) {
	if len(key) < 8 {
		return v, nil, errKey
	}
	bits, rest := binary.BigEndian.Uint64(key), key[8:]
	switch tag {
	case tagInt:
		return OfInt(int64(bits ^ 1<<63)), rest, nil
	case tagTime:
		us := int64(bits ^ 1<<63)
		if us < MinTime.UnixMicro() || us > MaxTime.UnixMicro() {
			return v, nil, errKey
		}
		v, err = OfTime(time.UnixMicro(us))
		return v, rest, err
	}
	if bits>>63 != 0 {
		bits ^= 1 << 63
	} else {
		bits = ^bits
	}
	f := math.Float64frombits(bits)
	if v, err = OfFloat(f); err != nil || v.bits != bits {
		return Value{}, nil, errKey
	}
	return v, rest, nil
}

func cutDecimal(negative bool, key []byte) (v Value, rest []byte, err error) {
	at := func(i int) byte {
		if negative {
			return ^key[i]
		}
		return key[i]
	}
	end := 1
	for end < len(key) && at(end) != 0 {
		end++
	}
	if end >= len(key) {
		return v, nil, errKey
	}
	whole := int(at(0))
	if whole > end-1 || whole > 0 && at(1) == '0' {
		return v, nil, errKey
	}
	text := make([]byte, 0, end+3)
	if negative {
		text = append(text, '-')
	}
	if whole == 0 {
		text = append(text, '0')
	}
	for i := 1; i < end; i++ {
		if i == 1+whole {
			text = append(text, '.')
		}
		text = append(text, at(i))
	}
	v, err = ParseDecimal(string(text))
	if err != nil || v.text != string(text) {
		return Value{}, nil, errKey
	}
	return v, key[end+1:], nil
}

func cutText(key []byte) (v Value, rest []byte, err error) {
	var text []byte
	for i := 0; i < len(key); i++ {
		switch c := key[i]; c {
		case textEnd:
			if v, err = OfText(string(text)); err != nil {
				return v, nil, errKey
			}
			return v, key[i+1:], nil
		case textEscape:
			if i++; i == len(key) || key[i] != 0x01 && key[i] != 0x02 {
				return v, nil, errKey
			}
			text = append(text, key[i]-1)
		default:
			text = append(text, c)
		}
	}
	return v, nil, errKey
}
