package graph

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/graph/value"
)

// TestDeclarationsAsText: what is written as JSON is read again.
func TestDeclarationsAsText(t *testing.T) {
	r := seed.Rand(t)
	for range 200 {
		s := randomSchema(r)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseSchema(text)
		if err != nil || !same(&got, &s) {
			t.Fatalf("%s: %+v, %v; want %+v", text, got, err, s)
		}
	}
	for _, want := range []Index{
		{On: value.KindVertex, Keys: []string{"a"}},
		{On: value.KindEdge, Label: "l", Keys: []string{"b", "a"}, Unique: true, Filling: true},
	} {
		text, err := json.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseIndex(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// same compares the normal forms, which the empty slices of both have.
func same(a, b *Schema) bool {
	x, err := a.normal()
	y, err2 := b.normal()
	return err == nil && err2 == nil && reflect.DeepEqual(x, y)
}

// TestMalformedDeclarations: members that are unknown, or of a wrong type, are errors.
func TestMalformedDeclarations(t *testing.T) {
	for text, say := range map[string]string{
		``:                 "malformed schema: it is empty",
		`{`:                "malformed schema: unexpected EOF",
		`[]`:               "malformed schema: ",
		`{} {}`:            "malformed schema: something follows it",
		`{} }`:             "malformed schema: something follows it",
		`{} x`:             "malformed schema: something follows it",
		`{"vertexes":[]}`:  `malformed schema: unknown field "vertexes"`,
		`{"closed":"yes"}`: "malformed schema: ",
		`{"version":-1}`:   "malformed schema: ",
		`{"edges":[{"label":"e","multiplicity":"one"}]}`:                            `malformed schema: "one" is none of many, simple, oneOut, oneIn, oneToOne`,
		`{"vertices":[{"label":"a","properties":[{"key":"k","cardinality":"x"}]}]}`: `malformed schema: "x" is none of single, list, set`,
	} {
		if _, err := ParseSchema([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), say) {
			t.Errorf("%s: %v, want %s", text, err, say)
		} else {
			wantCode(t, text, err, CodeSchema)
		}
	}
	for text, say := range map[string]string{
		`{"keys":["a"],"on":"graph"}`: `malformed index: on "graph" is neither vertex nor edge`,
		`{"keys":"a"}`:                "malformed index: ",
		`{"key":["a"]}`:               `malformed index: unknown field "key"`,
	} {
		if _, err := ParseIndex([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), say) {
			t.Errorf("%s: %v, want %s", text, err, say)
		}
	}
	if _, err := json.Marshal(Multiplicity(9)); err == nil {
		t.Error("an unknown multiplicity has a name")
	}
}

// FuzzParseSchema: what is read can be written and read again.
func FuzzParseSchema(f *testing.F) {
	f.Add([]byte(`{"vertices":[{"label":"a","properties":[{"key":"k","types":["INT"],"required":true,"cardinality":"set"}]}],"edges":[{"label":"e","from":["a"],"multiplicity":"oneIn"}],"closed":true,"version":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSchema(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSchema(again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
