package graph

import (
	"cmp"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// Schema has the constraints of a graph. What it does not mention is allowed. The
// zero value allows everything.
type Schema struct {
	Vertices []VertexType `json:"vertices,omitempty"`
	Edges    []EdgeType   `json:"edges,omitempty"`
	Closed   bool         `json:"closed,omitempty"` // vertices and edges have no labels but those declared

	// Version is the number of the schema, which DB.Schema returns; later schemas of a
	// graph have larger ones. For DB.SetSchema it is the version that is replaced; 0: any.
	Version uint64 `json:"version,omitempty"`
}

// VertexType constrains the vertices that have a label. One with several labels is
// constrained by the types of all of them.
type VertexType struct {
	Label      string         `json:"label"`
	Properties []PropertyType `json:"properties,omitempty"`
	Closed     bool           `json:"closed,omitempty"` // the vertices have no properties but those that one of their types declares
}

// EdgeType constrains the edges with a label.
type EdgeType struct {
	Label        string         `json:"label"`
	From         []string       `json:"from,omitempty"` // the vertex that the edge leaves has one of these labels; none: any vertex
	To           []string       `json:"to,omitempty"`   // the one that it enters
	Multiplicity Multiplicity   `json:"multiplicity,omitempty"`
	Properties   []PropertyType `json:"properties,omitempty"`
	Closed       bool           `json:"closed,omitempty"` // the edges have no properties but these
}

// PropertyType constrains a property. It says nothing of the properties that a
// vertex's property has itself.
type PropertyType struct {
	Key string `json:"key"`
	// Types are names of value.TypeName, such as STRING, or NUMBER for all numbers, in
	// any case of letters: values are of one of them. Null is one of its own. None: any type.
	Types    []string `json:"types,omitempty"`
	Required bool     `json:"required,omitempty"` // at the end of a transaction, the element has the property
	// Cardinality is Single: at most one value; Set: no two equal values; List: any
	// values. Properties of edges are Single.
	Cardinality Cardinality `json:"cardinality,omitempty"`
}

// Multiplicity says how many edges with a label there may be.
type Multiplicity byte

// The multiplicities. They are stored: do not change them.
const (
	Many     Multiplicity = iota // any number
	Simple                       // at most one from one vertex to another
	OneOut                       // at most one leaves a vertex
	OneIn                        // at most one enters a vertex
	OneToOne                     // both
)

// typeNames has the types of values by their tags, as a PropertyType has them.
var typeNames = [...]string{
	tagNull: "NULL", tagTrue: "BOOLEAN", tagByte: "BYTE", tagShort: "SHORT", tagInt: "INT", tagLong: "LONG", tagBig: "BIGINT", tagFloat: "FLOAT",
	tagDouble: "DOUBLE", tagDecimal: "BIGDECIMAL", tagString: "STRING", tagChar: "CHAR", tagUUID: "UUID", tagTime: "DATETIME", tagSpan: "DURATION",
	tagBinary: "BINARY", tagList: "LIST", tagSet: "SET", tagMap: "MAP",
}

const (
	allNumbers = "NUMBER"
	numberBits = 1<<tagByte | 1<<tagShort | 1<<tagInt | 1<<tagLong | 1<<tagBig | 1<<tagFloat | 1<<tagDouble | 1<<tagDecimal
	knownBits  = (1<<len(typeNames) - 1) &^ (1 << tagFalse)
)

// typeBits returns the types of a property as they are stored, a bit for each tag.
func typeBits(names []string) (bits uint64, err error) {
	for _, text := range names {
		name, ok := value.TypeNamed(text)
		tag := slices.Index(typeNames[:], name)
		switch {
		case ok && name == allNumbers:
			bits |= numberBits
		case ok && tag >= 0:
			bits |= 1 << tag
		default:
			return 0, engine.Errorf(CodeSchema, "a property cannot be of the type %q", text)
		}
	}
	return bits, nil
}

// typesOf returns the names of types, sorted.
func typesOf(bits uint64) (names []string) {
	if bits&numberBits == numberBits {
		names, bits = append(names, allNumbers), bits&^numberBits
	}
	for tag, name := range typeNames {
		if bits&(1<<tag) != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// bitOf returns the type of a value, as it is when it is stored; 0: it cannot be.
func bitOf(v any) uint64 {
	if _, ok := v.(*value.BulkSet); ok {
		return 1 << tagList
	}
	if tag := slices.Index(typeNames[:], value.TypeName(v)); tag >= 0 && tag != tagFalse {
		return 1 << tag
	}
	return 0
}

// isOpen reports whether the schema constrains nothing.
func (s *Schema) isOpen() bool { return len(s.Vertices) == 0 && len(s.Edges) == 0 && !s.Closed }

// normal returns a copy that is sorted, or an error if the schema is not one.
func (s *Schema) normal() (*Schema, error) {
	if n := len(s.Vertices) + len(s.Edges); n > MaxSchemaTypes {
		return nil, limit("a schema has at most %d types of vertices and edges (MaxSchemaTypes)", MaxSchemaTypes)
	}
	out := &Schema{Vertices: slices.Clone(s.Vertices), Edges: slices.Clone(s.Edges), Closed: s.Closed, Version: s.Version}
	left := MaxSchemaProperties
	for i := range out.Vertices {
		typ := &out.Vertices[i]
		var err error
		if typ.Properties, err = normalProperties(typ.Label, typ.Properties, &left); err != nil {
			return nil, err
		}
	}
	for i := range out.Edges {
		typ := &out.Edges[i]
		if err := typ.normal(&left); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out.Vertices, func(a, b VertexType) int { return cmp.Compare(a.Label, b.Label) })
	slices.SortFunc(out.Edges, func(a, b EdgeType) int { return cmp.Compare(a.Label, b.Label) })
	for i := 1; i < len(out.Vertices); i++ {
		if out.Vertices[i].Label == out.Vertices[i-1].Label {
			return nil, engine.Errorf(CodeSchema, "the schema declares the vertices %q twice", out.Vertices[i].Label)
		}
	}
	for i := 1; i < len(out.Edges); i++ {
		if out.Edges[i].Label == out.Edges[i-1].Label {
			return nil, engine.Errorf(CodeSchema, "the schema declares the edges %q twice", out.Edges[i].Label)
		}
	}
	return out, nil
}

func (typ *EdgeType) normal(left *int) (err error) {
	if typ.Multiplicity > OneToOne {
		return engine.Errorf(CodeSchema, "the edges %q have no multiplicity %d", typ.Label, typ.Multiplicity)
	}
	for _, p := range typ.Properties {
		if p.Cardinality != Single {
			return engine.Errorf(CodeSchema, "the property %q of the edges %q is Single, as all properties of edges", p.Key, typ.Label)
		}
	}
	if *left -= len(typ.From) + len(typ.To); *left < 0 {
		return errDeclared()
	}
	typ.From, typ.To = slices.Clone(typ.From), slices.Clone(typ.To)
	for _, ends := range []*[]string{&typ.From, &typ.To} {
		slices.Sort(*ends)
		*ends = slices.Compact(*ends)
	}
	typ.Properties, err = normalProperties(typ.Label, typ.Properties, left)
	return err
}

func errDeclared() error {
	return limit("the types of a schema have at most %d properties and labels of vertices at the ends of edges (MaxSchemaProperties)", MaxSchemaProperties)
}

func normalProperties(label string, all []PropertyType, left *int) ([]PropertyType, error) {
	if *left -= len(all); *left < 0 {
		return nil, errDeclared()
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b PropertyType) int { return strings.Compare(a.Key, b.Key) })
	for i := range all {
		p := &all[i]
		switch {
		case i > 0 && p.Key == all[i-1].Key:
			return nil, engine.Errorf(CodeSchema, "the schema declares the property %q of %q twice", p.Key, label)
		case p.Cardinality > Set:
			return nil, engine.Errorf(CodeSchema, "the property %q of %q has no cardinality %d", p.Key, label, p.Cardinality)
		}
		bits, err := typeBits(p.Types)
		if err != nil {
			return nil, err
		}
		p.Types = typesOf(bits)
	}
	return all, nil
}
