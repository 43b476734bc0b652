package proc

import "slices"

// Kind is what sort of value a Type is.
type Kind string

// Kinds. They are part of the listings that clients read: do not change.
const (
	KindNull   Kind = "null"   // a struct without fields: no value; an argument may be {} too
	KindBool   Kind = "bool"   //
	KindInt    Kind = "int"    // of Bits bits, signed
	KindUint   Kind = "uint"   // of Bits bits
	KindFloat  Kind = "float"  // of Bits bits
	KindString Kind = "string" // text, also of types with a MarshalText of their own
	KindBytes  Kind = "bytes"  // []byte, which []uint8 is: base64 in JSON, as it is elsewhere
	KindTime   Kind = "time"   // time.Time: RFC 3339 with nanoseconds
	KindObject Kind = "object" // a struct: Fields
	KindList   Kind = "list"   // a slice or an array: Of
	KindMap    Kind = "map"    // a map with keys that are text or integers: Of
	KindJSON   Kind = "json"   // whatever its own MarshalJSON writes
)

// Schema is what a client needs to know to call a procedure.
type Schema struct {
	Name     string  `json:"name"`
	Text     string  `json:"text,omitempty"` // what it is for
	ReadOnly bool    `json:"read_only"`
	Args     []Field `json:"args"` // in the order of positional arguments
	Result   Type    `json:"result"`
}

// Field is one argument, or one field of an object.
type Field struct {
	Name     string `json:"name"`
	Type     Type   `json:"type"`
	Optional bool   `json:"optional,omitempty"` // may be left out
}

// Type is the shape of a value.
type Type struct {
	Kind     Kind    `json:"kind"`
	Bits     int     `json:"bits,omitempty"`     // of int, uint, float
	Nullable bool    `json:"nullable,omitempty"` // a pointer: may be null. In JSON, a nil slice or map is null too
	Fields   []Field `json:"fields,omitempty"`   // of an object
	Of       *Type   `json:"of,omitempty"`       // element of a list or map
}

func (s Schema) clone() Schema {
	s.Args = cloneFields(s.Args)
	if s.Args == nil {
		s.Args = []Field{} // [] in JSON, not null
	}
	s.Result = s.Result.clone()
	return s
}

func (t Type) clone() Type {
	t.Fields = cloneFields(t.Fields)
	if t.Of != nil {
		of := t.Of.clone()
		t.Of = &of
	}
	return t
}

func cloneFields(list []Field) []Field {
	list = slices.Clone(list)
	for i := range list {
		list[i].Type = list[i].Type.clone()
	}
	return list
}
