package wire

import (
	"math"
	"strconv"
)

// Writer appends replies to Buf. RESP3 chooses the protocol version: without
// it, the newer types are written as RESP2 clients know them (a map as a flat
// array, a double as a string). Aggregates take the number of their elements,
// which the caller writes next. The zero value is ready and speaks RESP2.
type Writer struct {
	Buf   []byte
	RESP3 bool
}

// Raw appends bytes that are RESP already.
func (w *Writer) Raw(b []byte) { w.Buf = append(w.Buf, b...) }

// RawString appends text that is RESP already.
func (w *Writer) RawString(s string) { w.Buf = append(w.Buf, s...) }

// OK appends the usual reply of success.
func (w *Writer) OK() { w.RawString("+OK\r\n") }

// Simple appends a status line. s must hold neither CR nor LF.
func (w *Writer) Simple(s string) {
	w.Buf = append(w.Buf, '+')
	w.Buf = append(w.Buf, s...)
	w.crlf()
}

// Error appends an error. Its first word is the kind, e.g. "ERR no such key".
// CR and LF become spaces.
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

// BulkString appends s as Bulk does.
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

// Null appends "there is no such value".
func (w *Writer) Null() {
	if w.RESP3 {
		w.RawString("_\r\n")
		return
	}
	w.RawString("$-1\r\n")
}

// NullArray appends the null that stands for an array.
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

// Push begins a message out of turn of n elements.
func (w *Writer) Push(n int) {
	if w.RESP3 {
		w.head('>', n)
		return
	}
	w.head('*', n)
}

// Bool appends a truth value; RESP2 has 1 and 0.
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

// Double appends a floating-point number with 17 digits at most.
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

// Verbatim appends text of a format that has three letters, e.g. "txt".
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

// AppendCommand appends a command as clients send it: an array of bulk strings.
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
