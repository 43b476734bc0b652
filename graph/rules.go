package graph

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
)

// A schema is stored with the numbers of names: the format, the version, flags, the
// types of vertices, the types of edges. Its key has the number 0, which no index
// has, and one of these. They are stored: do not change them.
const (
	schemaInForce = 1
	schemaNext    = 2 // its elements are being checked

	schemaFormat = 1 // the first byte; a later one is engine.CodeFormatNewer

	ruleClosed   = 1 // flag of a schema and of a type
	ruleRequired = 1 // flag of a property
)

// rules are a schema as it is stored: what writes are compared with.
type rules struct {
	version  uint64
	next     bool // not in force yet
	closed   bool
	vertices []typeRules // by label
	edges    []typeRules
}

// typeRules are a VertexType or an EdgeType.
type typeRules struct {
	label    uint64
	closed   bool
	props    []propRules // by key
	required int         // how many of them are
	from, to []uint64
	multi    Multiplicity
}

type propRules struct {
	key      uint64
	types    uint64 // bits of tags; 0: any
	required bool
	card     Cardinality
}

func (r propRules) compare(key uint64) int { return cmp.Compare(r.key, key) }

func typeOf(all []typeRules, label uint64) *typeRules {
	i, ok := slices.BinarySearchFunc(all, label, func(r typeRules, n uint64) int { return cmp.Compare(r.label, n) })
	if !ok {
		return nil
	}
	return &all[i]
}

func (r *typeRules) property(key uint64) *propRules {
	i, ok := slices.BinarySearchFunc(r.props, key, propRules.compare)
	if !ok {
		return nil
	}
	return &r.props[i]
}

func (t *Tx) schemaKey(which uint64) []byte { return t.key(roomIndexes, 0, which) }

// schemaAt reports whether what follows the room of indexes in a key is that of a
// schema, and which one.
func schemaAt(rest []byte) (which uint64, ok bool) {
	var at [2]uint64
	ok = numbers(rest, 0, at[:]) && at[0] == 0 && (at[1] == schemaInForce || at[1] == schemaNext)
	return at[1], ok
}

// rules returns the schema in force and the next one, as far as there are such. They
// are read with the indexes, which every write needs.
func (t *Tx) rules() ([]*rules, error) {
	if t.schemas != nil {
		return t.schemas, nil
	}
	if _, err := t.Indexes(); err != nil {
		return nil, err
	}
	all := []*rules{}
	for i, raw := range t.stored {
		if raw == nil {
			continue
		}
		s, err := t.parsed.rules(raw, i+1 == schemaNext, t.schemaKey(uint64(i)+1))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	t.schemas = all
	return all, nil
}

// parsed has schemas that were parsed, which do not change, so that not every transaction
// parses them. It is safe for concurrent use. A nil one keeps nothing.
type parsed struct {
	all atomic.Pointer[map[parsedKey]*rules]
}

type parsedKey struct {
	raw  string
	next bool
}

// maxParsed bounds how many schemas are kept.
const maxParsed = 16

// rules returns the schema that is stored as raw under a key.
func (p *parsed) rules(raw []byte, next bool, key []byte) (*rules, error) {
	var all map[parsedKey]*rules
	if p != nil {
		if m := p.all.Load(); m != nil {
			all = *m
		}
	}
	if s := all[parsedKey{string(raw), next}]; s != nil {
		return s, nil
	}
	s, err := parseRules(raw, key)
	if err != nil {
		return nil, err
	}
	s.next = next
	if p != nil {
		more := map[parsedKey]*rules{{string(raw), next}: s}
		if len(all) < maxParsed {
			maps.Copy(more, all)
		}
		p.all.Store(&more) // that of another transaction may be lost
	}
	return s, nil
}

// rulesNow returns the schema in force; nil: none. rulesNext returns the next one.
func (t *Tx) rulesNow() (*rules, error)  { return t.rulesWhere(false) }
func (t *Tx) rulesNext() (*rules, error) { return t.rulesWhere(true) }

func (t *Tx) rulesWhere(next bool) (*rules, error) {
	all, err := t.rules()
	for _, s := range all {
		if s.next == next {
			return s, err
		}
	}
	return nil, err
}

func (t *Tx) putRules(which uint64, s *rules) error {
	t.forgetRules()
	return t.put(t.schemaKey(which), s.encode())
}

func (t *Tx) deleteRules(which uint64) error {
	t.forgetRules()
	return t.delete(t.schemaKey(which))
}

func (t *Tx) forgetRules() { t.indexes, t.schemas, t.stored = nil, nil, [2][]byte{} }

func (s *rules) encode() []byte {
	b := binary.AppendUvarint([]byte{schemaFormat}, s.version)
	return s.append(b)
}

// append appends the schema without its version.
func (s *rules) append(b []byte) []byte {
	b = append(b, bitIf(s.closed, ruleClosed))
	b = binary.AppendUvarint(b, uint64(len(s.vertices)))
	for i := range s.vertices {
		b = s.vertices[i].append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(s.edges)))
	for i := range s.edges {
		r := &s.edges[i]
		b = append(r.append(b), byte(r.multi))
		b = appendNumbers(appendNumbers(b, r.from), r.to)
	}
	return b
}

func (r *typeRules) append(b []byte) []byte {
	b = append(binary.AppendUvarint(b, r.label), bitIf(r.closed, ruleClosed))
	b = binary.AppendUvarint(b, uint64(len(r.props)))
	for _, p := range r.props {
		b = binary.AppendUvarint(binary.AppendUvarint(b, p.key), p.types)
		b = append(b, bitIf(p.required, ruleRequired), byte(p.card))
	}
	return b
}

func bitIf(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

func appendNumbers(b []byte, nums []uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(nums)))
	for _, n := range nums {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func parseRules(raw, key []byte) (*rules, error) {
	if len(raw) > 0 && raw[0] > schemaFormat {
		return nil, engine.Errorf(engine.CodeFormatNewer, "graph: the schema was declared by a newer version of the program")
	}
	r, s := reader{b: raw}, &rules{}
	format := r.byte()
	s.version = r.uvarint()
	s.closed = r.flag(ruleClosed)
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		s.vertices = append(s.vertices, r.typeRules())
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		typ := r.typeRules()
		typ.multi = Multiplicity(r.byte())
		r.bad = r.bad || typ.multi > OneToOne
		typ.from, typ.to = r.sorted(), r.sorted()
		s.edges = append(s.edges, typ)
	}
	byLabel := func(a, b typeRules) int { return cmp.Compare(a.label, b.label) }
	if r.bad || len(r.b) != 0 || format != schemaFormat || s.version == 0 || !slices.IsSortedFunc(s.vertices, byLabel) || !slices.IsSortedFunc(s.edges, byLabel) {
		return nil, corrupt("schema", key)
	}
	return s, nil
}

// flag reads a byte that is bit or 0.
func (r *reader) flag(bit byte) bool {
	b := r.byte()
	r.bad = r.bad || b&^bit != 0
	return b != 0
}

func (r *reader) typeRules() typeRules {
	typ := typeRules{label: r.uvarint(), closed: r.flag(ruleClosed)}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		p := propRules{key: r.uvarint(), types: r.uvarint(), required: r.flag(ruleRequired), card: Cardinality(r.byte())}
		last := len(typ.props) - 1
		r.bad = r.bad || p.card > Set || p.types&^knownBits != 0 || last >= 0 && typ.props[last].key >= p.key
		if p.required {
			typ.required++
		}
		typ.props = append(typ.props, p)
	}
	return typ
}

func (r *reader) sorted() (out []uint64) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		out = append(out, r.uvarint())
	}
	r.bad = r.bad || !slices.IsSorted(out)
	return out
}

// compile gives the names of a schema that is normal numbers.
func (t *Tx) compile(s *Schema) (*rules, error) {
	out := &rules{closed: s.Closed}
	var err error
	for i := range s.Vertices {
		typ := &s.Vertices[i]
		var r typeRules
		if r, err = t.compileType(typ.Label, typ.Closed, typ.Properties); err != nil {
			return nil, err
		}
		out.vertices = append(out.vertices, r)
	}
	for i := range s.Edges {
		typ := &s.Edges[i]
		var r typeRules
		if r, err = t.compileType(typ.Label, typ.Closed, typ.Properties); err != nil {
			return nil, err
		}
		r.multi = typ.Multiplicity
		if r.from, err = t.giveAll(typ.From); err != nil {
			return nil, err
		}
		if r.to, err = t.giveAll(typ.To); err != nil {
			return nil, err
		}
		out.edges = append(out.edges, r)
	}
	for _, all := range [][]typeRules{out.vertices, out.edges} {
		slices.SortFunc(all, func(a, b typeRules) int { return cmp.Compare(a.label, b.label) })
	}
	return out, nil
}

func (t *Tx) compileType(label string, closed bool, props []PropertyType) (typ typeRules, err error) {
	typ.closed = closed
	if typ.label, err = t.give(label); err != nil {
		return typ, err
	}
	for _, p := range props {
		q := propRules{required: p.Required, card: p.Cardinality}
		if q.key, err = t.give(p.Key); err != nil {
			return typ, err
		}
		if q.types, err = typeBits(p.Types); err != nil {
			return typ, err
		}
		if q.required {
			typ.required++
		}
		typ.props = append(typ.props, q)
	}
	slices.SortFunc(typ.props, func(a, b propRules) int { return cmp.Compare(a.key, b.key) })
	return typ, nil
}

func (t *Tx) giveAll(names []string) (out []uint64, err error) {
	for _, name := range names {
		n, err := t.give(name)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return out, nil
}

// schema returns rules with names, sorted by them.
func (t *Tx) schema(s *rules) (*Schema, error) {
	if s == nil {
		return nil, nil
	}
	out := &Schema{Closed: s.closed, Version: s.version}
	for i := range s.vertices {
		r := &s.vertices[i]
		label, props, err := t.named(r)
		if err != nil {
			return nil, err
		}
		out.Vertices = append(out.Vertices, VertexType{Label: label, Properties: props, Closed: r.closed})
	}
	for i := range s.edges {
		r := &s.edges[i]
		label, props, err := t.named(r)
		if err != nil {
			return nil, err
		}
		from, err := t.textsOf(r.from)
		if err != nil {
			return nil, err
		}
		to, err := t.textsOf(r.to)
		if err != nil {
			return nil, err
		}
		out.Edges = append(out.Edges, EdgeType{Label: label, From: from, To: to, Multiplicity: r.multi, Properties: props, Closed: r.closed})
	}
	return out.normal()
}

func (t *Tx) named(r *typeRules) (label string, props []PropertyType, err error) {
	if label, err = t.textOf(r.label); err != nil {
		return "", nil, err
	}
	for _, p := range r.props {
		key, err := t.textOf(p.key)
		if err != nil {
			return "", nil, err
		}
		props = append(props, PropertyType{Key: key, Types: typesOf(p.types), Required: p.required, Cardinality: p.card})
	}
	return label, props, nil
}

func (t *Tx) textsOf(nums []uint64) (out []string, err error) {
	for _, n := range nums {
		s, err := t.textOf(n)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
