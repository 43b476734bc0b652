// Package gremlin has the Gremlin language: traversals as data, and the text
// that people write.
//
// It knows steps by their names and arguments by their types, and it reads and
// writes text. It must not know what a step does, nor how bytecode is encoded.
package gremlin

import (
	"github.com/skerrydb/skerry/graph/value"
)

// Traversal is a chain of calls. It has Source calls, as withSack, only if it
// was spawned from a source such as g; an anonymous one begins with __.
type Traversal struct {
	Source []Call
	Steps  []Call
}

// Call is one call of a chain, with its arguments as they were written. An
// argument is a value of package value, whose lists, sets and maps may have
// arguments in them, or a *Traversal, a *P, a Strategy, a Class or a Cardinal.
type Call struct {
	Name string
	Args []any
	Pos  int // of the name in the text, in bytes from 0; NoPos: there is no text
}

// NoPos is the position of a call that does not come from text.
const NoPos = -1

// P is a predicate: P.gt, TextP.containing, or and, or and not of others, which
// are Args then.
type P struct {
	Name string // gt, within, and, typeOf, regex, …
	Args []any  // of within and without: the values, not a list of them
}

// Strategy configures a traversal strategy: new SubgraphStrategy(vertices: …).
type Strategy struct {
	Name   string
	Config *value.Map // by option's name; may be nil
}

// Class names a strategy, as withoutStrategies takes, and withStrategies if it is
// written without new and without options.
type Class string

// Cardinal is a value with the cardinality that it is to be stored with:
// Cardinality.single("x") or single("x").
type Cardinal struct {
	Cardinality value.Enum
	Val         any
}

// Query is a text: a traversal, what it is spawned from, and what its end asks
// for.
type Query struct {
	Source    string // of the traversal: g
	Traversal *Traversal
	End       string // iterate, next, toList, toSet, toBulkSet, hasNext, tryNext, explain; "": none
	N         int64  // the argument of next(n); -1: it has none
	Tx        string // of g.tx().commit(): commit or rollback; begin; Traversal is nil then
}
