package message

import (
	"slices"
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

// CardinalityCall is the source call that stands for a value with a cardinality.
const CardinalityCall = "CardinalityValueTraversal"

// Cardinal returns the cardinality and the value that a CardinalityCall has as
// its arguments; false if it does not have them.
func Cardinal(args []any) (c value.Enum, val any, ok bool) {
	if len(args) != 2 {
		return c, nil, false
	}
	c, ok = args[0].(value.Enum)
	if name, text := args[0].(string); text { // as Java and others send it
		c, ok = value.Enum{Kind: value.KindCardinality, Name: name}, true
	}
	return c, args[1], ok && c.Kind == value.KindCardinality && Known(c)
}

// Known reports whether an enumeration has the constant.
func Known(e value.Enum) bool { return slices.Contains(value.Enums()[e.Kind], e.Name) }

// Textual reports whether a predicate is one of TextP, which has a type of its
// own.
func Textual(predicate string) bool {
	switch predicate {
	case "containing", "notContaining", "startingWith", "notStartingWith", "endingWith", "notEndingWith", "regex", "notRegex":
		return true
	}
	return false
}

// SimpleName returns the last part of the name of one of TinkerPop's classes, and
// other names unchanged.
func SimpleName(class string) string {
	if strings.HasPrefix(class, "org.apache.tinkerpop.") {
		return class[strings.LastIndexByte(class, '.')+1:]
	}
	return class
}
