package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// Declarations as JSON: a Schema is an object with the members vertices, edges,
// closed and version; types have label, properties, closed, and those of edges from,
// to and multiplicity; properties have key, types, required and cardinality. An Index
// has on, label, keys, unique and filling.

var (
	cardinalityNames  = []string{Single: "single", List: "list", Set: "set"}
	multiplicityNames = []string{Many: "many", Simple: "simple", OneOut: "oneOut", OneIn: "oneIn", OneToOne: "oneToOne"}
	kindNames         = map[value.Kind]string{value.KindVertex: "vertex", value.KindEdge: "edge"}
)

// MarshalText implements encoding.TextMarshaler.
func (c Cardinality) MarshalText() ([]byte, error) { return nameOf(cardinalityNames, int(c)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Cardinality) UnmarshalText(b []byte) (err error) {
	n, err := byName(cardinalityNames, string(b))
	*c = Cardinality(n)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (m Multiplicity) MarshalText() ([]byte, error) { return nameOf(multiplicityNames, int(m)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Multiplicity) UnmarshalText(b []byte) (err error) {
	n, err := byName(multiplicityNames, string(b))
	*m = Multiplicity(n)
	return err
}

func nameOf(names []string, n int) ([]byte, error) {
	if n >= len(names) {
		return nil, fmt.Errorf("%d is none of %s", n, strings.Join(names, ", "))
	}
	return []byte(names[n]), nil
}

func byName(names []string, name string) (int, error) {
	n := slices.Index(names, name)
	if n < 0 {
		return 0, fmt.Errorf("%q is none of %s", name, strings.Join(names, ", "))
	}
	return n, nil
}

// ParseSchema reads a schema from JSON, whose members must all be known. A schema that
// contradicts itself is found by DB.SetSchema.
func ParseSchema(text []byte) (Schema, error) {
	var s Schema
	err := parse("schema", text, &s)
	return s, err
}

// indexJSON is an index in JSON.
type indexJSON struct {
	On      string   `json:"on"` // "": vertex
	Label   string   `json:"label,omitempty"`
	Keys    []string `json:"keys"`
	Unique  bool     `json:"unique,omitempty"`
	Filling bool     `json:"filling,omitempty"`
}

// ParseIndex reads an index from JSON, whose members must all be known. One that is on
// nothing else is on vertices.
func ParseIndex(text []byte) (Index, error) {
	var x indexJSON
	if err := parse("index", text, &x); err != nil {
		return Index{}, err
	}
	ix := Index{On: value.KindVertex, Label: x.Label, Keys: x.Keys, Unique: x.Unique, Filling: x.Filling}
	switch x.On {
	case "", kindNames[value.KindVertex]:
	case kindNames[value.KindEdge]:
		ix.On = value.KindEdge
	default:
		return Index{}, engine.Errorf(CodeSchema, "malformed index: on %q is neither vertex nor edge", x.On)
	}
	return ix, nil
}

// MarshalJSON implements json.Marshaler.
func (ix *Index) MarshalJSON() ([]byte, error) {
	return json.Marshal(indexJSON{kindNames[ix.On], ix.Label, ix.Keys, ix.Unique, ix.Filling})
}

// parse reads one value of JSON.
func parse(what string, text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s cannot be of the type %s", cmp.Or(wrong.Field, "it"), wrong.Value)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it is empty")
	}
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows it")
		}
	}
	if err != nil {
		return engine.Errorf(CodeSchema, "malformed %s: %s", what, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
