package wire

import (
	"math"
	"strconv"
)

// Writer appends replies to Buf. RESP3 selects the protocol version. If it is false, newer
// types are written in their RESP2 form (a map as a flat array, a double as a string).
// Methods for aggregates take the number of elements, which the caller writes next. The
// zero value is ready to use and writes RESP2.
type Writer struct {
	Buf   []byte
	RESP3 bool
}

// Raw appends bytes that are already encoded.
func (w *Writer) Raw(b []byte) { w.Buf = append(w.Buf, b...) }

// RawString appends text that is already encoded.
func (w *Writer) RawString(s string) { w.Buf = append(w.Buf, s...) }

// OK appends the usual success reply.
func (w *Writer) OK() { w.RawString("+OK\r\n") }

// Simple appends a status line. s must not contain CR or LF.
func (w *Writer) Simple(s string) {
	w.Buf = append(w.Buf, '+')
	w.Buf = append(w.Buf, s...)
	w.crlf()
}

// Error appends an error. The first word of s is the kind, as in "ERR no such key". CR and
// LF are replaced by spaces.
func (w *Writer) Error(s string) {
	w.Buf = append(w.Buf, '-')
	for i := range len(s) {
		c := s[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		w.Buf = append(w.Buf, c)
	}
	w.crlf()
}

// Int appends an integer.
func (w *Writer) Int(n int64) {
	if n == 0 || n == 1 {
		w.Buf = append(w.Buf, ':', '0'+byte(n), '\r', '\n')
		return
	}
	w.Buf = strconv.AppendInt(append(w.Buf, ':'), n, 10)
	w.crlf()
}

// Bulk appends a binary-safe string.
func (w *Writer) Bulk(b []byte) {
	w.head('$', len(b))
	w.Buf = append(w.Buf, b...)
	w.crlf()
}

// BulkString is like Bulk for a string.
func (w *Writer) BulkString(s string) {
	w.head('$', len(s))
	w.Buf = append(w.Buf, s...)
	w.crlf()
}

// BulkInt appends a number as a string.
func (w *Writer) BulkInt(n int64) {
	var tmp [20]byte
	w.Bulk(strconv.AppendInt(tmp[:0], n, 10))
}

// Null appends a null, which means that there is no value.
func (w *Writer) Null() {
	if w.RESP3 {
		w.RawString("_\r\n")
		return
	}
	w.RawString("$-1\r\n")
}

// NullArray appends a null in place of an array.
func (w *Writer) NullArray() {
	if w.RESP3 {
		w.RawString("_\r\n")
		return
	}
	w.RawString("*-1\r\n")
}

// Array begins an array of n elements.
func (w *Writer) Array(n int) { w.head('*', n) }

// Map begins a map of n pairs.
func (w *Writer) Map(n int) {
	if w.RESP3 {
		w.head('%', n)
		return
	}
	w.head('*', 2*n)
}

// Set begins a set of n elements.
func (w *Writer) Set(n int) {
	if w.RESP3 {
		w.head('~', n)
		return
	}
	w.head('*', n)
}

// Push begins an out-of-band message of n elements.
func (w *Writer) Push(n int) {
	if w.RESP3 {
		w.head('>', n)
		return
	}
	w.head('*', n)
}

// Bool appends a boolean, in RESP2 as 1 or 0.
func (w *Writer) Bool(b bool) {
	switch {
	case !w.RESP3 && b:
		w.RawString(":1\r\n")
	case !w.RESP3:
		w.RawString(":0\r\n")
	case b:
		w.RawString("#t\r\n")
	default:
		w.RawString("#f\r\n")
	}
}

// Double appends a floating-point number with up to 17 digits.
func (w *Writer) Double(f float64) {
	var tmp [32]byte
	s := tmp[:0]
	switch {
	case math.IsInf(f, 1):
		s = append(s, "inf"...)
	case math.IsInf(f, -1):
		s = append(s, "-inf"...)
	case math.IsNaN(f):
		s = append(s, "nan"...)
	default:
		s = strconv.AppendFloat(s, f, 'g', 17, 64)
	}
	if !w.RESP3 {
		w.Bulk(s)
		return
	}
	w.Buf = append(append(w.Buf, ','), s...)
	w.crlf()
}

// Verbatim appends text with a three-letter format, for example "txt".
func (w *Writer) Verbatim(format, s string) {
	if !w.RESP3 {
		w.BulkString(s)
		return
	}
	w.head('=', len(s)+4)
	w.Buf = append(w.Buf, format[:3]...)
	w.Buf = append(w.Buf, ':')
	w.Buf = append(w.Buf, s...)
	w.crlf()
}

func (w *Writer) crlf() { w.Buf = append(w.Buf, '\r', '\n') }

func (w *Writer) head(kind byte, n int) {
	if uint(n) < 10 {
		w.Buf = append(w.Buf, kind, '0'+byte(n), '\r', '\n')
		return
	}
	w.Buf = strconv.AppendInt(append(w.Buf, kind), int64(n), 10)
	w.crlf()
}

// AppendCommand appends a command in the form that clients send: an array of bulk strings.
func AppendCommand(dst []byte, args ...[]byte) []byte {
	w := Writer{Buf: dst}
	w.Array(len(args))
	for _, a := range args {
		w.Bulk(a)
	}
	return w.Buf
}

// AppendCommandStrings is AppendCommand for strings.
func AppendCommandStrings(dst []byte, args ...string) []byte {
	w := Writer{Buf: dst}
	w.Array(len(args))
	for _, a := range args {
		w.BulkString(a)
	}
	return w.Buf
}
