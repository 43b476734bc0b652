package client

import (
	"bytes"
	"iter"
	"strconv"

	"github.com/skerrydb/skerry/resp/wire"
)

// Result is the answer to a call: one value, as the bytes that the server sent.
// In a callback it is valid until the callback returns, and Clone makes one that
// lasts; of blocking calls and futures it is the caller's. The zero Result is null.
type Result struct{ raw []byte }

// ResultOf makes a Result of the bytes of one reply, for tests of code that takes
// Results. Bytes that are no reply are null.
func ResultOf(raw []byte) Result { return Result{raw} }

// Clone returns a Result with bytes of its own.
func (r Result) Clone() Result { return Result{bytes.Clone(r.raw)} }

// Raw returns the bytes of the value as the protocol writes them.
func (r Result) Raw() []byte { return r.raw }

// item returns the head of the value, behind attributes.
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

// Kind is the byte that begins the value on the wire, for example wire.KindMap.
func (r Result) Kind() byte {
	it, _ := r.item()
	return it.Kind
}

// IsNull reports whether there is no value.
func (r Result) IsNull() bool { return r.Kind() == wire.KindNull }

// Err returns the error that this value is, within a list for example, or nil.
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

// Int returns an integer, also of text that is one, or of a boolean 1 or 0.
// ErrWrongType if it is none, or is out of range.
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
	return 0, r.wrong("an integer of 64 bits")
}

// Uint is Int for numbers that may be over 2^63-1, which servers send as text.
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
	return 0, r.wrong("an integer of 64 bits without a sign")
}

// Float returns a number, also of text that is one.
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

// Bool returns a boolean, also of 1, 0, and the texts true, false and OK.
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

// Bytes returns text, which aliases the Result, nil for null. Numbers and booleans
// are written out; a list or a map is ErrWrongType.
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

// Text is Bytes as a string.
func (r Result) Text() (string, error) {
	b, err := r.Bytes()
	return string(b), err
}

// isList reports whether a kind has parts in a row.
func isList(kind byte) bool {
	return kind == wire.KindArray || kind == wire.KindSet || kind == wire.KindPush
}

// Len returns how many elements a list has, or pairs a map; 0 of anything else.
func (r Result) Len() int {
	it, _ := r.item()
	if it.Kind == wire.KindMap {
		return it.Len / 2
	}
	return it.Len
}

// cut takes the first value off b.
func cut(b []byte) (first Result, rest []byte, ok bool) {
	rest, ok = wire.Skip(b)
	if !ok {
		return Result{}, nil, false
	}
	n := len(b) - len(rest)
	return Result{b[:n:n]}, rest, true
}

// List yields the elements of a list, which alias the Result; of anything else nothing.
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

// Map yields the keys and values of a map, in the order in which the server sent
// them, which for a struct is that of its fields; of anything else nothing. They
// alias the Result.
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

// Field returns the value of a map's key, and whether it is there.
func (r Result) Field(name string) (Result, bool) {
	for k, v := range r.Map() {
		if it, _ := k.item(); string(it.Str) == name {
			return v, true
		}
	}
	return Result{}, false
}
