package traversal

import (
	"fmt"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// by is what a by() makes of a traverser: itself, a property or an entry of a map, a
// token, a column or the result of a traversal.
type by struct {
	key    *string
	token  *value.Enum
	plan   *plan
	order  value.Enum // of order().by()
	column *value.Enum
}

// bys makes the by() modulators of a step.
func (b *builder) bys(c *callInfo) (out []*by, err error) {
	for i := range c.mods {
		if c.mods[i].Name != "by" {
			continue
		}
		m := &callInfo{Call: c.mods[i]}
		one, err := b.by(m)
		if err != nil {
			s := &step{call: *m}
			return nil, s.fail(err)
		}
		out = append(out, one)
	}
	return out, nil
}

// oneBy is bys of a step that takes one at most. name is what its error calls it.
func (b *builder) oneBy(c *callInfo, name string) ([]*by, error) {
	bys, err := b.bys(c)
	if err == nil && len(bys) > 1 {
		err = fmt.Errorf("%s step can only have one by modulator", name)
	}
	return bys, err
}

func (b *builder) by(c *callInfo) (*by, error) {
	if err := c.arity(0, 2); err != nil {
		return nil, err
	}
	out := &by{order: value.Asc}
	args := c.Args
	if n := len(args); n > 0 {
		if e, ok := args[n-1].(value.Enum); ok && e.Kind == value.KindOrder {
			out.order, args = e, args[:n-1]
		}
	}
	if len(args) == 0 {
		return out, nil
	}
	switch x := args[0].(type) {
	case string:
		out.key = &x
	case nil:
		return out, nil
	case value.Enum:
		switch x.Kind {
		case value.KindT:
			out.token = &x
		case value.KindColumn:
			out.column = &x
		default:
			return nil, wrong(0, "a key, a token, a column, a traversal or an order", x)
		}
	case *gremlin.Traversal:
		var err error
		out.plan, err = b.child(x)
		return out, err
	default:
		return nil, wrong(0, "a key, a token, a traversal or an order", x)
	}
	return out, nil
}

// value returns what the by makes of a traverser; ok is false if that is nothing.
func (m *by) value(r *run, t traverser) (val any, ok bool, err error) {
	switch {
	case m.plan != nil:
		val, ok, err = r.first(m.plan, t)
	case m.key != nil:
		val, ok, err = r.keyed(t.val, *m.key)
	case m.token != nil:
		val, err = tokenOf(*m.token, t.val)
		ok = true
	case m.column != nil:
		val, err = columnOf(*m.column, t.val)
		ok = true
	default:
		return t.val, true, nil
	}
	if !ok && err == nil && r.source.productive {
		return nil, true, nil
	}
	return val, ok, err
}

// keyed returns the property of an element, or the entry of a map.
func (r *run) keyed(v any, key string) (val any, ok bool, err error) {
	switch x := v.(type) {
	case value.Element:
		err = r.properties(x, []string{key}, func(p any) error {
			val, ok = propertyValue(p), true
			return errFirst
		})
		if err == errFirst {
			err = nil
		}
		return val, ok, err
	case *value.Map:
		val, ok = x.Get(key)
		return val, ok, nil
	case nil:
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("by(%q) needs an element or a map, not %s", key, value.Describe(v))
}

// propertyValue returns the value of a property of any kind.
func propertyValue(p any) any {
	switch x := p.(type) {
	case *graph.VertexProperty:
		return x.Val
	case *value.VertexProperty:
		return x.Val
	case *value.Property:
		return x.Val
	}
	return nil
}

// propertyKey returns the key of a property of any kind, and whether v is one.
func propertyKey(v any) (string, bool) {
	switch x := v.(type) {
	case *graph.VertexProperty:
		return x.Key, true
	case *value.VertexProperty:
		return x.Key, true
	case *value.Property:
		return x.Key, true
	}
	return "", false
}

// tokenOf returns an element's id or label, or a property's key or value.
func tokenOf(token value.Enum, v any) (any, error) {
	switch token {
	case value.ID, value.Label:
		e, ok := v.(value.Element)
		if !ok {
			break
		}
		if token == value.ID {
			return e.ElementID(), nil
		}
		return e.ElementLabel(), nil
	case value.Key, value.Val:
		key, ok := propertyKey(v)
		if !ok {
			break
		}
		if token == value.Key {
			return key, nil
		}
		return propertyValue(v), nil
	}
	return nil, fmt.Errorf("%s has no T.%s", value.Describe(v), token.Name)
}

// columnOf returns the keys or values of a map, an entry or a path.
func columnOf(column value.Enum, v any) (any, error) {
	keys := column == value.ColumnKeys
	switch x := v.(type) {
	case *value.Map:
		set, list := &value.Set{}, value.List{}
		for _, e := range x.Entries() {
			set.Add(e.Key)
			list = append(list, e.Val)
		}
		if keys {
			return set, nil
		}
		return list, nil
	case value.Entry:
		if keys {
			return x.Key, nil
		}
		return x.Val, nil
	case *value.Path:
		if !keys {
			return value.List(x.Objects), nil
		}
		labels := value.List{}
		for _, ls := range x.Labels {
			set := &value.Set{}
			for _, l := range ls {
				set.Add(l)
			}
			labels = append(labels, set)
		}
		return labels, nil
	}
	return nil, fmt.Errorf("%s has no %s", value.Describe(v), column.Name)
}
