package graph

import (
	"github.com/skerrydb/skerry/engine"
)

// The codes of this package. Catalog explains them.
const (
	CodeNoGraph   engine.Code = "graph_not_found"
	CodeNoElement engine.Code = "graph_no_element"
	CodeExists    engine.Code = "graph_id_taken"
	CodeUnique    engine.Code = "graph_not_unique"
	CodeValue     engine.Code = "graph_value"
	CodeSchema    engine.Code = "graph_schema"
)

// Catalog returns the codes of this package, sorted.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeExists, Kind: engine.KindConflict, Text: "a vertex or an edge has this id already; nothing was written"},
		{Code: CodeNoElement, Kind: engine.KindNotFound, Text: "the graph has no such vertex, edge or property; nothing was written"},
		{Code: CodeNoGraph, Kind: engine.KindNotFound, Text: "there is no graph of that name"},
		{Code: CodeUnique, Kind: engine.KindConflict, Text: "another element has the values of a unique index; nothing was written"},
		{Code: CodeSchema, Kind: engine.KindRefused, Text: "the schema of the graph does not allow that; nothing was written"},
		{Code: CodeValue, Kind: engine.KindInvalid, Text: "a property cannot have a value of that type; nothing was written"},
	}
}

// limit returns the error of what is over a limit.
func limit(format string, args ...any) error {
	return engine.Errorf(engine.CodeLimit, format, args...)
}

func corrupt(what string, key []byte) error {
	return engine.Errorf(engine.CodeCorrupt, "graph: the %s under key %q is damaged", what, key)
}
