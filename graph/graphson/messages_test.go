package graphson_test

import (
	"testing"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

const id = "41d2e28a-20a4-4ab0-b379-d810dede3786"

// TestRequest reads requests as drivers write them.
func TestRequest(t *testing.T) {
	for _, text := range []string{
		`{"requestId":{"@type":"g:UUID","@value":"` + id + `"},"op":"bytecode","processor":"traversal","args":{"gremlin":{"@type":"g:Bytecode","@value":{"step":[["V"]]}},"aliases":{"g":"g"}}}`,
		`{"requestId":"` + id + `","op":"bytecode","processor":"traversal","args":{"@type":"g:Map","@value":["gremlin",{"@type":"g:Bytecode","@value":{"step":[["V"]]}},"aliases",{"@type":"g:Map","@value":["g","g"]}]}}`,
	} {
		q, err := graphson.DecodeRequest([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		v, _ := q.Args.Get("gremlin")
		tr, _ := v.(*gremlin.Traversal)
		if q.ID.String() != id || q.Op != "bytecode" || q.Processor != "traversal" || tr == nil || tr.String() != "g.V()" {
			t.Errorf("%s is read as %+v", text, q)
		}
		if v, _ := q.Args.Get("aliases"); value.Text(v) != "{g=g}" {
			t.Errorf("%s: aliases are %v", text, v)
		}
		b, err := graphson.AppendRequest(nil, q)
		if err != nil {
			t.Error(err)
		}
		if again, err := graphson.DecodeRequest(b); err != nil || again.ID != q.ID || again.Args.Len() != q.Args.Len() {
			t.Errorf("%s is read as %+v, %v", b, again, err)
		}
	}
	q, err := graphson.DecodeRequest([]byte(`{"requestId":"` + id + `","op":"eval","args":{"x":{"@type":"g:No"}}}`))
	if err == nil || q.ID.String() != id || q.Args != nil {
		t.Errorf("a request with malformed args is read as %+v, %v", q, err)
	}
	for _, text := range []string{`[]`, `{}`, `{"requestId":"x","op":"eval"}`, `{"requestId":"` + id + `"}`, `{"requestId":"` + id + `","op":"eval","args":[]}`} {
		if q, err := graphson.DecodeRequest([]byte(text)); err == nil || q.Args != nil {
			t.Errorf("%s is read as %+v", text, q)
		}
	}
}

// TestResponse: a response is the same whether its result is written at once or by
// items.
func TestResponse(t *testing.T) {
	p := &message.Response{ID: value.UUID{1}, Status: 206, Message: "m", Attributes: value.MapOf("a", "b"), Result: value.List{int32(1), "x"}}
	for format, want := range map[graphson.Format]string{
		graphson.Typed:   `{"requestId":"01000000-0000-0000-0000-000000000000","status":{"message":"m","code":206,"attributes":{"@type":"g:Map","@value":["a","b"]}},"result":{"data":{"@type":"g:List","@value":[{"@type":"g:Int32","@value":1},"x"]},"meta":{"@type":"g:Map","@value":[]}}}`,
		graphson.Untyped: `{"requestId":"01000000-0000-0000-0000-000000000000","status":{"message":"m","code":206,"attributes":{"a":"b"}},"result":{"data":[1,"x"],"meta":{}}}`,
	} {
		codec(format).Response(t, p, []byte(want))
	}
}

func FuzzBytecode(f *testing.F) {
	for _, g := range all() {
		f.Add([]byte(g.typed))
		f.Add([]byte(g.untyped))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := graphson.Decode(b); err == nil {
			codec(graphson.Typed).Again(t, v)
			_, _ = graphson.Untyped.Append(nil, v)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"requestId":{"@type":"g:UUID","@value":"` + id + `"},"op":"bytecode","processor":"traversal","args":{"gremlin":{"@type":"g:Bytecode","@value":{"step":[["V"]]}},"aliases":{"g":"g"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) { codec(graphson.Typed).RequestAgain(t, b) })
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"requestId":"` + id + `","status":{"message":"m","code":206,"attributes":{}},"result":{"data":[1],"meta":{}}}`))
	f.Fuzz(codec(graphson.Typed).ResponseAgain)
}
