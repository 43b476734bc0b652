package graph

import (
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// VertexProperty is one value of a property of a vertex, as it was when it was read.
type VertexProperty struct {
	Of  *Vertex
	Key string
	Val any

	key, num uint64
	metas    []prop
}

// Kind implements value.Stored.
func (p *VertexProperty) Kind() value.Kind { return value.KindVertexProperty }

// AppendHash implements value.Stored.
func (p *VertexProperty) AppendHash(b []byte) []byte {
	return value.AppendHash(append(b, 'P'), p.ElementID())
}

// ElementID implements value.Element. It is unique in the graph.
func (p *VertexProperty) ElementID() any {
	return strconv.FormatUint(p.Of.num, 36) + "-" + strconv.FormatUint(p.num, 36)
}

// ElementLabel implements value.Element.
func (p *VertexProperty) ElementLabel() string { return p.Key }

// Detached implements value.Stored.
func (p *VertexProperty) Detached() value.Element {
	return &value.VertexProperty{ID: p.ElementID(), Key: p.Key, Val: p.Val, Of: p.Of.value()}
}

// Exists reports whether the property is still in the graph.
func (p *VertexProperty) Exists() (bool, error) {
	ok, err := p.Of.Exists()
	if !ok || err != nil {
		return false, err
	}
	rec, err := p.Of.decode()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(rec.props, func(q vertexProp) bool { return q.num == p.num }), nil
}

// Properties calls yield with the vertex's properties that have one of the keys, or
// all if there are none, in the order in which they were first set, until yield
// returns an error, which it returns. A vertex that is not in the graph has none.
func (v *Vertex) Properties(keys []string, yield func(*VertexProperty) error) error {
	raw, ok, err := v.record()
	if !ok || err != nil {
		return err
	}
	var buf [8]uint64
	nums, err := v.t.numbersOf(buf[:0], keys)
	if err != nil || len(keys) > 0 && len(nums) == 0 {
		return err
	}
	r := reader{b: raw}
	if flags, _ := r.head(); flags&flagOwnID != 0 {
		r.skip(0)
	}
	r.uvarint()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		key, num := r.uvarint(), r.uvarint()
		if len(nums) > 0 && !slices.Contains(nums, key) {
			r.skip(0)
			for m := r.uvarint(); m > 0 && !r.bad; m-- {
				r.uvarint()
				r.skip(0)
			}
			continue
		}
		p := &VertexProperty{Of: v, key: key, num: num, Val: r.value(0), metas: r.props()}
		if r.bad {
			break
		}
		if p.Key, err = v.t.textOf(key); err != nil {
			return err
		}
		if err := yield(p); err != nil {
			return err
		}
	}
	if r.bad {
		return v.damaged()
	}
	return nil
}

// Properties calls yield with the edge's properties, as Vertex.Properties does.
func (e *Edge) Properties(keys []string, yield func(*value.Property) error) error {
	ok, err := e.Exists()
	if !ok || err != nil {
		return err
	}
	rec, err := e.decode()
	if err != nil {
		return err
	}
	return e.t.plain(e, rec.props, keys, yield)
}

// Properties calls yield with the properties of the property itself, as
// Vertex.Properties does.
func (p *VertexProperty) Properties(keys []string, yield func(*value.Property) error) error {
	return p.Of.t.plain(p, p.metas, keys, yield)
}

func (t *Tx) plain(of value.Element, props []prop, keys []string, yield func(*value.Property) error) error {
	for _, p := range props {
		key, err := t.textOf(p.key)
		if err != nil {
			return err
		}
		if len(keys) > 0 && !slices.Contains(keys, key) {
			continue
		}
		if err := yield(&value.Property{Key: key, Val: p.val, Of: of}); err != nil {
			return err
		}
	}
	return nil
}

// Cardinality says what becomes of the values that a property of a vertex has when
// another one is set.
type Cardinality byte

// The cardinalities.
const (
	Single Cardinality = iota // they are replaced
	List                      // it is added to them
	Set                       // it is added unless there is one that is equal
)

// Set sets a property of a vertex, with properties of its own in pairs of key and
// value. It returns the property, which is one that was there before if
// cardinality is Set.
func (v *Vertex) Set(c Cardinality, key string, val any, metas ...value.Entry) (*VertexProperty, error) {
	before, err := v.decode()
	if err != nil {
		return nil, err
	}
	n, err := v.t.give(key)
	if err != nil {
		return nil, err
	}
	after := *before
	after.props = slices.Clone(before.props)
	at := -1
	if c == Set {
		at = slices.IndexFunc(after.props, func(p vertexProp) bool { return p.key == n && value.Equal(p.val, val) })
	}
	if c == Single {
		after.props = slices.DeleteFunc(after.props, func(p vertexProp) bool { return p.key == n })
	}
	if at < 0 {
		at = len(after.props)
		after.props = append(after.props, vertexProp{key: n, num: after.next, val: val})
		after.next++
	}
	p := &after.props[at]
	p.metas = slices.Clone(p.metas)
	for _, m := range metas {
		key, ok := m.Key.(string)
		if !ok {
			return nil, engine.Errorf(CodeValue, "the key of a property is a string, not %s", value.Describe(m.Key))
		}
		if p.metas, err = v.t.set(p.metas, key, m.Val); err != nil {
			return nil, err
		}
	}
	if err := v.save(before, &after); err != nil {
		return nil, err
	}
	return &VertexProperty{Of: v, Key: key, Val: p.val, key: n, num: p.num, metas: p.metas}, nil
}

// set returns props with one set. It may change props.
func (t *Tx) set(props []prop, key string, val any) ([]prop, error) {
	n, err := t.give(key)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(props, func(p prop) bool { return p.key == n }); i >= 0 {
		props[i].val = val
		return props, nil
	}
	return append(props, prop{n, val}), nil
}

// Set sets a property of the edge.
func (e *Edge) Set(key string, val any) error {
	before, err := e.decode()
	if err != nil {
		return err
	}
	after := *before
	if after.props, err = e.t.set(slices.Clone(before.props), key, val); err != nil {
		return err
	}
	return e.save(before, &after)
}

// Set sets a property of the property itself.
func (p *VertexProperty) Set(key string, val any) error {
	return p.change(func(q *vertexProp) (err error) {
		q.metas, err = p.Of.t.set(slices.Clone(q.metas), key, val)
		return err
	})
}

// change changes the stored property.
func (p *VertexProperty) change(f func(*vertexProp) error) error {
	before, err := p.Of.decode()
	if err != nil {
		return err
	}
	after := *before
	after.props = slices.Clone(before.props)
	i := slices.IndexFunc(after.props, func(q vertexProp) bool { return q.num == p.num })
	if i < 0 {
		return engine.Errorf(CodeNoElement, "the property %q has been removed", p.Key)
	}
	if err := f(&after.props[i]); err != nil {
		return err
	}
	p.metas = after.props[i].metas
	return p.Of.save(before, &after)
}

// Remove removes the property. One that is not there any more is not an error.
func (p *VertexProperty) Remove() error {
	if ok, err := p.Of.Exists(); !ok || err != nil {
		return err
	}
	return p.Of.remove(func(q vertexProp) bool { return q.num == p.num })
}

// RemoveProperty removes all values of a property.
func (v *Vertex) RemoveProperty(key string) error {
	n, err := v.t.numberOf(key)
	if n == 0 || err != nil {
		return err
	}
	return v.remove(func(q vertexProp) bool { return q.key == n })
}

func (v *Vertex) remove(gone func(vertexProp) bool) error {
	before, err := v.decode()
	if err != nil {
		return err
	}
	after := *before
	after.props = slices.DeleteFunc(slices.Clone(before.props), gone)
	if len(after.props) == len(before.props) {
		return nil
	}
	return v.save(before, &after)
}

// RemoveProperty removes a property of an edge or of a vertex's property, if it is
// there.
func (t *Tx) RemoveProperty(of value.Element, key string) error {
	n, err := t.numberOf(key)
	if n == 0 || err != nil {
		return err
	}
	gone := func(p prop) bool { return p.key == n }
	switch x := of.(type) {
	case *Vertex:
		return x.RemoveProperty(key)
	case *Edge:
		if ok, err := x.Exists(); !ok || err != nil {
			return err
		}
		before, err := x.decode()
		if err != nil {
			return err
		}
		after := *before
		after.props = slices.DeleteFunc(slices.Clone(before.props), gone)
		if len(after.props) == len(before.props) {
			return nil
		}
		return x.save(before, &after)
	case *VertexProperty:
		if ok, err := x.Exists(); !ok || err != nil {
			return err
		}
		return x.change(func(q *vertexProp) error {
			q.metas = slices.DeleteFunc(slices.Clone(q.metas), gone)
			return nil
		})
	}
	return engine.Errorf(CodeValue, "%s has no properties", value.Describe(of))
}
