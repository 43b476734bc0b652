package value

// Element is a *Vertex, an *Edge or a *VertexProperty.
type Element interface {
	ElementID() any
	ElementLabel() string
}

// Stored is an element as a store hands it out, which reads of it what is asked
// for. Everything in this package takes it for the Vertex, Edge or VertexProperty
// that it stands for.
type Stored interface {
	Element
	Kind() Kind
	AppendHash(b []byte) []byte // what Hash returns of it, which begins with Kind
	Detached() Element          // without properties, but for a VertexProperty's value
}

// LabelSeparator stands between the labels of a vertex that has several.
const LabelSeparator = "::"

// Kind is the kind of an element.
type Kind byte

// The kinds.
const (
	KindVertex         Kind = 'V'
	KindEdge           Kind = 'E'
	KindVertexProperty Kind = 'P'
)

// KindOf returns the kind of an element, or 0 if v is none.
func KindOf(v any) Kind {
	switch x := v.(type) {
	case Stored:
		return x.Kind()
	case *Vertex:
		return KindVertex
	case *Edge:
		return KindEdge
	case *VertexProperty:
		return KindVertexProperty
	}
	return 0
}

// Vertex names a vertex. Two with the same id are the same vertex. Its properties
// are in the graph; Properties has them only in a value for a reader outside of
// it: a subgraph's, or one that was asked for with its properties.
type Vertex struct {
	ID         any
	Label      string // several are joined by LabelSeparator
	Properties []*VertexProperty
}

// Edge names an edge with its vertices. Its properties are treated as a Vertex's.
type Edge struct {
	ID         any
	Label      string
	Out, In    *Vertex
	Properties []*Property
}

// VertexProperty is one value of one property of a vertex.
type VertexProperty struct {
	ID         any
	Key        string
	Val        any
	Of         *Vertex
	Properties []*Property // of the property itself
}

// Property is a property of an edge or of a vertex's property.
type Property struct {
	Key string
	Val any
	Of  Element // nil if unknown
}

// ElementID implements Element.
func (v *Vertex) ElementID() any { return v.ID }

// ElementLabel implements Element.
func (v *Vertex) ElementLabel() string { return v.Label }

// ElementID implements Element.
func (e *Edge) ElementID() any { return e.ID }

// ElementLabel implements Element.
func (e *Edge) ElementLabel() string { return e.Label }

// ElementID implements Element.
func (p *VertexProperty) ElementID() any { return p.ID }

// ElementLabel implements Element. The label of a property is its key.
func (p *VertexProperty) ElementLabel() string { return p.Key }

// Path is the history of a traverser: what it was at each step, and the labels
// of these steps.
type Path struct {
	Objects []any
	Labels  [][]string // as long as Objects
}

// Tree is a tree of values. The zero Tree is empty and ready to use. Do not copy
// a Tree.
type Tree struct {
	Nodes []Branch
	index map[string]int
}

// Branch is one value of a Tree and what is below it.
type Branch struct {
	Val   any
	Below *Tree
}

// Child returns what is below v, which is added if it is not there.
func (t *Tree) Child(v any) *Tree {
	h := Hash(v)
	if i, ok := t.index[h]; ok {
		return t.Nodes[i].Below
	}
	if t.index == nil {
		t.index = map[string]int{}
	}
	t.index[h] = len(t.Nodes)
	below := &Tree{}
	t.Nodes = append(t.Nodes, Branch{v, below})
	return below
}

// Graph is a set of vertices and edges with their properties: what subgraph
// collects.
type Graph struct {
	Vertices []*Vertex
	Edges    []*Edge
}

// Metrics is what profile measured of one step and of those inside it.
type Metrics struct {
	ID, Name    string
	Nanos       int64
	Counts      *Map // by name: traverserCount, elementCount
	Annotations *Map // by name, e.g. percentDur
	Nested      []*Metrics
}

// TraversalMetrics is what profile measured of a traversal.
type TraversalMetrics struct {
	Nanos int64
	Steps []*Metrics
}
