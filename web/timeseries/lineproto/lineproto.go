// Package lineproto parses the line protocol of InfluxDB, versions 1 and 2.
//
// It knows the syntax of lines; it must not know who sends them or where points are stored.
//
// A line is
//
//	measurement[,tag=value]... field=value[,field=value]... [timestamp]
//
// The rules are those of InfluxData's reference (docs.influxdata.com, "Line protocol"). Where the
// reference leaves something open:
//
//   - A backslash in a name stands for itself, unless the next byte is a comma, a space, an equals
//     sign (not in measurements) or a backslash, which it escapes. In strings it escapes double
//     quotes and backslashes. So two backslashes are always one, as the table in the reference says.
//   - Names may begin with an underscore, and a field may appear twice: both are for the caller
//     to refuse. Names and strings need not be UTF-8.
//   - Timestamps are any int64 of nanoseconds.
//   - Several spaces separate like one, and white space before the measurement is skipped.
package lineproto

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"
)

// Limits of a line. Names are measured without their escapes.
const (
	MaxLineBytes = 64 << 10 // bytes of a line, without its line break
	MaxFields    = 1000     // fields of a line
	MaxTags      = 100      // tags of a series
	MaxNameBytes = 4 << 10  // bytes of a measurement, of a tag's key or value, or of a field's key
)

// Line is a parsed line. Its slices refer to the line that was parsed and to memory of the Parser:
// they are valid until either changes. Fields is reused, so a Line should be too.
type Line struct {
	Series  []byte // measurement and tags as written, up to the first unescaped space; see SplitSeries
	Fields  []Field
	Time    int64 // Unix time in nanoseconds; 0 without HasTime
	HasTime bool
}

// Field is one field of a line.
type Field struct {
	Key   []byte // without escapes
	Kind  Kind
	Value float64 // of every kind but String; integers beyond 2^53 are rounded, booleans are 0 or 1
	Text  []byte  // of a String, without escapes; otherwise nil
}

// Kind is the type of a field's value.
type Kind uint8

const (
	Float Kind = iota
	Int
	Uint
	Bool
	String
)

// String returns the name of the kind, such as "float".
func (k Kind) String() string {
	switch k {
	case Float:
		return "float"
	case Int:
		return "int"
	case Uint:
		return "uint"
	case Bool:
		return "bool"
	case String:
		return "string"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// SyntaxError reports what is wrong with a line.
type SyntaxError struct {
	Offset int // of the offending byte, in the bytes that were parsed
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

func fault(offset int, format string, args ...any) error {
	return &SyntaxError{offset, fmt.Sprintf(format, args...)}
}

// Parser parses lines. The zero value is ready to use; it is not safe for concurrent use.
type Parser struct {
	text []byte // unescaped keys and strings of the current line
}

// Parse parses one line without its '\n'; a trailing '\r' is dropped. The timestamp counts units of
// precision; a precision of 0 is a nanosecond, negative ones panic. Errors are of type *SyntaxError,
// and leave l undefined.
//
// Parse finds the end of the series but does not look into it: a caller that has not seen the series
// before passes it to SplitSeries, which may report an error. Parse does not allocate, except to grow
// l.Fields or its own memory, and for some numbers longer than 32 bytes.
func (p *Parser) Parse(line []byte, precision time.Duration, l *Line) error {
	if precision < 0 {
		panic("BUG: the precision is negative")
	}
	l.Series, l.Fields, l.Time, l.HasTime = nil, l.Fields[:0], 0, false
	p.text = p.text[:0]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > MaxLineBytes {
		return fault(MaxLineBytes, "line has more than %d bytes", MaxLineBytes)
	}
	from := skipBlanks(line)
	at, err := seriesEnd(line, from)
	if err != nil {
		return err
	}
	l.Series = line[from:at]
	for at = skipSpaces(line, at); ; at++ {
		if at, err = p.field(line, at, l); err != nil {
			return err
		}
		if at == len(line) {
			return nil
		}
		if line[at] == ' ' {
			return timestamp(line, skipSpaces(line, at), max(precision, 1), l)
		}
	}
}

// seriesEnd returns the offset of the first unescaped space at or after from.
func seriesEnd(line []byte, from int) (int, error) {
	if from == len(line) {
		return 0, fault(from, "line is blank")
	}
	switch line[from] {
	case ',':
		return 0, fault(from, "measurement is missing")
	case '#':
		return 0, fault(from, "line is a comment")
	}
	n := bytes.IndexByte(line[from:], ' ')
	if n >= 0 && bytes.IndexByte(line[from:from+n], '\\') < 0 {
		return from + n, nil
	}
	for at := from; at < len(line); at++ {
		switch line[at] {
		case '\\':
			at++ // only a backslash or a space would change what follows
		case ' ':
			return at, nil
		}
	}
	return 0, fault(len(line), "line has no fields")
}

func skipSpaces(line []byte, at int) int {
	for at < len(line) && line[at] == ' ' {
		at++
	}
	return at
}

// field parses the field that begins at at and returns the offset after it, which is the end of the
// line, a comma or a space.
func (p *Parser) field(line []byte, at int, l *Line) (int, error) {
	end, escaped := keyEnd(line, at), false
	if end == len(line) || line[end] != '=' || end == at {
		var err error
		if end, err = escapedKeyEnd(line, at); err != nil {
			return 0, err
		}
		escaped = true
	}
	n := len(l.Fields)
	if n == MaxFields {
		return 0, fault(at, "line has more than %d fields", MaxFields)
	}
	if n < cap(l.Fields) {
		l.Fields = l.Fields[:n+1]
	} else {
		l.Fields = append(l.Fields, Field{})
	}
	f := &l.Fields[n]
	f.Key = line[at:end]
	if escaped {
		f.Key = p.unescape(line, f.Key, inKey)
	}
	if len(f.Key) > MaxNameBytes {
		return 0, fault(at, "field %.60q... has a key of more than %d bytes", f.Key, MaxNameBytes)
	}
	next := p.value(line, end+1, f)
	if next < 0 || next < len(line) && line[next] != ',' && line[next] != ' ' {
		return 0, valueFault(line, end+1, f.Key)
	}
	return next, nil
}

// escapedKeyEnd returns the offset of the equals sign after the key that begins at at, which may
// contain escapes, or explains why there is none.
func escapedKeyEnd(line []byte, at int) (int, error) {
	end := nameEnd(line, at, inKey)
	switch {
	case end < len(line) && line[end] == '=' && end > at:
		return end, nil
	case end < len(line) && line[end] == '=':
		return 0, fault(at, "field has no name")
	case end < len(line) && line[end] == '\n':
		return 0, fault(end, "field key has a line break")
	case end == at:
		return 0, fault(at, "field is missing")
	}
	return 0, fault(end, "field %.60q has no value", line[at:end])
}

// timestamp parses the timestamp at at, after which there may only be spaces.
func timestamp(line []byte, at int, precision time.Duration, l *Line) error {
	if at == len(line) {
		return nil
	}
	i, negative := at, line[at] == '-'
	if negative {
		i++
	}
	n, end := digits(line, i, 0)
	if end == i || skipSpaces(line, end) < len(line) {
		return fault(at, "timestamp %.60q is not an integer", bytes.TrimRight(line[at:], " "))
	}
	var err error
	if end-i > 19 { // more than digits counts, unless they are zeros
		n, err = strconv.ParseUint(string(line[i:end]), 10, 64)
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	if hi, lo := bits.Mul64(n, uint64(precision)); err == nil && hi == 0 && lo <= limit {
		l.Time, l.HasTime = int64(lo), true
		if negative {
			l.Time = -l.Time
		}
		return nil
	}
	return fault(at, "timestamp %.60s overflows int64 in nanoseconds; check the precision", line[at:end])
}
