package value

import (
	"math/big"
	"strings"
	"time"
)

// TypeName returns the name of v's type in Gremlin's enumeration GType, as INT or
// VERTEX; "" if it has none.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "NULL"
	case bool:
		return "BOOLEAN"
	case int8:
		return "BYTE"
	case int16:
		return "SHORT"
	case int32:
		return "INT"
	case int64:
		return "LONG"
	case *big.Int:
		return "BIGINT"
	case float32:
		return "FLOAT"
	case float64:
		return "DOUBLE"
	case Decimal:
		return "BIGDECIMAL"
	case string:
		return "STRING"
	case Char:
		return "CHAR"
	case UUID:
		return "UUID"
	case time.Time:
		return "DATETIME"
	case Duration:
		return "DURATION"
	case []byte:
		return "BINARY"
	case List:
		return "LIST"
	case *Set, *BulkSet:
		return "SET"
	case *Map:
		return "MAP"
	}
	return elementTypeName(v)
}

func elementTypeName(v any) string {
	switch KindOf(v) {
	case KindVertex:
		return "VERTEX"
	case KindEdge:
		return "EDGE"
	case KindVertexProperty:
		return "VPROPERTY"
	}
	switch v.(type) {
	case *Property:
		return "PROPERTY"
	case *Path:
		return "PATH"
	case *Tree:
		return "TREE"
	case *Graph:
		return "GRAPH"
	}
	return ""
}

// javaNames has the simple names of the Java classes that typeOf also takes.
var javaNames = map[string]string{
	"integer": "INT", "biginteger": "BIGINT", "bigdecimal": "BIGDECIMAL", "character": "CHAR", "offsetdatetime": "DATETIME",
	"bytebuffer": "BINARY", "vertexproperty": "VPROPERTY",
}

// TypeNamed returns the type that text names: by its name in GType or in Java, in
// any case of letters.
func TypeNamed(text string) (name string, ok bool) {
	if j, ok := javaNames[strings.ToLower(text)]; ok {
		return j, true
	}
	for _, name := range Enums()[KindGType] {
		if strings.EqualFold(name, text) {
			return name, true
		}
	}
	return "", false
}

// IsOf reports whether v is of the type with a name from GType.
func IsOf(v any, name string) bool {
	switch name {
	case "NUMBER":
		return IsNumber(v)
	case "PROPERTY": // of which a vertex's property is one
		return KindOf(v) == KindVertexProperty || TypeName(v) == name
	}
	return TypeName(v) == name
}

// Describe returns a value's type in words, for errors: "a string", "an edge".
func Describe(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case Char:
		return "a character"
	case UUID:
		return "a UUID"
	case time.Time:
		return "a date"
	case Duration:
		return "a duration"
	case []byte:
		return "binary data"
	case List:
		return "a list"
	case *Set, *BulkSet:
		return "a set"
	case *Map:
		return "a map"
	case Entry:
		return "an entry of a map"
	case Enum:
		return "a constant of " + x.Kind
	case *Property:
		return "a property"
	}
	switch KindOf(v) {
	case KindEdge:
		return "an edge"
	case KindVertexProperty:
		return "a property"
	}
	if IsNumber(v) {
		return "a number"
	}
	if name := elementTypeName(v); name != "" {
		return "a " + strings.ToLower(name)
	}
	return "something else"
}
