package typescript

import (
	"fmt"
	"strings"

	"github.com/skerrydb/skerry/proc"
)

// maxDepth is the maximum nesting of types in a schema.
const maxDepth = 100

// use is the direction of a type: types of arguments may be more permissive than those of
// results.
type use bool

const (
	argument use = true
	result   use = false
)

// check rejects schemas that cannot be expressed as types.
func check(s proc.Schema) error {
	for _, a := range s.Args {
		if err := checkType(a.Type, 0); err != nil {
			return fmt.Errorf("argument %q: %w", a.Name, err)
		}
	}
	if err := checkType(s.Result, 0); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

func checkType(t proc.Type, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("types are nested more than %d deep", maxDepth)
	}
	switch t.Kind {
	case proc.KindNull, proc.KindBool, proc.KindInt, proc.KindUint, proc.KindFloat, proc.KindString, proc.KindBytes, proc.KindTime, proc.KindJSON:
		return nil
	case proc.KindObject:
		for _, f := range t.Fields {
			if err := checkType(f.Type, depth+1); err != nil {
				return fmt.Errorf("field %q: %w", f.Name, err)
			}
		}
		return nil
	case proc.KindList, proc.KindMap:
		if t.Of == nil {
			return fmt.Errorf("%s without an element type", t.Kind)
		}
		return checkType(*t.Of, depth+1)
	}
	return fmt.Errorf("unknown kind %q", t.Kind)
}

// typeOf returns t in TypeScript. indent is that of its line.
func typeOf(t proc.Type, u use, indent int) string {
	s := plainType(t, u, indent)
	if t.Nullable && s != "unknown" && s != "null" {
		s += " | null"
	}
	return s
}

func plainType(t proc.Type, u use, indent int) string {
	switch t.Kind {
	case proc.KindNull:
		if u == result {
			return "null"
		}
		return "Record<string, never>"
	case proc.KindBool:
		return "boolean"
	case proc.KindInt, proc.KindUint:
		if large(t) && u == argument {
			return "number | bigint"
		}
		return "number"
	case proc.KindFloat:
		return "number"
	case proc.KindString:
		return "string"
	case proc.KindBytes:
		return "Base64"
	case proc.KindTime:
		return "Timestamp"
	case proc.KindObject:
		return object(t.Fields, u, indent)
	case proc.KindList:
		of := typeOf(*t.Of, u, indent)
		if strings.Contains(of, " | ") && !strings.HasSuffix(of, "}") {
			of = "(" + of + ")"
		}
		return of + "[]"
	case proc.KindMap:
		return "Record<string, " + typeOf(*t.Of, u, indent) + ">"
	}
	return "unknown"
}

// object returns the type of a struct on several lines.
func object(fields []proc.Field, u use, indent int) string {
	if len(fields) == 0 {
		return "Record<string, never>"
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, f := range fields {
		name := f.Name
		if !identifier(name) {
			name = quote(name)
		}
		mark, none := "", ""
		if f.Optional {
			mark = "?"
			if u == argument {
				none = " | undefined"
			}
		}
		fmt.Fprintf(&b, "%*s%s%s: %s%s;\n", 2*indent+2, "", name, mark, typeOf(f.Type, u, indent+1), none)
	}
	fmt.Fprintf(&b, "%*s}", 2*indent, "")
	return b.String()
}

// large reports whether t contains integers that a number cannot represent exactly.
func large(t proc.Type) bool {
	return (t.Kind == proc.KindInt || t.Kind == proc.KindUint) && (t.Bits == 0 || t.Bits > 53)
}

// shapeOf returns the Shape (see runtime.ts) that describes how to convert a result of type
// t. null means no conversion.
func shapeOf(t proc.Type, top bool) string {
	s := plainShape(t, top)
	if s != "null" && t.Nullable {
		return `["null", ` + s + `]`
	}
	return s
}

func plainShape(t proc.Type, top bool) string {
	switch t.Kind {
	case proc.KindNull:
		if top {
			return `"v"`
		}
	case proc.KindInt, proc.KindUint:
		if large(t) {
			return `"i"`
		}
	case proc.KindBytes:
		return `"b"`
	case proc.KindList, proc.KindMap:
		return fmt.Sprintf(`[%q, %s]`, string(t.Kind), shapeOf(*t.Of, false))
	case proc.KindObject:
		var parts []string
		for _, f := range t.Fields {
			if s := shapeOf(f.Type, false); s != "null" {
				parts = append(parts, "["+quote(f.Name)+", "+s+"]")
			}
		}
		if parts != nil {
			return `["object", [` + strings.Join(parts, ", ") + `]]`
		}
	}
	return "null"
}
