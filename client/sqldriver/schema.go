package sqldriver

import (
	"encoding/json"
	"fmt"
)

// kind is the kind of a typ, under its name in PROC SCHEMA.
type kind string

const (
	kindNull   kind = "null"
	kindBool   kind = "bool"
	kindInt    kind = "int"
	kindUint   kind = "uint"
	kindFloat  kind = "float"
	kindString kind = "string"
	kindBytes  kind = "bytes"
	kindTime   kind = "time"
	kindObject kind = "object"
	kindList   kind = "list"
	kindMap    kind = "map"
	kindJSON   kind = "json"
)

// typ is the type of a value.
type typ struct {
	Kind     kind    `json:"kind"`
	Bits     int     `json:"bits"`
	Nullable bool    `json:"nullable"`
	Fields   []field `json:"fields"`
	Of       *typ    `json:"of"`
}

// field is an argument of a procedure or a field of an object.
type field struct {
	Name     string `json:"name"`
	Type     typ    `json:"type"`
	Optional bool   `json:"optional"`
}

// procedure is the server's schema of a procedure. It is never modified.
type procedure struct {
	Name     string  `json:"name"`
	ReadOnly bool    `json:"read_only"`
	Args     []field `json:"args"`
	Result   typ     `json:"result"`

	layout layout
}

// readSchema parses the server's schema of one procedure.
func readSchema(name string, text []byte) (*procedure, error) {
	p := new(procedure)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("skerry: read the schema of %s: %w", clip(name), err)
	}
	if p.Name != name {
		return nil, fmt.Errorf("skerry: read the schema of %s: the server describes %s", clip(name), clip(p.Name))
	}
	p.layout = layOut(&p.Result)
	return p, nil
}

// argument returns the index of an argument, or -1. p may be nil.
func (p *procedure) argument(name string) int {
	if p == nil {
		return -1
	}
	for i := range p.Args {
		if p.Args[i].Name == name {
			return i
		}
	}
	return -1
}

// textual reports whether the only argument is text. A JSON object is then that text and
// does not stand for all arguments.
func (p *procedure) textual() bool {
	if p == nil || len(p.Args) != 1 {
		return false
	}
	switch p.Args[0].Type.Kind {
	case kindString, kindBytes, kindJSON:
		return true
	}
	return false
}
