package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/jsonscan"
)

// Parse reads one JSON value. A number becomes an Int if an int64 holds it, and otherwise a Decimal; arrays and
// objects become JSON, without spaces and with their numbers as they are written. Numbers that no Decimal holds,
// texts that OfText refuses and more than MaxJSONDepth levels are errors.
func Parse(raw []byte) (Value, error) {
	if err := check(raw); err != nil {
		return Value{}, err
	}
	return parse(raw)
}

// Check returns the error that Parse would return.
func Check(raw []byte) error {
	if err := check(raw); err != nil {
		return err
	}
	s := jsonscan.New(raw)
	return checkNext(&s, 1)
}

// check reports why raw is not valid JSON.
func check(raw []byte) error {
	if jsonscan.Valid(raw) {
		return nil
	}
	var syntax *json.SyntaxError
	err := json.Unmarshal(raw, new(json.RawMessage))
	if errors.As(err, &syntax) {
		return fmt.Errorf("invalid JSON at byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("invalid JSON: %w", err)
}

func parse(raw []byte) (Value, error) {
	raw = bytes.Trim(raw, " \t\r\n")
	switch raw[0] {
	case 'n':
		return Value{}, nil
	case 't', 'f':
		return OfBool(raw[0] == 't'), nil
	case '"':
		return parseText(raw)
	case '[', '{':
		return parseTree(raw)
	}
	return parseNumber(string(raw))
}

func parseNumber(s string) (Value, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return OfInt(n), nil
	}
	v, err := ParseDecimal(s)
	if n, ok := v.Int(); err == nil && ok {
		return OfInt(n), nil
	}
	return v, err
}

func parseText(raw []byte) (Value, error) {
	text, err := readText(raw)
	if err != nil {
		return Value{}, err
	}
	return OfText(string(text))
}

// readText returns the text of a JSON string, which OfText may still refuse. It may alias raw.
func readText(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("invalid UTF-8 at byte %d", invalidAt(string(raw)))
	}
	s := jsonscan.New(raw)
	text, whole := s.Text()
	if !whole {
		return nil, fmt.Errorf("a lone surrogate in a \\u escape")
	}
	return text, nil
}

// checkText returns the error that parseText would return.
func checkText(raw []byte) error {
	text, err := readText(raw)
	if err == nil && bytes.IndexByte(text, 0) >= 0 {
		_, err = OfText(string(text))
	}
	return err
}

// parseTree reads an array or object. It checks every text and number within.
func parseTree(raw []byte) (Value, error) {
	s := jsonscan.New(raw)
	if err := checkTree(&s, 1); err != nil {
		return Value{}, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return Value{}, err
	}
	return Value{kind: JSON, text: compact.String()}, nil
}

func checkTree(s *jsonscan.Scanner, depth int) error {
	if depth > MaxJSONDepth {
		return fmt.Errorf("arrays and objects nested more than %d deep", MaxJSONDepth)
	}
	end := s.Peek() + 2 // ']' follows '[' and '}' follows '{' by two
	for s.Open(); s.More(end); {
		if end == '}' {
			if err := checkText(s.Raw()); err != nil {
				return err
			}
		}
		if err := checkNext(s, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkNext reads the next value and checks it.
func checkNext(s *jsonscan.Scanner, depth int) error {
	switch s.Peek() {
	case '{', '[':
		return checkTree(s, depth)
	case '"':
		return checkText(s.Raw())
	}
	raw := s.Raw()
	if len(raw) <= shortNumber && bytes.IndexByte(raw, 'e') < 0 && bytes.IndexByte(raw, 'E') < 0 {
		return nil
	}
	_, err := parse(raw)
	return err
}

// shortNumber is the length up to which every number without an exponent is a Value.
const shortNumber = 20

// As reads one JSON value for a field of a kind. JSON null is null for every kind. Beyond the values that Append
// writes, an Int may be written with a zero fraction or with an exponent, a Decimal as a number, and a Time with any
// offset from UTC, with a space for the T, or as a date; it is cut to microseconds. Kind JSON takes any value, as
// Parse does.
func As(kind Kind, raw []byte) (Value, error) {
	if err := check(raw); err != nil {
		return Value{}, err
	}
	return AsValid(kind, raw)
}

// OfPrinted returns the array or object that AppendJSON has printed as raw. It is not checked again.
func OfPrinted(raw []byte) Value { return Value{kind: JSON, text: string(raw)} }

// AsValid is As of a text that is known to be valid JSON: part of one that jsonscan.Valid or Check accepted.
func AsValid(kind Kind, raw []byte) (Value, error) {
	raw = bytes.Trim(raw, " \t\r\n")
	if raw[0] == 'n' || kind == JSON {
		return parse(raw)
	}
	found := jsonscan.Kind(raw[0])
	switch kind {
	case Bool:
		if raw[0] == 't' || raw[0] == 'f' {
			return parse(raw)
		}
		return Value{}, fmt.Errorf("must be true or false, not %s", found)
	case Int, Float:
		if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' {
			return asNumber(kind, string(raw))
		}
		return Value{}, fmt.Errorf("must be a number, not %s", found)
	case Decimal:
		if raw[0] == '"' {
			v, err := parseText(raw)
			if err != nil {
				return v, err
			}
			return ParseDecimal(v.text)
		}
		if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' {
			return ParseDecimal(string(raw))
		}
		return Value{}, fmt.Errorf("must be a number, not %s", found)
	case Time, Text:
		if raw[0] != '"' {
			return Value{}, fmt.Errorf("must be a string, not %s", found)
		}
		v, err := parseText(raw)
		if err != nil || kind == Text {
			return v, err
		}
		return ParseTime(v.text)
	}
	return Value{}, fmt.Errorf("must be null, not %s", found)
}

func asNumber(kind Kind, s string) (Value, error) {
	if kind == Float {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return Value{}, fmt.Errorf("%.60s is too large for a float", s)
		}
		return OfFloat(f)
	}
	v, err := parseNumber(s)
	if err != nil {
		return v, err
	}
	if v.kind != Int {
		return Value{}, fmt.Errorf("%.60s is not an integer from %d to %d", s, -1<<63, uint64(1<<63-1))
	}
	return v, nil
}

// timeLayouts are the forms that ParseTime reads. Go accepts a fraction of a second after any of the seconds.
var timeLayouts = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", time.DateOnly}

// timeLayout is the form in which times print: in UTC, always with microseconds, so that texts sort as times do.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// ParseTime reads a time as RFC 3339 writes it, also with a space for the T, or a date, which is midnight UTC.
func ParseTime(s string) (Value, error) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return OfTime(t)
		}
	}
	return Value{}, fmt.Errorf("%.60q is not a time like 2026-01-02T15:04:05Z", s)
}

// AppendJSON appends v as JSON and returns the extended slice. A Decimal and a Time are strings, so that programs
// that read every number as a float keep them exact.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case Null:
		return append(dst, "null"...)
	case Bool:
		return strconv.AppendBool(dst, v.bits != 0)
	case Int:
		return strconv.AppendInt(dst, int64(v.bits), 10)
	case Float:
		f, _ := v.Float()
		return appendFloat(dst, f)
	case Decimal:
		return append(append(append(dst, '"'), v.text...), '"')
	case Time:
		t, _ := v.Time()
		return append(appendTime(append(dst, '"'), t), '"')
	case Text:
		return AppendText(dst, v.text)
	}
	return append(dst, v.text...)
}

// appendTime appends t as AppendFormat with timeLayout does, in a fraction of its time.
func appendTime(dst []byte, t time.Time) []byte {
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, timeLayout)
	}
	hour, minute, second := t.Clock()
	dst = append(appendTwo(appendTwo(dst, year/100), year%100), '-')
	dst = append(appendTwo(append(appendTwo(dst, int(month)), '-'), day), 'T')
	dst = append(appendTwo(append(appendTwo(dst, hour), ':'), minute), ':')
	micros := t.Nanosecond() / 1000
	dst = append(appendTwo(dst, second), '.')
	return append(appendTwo(appendTwo(appendTwo(dst, micros/10_000), micros/100%100), micros%100), 'Z')
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// appendFloat appends the shortest text that reads as f.
func appendFloat(dst []byte, f float64) []byte {
	if abs := max(f, -f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

const hexDigits = "0123456789abcdef"

// AppendText appends s, which must be valid UTF-8, as a JSON string. It escapes only what it must: quotes,
// backslashes and control characters. The result is not safe within HTML.
func AppendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		n := jsonscan.Plain(s)
		if dst = append(dst, s[:n]...); n == len(s) {
			return append(dst, '"')
		}
		c := s[n]
		if at := strings.IndexByte("\"\\\n\r\t", c); at >= 0 {
			dst = append(dst, '\\', `"\nrt`[at])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		s = s[n+1:]
	}
}
