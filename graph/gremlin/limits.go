package gremlin

import "github.com/skerrydb/skerry/graph/value"

// The limits of one text. A text beyond one of them is refused by Parse.
const (
	// MaxTextBytes bounds the length of a text.
	MaxTextBytes = 1 << 20
	// MaxDepth bounds how deep traversals, lists, sets, maps and predicates are
	// inside each other. Whoever walks a Query can recurse.
	MaxDepth = 250
	// MaxCalls bounds the calls of a text: steps, predicates and such as datetime().
	MaxCalls = 20_000
	// MaxNumberBytes bounds the length of a number.
	MaxNumberBytes = value.MaxDigits + 16
	// MaxRangeItems bounds the items of all ranges of a text, as 1..5, together. A
	// long string counts as several.
	MaxRangeItems = 100_000
	// rangeItemBytes is how much of a string counts as one more item.
	rangeItemBytes = 16
	// MaxKeyDepth bounds how deep sets and the keys of maps are inside each other:
	// each of them holds another copy of what is in it.
	MaxKeyDepth = 16
)
