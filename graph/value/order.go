package value

import (
	"bytes"
	"cmp"
	"math/big"
	"slices"
	"strings"
	"time"
)

// rank orders the types of values where they are ordered at all: in order(), and
// in the keys of an index. TinkerPop's documentation of its semantics has the
// list.
func rank(v any) int {
	switch x := v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case int8, int16, int32, int64, *big.Int, float32, float64, Decimal:
		return 2
	case time.Time:
		return 3
	case string, Enum: // tokens in maps are among other keys
		return 4
	case UUID:
		return 5
	case Stored, *Vertex, *Edge, *VertexProperty:
		switch KindOf(x) {
		case KindVertex:
			return 6
		case KindEdge:
			return 7
		}
		return 8
	case *Property:
		return 9
	case *Path:
		return 10
	case *Set:
		return 11
	case List, *BulkSet:
		return 12
	case *Map, *Tree:
		return 13
	case Entry:
		return 14
	}
	return 15
}

func compareOrdered[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }

// Order compares any two values: by type, then by value. It returns -1, 0 or 1. NaN is
// the largest number. It is a total order.
func Order(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch x := a.(type) {
	case nil:
		return 0
	case bool:
		return order(x, b.(bool))
	case time.Time:
		return x.Compare(b.(time.Time))
	case string, Enum:
		return strings.Compare(Text(a), Text(b))
	case UUID:
		y := b.(UUID)
		return bytes.Compare(x[:], y[:])
	case Element:
		return Order(x.ElementID(), b.(Element).ElementID())
	case *Property:
		y := b.(*Property)
		return cmp.Or(strings.Compare(x.Key, y.Key), Order(x.Val, y.Val))
	case *Path:
		return orderLists(x.Objects, b.(*Path).Objects)
	case *Set:
		return orderLists(sorted(x.Items()), sorted(b.(*Set).Items()))
	case List, *BulkSet:
		return orderLists(Items(x), Items(b))
	case *Map:
		if y, ok := b.(*Map); ok {
			return orderMaps(x, y)
		}
	case Entry:
		y := b.(Entry)
		return cmp.Or(Order(x.Key, y.Key), Order(x.Val, y.Val))
	}
	if !IsNumber(a) {
		return orderOthers(a, b)
	}
	switch x, y := IsNaN(a), IsNaN(b); {
	case x || y:
		return order(x, y)
	}
	return compareNumbers(a, b)
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// orderOthers compares values without an order of their own by type and text.
func orderOthers(a, b any) int {
	switch x := a.(type) {
	case Char:
		if y, ok := b.(Char); ok {
			return cmp.Compare(x, y)
		}
	case Duration:
		if y, ok := b.(Duration); ok {
			return cmp.Or(cmp.Compare(x.Seconds, y.Seconds), cmp.Compare(x.Nanos, y.Nanos))
		}
	case []byte:
		if y, ok := b.([]byte); ok {
			return bytes.Compare(x, y)
		}
	}
	return cmp.Or(strings.Compare(Describe(a), Describe(b)), strings.Compare(Text(a), Text(b)))
}

func sorted(items []any) []any {
	out := slices.Clone(items)
	slices.SortFunc(out, Order)
	return out
}

func orderLists(a, b []any) int { return slices.CompareFunc(a, b, Order) }

func orderMaps(a, b *Map) int {
	flat := func(m *Map) []any {
		es := slices.Clone(m.Entries())
		slices.SortFunc(es, func(x, y Entry) int { return Order(x.Key, y.Key) })
		out := make([]any, 0, len(es))
		for _, e := range es {
			out = append(out, e)
		}
		return out
	}
	return orderLists(flat(a), flat(b))
}

// Compare compares values of one type. It reports false if they cannot be
// compared: if their types differ, if they have no order, or with NaN.
func Compare(a, b any) (int, bool) {
	ra, rb := rank(a), rank(b)
	if ra != rb || ra > 14 || IsNaN(a) || IsNaN(b) {
		if d, ok := a.(Duration); ok {
			if e, ok := b.(Duration); ok {
				return Order(d, e), true
			}
		}
		return 0, false
	}
	return compareParts(a, b, ra)
}

// compareParts compares two values of one rank, whose parts must be comparable too.
func compareParts(a, b any, r int) (int, bool) {
	var x, y []any
	switch {
	case r < 6:
		return Order(a, b), true
	case r == 6 || r == 7 || r == 8:
		return Compare(a.(Element).ElementID(), b.(Element).ElementID())
	case r == 9:
		p, q := a.(*Property), b.(*Property)
		x, y = []any{p.Key, p.Val}, []any{q.Key, q.Val}
	case r == 10:
		x, y = a.(*Path).Objects, b.(*Path).Objects
	case r == 11:
		x, y = sorted(a.(*Set).Items()), sorted(b.(*Set).Items())
	case r == 12:
		x, y = Items(a), Items(b)
	default:
		return Order(a, b), true
	}
	for i := range min(len(x), len(y)) {
		if c, ok := Compare(x[i], y[i]); c != 0 || !ok {
			return c, ok
		}
	}
	return cmp.Compare(len(x), len(y)), true
}

// Equal reports whether two values are equal: numbers of all types by their
// value, elements by their ids, collections by their contents. NaN equals nothing.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x == y
	case int64:
		if y, ok := b.(int64); ok {
			return x == y
		}
	}
	return !hasNaN(a) && !hasNaN(b) && EqualHash(a) == EqualHash(b)
}

// hasNaN reports whether v is NaN or a collection with it.
func hasNaN(v any) bool {
	switch x := v.(type) {
	case float32, float64:
		return IsNaN(x)
	case List:
		return slices.ContainsFunc(x, hasNaN)
	case *Set:
		return slices.ContainsFunc(x.items, hasNaN)
	case *Map:
		return slices.ContainsFunc(x.entries, func(e Entry) bool { return hasNaN(e.Key) || hasNaN(e.Val) })
	case *Path:
		return slices.ContainsFunc(x.Objects, hasNaN)
	case *BulkSet:
		return slices.ContainsFunc(x.items, hasNaN)
	case Entry:
		return hasNaN(x.Key) || hasNaN(x.Val)
	case *Property:
		return hasNaN(x.Val)
	}
	return false
}

// Items returns the values of a list, a set, a BulkSet or a path, or nil. The
// caller must not change them.
func Items(v any) []any {
	switch x := v.(type) {
	case List:
		return x
	case *Set:
		return x.items
	case *Path:
		return x.Objects
	case *BulkSet:
		out := make([]any, 0, len(x.items))
		for i, v := range x.items {
			for range x.bulks[i] {
				out = append(out, v)
			}
		}
		return out
	}
	return nil
}
