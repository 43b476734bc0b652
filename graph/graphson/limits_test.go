package graphson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// TestMalformed: an error names the offset and what was expected there.
func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
		want   string
	}{
		{``, 0, "the message ends"},
		{`[1,`, 3, "the message ends"},
		{`[1}`, 2, ", or ]"},
		{`{"a":1,}`, 7, "a name"},
		{`{"a" 1}`, 5, ": in JSON"},
		{`"a`, 2, "the end of a string"},
		{"\"a\nb\"", 2, "no control character"},
		{`"\x"`, 0, "a string in JSON"},
		{`[01]`, 2, ", or ]"},
		{`-`, 1, "a digit"},
		{`1.`, 2, "a digit"},
		{`1e+`, 3, "a digit"},
		{`nul`, 0, "JSON"},
		{`1 2`, 2, "the end"},
		{` {"@type":"g:Nothing","@value":1}`, 1, `a type of value, found "g:Nothing"`},
		{`{"@type":1}`, 9, "a type as a string, found a number"},
		{`[{"@type":"g:Int32","@value":2147483648}]`, 29, "an integer of 32 bits"},
		{`{"@type":"g:Int32","@value":true}`, 28, "a number as a number, found a boolean"},
		{`{"@type":"g:Int32"}`, 0, "a number as a number, found nothing"},
		{`{"@type":"g:Double","@value":"x"}`, 29, "a number of 64 bits"},
		{`{"@type":"g:Timestamp","@value":{}}`, 32, "a number as a number, found an object"},
		{`{"@type":"g:List","@value":{}}`, 27, "a list as an array, found an object"},
		{`{"@type":"g:Map","@value":[1]}`, 26, "a value for each key"},
		{`{"@type":"g:BulkSet","@value":["x",-1]}`, 35, "a bulk from 0"},
		{`{"@type":"g:T","@value":"x"}`, 24, `a constant of T, found "x"`},
		{`{"@type":"g:UUID","@value":"x"}`, 27, "a UUID"},
		{`{"@type":"gx:Char","@value":"ab"}`, 28, "one character"},
		{`{"@type":"gx:ByteBuffer","@value":"*"}`, 34, "base64"},
		{`{"@type":"gx:Duration","@value":"PT"}`, 32, "a duration"},
		{`{"@type":"gx:LocalDate","@value":"2024-01-01"}`, 0, "a type of value"},
		{`{"@type":"g:Lambda","@value":{}}`, 0, "lambdas are not supported; use a traversal"},
		{`{"@type":"g:Set","@value":[{"@type":"g:P","@value":{"predicate":"gt","value":1}}]}`, 27, "a type of value"},
		{`{"@type":"g:Path","@value":{"labels":[],"objects":[1]}}`, 27, "labels for 1 values, found 0"},
		{`{"@type":"g:Bytecode","@value":{"step":[[]]}}`, 40, "a call's name and arguments"},
		{`{"@type":"g:CardinalityValueTraversal","@value":{"cardinality":"no","value":1}}`, 48, "a cardinality and a value"},
		{`{"@type":"g:Vertex","@value":{"id":1,"properties":{"a":[1]}}}`, 56, "a property of a vertex"},
		{`1e999`, 0, "a number"},
	} {
		codec(graphson.Typed).Malformed(t, c.text, []byte(c.text), c.offset, c.want)
	}
	for _, text := range []string{"P", "PT", "T1S", "P1H", "PT1D", "PT1S1M", "PT1.5M", "PT.5S", "PT1.0000000001S", "PT9223372036854775807H", "PTS", "PT9223372036854775806S1S"} {
		if v, err := graphson.Decode([]byte(`{"@type":"gx:Duration","@value":"` + text + `"}`)); err == nil {
			t.Errorf("%s is read as %v", text, v)
		}
	}
}

// TestLimits: what is at a limit is read, and what is beyond it is not.
func TestLimits(t *testing.T) {
	lists := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		name  string
		limit int
		of    func(n int) string
	}{
		{"depth", message.MaxDepth, lists},
		{"depth of sets", message.MaxKeyDepth, func(n int) string {
			return strings.Repeat(`{"@type":"g:Set","@value":[`, n) + "1" + strings.Repeat("]}", n)
		}},
		{"depth of trees", message.MaxDepth - 2, func(n int) string {
			return strings.Repeat(`{"@type":"g:Tree","@value":[{"key":1,"value":`, n) + `{"@type":"g:Tree","@value":[]}` + strings.Repeat("}]}", n)
		}},
		{"values", message.MaxValues/2 - 1, func(n int) string { // half of them in objects, for which JSON has more
			return "[" + strings.Repeat("0,", n*2-n%2) + "0]"
		}},
		{"digits", value.MaxDigits, func(n int) string { return strings.Repeat("1", n) }},
		{"digits of a decimal number", value.MaxDigits, func(n int) string {
			return `{"@type":"gx:BigDecimal","@value":` + strings.Repeat("1", n) + `}`
		}},
		{"scale", message.MaxScale, func(n int) string { return fmt.Sprintf(`{"@type":"gx:BigDecimal","@value":1e-%d}`, n) }},
		{"bulk", message.MaxValues, func(n int) string { return fmt.Sprintf(`{"@type":"g:BulkSet","@value":["x",%d]}`, n) }},
	} {
		codec(graphson.Typed).Limit(t, c.name, c.limit, func(n int) []byte { return []byte(c.of(n)) })
	}
	if _, err := graphson.Decode([]byte(lists(5000))); err == nil {
		t.Error("5000 lists within each other are read")
	}
	bulk := &value.BulkSet{}
	bulk.Add("x", message.MaxValues+1)
	if _, err := graphson.Untyped.Append(nil, bulk); err == nil {
		t.Error("a bulk set of too many values is written without types")
	}
}

// FuzzJSON: what is JSON for us is JSON for encoding/json, and the other way
// around.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a":[1,-0.5e+3,"é\n\u00e9",null,true,false,{}]}`, `[[[[]]]]`, ` "x" `, `0`, `01`, `"\ud800"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := graphson.Decode(b)
		var where *message.Error
		if err == nil && !json.Valid(b) {
			t.Fatalf("%q is read as %#v and is not JSON", b, v)
		}
		if errors.As(err, &where) && json.Valid(b) && strings.Contains(where.Msg, "in JSON") {
			t.Fatalf("%q is JSON and is refused: %v", b, err)
		}
	})
}
