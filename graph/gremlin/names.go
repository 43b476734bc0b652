package gremlin

import "github.com/skerrydb/skerry/graph/value"

// constant returns the constant that a name without a class stands for. No two
// enumerations have the same names, but GType's are left to isGType.
func constant(name string) (value.Enum, bool) {
	of := ""
	switch name {
	case "from": // the names of mergeE
		return value.Out, true
	case "to":
		return value.In, true
	case "incr": // the names before 3.5
		return value.Asc, true
	case "decr":
		return value.Desc, true
	case "id", "label", "key", "value":
		of = value.KindT
	case "OUT", "IN", "BOTH":
		of = value.KindDirection
	case "asc", "desc", "shuffle":
		of = value.KindOrder
	case "local", "global":
		of = value.KindScope
	case "first", "last", "all", "mixed":
		of = value.KindPop
	case "keys", "values":
		of = value.KindColumn
	case "sum", "minus", "mult", "div", "min", "max", "assign", "and", "or", "addAll", "sumLong":
		of = value.KindOperator
	case "onCreate", "onMatch", "outV", "inV":
		of = value.KindMerge
	case "any", "none", "unproductive":
		of = value.KindPick
	case "normSack":
		of = value.KindBarrier
	case "single", "list", "set":
		of = value.KindCardinality
	case "second", "minute", "hour", "day":
		of = value.KindDT
	}
	return value.Enum{Kind: of, Name: name}, of != ""
}

func isCardinality(name string) bool {
	return name == value.Single.Name || name == value.ListOf.Name || name == value.SetOf.Name
}

func isGType(name string) bool {
	switch name {
	case "BIGDECIMAL", "BIGINT", "BINARY", "BOOLEAN", "BYTE", "CHAR", "DATETIME", "DOUBLE", "DURATION", "EDGE", "FLOAT", "GRAPH",
		"INT", "LIST", "LONG", "MAP", "NULL", "NUMBER", "PATH", "PROPERTY", "SET", "SHORT", "STRING", "TREE", "UUID", "VERTEX",
		"VPROPERTY":
		return true
	}
	return false
}

// classConstant returns the constant class.name: of an enumeration, or an option
// of the step with.
func classConstant(class, name string) (any, bool) {
	if class == value.KindGType {
		return value.Enum{Kind: class, Name: name}, isGType(name)
	}
	if e, ok := constant(name); ok && e.Kind == class {
		return e, true
	}
	return withConstant(class, name)
}

// withConstant returns an option of the step with, or a value of one. The texts and
// numbers are TinkerPop's: drivers send them. Do not change them.
func withConstant(class, name string) (any, bool) {
	text := ""
	switch class + "." + name {
	case "WithOptions.none", "WithOptions.list":
		return int32(0), true
	case "WithOptions.ids", "WithOptions.map":
		return int32(1), true
	case "WithOptions.labels":
		return int32(2), true
	case "WithOptions.keys":
		return int32(4), true
	case "WithOptions.values":
		return int32(8), true
	case "WithOptions.all":
		return int32(15), true
	case "WithOptions.tokens":
		text = "~tinkerpop.valueMap.tokens"
	case "WithOptions.indexer":
		text = "~tinkerpop.index.indexer"
	case "IO.reader", "IO.writer", "IO.registry":
		text = "~tinkerpop.io." + name
	case "IO.graphson", "IO.gryo", "IO.graphml":
		text = name
	case "PageRank.edges", "PageRank.times", "PageRank.propertyName":
		text = "~tinkerpop.pageRank." + name
	case "PeerPressure.edges", "PeerPressure.times", "PeerPressure.propertyName":
		text = "~tinkerpop.peerPressure." + name
	case "ConnectedComponent.edges", "ConnectedComponent.propertyName":
		text = "~tinkerpop.connectedComponent." + name
	case "ConnectedComponent.component":
		text = "gremlin.connectedComponentVertexProgram.component"
	case "ShortestPath.target", "ShortestPath.edges", "ShortestPath.distance", "ShortestPath.maxDistance", "ShortestPath.includeEdges":
		text = "~tinkerpop.shortestPath." + name
	}
	return text, text != ""
}
