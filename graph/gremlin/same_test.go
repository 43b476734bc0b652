package gremlin

import (
	"bytes"
	"math"
	"math/big"
	"reflect"
	"time"

	"github.com/skerrydb/skerry/graph/value"
)

// same reports whether two queries or arguments are equal in all but the
// positions of their calls.
func same(a, b any) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	switch x := a.(type) {
	case *Query:
		y := b.(*Query)
		if (x.Traversal == nil) != (y.Traversal == nil) || x.Traversal != nil && !same(x.Traversal, y.Traversal) {
			return false
		}
		return x.Source == y.Source && x.End == y.End && x.N == y.N && x.Tx == y.Tx
	case *Traversal:
		y := b.(*Traversal)
		return sameCalls(x.Source, y.Source) && sameCalls(x.Steps, y.Steps)
	case *P:
		y := b.(*P)
		return x.Name == y.Name && sameItems(x.Args, y.Args)
	case Strategy:
		y := b.(Strategy)
		if (x.Config == nil) != (y.Config == nil) || x.Config != nil && !same(x.Config, y.Config) {
			return false
		}
		return x.Name == y.Name
	case Cardinal:
		y := b.(Cardinal)
		return x.Cardinality == y.Cardinality && same(x.Val, y.Val)
	case value.List:
		return sameItems(x, b.(value.List))
	case *value.Set:
		return sameItems(x.Items(), b.(*value.Set).Items())
	case *value.Map:
		y := b.(*value.Map).Entries()
		ok := len(y) == x.Len()
		for i := 0; ok && i < len(y); i++ {
			e := x.Entries()[i]
			ok = same(e.Key, y[i].Key) && same(e.Val, y[i].Val)
		}
		return ok
	}
	return sameScalar(a, b)
}

func sameScalar(a, b any) bool {
	switch x := a.(type) {
	case *value.Vertex:
		y := b.(*value.Vertex)
		return same(x.ID, y.ID) && x.Label == y.Label
	case *big.Int:
		return x.Cmp(b.(*big.Int)) == 0
	case value.Decimal:
		return x.String() == b.(value.Decimal).String()
	case []byte:
		return bytes.Equal(x, b.([]byte))
	case float64:
		y := b.(float64)
		return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
	case time.Time:
		return x.Format(time.RFC3339Nano) == b.(time.Time).Format(time.RFC3339Nano)
	}
	return a == b
}

func sameCalls(a, b []Call) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || !sameItems(a[i].Args, b[i].Args) {
			return false
		}
	}
	return true
}

func sameItems(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}
