package traversal

import (
	"fmt"
	"math"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// reductions has the makers of the steps that make one value of all traversers.
func reductions() map[string]maker {
	return map[string]maker{
		"count": makeCount, "sum": makeSum, "min": makeSum, "max": makeSum, "mean": makeSum, "fold": makeFold,
		"group": makeGroup, "groupCount": makeGroup,
	}
}

var reduceTraits = traits{barrier: true, reduces: true}

func makeCount(_ *builder, c *callInfo) (kernel, traits, error) {
	if c.scope() {
		return mapping(func(_ *run, t traverser) (any, bool, error) {
			switch x := t.val.(type) {
			case *value.Map:
				return int64(x.Len()), true, nil
			case *value.Tree:
				return int64(len(x.Nodes)), true, nil
			case *value.Path:
				return int64(len(x.Objects)), true, nil
			}
			if items, ok := itemsOf(t.val); ok {
				return int64(len(items)), true, nil
			}
			return int64(1), true, nil
		}), traits{}, c.arity(0, 0)
	}
	return reducing(func(*run) reduction { return new(counting) }), reduceTraits, c.arity(0, 0)
}

type counting int64

func (n *counting) add(t traverser) error {
	if int64(*n) > math.MaxInt64-t.bulk {
		return errBulk
	}
	*n += counting(t.bulk)
	return nil
}

func (n *counting) result() (any, bool, error) { return int64(*n), true, nil }

// makeSum makes sum, min, max and mean, of all traversers or of a collection.
func makeSum(_ *builder, c *callInfo) (kernel, traits, error) {
	local := c.scope()
	if err := c.arity(0, 0); err != nil {
		return nil, traits{}, err
	}
	if local {
		return mapping(func(_ *run, t traverser) (any, bool, error) {
			items, ok := itemsOf(t.val)
			if !ok {
				return t.val, true, nil
			}
			s := &summing{name: c.Name}
			for _, v := range items {
				if err := s.add(traverser{val: v, bulk: 1}); err != nil {
					return nil, false, err
				}
			}
			return s.result()
		}), traits{}, nil
	}
	return reducing(func(*run) reduction { return &summing{name: c.Name} }), reduceTraits, nil
}

type summing struct {
	name  string
	val   any  // nil: nothing yet
	null  bool // there was null
	count int64
}

// add adds a value. null and, for min and max, NaN beside numbers count for nothing.
func (s *summing) add(t traverser) error {
	if t.val == nil {
		s.null = true
		return nil
	}
	if s.name == "min" || s.name == "max" {
		if s.val == nil || value.IsNaN(s.val) && value.IsNumber(t.val) {
			s.val = t.val
			return nil
		}
		if value.IsNaN(t.val) && value.IsNumber(s.val) {
			return nil
		}
		best, other := s.val, t.val
		if c := value.Order(t.val, s.val); (c < 0) == (s.name == "min") && c != 0 {
			best, other = other, best
		}
		if s.val = best; value.IsNumber(best) && value.IsNumber(other) {
			s.val = value.Widen(best, other) // the type does not depend on which number it is
		}
		return nil
	}
	if !value.IsNumber(t.val) {
		return fmt.Errorf("it needs numbers, not %s", value.Describe(t.val))
	}
	v, err := timesBulk(t.val, t.bulk)
	if err != nil {
		return err
	}
	s.count += t.bulk
	s.val, err = value.Calc(value.Add, s.val, v)
	return err
}

func timesBulk(v any, bulk int64) (any, error) {
	if bulk == 1 {
		return v, nil
	}
	if n := int64(int8(bulk)); n == bulk {
		return value.Calc(value.Mul, v, int8(bulk))
	}
	return value.Calc(value.Mul, v, bulk)
}

func (s *summing) result() (any, bool, error) {
	if s.val == nil || s.name != "mean" {
		return s.val, s.val != nil || s.null, nil
	}
	v, err := mean(s.val, s.count)
	return v, err == nil, err
}

// mean divides a sum, as a float64 unless it is a Decimal or a large integer.
func mean(sum any, count int64) (any, error) {
	switch value.TypeName(sum) {
	case "BIGDECIMAL", "BIGINT":
		return value.Calc(value.Div, value.AsDecimal(sum), count)
	}
	f, _ := value.Float(sum)
	return f / float64(count), nil
}

// makeFold makes fold(), which collects a list, and fold(seed, operator).
func makeFold(_ *builder, c *callInfo) (kernel, traits, error) {
	if len(c.Args) == 0 {
		return reducing(func(r *run) reduction { return &folding{r: r, list: value.List{}} }), reduceTraits, nil
	}
	if err := c.arity(2, 2); err != nil {
		return nil, traits{}, err
	}
	op, ok := operator(c.Args[1])
	if !ok {
		return nil, traits{}, wrong(1, "an operator", c.Args[1])
	}
	seed := c.Args[0]
	if t, ok := seed.(*gremlin.Traversal); ok {
		return nil, traits{}, wrong(0, "a value", t)
	}
	return reducing(func(*run) reduction { return &operating{op.Name, seed} }), reduceTraits, nil
}

type folding struct {
	r    *run
	list value.List
}

func (s *folding) add(t traverser) error {
	for range t.bulk {
		if err := s.r.hold(1); err != nil {
			return err
		}
		s.list = append(s.list, t.val)
	}
	return nil
}

func (s *folding) result() (any, bool, error) { return s.list, true, nil }

type operating struct {
	op  string
	val any
}

func (s *operating) add(t traverser) (err error) {
	for range t.bulk {
		if s.val, err = operate(s.op, s.val, t.val); err != nil {
			return err
		}
	}
	return nil
}

func (s *operating) result() (any, bool, error) { return s.val, true, nil }

// operate applies one of the operators of sacks, folds and side effects.
func operate(op string, a, b any) (any, error) {
	switch op {
	case "sum", "sumLong":
		return value.Calc(value.Add, a, b)
	case "minus":
		return value.Calc(value.Sub, a, b)
	case "mult":
		return value.Calc(value.Mul, a, b)
	case "div":
		return value.Calc(value.Div, a, b)
	case "min", "max":
		s := &summing{name: op}
		for _, v := range []any{a, b} {
			if err := s.add(traverser{val: v, bulk: 1}); err != nil {
				return nil, err
			}
		}
		return s.val, nil
	case "assign":
		return b, nil
	case "and", "or":
		x, ok := a.(bool)
		y, also := b.(bool)
		if !ok || !also {
			return nil, fmt.Errorf("the operator %s needs booleans", op)
		}
		if op == "and" {
			return x && y, nil
		}
		return x || y, nil
	case "addAll":
		return addAll(a, b)
	}
	return nil, fmt.Errorf("there is no operator %s", op)
}

func addAll(a, b any) (any, error) {
	if a == nil {
		return b, nil
	}
	switch x := a.(type) {
	case value.List:
		items, ok := itemsOf(b)
		if !ok {
			items = []any{b}
		}
		return append(x[:len(x):len(x)], items...), nil
	case *value.Set:
		items, ok := itemsOf(b)
		if !ok {
			items = []any{b}
		}
		out := value.NewSet(x.Items()...)
		for _, v := range items {
			out.Add(v)
		}
		return out, nil
	case *value.BulkSet:
		return addAll(value.List(value.Items(x)), b)
	case *value.Map:
		y, ok := b.(*value.Map)
		if !ok {
			break
		}
		out := x.Without(func(any) bool { return false })
		for _, e := range y.Entries() {
			out.Set(e.Key, e.Val)
		}
		return out, nil
	}
	return nil, fmt.Errorf("the operator addAll cannot add %s to %s", value.Describe(b), value.Describe(a))
}
