package sqldriver

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"

	"github.com/skerrydb/skerry/resp/wire"
)

// json appends the next value as encoding/json would have encoded the original. If t is
// nil, only the value determines its type.
func (c *cursor) json(dst []byte, t *typ) ([]byte, error) {
	switch it := c.next(); it.Kind {
	case wire.KindNull:
		return append(dst, "null"...), nil
	case wire.KindBool:
		return strconv.AppendBool(dst, it.Int == 1), nil
	case wire.KindInt:
		return strconv.AppendInt(dst, it.Int, 10), nil
	case wire.KindDouble:
		return floatJSON(dst, it, t)
	case wire.KindArray, wire.KindSet, wire.KindPush:
		return c.listJSON(dst, it.Len, t)
	case wire.KindMap:
		return c.mapJSON(dst, it.Len/2, t)
	default:
		return textJSON(dst, it, t)
	}
}

// floatJSON appends a JSON number. JSON has no infinity.
func floatJSON(dst []byte, it wire.Item, t *typ) ([]byte, error) {
	f, err := strconv.ParseFloat(string(it.Str), 64)
	if err != nil {
		return textJSON(dst, it, t)
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return append(dst, "null"...), nil
	}
	b, err := json.Marshal(f)
	return append(dst, b...), err
}

func (c *cursor) listJSON(dst []byte, n int, t *typ) (_ []byte, err error) {
	var of *typ
	if t != nil {
		if of = t.Of; t.Kind != kindList {
			return dst, errMisfit
		}
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = c.json(dst, of); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (c *cursor) mapJSON(dst []byte, n int, t *typ) (_ []byte, err error) {
	dst = append(dst, '{')
	for i := range n {
		name := c.next()
		of, err := member(t, i, name.Str)
		if err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(quote(dst, name.Str), ':')
		if dst, err = c.json(dst, of); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// member returns the type of the i-th value of an object or map.
func member(t *typ, i int, name []byte) (*typ, error) {
	switch {
	case t == nil:
		return nil, nil
	case t.Kind == kindMap:
		return t.Of, nil
	case t.Kind != kindObject || i >= len(t.Fields) || t.Fields[i].Name != string(name):
		return nil, errMisfit
	}
	return &t.Fields[i].Type, nil
}

// textJSON appends a value that was sent as text.
func textJSON(dst []byte, it wire.Item, t *typ) ([]byte, error) {
	if t == nil {
		return quote(dst, it.Str), nil
	}
	switch t.Kind {
	case kindUint:
		if _, err := unsigned(it); err != nil {
			return dst, err
		}
		return append(dst, it.Str...), nil
	case kindBytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, it.Str)
		return append(dst, '"'), nil
	case kindJSON:
		if json.Valid(it.Str) {
			return append(dst, it.Str...), nil
		}
	}
	return quote(dst, it.Str), nil
}

func quote(dst, text []byte) []byte {
	b, err := json.Marshal(string(text))
	if err != nil {
		panic("BUG: a string that is not JSON: " + err.Error())
	}
	return append(dst, b...)
}
