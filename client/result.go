package client

import (
	"bytes"
	"iter"
	"strconv"

	"github.com/skerrydb/skerry/resp/wire"
)

// Result is the result of a call: one value, as the bytes that the server sent. In a
// callback it is valid until the callback returns; use Clone to keep it. Callers of
// blocking calls and futures own their Result. The zero Result is null.
type Result struct{ raw []byte }

// ResultOf makes a Result from the bytes of one reply, for tests of code that takes
// Results. Bytes that are not a reply are null.
func ResultOf(raw []byte) Result { return Result{raw} }

// Clone returns a Result with its own copy of the bytes.
func (r Result) Clone() Result { return Result{bytes.Clone(r.raw)} }

// Raw returns the value in the encoding of the protocol.
func (r Result) Raw() []byte { return r.raw }

// item returns the head of the value, after any attributes.
func (r Result) item() (it wire.Item, rest []byte) {
	b := r.raw
	for {
		it, rest, ok := wire.Cut(b)
		if !ok {
			return wire.Item{Kind: wire.KindNull}, nil
		}
		if it.Kind != wire.KindAttribute {
			return it, rest
		}
		for range it.Len {
			if rest, ok = wire.Skip(rest); !ok {
				return wire.Item{Kind: wire.KindNull}, nil
			}
		}
		b = rest
	}
}

// Kind returns the first byte of the value on the wire, for example wire.KindMap.
func (r Result) Kind() byte {
	it, _ := r.item()
	return it.Kind
}

// IsNull reports whether the value is null.
func (r Result) IsNull() bool { return r.Kind() == wire.KindNull }

// Err returns the value as an error, for example an error within a list. It returns nil if
// the value is not an error.
func (r Result) Err() error {
	if it, _ := r.item(); it.IsError() {
		return replyError(it.Str, "")
	}
	return nil
}

func (r Result) wrong(want string) error {
	if err := r.Err(); err != nil {
		return err
	}
	return errorf(CodeWrongType, "the result is %s, not %s", kindName(r.Kind()), want)
}

func kindName(kind byte) string {
	switch kind {
	case wire.KindNull:
		return "null"
	case wire.KindInt:
		return "an integer"
	case wire.KindDouble:
		return "a float"
	case wire.KindBool:
		return "a boolean"
	case wire.KindArray, wire.KindSet, wire.KindPush:
		return "a list"
	case wire.KindMap:
		return "a map"
	case wire.KindBig:
		return "a big number"
	}
	return "text"
}

// Int returns the value as an integer. It accepts integers, text that contains one, and
// booleans as 1 or 0. Otherwise, or if the number is out of range, it returns ErrWrongType.
func (r Result) Int() (int64, error) {
	it, _ := r.item()
	switch it.Kind {
	case wire.KindInt, wire.KindBool:
		return it.Int, nil
	case wire.KindBulk, wire.KindSimple, wire.KindBig, wire.KindVerbatim:
		if n, err := strconv.ParseInt(string(it.Str), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, r.wrong("a 64-bit integer")
}

// Uint is like Int for numbers that may be over 2^63-1, which servers send as text.
func (r Result) Uint() (uint64, error) {
	it, _ := r.item()
	switch it.Kind {
	case wire.KindInt, wire.KindBool:
		if it.Int >= 0 {
			return uint64(it.Int), nil
		}
	case wire.KindBulk, wire.KindSimple, wire.KindBig, wire.KindVerbatim:
		if n, err := strconv.ParseUint(string(it.Str), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, r.wrong("an unsigned 64-bit integer")
}

// Float returns the value as a number. It accepts text that contains one.
func (r Result) Float() (float64, error) {
	it, _ := r.item()
	switch it.Kind {
	case wire.KindInt:
		return float64(it.Int), nil
	case wire.KindDouble, wire.KindBulk, wire.KindSimple, wire.KindVerbatim, wire.KindBig:
		if f, err := strconv.ParseFloat(string(it.Str), 64); err == nil {
			return f, nil
		}
	}
	return 0, r.wrong("a number")
}

// Bool returns the value as a boolean. It accepts 1, 0, and the texts true, false and OK.
func (r Result) Bool() (bool, error) {
	it, _ := r.item()
	switch it.Kind {
	case wire.KindBool:
		return it.Int == 1, nil
	case wire.KindInt:
		if it.Int == 0 || it.Int == 1 {
			return it.Int == 1, nil
		}
	case wire.KindBulk, wire.KindSimple, wire.KindVerbatim:
		switch string(it.Str) {
		case "true", "1", "OK":
			return true, nil
		case "false", "0":
			return false, nil
		}
	}
	return false, r.wrong("a boolean")
}

// Bytes returns text, which aliases the Result, or nil for null. Numbers and booleans are
// formatted; a list or a map is ErrWrongType.
func (r Result) Bytes() ([]byte, error) {
	it, _ := r.item()
	switch it.Kind {
	case wire.KindNull:
		return nil, nil
	case wire.KindInt:
		return strconv.AppendInt(nil, it.Int, 10), nil
	case wire.KindBool:
		return strconv.AppendBool(nil, it.Int == 1), nil
	case wire.KindBulk, wire.KindSimple, wire.KindVerbatim, wire.KindDouble, wire.KindBig:
		return it.Str, nil
	}
	return nil, r.wrong("text")
}

// Text returns the same as Bytes as a string.
func (r Result) Text() (string, error) {
	b, err := r.Bytes()
	return string(b), err
}

// isList reports whether values of the kind are lists.
func isList(kind byte) bool {
	return kind == wire.KindArray || kind == wire.KindSet || kind == wire.KindPush
}

// Len returns the number of elements of a list or of pairs of a map, and 0 for anything
// else.
func (r Result) Len() int {
	it, _ := r.item()
	if it.Kind == wire.KindMap {
		return it.Len / 2
	}
	return it.Len
}

// cut splits the first value off b.
func cut(b []byte) (first Result, rest []byte, ok bool) {
	rest, ok = wire.Skip(b)
	if !ok {
		return Result{}, nil, false
	}
	n := len(b) - len(rest)
	return Result{b[:n:n]}, rest, true
}

// List yields the elements of a list, which alias the Result. For anything else it yields
// nothing.
func (r Result) List() iter.Seq[Result] {
	return func(yield func(Result) bool) {
		it, b := r.item()
		if !isList(it.Kind) {
			return
		}
		for range it.Len {
			v, rest, ok := cut(b)
			if !ok || !yield(v) {
				return
			}
			b = rest
		}
	}
}

// Map yields the keys and values of a map in the order in which the server sent them. For a
// struct, that is the order of its fields. They alias the Result. For anything that is not
// a map, Map yields nothing.
func (r Result) Map() iter.Seq2[Result, Result] {
	return func(yield func(k, v Result) bool) {
		it, b := r.item()
		if it.Kind != wire.KindMap {
			return
		}
		for range it.Len / 2 {
			k, rest, ok := cut(b)
			if !ok {
				return
			}
			v, rest, ok := cut(rest)
			if !ok || !yield(k, v) {
				return
			}
			b = rest
		}
	}
}

// Field returns the value for a map's key, and whether the key exists.
func (r Result) Field(name string) (Result, bool) {
	for k, v := range r.Map() {
		if it, _ := k.item(); string(it.Str) == name {
			return v, true
		}
	}
	return Result{}, false
}
