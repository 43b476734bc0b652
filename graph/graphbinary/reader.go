package graphbinary

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/message"
)

// reader reads from a message. After a failure all reads return zero values, so
// that only loops have to look at err.
type reader struct {
	b      []byte
	ver    version
	at     int
	err    error
	depth  int
	values int
	// hashed is not zero within keys of maps and items of sets: only values of
	// package value may be there.
	hashed int
}

// failf records that what stands at a position is not as expected.
func (r *reader) failf(at int, format string, args ...any) {
	if r.err == nil {
		r.err = &message.Error{Offset: at, Msg: fmt.Sprintf(format, args...)}
	}
}

// take returns the next n bytes, which stay the message's.
func (r *reader) take(n int, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.b)-r.at {
		r.failf(r.at, "expected %s of %d bytes, %d are left", what, n, len(r.b)-r.at)
		return nil
	}
	b := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

func (r *reader) byte(what string) byte {
	if b := r.take(1, what); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) int32(what string) int32 {
	if b := r.take(4, what); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64(what string) int64 {
	if b := r.take(8, what); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) float32() float32 { return math.Float32frombits(uint32(r.int32("a float"))) }
func (r *reader) float64() float64 { return math.Float64frombits(uint64(r.int64("a double"))) }

// length returns how many items follow, of which each has at least size bytes.
func (r *reader) length(what string, size int) int {
	at := r.at
	if len(r.b)-at < 4 {
		r.int32("a length of " + what)
		return 0
	}
	n := int(r.int32("a length"))
	if n < 0 || n > (len(r.b)-r.at)/size {
		r.failf(at, "expected a length of %s, found %d with %d bytes left", what, n, len(r.b)-r.at)
		return 0
	}
	return n
}

func (r *reader) string(what string) string {
	n := r.length(what, 1)
	at := r.at
	b := r.take(n, what)
	if !utf8.Valid(b) {
		r.failf(at, "expected %s in UTF-8", what)
		return ""
	}
	return string(b)
}

// flag reads the flag of a value and reports whether there is a value.
func (r *reader) flag() bool { return r.flagOf(typeNull) == flagValue }

// flagOf reads the flag of a value of a type. It is flagNull after a failure.
func (r *reader) flagOf(code byte) byte {
	at := r.at
	f := r.byte("a value flag")
	switch {
	case r.err != nil:
		return flagNull
	case f == flagValue, f == flagNull, f == flagOther && r.ver.flags(code):
		return f
	}
	r.failf(at, "expected a value flag of 0 or 1, found %#x", f)
	return flagNull
}

// value reads a type, a flag and a value.
func (r *reader) value() any {
	at := r.at
	code := r.byte("a type")
	if code == typeCustom && r.err == nil {
		r.failf(at, "custom types are not supported")
	}
	flag := r.flagOf(code)
	r.values++
	switch {
	case r.err != nil:
		return nil
	case r.values > message.MaxValues:
		r.failf(at, "expected at most %d values", message.MaxValues)
		return nil
	case code == typeNull && flag != flagNull:
		r.failf(at+1, "expected null")
		return nil
	case flag == flagNull:
		return nil
	case !r.ver.has(code):
		r.failf(at, "expected a type of value, found %#02x", code)
		return nil
	}
	if r.depth++; r.depth > message.MaxDepth {
		r.failf(at, "expected values nested at most %d deep", message.MaxDepth)
		return nil
	}
	v := r.body(r.ver.read(code, flag), at)
	r.depth--
	return v
}

// key reads a value that is a key of a map or an item of a set.
func (r *reader) key() any {
	if r.hashed++; r.hashed > message.MaxKeyDepth {
		r.failf(r.at, "expected keys and items of sets nested at most %d deep", message.MaxKeyDepth)
	}
	v := r.value()
	r.hashed--
	return v
}

// body reads a value without its type, which stands at a position.
func (r *reader) body(code byte, at int) any {
	if v, ok := r.scalar(code, at); ok {
		return v
	}
	if v, ok := r.collection(code); ok {
		return v
	}
	if v, ok := r.element(code); ok {
		return v
	}
	if r.hashed == 0 {
		if v, ok := r.program(code, at); ok {
			return v
		}
	}
	r.failf(at, "expected a type of value, found %#02x", code)
	return nil
}
