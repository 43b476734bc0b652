package graph

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// owed is an element that lacks a property that a schema requires.
type owed struct {
	on value.Kind
	at [4]uint64 // its numbers; of a vertex only the first
}

// lack is a property that an element lacks, and the label because of which it is
// required. The zero value is none.
type lack struct{ key, label uint64 }

// refuse returns the error of what the schema does not allow.
func (s *rules) refuse(format string, args ...any) error {
	if s.next {
		format += ", in the schema that is being declared"
	}
	return engine.Errorf(CodeSchema, format, args...)
}

// text is textOf for errors.
func (t *Tx) text(n uint64) string {
	s, err := t.textOf(n)
	t.note(err)
	return s
}

func (v *Vertex) describe() string { return "the vertex " + value.Text(v.ElementID()) }
func (e *Edge) describe() string   { return "the edge " + value.Text(e.ElementID()) }

func newVertexText() string { return "the new vertex" }

// allowVertex returns CodeSchema if a new vertex may not have labels.
func (t *Tx) allowVertex(rec *vertexRecord) error {
	all, err := t.rules()
	for i := 0; i < len(all) && err == nil; i++ {
		_, err = all[i].vertex(t, rec, newVertexText)
	}
	return err
}

// allow returns CodeSchema if the vertex may not become what a record has, or else
// whether it lacks something then, which Complete checks again.
func (v *Vertex) allow(rec *vertexRecord) (lacks bool, err error) {
	all, err := v.t.rules()
	if err != nil {
		return false, err
	}
	for _, s := range all {
		missing, err := s.vertex(v.t, rec, v.describe)
		if err != nil {
			return false, err
		}
		lacks = lacks || missing != (lack{})
	}
	return lacks, nil
}

// allow returns the same of an edge.
func (e *Edge) allow(rec *edgeRecord) (lacks bool, err error) {
	all, err := e.t.rules()
	if err != nil {
		return false, err
	}
	for _, s := range all {
		missing, err := s.edge(e, rec)
		if err != nil {
			return false, err
		}
		lacks = lacks || missing != (lack{})
	}
	return lacks, nil
}

// owe notes whether an element that was written lacks something.
func (t *Tx) owe(lacks bool, on value.Kind, nums ...uint64) {
	if !lacks && len(t.owing) == 0 {
		return
	}
	o := owed{on: on}
	copy(o.at[:], nums)
	switch {
	case lacks && t.owing == nil:
		t.owing = map[owed]struct{}{o: {}}
	case lacks:
		t.owing[o] = struct{}{}
	case t.apart == nil: // otherwise this call of a longer transaction may be undone
		delete(t.owing, o)
	}
}

// Complete returns CodeSchema if an element that the transaction has written lacks a
// property that the schema requires. End does it too.
func (t *Tx) Complete() error {
	if len(t.owing) == 0 {
		return nil
	}
	all, err := t.rules()
	if err != nil {
		return err
	}
	order := slices.SortedFunc(maps.Keys(t.owing), func(a, b owed) int {
		return cmp.Or(cmp.Compare(a.on, b.on), slices.Compare(a.at[:], b.at[:]))
	})
	for _, o := range order {
		if err := t.complete(all, o); err != nil {
			return err
		}
	}
	if t.apart == nil { // see owe
		clear(t.owing)
	}
	return nil
}

func (t *Tx) complete(all []*rules, o owed) error {
	if o.on == value.KindVertex {
		v := &Vertex{t: t, num: o.at[0]}
		raw, ok, err := v.record()
		if !ok || err != nil {
			return err
		}
		rec, err := v.parse(raw)
		if err != nil {
			return err
		}
		return v.satisfies(all, rec)
	}
	e := &Edge{t: t, out: o.at[0], label: o.at[1], in: o.at[2], num: o.at[3]}
	raw, ok, err := e.record()
	if !ok || err != nil {
		return err
	}
	rec, err := e.parseRecord(raw)
	if err != nil {
		return err
	}
	return e.satisfies(all, rec)
}

// satisfies returns CodeSchema if the vertex is not as schemas say.
func (v *Vertex) satisfies(all []*rules, rec *vertexRecord) error {
	for _, s := range all {
		missing, err := s.vertex(v.t, rec, v.describe)
		if err == nil {
			err = s.missing(v.t, missing, v.describe)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// satisfies returns the same of an edge, whose ends and number are checked when it is
// added.
func (e *Edge) satisfies(all []*rules, rec *edgeRecord) error {
	for _, s := range all {
		missing, err := s.edge(e, rec)
		if err == nil {
			err = s.missing(e.t, missing, e.describe)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *rules) missing(t *Tx, l lack, who func() string) error {
	if l == (lack{}) {
		return nil
	}
	return s.refuse("%s lacks the property %q, which is required of %q", who(), t.text(l.key), t.text(l.label))
}

// vertex returns CodeSchema if a vertex may not be as its record, or else what it
// lacks.
func (s *rules) vertex(t *Tx, rec *vertexRecord, who func() string) (missing lack, err error) {
	var buf [MaxLabels]*typeRules
	types, closed := buf[:0], (*typeRules)(nil)
	for _, l := range rec.labels {
		typ := typeOf(s.vertices, l)
		if typ == nil && s.closed {
			return lack{}, s.refuse("%s has the label %q, which is not declared", who(), t.text(l))
		}
		if typ == nil {
			continue
		}
		if types = append(types, typ); typ.closed {
			closed = typ
		}
	}
	for _, typ := range types {
		m, err := s.vertexProperties(t, typ, rec, who)
		if err != nil {
			return lack{}, err
		}
		if missing == (lack{}) {
			missing = m
		}
	}
	if closed == nil {
		return missing, nil
	}
	for i := range rec.props {
		key := rec.props[i].key
		if !slices.ContainsFunc(types, func(typ *typeRules) bool { return typ.property(key) != nil }) {
			return lack{}, s.undeclared(t, key, closed, who)
		}
	}
	return missing, nil
}

func (s *rules) undeclared(t *Tx, key uint64, typ *typeRules, who func() string) error {
	return s.refuse("%s has the property %q, which is not declared of %q", who(), t.text(key), t.text(typ.label))
}

// vertexProperties compares a vertex's properties with those of one of its types.
func (s *rules) vertexProperties(t *Tx, typ *typeRules, rec *vertexRecord, who func() string) (missing lack, err error) {
	if len(typ.props) == 0 {
		return lack{}, nil
	}
	counts := make([]int, len(typ.props))
	for i := range rec.props {
		p := &rec.props[i]
		at, ok := slices.BinarySearchFunc(typ.props, p.key, propRules.compare)
		if !ok {
			continue
		}
		q := &typ.props[at]
		if err := s.value(t, q, p.val, who); err != nil {
			return lack{}, err
		}
		if counts[at]++; counts[at] > 1 && q.card == Single {
			return lack{}, s.refuse("%s has several values of the property %q, of which it has one", who(), t.text(p.key))
		}
	}
	for at, n := range counts {
		q := &typ.props[at]
		if n > 1 && q.card == Set && hasEqual(rec.values(q.key)) {
			return lack{}, s.refuse("%s has equal values of the property %q, which is a set", who(), t.text(q.key))
		}
		if n == 0 && q.required && missing == (lack{}) {
			missing = lack{q.key, typ.label}
		}
	}
	return missing, nil
}

// hasEqual reports whether two of the values are equal.
func hasEqual(vals []any) bool {
	seen := make(map[string]any, len(vals))
	for _, v := range vals {
		h := value.EqualHash(v)
		if o, ok := seen[h]; ok && value.Equal(o, v) { // NaN is not equal to itself
			return true
		}
		seen[h] = v
	}
	return false
}

// value returns CodeSchema if a property may not have a value.
func (s *rules) value(t *Tx, q *propRules, val any, who func() string) error {
	if q.types == 0 || q.types&bitOf(val) != 0 {
		return nil
	}
	return s.refuse("%s has a value of the type %s as its property %q, which is of the type %s", who(), value.TypeName(val), t.text(q.key), strings.Join(typesOf(q.types), ", "))
}

// edge returns CodeSchema if the properties of an edge may not be as its record, or
// else what it lacks.
func (s *rules) edge(e *Edge, rec *edgeRecord) (missing lack, err error) {
	typ := typeOf(s.edges, e.label)
	switch {
	case typ == nil && s.closed:
		return lack{}, s.undeclaredEdge(e.t.text(e.label))
	case typ == nil:
		return lack{}, nil
	}
	has := 0
	for i := range rec.props {
		p := &rec.props[i]
		q := typ.property(p.key)
		switch {
		case q == nil && typ.closed:
			return lack{}, s.undeclared(e.t, p.key, typ, e.describe)
		case q == nil:
			continue
		case q.required:
			has++
		}
		if err := s.value(e.t, q, p.val, e.describe); err != nil {
			return lack{}, err
		}
	}
	if has == typ.required {
		return lack{}, nil
	}
	for i := range typ.props {
		if q := &typ.props[i]; q.required && !slices.ContainsFunc(rec.props, func(p prop) bool { return p.key == q.key }) {
			return lack{q.key, typ.label}, nil
		}
	}
	return lack{}, nil
}

func (s *rules) undeclaredEdge(label string) error {
	return s.refuse("an edge has the label %q, which is not declared", label)
}
