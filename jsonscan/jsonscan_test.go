package jsonscan

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// texts are valid JSON, and the seeds of the fuzz test.
var texts = []string{
	`{}`, `[]`, `""`, `0`, `null`, `true`, ` false `,
	`-1.5e+3`, "\t[ 1 ,2\r\n,\n3 ]\n",
	`{"a":1,"b":[{"c":null},[]],"":{}}`,
	`{ "a" : [ true , "x\"]}" ] , "b" : -0.0 }`,
	`["\u00e9\ud83d\ude00\n\\","é😀"]`,
	`{"\u0061":"\\\"","\ud800":1}`,
	`[[[[{"a":[{"b":{}}]}]]]]`,
	"\"\xff\xfe\"",
}

// read builds the next value, as json.Unmarshal does.
func read(t *testing.T, s *Scanner) any {
	ahead := *s
	raw := ahead.Raw()
	if !json.Valid(raw) {
		t.Fatalf("Raw returns %q, which is not a value", raw)
	}
	var v any
	switch first := s.Peek(); first {
	case '{':
		object := map[string]any{}
		for s.Open(); s.More('}'); {
			name, _ := s.Text()
			key := string(name)
			object[key] = read(t, s)
		}
		v = object
	case '[':
		list := []any{}
		for s.Open(); s.More(']'); {
			list = append(list, read(t, s))
		}
		v = list
	case '"':
		text, _ := s.Text()
		v = string(text)
	default:
		if err := json.Unmarshal(s.Raw(), &v); err != nil {
			t.Fatal(err)
		}
	}
	if s.at != ahead.at {
		t.Fatalf("%q: reading ends at byte %d, Raw at %d", s.text, s.at, ahead.at)
	}
	return v
}

func check(t *testing.T, text []byte) {
	var want any
	if json.Unmarshal(text, &want) != nil {
		return
	}
	before := bytes.Clone(text)
	s := New(text)
	if got := read(t, &s); !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %#v, want %#v", text, got, want)
	}
	if first := s.Peek(); first != 0 {
		t.Errorf("%q: %q follows the value", text, first)
	}
	if !bytes.Equal(text, before) {
		t.Errorf("%q was %q before reading", text, before)
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		if !json.Valid([]byte(text)) {
			t.Errorf("the case is not JSON: %s", text)
		}
		check(t, []byte(text))
	}
}

// FuzzScan compares every valid text with what encoding/json makes of it.
func FuzzScan(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(check)
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want string
		whole      bool
	}{
		{`"plain"`, "plain", true},
		{`"\u0041\n\/"`, "A\n/", true},
		{`"\ud83d\ude00"`, "😀", true},
		{`"\ud800"`, "\uFFFD", false},
		{`"\ude00\ud83d"`, "\uFFFD\uFFFD", false},
		{`"\ud83dx"`, "\uFFFDx", false},
		{`"\\ud800"`, `\ud800`, true},
		{"\"a\xff\"", "a\uFFFD", true},
	} {
		s := New([]byte(c.text))
		if got, whole := s.Text(); string(got) != c.want || whole != c.whole {
			t.Errorf("%s: %q, %v, want %q, %v", c.text, got, whole, c.want, c.whole)
		}
	}
}

// TestTextAliases: a string without escapes is read without allocating.
func TestTextAliases(t *testing.T) {
	text := []byte(`["` + strings.Repeat("é", 100) + `"]`)
	if n := testing.AllocsPerRun(100, func() {
		s := New(text)
		s.Open()
		s.Text()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"x"`: "a string", `{}`: "an object", `[]`: "a list", `true`: "true or false", `false`: "true or false",
		`null`: "null", `-1`: "a number", `0`: "a number",
	} {
		if got := Kind(text[0]); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
