package gremlin

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/value"
)

// TestParseMap: parameters are values only.
func TestParseMap(t *testing.T) {
	for text, want := range map[string]*value.Map{
		"[:]":                              {},
		"[x:1]":                            value.MapOf("x", int32(1)),
		` ["x":1L, 'y':["a", {2}]] `:       value.MapOf("x", int64(1), "y", value.List{"a", value.NewSet(int32(2))}),
		"['d':Duration(1,0),'z':[k:T.id]]": value.MapOf("d", value.Duration{Seconds: 1}, "z", value.MapOf("k", value.ID)),
	} {
		if got, err := ParseMap(text); err != nil || !same(got, want) {
			t.Errorf("%s is read as %#v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "[", "[]", "[1]", "1", "g.V()", "['x':__.V()]", "['x':gt(1)]", "['x':1] 2", "['x':y]", "['x':{ it }]", "\xff",
		"['x':" + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + "]", "['x':'" + strings.Repeat("x", MaxTextBytes) + "']",
	} {
		v, err := ParseMap(text)
		var bad *SyntaxError
		if !errors.As(err, &bad) {
			t.Errorf("%.50q is read as %#v, %v", text, v, err)
		}
	}
}

func FuzzParseMap(f *testing.F) {
	for _, text := range []string{"[:]", "['x':1]", "[x:[1,2],(T.id):{'a'}]", "['x':UUID('00010203-0405-0607-0809-0a0b0c0d0e0f')]", "['x':__.out()]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMap(text)
		if err == nil && !plain(m) {
			t.Fatalf("%q is read as %#v", text, m)
		}
	})
}
