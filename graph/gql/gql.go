// Package gql has queries that describe what they look for: MATCH patterns, WHERE
// conditions, RETURN values, as ISO GQL and openCypher have them.
//
// It knows queries as data, and their text. It must not know how they are carried
// out. It is the subset that looks for nodes, edges and their properties; what it
// leaves out is refused by name.
package gql

// Query is what a text asks for.
type Query struct {
	Patterns []Pattern // all of them must hold
	Where    *Expr     // nil: nothing
	Return   []Item    // nil: all variables
	Distinct bool
	Order    []Order
	Skip     int64
	Limit    int64 // < 0: none
}

// Pattern is a path: Nodes[i] -Edges[i]- Nodes[i+1].
type Pattern struct {
	Nodes []Node
	Edges []Edge
}

// Node is one vertex of a pattern.
type Node struct {
	Var    string   // "": it has no name
	Labels []string // one of them; none: any
	Props  []Prop
}

// Edge is one edge of a pattern.
type Edge struct {
	Var    string
	Labels []string // one of them; none: any
	Out    bool     // it may go from the node before it to the one after it
	In     bool     // it may go the other way
	Props  []Prop
}

// Prop is a property that must be equal to a value.
type Prop struct {
	Key string
	Val Operand
}

// Operand is a literal, a parameter, a variable or its property.
type Operand struct {
	Val   any
	Param string // $name
	Var   string
	Key   string // of Var; "": the element itself

	pos int // of Var in the text
}

// Expr is a condition.
type Expr struct {
	Op          string // and, or, not; =, <>, <, <=, >, >=, in, starts with, ends with, contains, is null, is not null
	Parts       []*Expr
	Left, Right Operand
}

// Item is one value that is returned.
type Item struct {
	Name    string
	Operand Operand
	Func    string // count, sum, avg, min, max, collect; "": none
	All     bool   // of count(*)
}

// Order is what results are sorted by: an item's name.
type Order struct {
	Name string
	Desc bool

	pos int // in the text
}

// Vars returns the names of the variables of the patterns, in the order of the text.
func (q *Query) Vars() []string {
	var out []string
	seen := map[string]bool{"": true}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	for _, p := range q.Patterns {
		for i, n := range p.Nodes {
			if add(n.Var); i < len(p.Edges) {
				add(p.Edges[i].Var)
			}
		}
	}
	return out
}

// Limits of a text. Beyond them Parse returns a *SyntaxError.
const (
	MaxTextBytes = 64 << 10
	MaxElements  = 100 // nodes and edges of all patterns
	MaxDepth     = 50  // of conditions and lists
)

// SyntaxError says where a text is wrong, and why.
type SyntaxError struct {
	Pos int // in bytes
	Msg string
}

// Error implements error.
func (e *SyntaxError) Error() string { return e.Msg }
