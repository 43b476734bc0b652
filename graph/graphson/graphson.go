// Package graphson has GraphSON 3, the encoding of values, of traversals and of
// messages of Gremlin drivers in JSON.
//
// It knows types by name and the shapes of JSON. It must not know connections,
// what a request is answered with, or what a traversal does. The format is
// described at https://tinkerpop.apache.org/docs/3.8.1/dev/io/#graphson-3d0.
package graphson

import (
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

// Format is a way in which values are written. Values are read the same way in
// all of them: JSON that has no types is read as well as it can be.
type Format uint8

const (
	// Typed has a type at every value that is not a JSON string, boolean or null.
	Typed Format = iota
	// Untyped has plain JSON, which loses the difference between numbers.
	Untyped
	// Untyped4 is Untyped with the changes of TinkerPop 4: an element has a list of
	// labels.
	Untyped4
)

// Names of the formats in messages to a server, and as HTTP's media types.
const (
	MimeTyped    = "application/vnd.gremlin-v3.0+json"
	MimeUntyped  = "application/vnd.gremlin-v3.0+json;types=false"
	MimeUntyped4 = "application/vnd.gremlin-v4.0+json;types=false"
	MimeJSON     = "application/json" // Typed, except for drivers of TinkerPop 4
)

// maxNodes and maxNesting bound the JSON of a message, which has several nodes
// for one value.
const (
	maxNodes   = 1 << 20
	maxNesting = 1024
)

// kindOf returns the enumeration whose constants have the type; "" if none.
func kindOf(name string) string {
	kind := strings.TrimPrefix(name, "g:")
	if kind == name {
		return ""
	}
	switch kind {
	case value.KindT, value.KindDirection, value.KindOrder, value.KindScope, value.KindPop, value.KindColumn, value.KindOperator,
		value.KindMerge, value.KindPick, value.KindBarrier, value.KindCardinality, value.KindDT, value.KindGType:
		return kind
	}
	return ""
}
