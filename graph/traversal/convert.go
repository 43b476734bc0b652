package traversal

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/graph/value"
)

// dates has the makers of the steps that convert values, and of those on dates.
func dates() map[string]maker {
	return map[string]maker{
		"asDate": makeAsDate, "dateAdd": makeDateAdd, "dateDiff": makeDateDiff, "asNumber": makeAsNumber, "asBool": makeAsBool,
	}
}

func makeAsDate(_ *builder, c *callInfo) (kernel, traits, error) {
	return mapping(func(_ *run, t traverser) (any, bool, error) {
		switch x := t.val.(type) {
		case time.Time:
			return x, true, nil
		case string:
			d, err := value.ParseDate(x)
			if err != nil {
				return nil, false, known("Can't parse %s as Date.", x)
			}
			return d, true, nil
		}
		if n, ok := value.Int(t.val); ok {
			return time.UnixMilli(n).UTC(), true, nil
		}
		return nil, false, known("Can't parse %s as Date.", javaName(t.val))
	}), traits{}, c.arity(0, 0)
}

func dateOf(v any) (time.Time, error) {
	d, ok := v.(time.Time)
	if !ok {
		return d, fmt.Errorf("it needs a date, not %s", value.Describe(v))
	}
	return d, nil
}

var dateUnits = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

func makeDateAdd(_ *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(2, 2); err != nil {
		return nil, traits{}, err
	}
	e, _ := c.Args[0].(value.Enum)
	unit, ok := dateUnits[e.Name]
	if !ok || e.Kind != value.KindDT {
		return nil, traits{}, wrong(0, "a DT", c.Args[0])
	}
	n, err := c.int(1)
	if err == nil && (n > math.MaxInt32 || n < math.MinInt32) {
		err = fmt.Errorf("argument 2 must have 32 bits")
	}
	return mapping(func(_ *run, t traverser) (any, bool, error) {
		d, err := dateOf(t.val)
		if err != nil {
			return nil, false, err
		}
		if unit == 24*time.Hour {
			return value.Zoned(d.AddDate(0, 0, int(n))), true, nil
		}
		return value.Zoned(d.Add(time.Duration(n) * unit)), true, nil
	}), traits{}, err
}

// makeDateDiff makes dateDiff, in milliseconds. null is the beginning of 1970.
func makeDateDiff(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	o, err := b.operand(c.Args[0])
	return mapping(func(r *run, t traverser) (any, bool, error) {
		d, err := dateOf(t.val)
		if err != nil {
			return nil, false, err
		}
		v, _, err := o.get(r, t)
		if err != nil {
			return nil, false, err
		}
		other := time.UnixMilli(0)
		if v != nil {
			if other, err = dateOf(v); err != nil {
				return nil, false, err
			}
		}
		return d.UnixMilli() - other.UnixMilli(), true, nil
	}), traits{}, err
}

func makeAsBool(_ *builder, c *callInfo) (kernel, traits, error) {
	return mapping(func(_ *run, t traverser) (any, bool, error) {
		switch x := t.val.(type) {
		case bool:
			return x, true, nil
		case string:
			switch strings.ToLower(x) {
			case "true":
				return true, true, nil
			case "false":
				return false, true, nil
			}
			return nil, false, known("Can't parse %s as Boolean.", x)
		}
		if f, ok := value.Float(t.val); ok {
			return f != 0 && !value.IsNaN(t.val), true, nil
		}
		return nil, false, known("Can't parse %s as Boolean.", javaName(t.val))
	}), traits{}, c.arity(0, 0)
}

// makeAsNumber makes asNumber(), of numbers, dates and text, and asNumber(type).
func makeAsNumber(_ *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(0, 1); err != nil {
		return nil, traits{}, err
	}
	to := ""
	if len(c.Args) == 1 {
		e, ok := c.Args[0].(value.Enum)
		if !ok || e.Kind != value.KindGType {
			return nil, traits{}, wrong(0, "a GType", c.Args[0])
		}
		if to = e.Name; numberTypes()[to] == nil && to != "NUMBER" {
			return nil, traits{}, fmt.Errorf("asNumber() requires a numeric type token, got %s", to)
		}
	}
	return mapping(func(_ *run, t traverser) (any, bool, error) {
		v, err := asNumber(t.val)
		if err != nil || to == "" || to == "NUMBER" || v == nil {
			return v, err == nil, err
		}
		out, ok := numberTypes()[to](v)
		if !ok {
			return nil, false, known("Can't convert number of type %s to %s due to overflow.", javaName(v), javaTypes[to])
		}
		return out, true, nil
	}), traits{}, nil
}

var javaTypes = map[string]string{
	"BYTE": "Byte", "SHORT": "Short", "INT": "Integer", "LONG": "Long", "BIGINT": "BigInteger", "FLOAT": "Float", "DOUBLE": "Double",
	"BIGDECIMAL": "BigDecimal",
}

func asNumber(v any) (any, error) {
	switch x := v.(type) {
	case nil:
		return nil, nil
	case time.Time:
		return x.UnixMilli(), nil
	case string:
		return parseNumber(x)
	}
	if value.IsNumber(v) {
		return v, nil
	}
	return nil, known("Can't parse type %s as number.", javaName(v))
}

// parseNumber reads an integer, decimal or hexadecimal, of the smallest type from
// Integer up, or a number with a point.
func parseNumber(s string) (any, error) {
	bad := known("Can't parse string '%s' as number.", s)
	if len(s) > value.MaxDigits {
		return nil, bad
	}
	digits, base := strings.TrimLeft(s, "+-"), 10
	if strings.HasPrefix(strings.ToLower(digits), "0x") {
		digits, base = digits[2:], 16
	}
	if n, ok := new(big.Int).SetString(strings.ReplaceAll(digits, "_", "x"), base); ok && n.Sign() >= 0 && digits[0] != '+' {
		if strings.HasPrefix(s, "-") {
			n.Neg(n)
		}
		switch {
		case n.IsInt64() && n.Int64() == int64(int32(n.Int64())):
			return int32(n.Int64()), nil
		case n.IsInt64():
			return n.Int64(), nil
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "_xXpP") {
		return nil, bad
	}
	return f, nil
}

// numberTypes has the conversions of numbers, by the names of types in GType. They
// report false if a number is too large.
func numberTypes() map[string]func(v any) (any, bool) {
	whole := func(bits int) func(v any) (int64, bool) {
		return func(v any) (int64, bool) {
			n, ok := value.Int(v)
			if !ok {
				f, isFloat := value.Float(v)
				if f = math.Trunc(f); !isFloat || f >= 1<<63 || f < -1<<63 || math.IsNaN(f) {
					return 0, false
				}
				n = int64(f)
			}
			return n, n>>(bits-1) == 0 || n>>(bits-1) == -1
		}
	}
	return map[string]func(v any) (any, bool){
		"BYTE":  func(v any) (any, bool) { n, ok := whole(8)(v); return int8(n), ok },
		"SHORT": func(v any) (any, bool) { n, ok := whole(16)(v); return int16(n), ok },
		"INT":   func(v any) (any, bool) { n, ok := whole(32)(v); return int32(n), ok },
		"LONG":  func(v any) (any, bool) { n, ok := whole(64)(v); return n, ok },
		"BIGINT": func(v any) (any, bool) {
			if n, ok := v.(*big.Int); ok {
				return n, true
			}
			if n, ok := value.Int(v); ok {
				return big.NewInt(n), true
			}
			f, _ := value.Float(v)
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, false
			}
			n, _ := big.NewFloat(f).Int(nil)
			return n, true
		},
		"FLOAT": func(v any) (any, bool) {
			f, _ := value.Float(v)
			return float32(f), math.Abs(f) <= math.MaxFloat32 || math.IsInf(f, 0) || math.IsNaN(f)
		},
		"DOUBLE": func(v any) (any, bool) {
			f, _ := value.Float(v)
			_, isFloat := v.(float64)
			return f, isFloat || !math.IsInf(f, 0)
		},
		"BIGDECIMAL": func(v any) (any, bool) {
			if f, _ := value.Float(v); math.IsNaN(f) {
				return nil, false
			}
			if f, ok := v.(float64); ok && math.IsInf(f, 0) {
				return nil, false
			}
			return value.AsDecimal(v), true
		},
	}
}
