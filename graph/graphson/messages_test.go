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
		got, err := format.AppendResponse(nil, p)
		if err != nil || string(got) != want {
			t.Errorf("written as %s, %v, want %s", got, err, want)
		}
		var items []byte
		for i, v := range p.Result.(value.List) {
			if items, err = format.AppendItem(items, i, v); err != nil {
				t.Fatal(err)
			}
		}
		if got, err = format.AppendItems(nil, p, items, 2); err != nil || string(got) != want {
			t.Errorf("written by items as %s, %v, want %s", got, err, want)
		}
		back, err := graphson.DecodeResponse([]byte(want))
		if err != nil || back.ID != p.ID || back.Status != 206 || back.Message != "m" || value.Text(back.Result) != "[1, x]" || back.Attributes.Len() != 1 {
			t.Errorf("%s is read as %+v, %v", want, back, err)
		}
	}
}

// again reads what Append made of a value and compares.
func again(t *testing.T, v any) {
	t.Helper()
	one, err := graphson.Typed.Append(nil, v)
	if err != nil {
		t.Fatalf("%#v was read and cannot be written: %v", v, err)
	}
	back, err := graphson.Decode(one)
	if err != nil {
		t.Fatalf("%#v was written as %s, which cannot be read: %v", v, one, err)
	}
	if two, err := graphson.Typed.Append(nil, back); err != nil || string(one) != string(two) {
		t.Fatalf("%#v is written as %s and then as %s, %v", v, one, two, err)
	}
	_, _ = graphson.Untyped.Append(nil, v)
}

func FuzzBytecode(f *testing.F) {
	for _, g := range all() {
		f.Add([]byte(g.typed))
		f.Add([]byte(g.untyped))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := graphson.Decode(b); err == nil {
			again(t, v)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"requestId":{"@type":"g:UUID","@value":"` + id + `"},"op":"bytecode","processor":"traversal","args":{"gremlin":{"@type":"g:Bytecode","@value":{"step":[["V"]]}},"aliases":{"g":"g"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := graphson.DecodeRequest(b)
		if err != nil {
			return
		}
		one, err := graphson.AppendRequest(nil, q)
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", q, err)
		}
		if _, err = graphson.DecodeRequest(one); err != nil {
			t.Fatalf("%s was written and cannot be read: %v", one, err)
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"requestId":"` + id + `","status":{"message":"m","code":206,"attributes":{}},"result":{"data":[1],"meta":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := graphson.DecodeResponse(b); err == nil {
			if _, err = graphson.Typed.AppendResponse(nil, p); err != nil {
				t.Fatalf("%+v was read and cannot be written: %v", p, err)
			}
		}
	})
}
