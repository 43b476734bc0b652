package proc

import "slices"

// Kind is the kind of value of a Type.
type Kind string

// Kinds. Clients read them in listings: do not change.
const (
	KindNull   Kind = "null"   // a struct without fields: no value; an argument may also be {}
	KindBool   Kind = "bool"   //
	KindInt    Kind = "int"    // signed, with Bits bits
	KindUint   Kind = "uint"   // unsigned, with Bits bits
	KindFloat  Kind = "float"  // with Bits bits
	KindString Kind = "string" // text, including types with their own MarshalText
	KindBytes  Kind = "bytes"  // []byte, the same as []uint8: base64 in JSON, raw elsewhere
	KindTime   Kind = "time"   // time.Time: RFC 3339 with nanoseconds
	KindObject Kind = "object" // a struct with Fields
	KindList   Kind = "list"   // a slice or an array of Of
	KindMap    Kind = "map"    // a map of Of with text or integer keys
	KindJSON   Kind = "json"   // the output of the type's own MarshalJSON
)

// Schema is the information that a client needs to call a procedure.
type Schema struct {
	Name     string  `json:"name"`
	Text     string  `json:"text,omitempty"` // description
	ReadOnly bool    `json:"read_only"`
	Args     []Field `json:"args"` // in the order of positional arguments
	Result   Type    `json:"result"`
}

// Field is one argument, or one field of an object.
type Field struct {
	Name     string `json:"name"`
	Type     Type   `json:"type"`
	Optional bool   `json:"optional,omitempty"` // may be omitted
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
