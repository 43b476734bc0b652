package lineproto

import (
	"bytes"
	"slices"
)

// A context says where in a line names and strings stand, and so what they end with and escape.
type context uint8

const (
	inKey         context = 1 << iota // of a tag or a field, or in the value of a tag
	inMeasurement                     // where an equals sign is an ordinary byte
	inString
	escapes // in class only: the backslash
)

// class has the contexts of which a byte ends the names.
var class = [256]context{
	',': inKey | inMeasurement, ' ': inKey | inMeasurement, '\n': inKey | inMeasurement, '=': inKey,
	'\\': escapes,
}

// escapable reports whether a backslash before c escapes it.
func escapable(c byte, in context) bool {
	if in == inString {
		return c == '"' || c == '\\'
	}
	return c == '\\' || c != '\n' && class[c]&in != 0
}

// nameEnd returns the offset of the first byte at or after at that ends a name, or the end of b.
func nameEnd(b []byte, at int, in context) int {
	for ; at < len(b); at++ {
		switch c := class[b[at]]; {
		case c&in != 0:
			return at
		case c == escapes && at+1 < len(b) && escapable(b[at+1], in):
			at++
		}
	}
	return at
}

// unescape returns raw, a part of line, without its escapes, in the memory of p.
func (p *Parser) unescape(line, raw []byte, in context) []byte {
	if cap(p.text) < len(line) { // once for the line: earlier names must not move
		p.text = make([]byte, 0, len(line))
	}
	from := len(p.text)
	p.text = appendUnescaped(p.text, raw, in)
	return p.text[from:len(p.text):len(p.text)]
}

func appendUnescaped(dst, raw []byte, in context) []byte {
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' && i+1 < len(raw) && escapable(raw[i+1], in) {
			i++
		}
		dst = append(dst, raw[i])
	}
	return dst
}

// SplitSeries checks a series, as in Line.Series, and splits it. It returns the measurement and calls
// tag, unless it is nil, for each tag in the order of the series; if it returns an error, tag may have
// been called for the tags before it. All names are without escapes; they refer to series or to memory
// of their own. Errors are of type *SyntaxError, with offsets in series.
func SplitSeries(series []byte, tag func(key, value []byte)) (measurement []byte, err error) {
	at := nameEnd(series, 0, inMeasurement)
	if at == 0 {
		return nil, fault(0, "measurement is missing")
	}
	if measurement, err = name(series, 0, at, inMeasurement, "measurement"); err != nil {
		return nil, err
	}
	keys := make([][]byte, 0, 16)
	var highest []byte // clients send tags in order: then each key is above all before it, and not one of them
	for at < len(series) && series[at] == ',' {
		if len(keys) == MaxTags {
			return nil, fault(at, "series has more than %d tags", MaxTags)
		}
		key, value, end, err := splitTag(series, at+1)
		if err != nil {
			return nil, err
		}
		if bytes.Compare(key, highest) > 0 {
			highest = key
		} else if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			return nil, fault(at+1, "tag %.60q appears twice", key)
		}
		keys = append(keys, key)
		if tag != nil {
			tag(key, value)
		}
		at = end
	}
	if at < len(series) {
		return nil, notInSeries(series, at)
	}
	return measurement, nil
}

// splitTag parses the tag that begins at at and returns the offset after it.
func splitTag(series []byte, at int) (key, value []byte, end int, err error) {
	equals := nameEnd(series, at, inKey)
	switch {
	case equals < len(series) && series[equals] == '\n':
		return nil, nil, 0, notInSeries(series, equals)
	case equals == at && equals < len(series) && series[equals] == '=':
		return nil, nil, 0, fault(at, "tag has no name")
	case equals == at:
		return nil, nil, 0, fault(at, "tag is missing")
	}
	if key, err = name(series, at, equals, inKey, "key of a tag"); err != nil {
		return nil, nil, 0, err
	}
	if equals == len(series) || series[equals] != '=' {
		return nil, nil, 0, fault(equals, "tag %.60q has no value", key)
	}
	end = nameEnd(series, equals+1, inKey)
	switch {
	case end < len(series) && series[end] == '=':
		return nil, nil, 0, fault(end, "value of tag %.60q has an equals sign without a backslash", key)
	case end == equals+1:
		return nil, nil, 0, fault(end, "tag %.60q has an empty value", key)
	}
	value, err = name(series, equals+1, end, inKey, "value of a tag")
	return key, value, end, err
}

// name returns series[from:to] without escapes. What says which name it is.
func name(series []byte, from, to int, in context, what string) ([]byte, error) {
	raw := series[from:to:to]
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = appendUnescaped(make([]byte, 0, len(raw)), raw, in)
	}
	if len(raw) > MaxNameBytes {
		return nil, fault(from, "%s has more than %d bytes", what, MaxNameBytes)
	}
	return raw, nil
}

func notInSeries(series []byte, at int) error {
	if series[at] == '\n' {
		return fault(at, "series has a line break")
	}
	return fault(at, "series has a space without a backslash")
}
