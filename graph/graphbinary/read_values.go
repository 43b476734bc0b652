package graphbinary

import (
	"math/big"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// maxSeconds is the number of seconds from 1970 to the end of message.MaxYear.
const maxSeconds = 31_556_889_864_403_199

func (r *reader) scalar(code byte, at int) (any, bool) {
	if kind := kindOf(code); kind != "" {
		return r.enum(kind), true
	}
	switch code {
	case typeInt:
		return r.int32("an int"), true
	case typeLong:
		return r.int64("a long"), true
	case typeString:
		return r.string("a string"), true
	case typeDouble:
		return r.float64(), true
	case typeFloat:
		return r.float32(), true
	case typeByte:
		return int8(r.byte("a byte")), true
	case typeShort:
		if b := r.take(2, "a short"); b != nil {
			return int16(b[0])<<8 | int16(b[1]), true
		}
		return nil, true
	case typeBoolean:
		return r.bool(), true
	case typeUUID:
		return r.uuid(), true
	case typeBigInteger:
		return r.big(), true
	case typeBigDecimal:
		return r.decimal(), true
	case typeByteBuffer:
		return append([]byte{}, r.take(r.length("bytes", 1), "bytes")...), true
	case typeChar:
		return r.char(), true
	}
	return r.time(code, at)
}

func (r *reader) time(code byte, at int) (any, bool) {
	switch code {
	case typeDate, typeTimestamp:
		return time.UnixMilli(r.int64("milliseconds")).UTC(), true
	case typeInstant:
		s, n := r.int64("seconds"), r.nanos(0)
		if s > maxSeconds || s < -maxSeconds {
			r.failf(at, "expected a time in the years up to %d", message.MaxYear)
		}
		return time.Unix(s, int64(n)).UTC(), true
	case typeOffsetDateTime, typeZonedDateTime:
		return r.dateTime(at), true
	case typeDuration:
		s, n := r.int64("seconds"), r.nanos(-999_999_999)
		if n < 0 { // as gremlin-go has them
			s, n = s-1, n+1_000_000_000
		}
		return value.Duration{Seconds: s, Nanos: n}, true
	}
	return nil, false
}

func (r *reader) nanos(least int32) int32 {
	at := r.at
	n := r.int32("nanoseconds")
	if n < least || n > 999_999_999 {
		r.failf(at, "expected nanoseconds of one second, found %d", n)
	}
	return n
}

// dateTime reads a day, the time of this day and the offset from UTC.
func (r *reader) dateTime(at int) any {
	year, month, day := r.int32("a year"), r.byte("a month"), r.byte("a day")
	nanos, zone := r.int64("a time"), r.int32("an offset")
	if r.err != nil {
		return nil
	}
	if nanos < 0 || nanos >= int64(24*time.Hour) || zone < -message.MaxZone || zone > message.MaxZone || month < 1 || month > 12 ||
		year > message.MaxYear || year < -message.MaxYear {
		r.failf(at, "expected a date and time")
		return nil
	}
	in := time.UTC
	if zone != 0 {
		in = time.FixedZone("", int(zone))
	}
	t := time.Date(int(year), time.Month(month), int(day), 0, 0, int(nanos/1e9), int(nanos%1e9), in)
	if t.Day() != int(day) {
		r.failf(at, "expected a day of the month, found %d", day)
		return nil
	}
	return t
}

func (r *reader) bool() any {
	at := r.at
	b := r.byte("a boolean")
	if b > 1 {
		r.failf(at, "expected a boolean of 0 or 1, found %#x", b)
	}
	return b == 1
}

func (r *reader) uuid() value.UUID {
	if b := r.take(16, "a UUID"); b != nil {
		return value.UUID(b)
	}
	return value.UUID{}
}

// big reads an integer in two's complement. No bytes at all are 0, as gremlin-go
// writes it.
func (r *reader) big() *big.Int {
	at := r.at
	b := r.take(r.length("an integer", 1), "an integer")
	if len(b) > message.MaxBigBytes {
		r.failf(at, "expected an integer of at most %d bytes", message.MaxBigBytes)
		return nil
	}
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	return n
}

func (r *reader) decimal() any {
	at := r.at
	scale := r.int32("a scale")
	if scale > message.MaxScale || scale < -message.MaxScale {
		r.failf(at, "expected a scale of at most %d, found %d", message.MaxScale, scale)
		return nil
	}
	return value.Decimal{Unscaled: r.big(), Scale: scale}
}

// char reads one character, whose length UTF-8 says.
func (r *reader) char() any {
	if r.err != nil {
		return nil
	}
	c, n := utf8.DecodeRune(r.b[r.at:])
	if c == utf8.RuneError && n <= 1 {
		r.failf(r.at, "expected a character in UTF-8")
		return nil
	}
	r.at += n
	return value.Char(c)
}

// enum reads a constant, which is a string with its type.
func (r *reader) enum(kind string) any {
	at := r.at
	if code := r.byte("a type"); code != typeString || !r.flag() {
		r.failf(at, "expected a string that is a constant of %s", kind)
		return nil
	}
	e := value.Enum{Kind: kind, Name: r.string("a constant")}
	if r.err == nil && !message.Known(e) {
		r.failf(at, "expected a constant of %s, found %q", kind, e.Name)
	}
	return e
}

func (r *reader) collection(code byte) (any, bool) {
	switch code {
	case typeList:
		return value.List(r.items()), true
	case typeSet:
		s := &value.Set{}
		for n := r.length("a set", 2); n > 0 && r.err == nil; n-- {
			if v := r.key(); r.err == nil {
				s.Add(v)
			}
		}
		return s, true
	case typeMap:
		return r.pairs(), true
	case typeBulkSet:
		return r.bulkSet(), true
	case typeTree:
		return r.tree(&value.Tree{}), true
	case typeTraverser:
		t := message.Traverser{Bulk: r.int64("a bulk")}
		t.Val = r.value()
		return t, r.hashed == 0
	}
	return nil, false
}

// firstItems is how many items a list has room for at the beginning: a length is
// not trusted with more.
const firstItems = 64

func (r *reader) items() []any {
	n := r.length("a list", 2)
	items := make([]any, 0, min(n, firstItems))
	for ; n > 0 && r.err == nil; n-- {
		items = append(items, r.value())
	}
	return items
}

func (r *reader) pairs() *value.Map {
	m := &value.Map{}
	for n := r.length("a map", 4); n > 0 && r.err == nil; n-- {
		key := r.key()
		if val := r.value(); r.err == nil {
			m.Set(key, val)
		}
	}
	return m
}

// bulkSet reads values with how often they occur. The sum is bounded, as a
// BulkSet may be written out as a list.
func (r *reader) bulkSet() any {
	s, sum := &value.BulkSet{}, int64(0)
	for n := r.length("a bulk set", 10); n > 0 && r.err == nil; n-- {
		v := r.key()
		at := r.at
		bulk := r.int64("a bulk")
		if bulk < 0 || bulk > message.MaxValues-sum {
			r.failf(at, "expected a bulk from 0 to %d, found %d", message.MaxValues-sum, bulk)
		}
		if r.err == nil {
			s.Add(v, bulk)
			sum += bulk
		}
	}
	return s
}

// tree reads values, each with the tree below it, and adds them to t.
func (r *reader) tree(t *value.Tree) *value.Tree {
	if r.depth++; r.depth > message.MaxDepth {
		r.failf(r.at, "expected values nested at most %d deep", message.MaxDepth)
		return t
	}
	for n := r.length("a tree", 6); n > 0 && r.err == nil; n-- {
		if key := r.key(); r.err == nil {
			r.tree(t.Child(key))
		}
	}
	r.depth--
	return t
}
