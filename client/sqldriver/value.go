package sqldriver

import (
	"database/sql/driver"
	"errors"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/resp/wire"
)

// errMisfit means that a reply does not match the schema: the program on the server has
// changed.
var errMisfit = errors.New("skerry: the result does not match the schema")

// cursor reads the values of a reply one after another.
type cursor struct{ b []byte }

// next returns the head of the next value, after its attributes. It returns nulls if the
// reply is truncated.
func (c *cursor) next() wire.Item {
	for {
		it, rest, ok := wire.Cut(c.b)
		if !ok {
			c.b = nil
			return wire.Item{Kind: wire.KindNull}
		}
		c.b = rest
		if it.Kind != wire.KindAttribute {
			return it
		}
		for range it.Len {
			c.b, _ = wire.Skip(c.b)
		}
	}
}

// peek is like next but does not advance.
func (c *cursor) peek() wire.Item {
	ahead := *c
	return ahead.next()
}

// value converts the next value to a column. If t is nil, only the value determines its
// type. Slices alias the reply.
func (c *cursor) value(t *typ) (driver.Value, error) {
	if t == nil {
		return c.shown()
	}
	switch t.Kind {
	case kindNull, kindObject, kindList, kindMap:
		if it := c.peek(); it.IsNull() {
			c.next()
			return nil, nil
		}
		b, err := c.json(nil, t)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	it := c.next()
	if it.IsNull() {
		return nil, nil
	}
	switch t.Kind {
	case kindBool:
		if it.Kind == wire.KindBool {
			return it.Int == 1, nil
		}
	case kindInt:
		if it.Kind == wire.KindInt {
			return it.Int, nil
		}
	case kindUint:
		return unsigned(it)
	case kindFloat:
		return float(it)
	default:
		return fromText(it, t)
	}
	return nil, errMisfit
}

// fromText converts a value that was sent as text.
func fromText(it wire.Item, t *typ) (driver.Value, error) {
	if it.Kind != wire.KindBulk {
		return nil, errMisfit
	}
	switch t.Kind {
	case kindString:
		return string(it.Str), nil
	case kindTime:
		at, err := time.Parse(time.RFC3339Nano, string(it.Str))
		if err != nil {
			return nil, errMisfit
		}
		return at, nil
	}
	return own(it.Str), nil // bytes and JSON
}

// own returns b, never nil, with its capacity limited so that appending to it changes
// nothing else.
func own(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	return b[:len(b):len(b)]
}

// unsigned parses an integer. If it is too large for an int64, it returns a uint64.
func unsigned(it wire.Item) (driver.Value, error) {
	switch it.Kind {
	case wire.KindInt:
		return it.Int, nil
	case wire.KindBulk, wire.KindBig:
		if n, err := strconv.ParseUint(string(it.Str), 10, 64); err == nil {
			return n, nil
		}
	}
	return nil, errMisfit
}

func float(it wire.Item) (driver.Value, error) {
	if it.Kind == wire.KindDouble {
		if f, err := strconv.ParseFloat(string(it.Str), 64); err == nil {
			return f, nil
		}
	}
	return nil, errMisfit
}

// shown converts a value whose type is not known.
func (c *cursor) shown() (driver.Value, error) {
	switch it := c.peek(); it.Kind {
	case wire.KindArray, wire.KindMap, wire.KindSet, wire.KindPush:
		b, err := c.json(nil, nil)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	switch it := c.next(); it.Kind {
	case wire.KindNull:
		return nil, nil
	case wire.KindBool:
		return it.Int == 1, nil
	case wire.KindInt:
		return it.Int, nil
	case wire.KindDouble:
		if f, err := float(it); err == nil {
			return f, nil
		}
		return string(it.Str), nil
	default:
		return string(it.Str), nil
	}
}
