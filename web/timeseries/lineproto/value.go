package lineproto

import (
	"bytes"
	"math"
	"strconv"
)

// value parses the value that begins at at into f and returns the offset after it, or a negative
// number if it is not a value: valueFault then says why.
func (p *Parser) value(line []byte, at int, f *Field) int {
	f.Text = nil
	if at == len(line) {
		return -1
	}
	switch c := line[at]; {
	case c-'0' <= 9 || c == '-' || c == '.':
		return number(line, at, f)
	case c == '"':
		return p.quoted(line, at, f)
	}
	return boolean(line, at, f)
}

// number parses a float, or an integer with its suffix.
func number(line []byte, at int, f *Field) int {
	i, negative := at, line[at] == '-'
	if negative {
		i++
	}
	m, end := digits(line, i, 0)
	count, scale := end-i, 0
	if count > 0 && end < len(line) && (line[end] == 'i' || line[end] == 'u') {
		if line[end] == 'u' || count > 18 {
			return rareInteger(line, at, end, m, count, f)
		}
		n := int64(m)
		if negative {
			n = -n
		}
		f.Kind, f.Value = Int, float64(n)
		return end + 1
	}
	if end < len(line) && line[end] == '.' {
		point := end + 1
		m, end = digits(line, point, m)
		scale = point - end
		count += end - point
	}
	if count == 0 {
		return -1
	}
	if end < len(line) && line[end]|0x20 == 'e' {
		var exponent int
		if end, exponent = decimalExponent(line, end+1); end < 0 {
			return -1
		}
		scale += exponent
	}
	f.Kind = Float
	// Both operands are exact, so the one operation rounds correctly.
	if count <= 19 && m <= 1<<53 && -maxExact <= scale && scale <= maxExact {
		v := float64(m)
		if scale < 0 {
			v /= powers[-scale]
		} else if scale > 0 {
			v *= powers[scale]
		}
		if negative {
			v = -v
		}
		f.Value = v
		return end
	}
	v, err := strconv.ParseFloat(string(line[at:end]), 64)
	if err != nil {
		return -1
	}
	f.Value = v
	return end
}

const maxExact = 22 // the largest power of ten that is a float64

var powers = [maxExact + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// decimalExponent parses what follows an e. It returns the offset after it, or a negative number, and
// the exponent, which is exact as far as it matters.
func decimalExponent(line []byte, at int) (int, int) {
	negative := false
	if at < len(line) && (line[at] == '-' || line[at] == '+') {
		negative = line[at] == '-'
		at++
	}
	first, e := at, 0
	for ; at < len(line) && line[at]-'0' <= 9; at++ {
		e = min(e*10+int(line[at]-'0'), 10*MaxLineBytes)
	}
	if at == first {
		return -1, 0
	}
	if negative {
		e = -e
	}
	return at, e
}

// rareInteger stores an integer that is unsigned or long. It lies between at and its suffix and has
// count digits: m, unless they are too many.
func rareInteger(line []byte, at, suffix int, m uint64, count int, f *Field) int {
	text := line[at:suffix]
	var err error
	if line[suffix] == 'i' {
		var n int64
		n, err = strconv.ParseInt(string(text), 10, 64)
		f.Kind, f.Value = Int, float64(n)
	} else {
		if text[0] == '-' {
			return -1
		}
		if count > 19 {
			m, err = strconv.ParseUint(string(text), 10, 64)
		}
		f.Kind, f.Value = Uint, float64(m)
	}
	if err != nil {
		return -1
	}
	return suffix + 1
}

// boolean parses one of the ten words for true and false.
func boolean(line []byte, at int, f *Field) int {
	end := at
	for end < len(line) && line[end] != ',' && line[end] != ' ' {
		end++
	}
	f.Kind = Bool
	switch string(line[at:end]) {
	case "t", "T", "true", "True", "TRUE":
		f.Value = 1
	case "f", "F", "false", "False", "FALSE":
		f.Value = 0
	default:
		return -1
	}
	return end
}

// quoted parses a string in double quotes.
func (p *Parser) quoted(line []byte, at int, f *Field) int {
	end := quotedEnd(line, at)
	if end < 0 {
		return -1
	}
	f.Kind, f.Value = String, 0
	f.Text = line[at+1 : end-1]
	if bytes.IndexByte(f.Text, '\\') >= 0 {
		f.Text = p.unescape(line, f.Text, inString)
	}
	return end
}

// quotedEnd returns the offset after the string whose opening quote is at at, or a negative number.
func quotedEnd(b []byte, at int) int {
	at++
	n := bytes.IndexByte(b[at:], '"')
	if n < 0 {
		return -1
	}
	if bytes.IndexByte(b[at:at+n], '\\') < 0 {
		return at + n + 1
	}
	for ; at < len(b); at++ {
		switch b[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return -1
}

// valueFault explains what is wrong with the value that begins at at.
func valueFault(line []byte, at int, key []byte) error {
	if at < len(line) && line[at] == '"' {
		if end := quotedEnd(line, at); end >= 0 {
			return fault(end, "field %.60q has text after its closing quote", key)
		}
		return fault(at, "field %.60q has no closing quote", key)
	}
	end := at
	for end < len(line) && line[end] != ',' && line[end] != ' ' {
		end++
	}
	text := line[at:end]
	if len(text) == 0 {
		return fault(at, "field %.60q has no value", key)
	}
	switch number, suffix := text[:len(text)-1], text[len(text)-1]; {
	case suffix == 'i' && isInteger(number):
		return fault(at, "field %.60q is %.60s, which overflows int64", key, text)
	case suffix == 'u' && isInteger(number) && text[0] == '-':
		return fault(at, "field %.60q is %.60s, but unsigned integers are not negative", key, text)
	case suffix == 'u' && isInteger(number):
		return fault(at, "field %.60q is %.60s, which overflows uint64", key, text)
	}
	switch string(bytes.ToLower(bytes.TrimLeft(text, "+-"))) {
	case "nan", "inf", "infinity":
		return fault(at, "field %.60q is %.60s, which is not a finite number", key, text)
	}
	if v, err := strconv.ParseFloat(string(text), 64); err != nil && math.IsInf(v, 0) && text[0] != '+' && !bytes.ContainsAny(text, "xX_") {
		return fault(at, "field %.60q is %.60s, which overflows float64", key, text)
	}
	return fault(at, "field %.60q has the invalid value %.60q", key, text)
}

// isInteger reports whether text is decimal digits with an optional minus sign.
func isInteger(text []byte) bool {
	if len(text) > 0 && text[0] == '-' {
		text = text[1:]
	}
	for _, c := range text {
		if c-'0' > 9 {
			return false
		}
	}
	return len(text) > 0
}
