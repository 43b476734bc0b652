package graphson_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// golden is a value and its JSON: with types, as the specification has it, and
// without; "": it has none.
type golden struct {
	typed, untyped string
	val            any
}

func scalars() []golden {
	return []golden{
		{`null`, `null`, nil},
		{`"a\"\\\n\u0001\u007fé€"`, `"a\"\\\n\u0001\u007fé€"`, "a\"\\\n\x01\x7fé€"},
		{`true`, `true`, true},
		{`{"@type":"g:Int32","@value":-1}`, `-1`, int32(-1)},
		{`{"@type":"g:Int64","@value":9223372036854775807}`, `9223372036854775807`, int64(math.MaxInt64)},
		{`{"@type":"gx:Int16","@value":-32768}`, `-32768`, int16(math.MinInt16)},
		{`{"@type":"gx:Byte","@value":-128}`, `-128`, int8(math.MinInt8)},
		{`{"@type":"g:Double","@value":1.5}`, `1.5`, 1.5},
		{`{"@type":"g:Double","@value":2.0}`, `2.0`, 2.0},
		{`{"@type":"g:Double","@value":1e+100}`, `1e+100`, 1e100},
		{`{"@type":"g:Double","@value":"NaN"}`, `"NaN"`, math.NaN()},
		{`{"@type":"g:Double","@value":"Infinity"}`, `"Infinity"`, math.Inf(1)},
		{`{"@type":"g:Double","@value":"-Infinity"}`, `"-Infinity"`, math.Inf(-1)},
		{`{"@type":"g:Float","@value":0.1}`, `0.1`, float32(0.1)},
		{`{"@type":"gx:BigInteger","@value":18446744073709551616}`, `18446744073709551616`, new(big.Int).Lsh(big.NewInt(1), 64)},
		{`{"@type":"gx:BigDecimal","@value":-123.45}`, `-123.45`, value.Decimal{Unscaled: big.NewInt(-12345), Scale: 2}},
		{`{"@type":"gx:Char","@value":"€"}`, `"€"`, value.Char('€')},
		{`{"@type":"g:UUID","@value":"41d2e28a-20a4-4ab0-b379-d810dede3786"}`, `"41d2e28a-20a4-4ab0-b379-d810dede3786"`, value.UUID{0x41, 0xd2, 0xe2, 0x8a, 0x20, 0xa4, 0x4a, 0xb0, 0xb3, 0x79, 0xd8, 0x10, 0xde, 0xde, 0x37, 0x86}},
		{`{"@type":"gx:ByteBuffer","@value":"AQL/"}`, `"AQL/"`, []byte{1, 2, 255}},
		{`{"@type":"gx:Duration","@value":"PT1.5S"}`, `"PT1.5S"`, value.Duration{Seconds: 1, Nanos: 500_000_000}},
		{`{"@type":"gx:Duration","@value":"PT-1.5S"}`, `"PT-1.5S"`, value.Duration{Seconds: -2, Nanos: 500_000_000}},
		{`{"@type":"gx:OffsetDateTime","@value":"2024-02-29T12:30:05.000000007+01:00"}`, `"2024-02-29T12:30:05.000000007+01:00"`, time.Date(2024, 2, 29, 12, 30, 5, 7, time.FixedZone("", 3600))},
		{`{"@type":"gx:OffsetDateTime","@value":"+12400-02-29T12:30:05Z"}`, `"+12400-02-29T12:30:05Z"`, time.Date(12400, 2, 29, 12, 30, 5, 0, time.UTC)},
		{`{"@type":"gx:OffsetDateTime","@value":"-0004-02-29T12:30:05Z"}`, `"-0004-02-29T12:30:05Z"`, time.Date(-4, 2, 29, 12, 30, 5, 0, time.UTC)},
		{`{"@type":"g:T","@value":"id"}`, `"id"`, value.ID},
		{`{"@type":"g:Direction","@value":"OUT"}`, `"OUT"`, value.Out},
		{`{"@type":"g:GType","@value":"INT"}`, `"INT"`, value.Enum{Kind: value.KindGType, Name: "INT"}},
		{`{"@type":"g:Merge","@value":"onCreate"}`, `"onCreate"`, value.OnCreate},
	}
}

func collections() []golden {
	bulk := &value.BulkSet{}
	bulk.Add("x", 2)
	tree := &value.Tree{}
	tree.Child(int32(1)).Child("a")
	return []golden{
		{`{"@type":"g:List","@value":[{"@type":"g:Int32","@value":1},null]}`, `[1,null]`, value.List{int32(1), nil}},
		{`{"@type":"g:Set","@value":["x"]}`, `["x"]`, value.NewSet("x")},
		{`{"@type":"g:Map","@value":[{"@type":"g:T","@value":"id"},{"@type":"g:Int32","@value":1},"k",null]}`, `{"id":1,"k":null}`, value.MapOf(value.ID, int32(1), "k", nil)},
		{`{"@type":"g:Map","@value":[{"@type":"g:Int32","@value":1},"a"]}`, `{"1":"a"}`, value.MapOf(int32(1), "a")},
		{`{"@type":"g:BulkSet","@value":["x",{"@type":"g:Int64","@value":2}]}`, `["x","x"]`, bulk},
		{
			`{"@type":"g:Tree","@value":[{"key":{"@type":"g:Int32","@value":1},"value":{"@type":"g:Tree","@value":[{"key":"a","value":{"@type":"g:Tree","@value":[]}}]}}]}`,
			`[{"key":1,"value":[{"key":"a","value":[]}]}]`, tree,
		},
		{`{"@type":"g:Traverser","@value":{"bulk":{"@type":"g:Int64","@value":3},"value":"x"}}`, `{"bulk":3,"value":"x"}`, message.Traverser{Bulk: 3, Val: "x"}},
	}
}

func elements() []golden {
	one := `{"@type":"g:Int32","@value":1}`
	meta := []*value.Property{{Key: "m", Val: int32(1)}}
	p := &value.VertexProperty{ID: int32(1), Key: "k", Val: "x", Properties: meta}
	v := &value.Vertex{ID: int32(1), Label: "v", Properties: []*value.VertexProperty{p}}
	e := &value.Edge{ID: int32(1), Label: "e", In: v, Out: v, Properties: meta}
	typedProp := `{"@type":"g:VertexProperty","@value":{"id":` + one + `,"value":"x","label":"k","properties":{"m":` + one + `}}}`
	typedMeta := `{"@type":"g:Property","@value":{"key":"m","value":` + one + `}}`
	typedVertex := `{"@type":"g:Vertex","@value":{"id":` + one + `,"label":"v","properties":{"k":[` + typedProp + `]}}}`
	typedEdge := `{"@type":"g:Edge","@value":{"id":` + one + `,"label":"e","inVLabel":"v","outVLabel":"v","inV":` + one + `,"outV":` + one + `,"properties":{"m":` + typedMeta + `}}}`
	vertex := `{"id":1,"label":"v","type":"vertex","properties":{"k":[{"id":1,"value":"x","properties":{"m":1}}]}}`
	edge := `{"id":1,"label":"e","type":"edge","inVLabel":"v","outVLabel":"v","inV":1,"outV":1,"properties":{"m":1}}`
	metrics := &value.Metrics{ID: "i", Name: "n", Nanos: 1_500_000, Counts: value.MapOf("c", int64(1)), Annotations: &value.Map{}}
	typedMetrics := `{"@type":"g:Metrics","@value":{"@type":"g:Map","@value":["dur",{"@type":"g:Double","@value":1.5},"counts",{"@type":"g:Map","@value":["c",{"@type":"g:Int64","@value":1}]},"name","n","annotations",{"@type":"g:Map","@value":[]},"id","i"]}}`
	return []golden{
		{`{"@type":"g:Vertex","@value":{"id":` + one + `,"label":"v"}}`, `{"id":1,"label":"v","type":"vertex"}`, &value.Vertex{ID: int32(1), Label: "v"}},
		{typedVertex, vertex, v},
		{typedEdge, edge, e},
		{typedProp, `{"id":1,"value":"x","label":"k","properties":{"m":1}}`, p},
		{typedMeta, `{"key":"m","value":1}`, meta[0]},
		{
			`{"@type":"g:Path","@value":{"labels":{"@type":"g:List","@value":[{"@type":"g:Set","@value":["a"]},{"@type":"g:Set","@value":[]}]},"objects":{"@type":"g:List","@value":[` + one + `,null]}}}`,
			`{"labels":[["a"],[]],"objects":[1,null]}`, &value.Path{Objects: []any{int32(1), nil}, Labels: [][]string{{"a"}, nil}},
		},
		{
			`{"@type":"tinker:graph","@value":{"vertices":[` + typedVertex + `],"edges":[` + typedEdge + `]}}`,
			`{"vertices":[` + vertex + `],"edges":[` + edge + `]}`, &value.Graph{Vertices: []*value.Vertex{v}, Edges: []*value.Edge{e}},
		},
		{typedMetrics, `{"dur":1.5,"counts":{"c":1},"name":"n","annotations":{},"id":"i"}`, metrics},
		{
			`{"@type":"g:TraversalMetrics","@value":{"@type":"g:Map","@value":["dur",{"@type":"g:Double","@value":2.0},"metrics",{"@type":"g:List","@value":[` + typedMetrics + `]}]}}`,
			`{"dur":2.0,"metrics":[{"dur":1.5,"counts":{"c":1},"name":"n","annotations":{},"id":"i"}]}`,
			&value.TraversalMetrics{Nanos: 2_000_000, Steps: []*value.Metrics{metrics}},
		},
	}
}

func programs() []golden {
	one := `{"@type":"g:Int32","@value":1}`
	return []golden{
		{
			`{"@type":"g:Bytecode","@value":{"source":[["withPath"]],"step":[["V",` + one + `],["out"]]}}`, "",
			&gremlin.Traversal{Source: []gremlin.Call{{Name: "withPath"}}, Steps: []gremlin.Call{{Name: "V", Args: []any{int32(1)}}, {Name: "out"}}},
		},
		{`{"@type":"g:P","@value":{"predicate":"gt","value":` + one + `}}`, "", &gremlin.P{Name: "gt", Args: []any{int32(1)}}},
		{`{"@type":"g:P","@value":{"predicate":"within","value":{"@type":"g:List","@value":[` + one + `]}}}`, "", &gremlin.P{Name: "within", Args: []any{int32(1)}}},
		{`{"@type":"g:TextP","@value":{"predicate":"containing","value":"x"}}`, "", &gremlin.P{Name: "containing", Args: []any{"x"}}},
		{`{"@type":"g:SeedStrategy","@value":{"seed":` + one + `}}`, "", gremlin.Strategy{Name: "SeedStrategy", Config: value.MapOf("seed", int32(1))}},
		{`{"@type":"g:Class","@value":"S"}`, "", gremlin.Class("S")},
		{
			`{"@type":"g:Bytecode","@value":{"source":[["CardinalityValueTraversal",{"@type":"g:Cardinality","@value":"single"},` + one + `]],"step":[]}}`, "",
			gremlin.Cardinal{Cardinality: value.Single, Val: int32(1)},
		},
	}
}

func all() []golden {
	return append(append(scalars(), collections()...), append(elements(), programs()...)...)
}

// TestValues: each type is written and read as the specification says.
func TestValues(t *testing.T) {
	for _, g := range all() {
		codec(graphson.Typed).Value(t, fmt.Sprintf("%T", g.val), []byte(g.typed), g.val)
		if got, err := graphson.Untyped.Append(nil, g.val); g.untyped != "" && (err != nil || string(got) != g.untyped) {
			t.Errorf("%T is written without types as\n%s, %v, want\n%s", g.val, got, err, g.untyped)
		} else if g.untyped == "" && err == nil {
			t.Errorf("%T is written without types as %s", g.val, got)
		}
	}
	for kind, names := range value.Enums() {
		for _, name := range names {
			text := `{"@type":"g:` + kind + `","@value":"` + name + `"}`
			if got, err := graphson.Decode([]byte(text)); err != nil || got != any(value.Enum{Kind: kind, Name: name}) {
				t.Errorf("%s is read as %#v, %v", text, got, err)
			}
		}
	}
}

// TestOtherForms: what drivers write differently from us is read.
func TestOtherForms(t *testing.T) {
	for text, want := range map[string]any{
		`1`: int32(1), `2147483648`: int64(2147483648), `9223372036854775808`: new(big.Int).Lsh(big.NewInt(1), 63), `1.0`: 1.0, `1e2`: 100.0,
		` [ 1 , "a" ] `: value.List{int32(1), "a"}, `{"a":{"b":[]}}`: value.MapOf("a", value.MapOf("b", value.List{})),
		`{"@value":1,"@type":"g:Int64"}`:                                                       int64(1),
		`{"@type":"gx:BigInteger","@value":"12"}`:                                              big.NewInt(12),
		`{"@type":"gx:BigDecimal","@value":"1.20"}`:                                            value.Decimal{Unscaled: big.NewInt(120), Scale: 2},
		`{"@type":"g:Date","@value":1000}`:                                                     time.Unix(1, 0).UTC(),
		`{"@type":"gx:Instant","@value":"1970-01-01T00:00:01Z"}`:                               time.Unix(1, 0).UTC(),
		`{"@type":"gx:Duration","@value":"P1DT2H3M4S"}`:                                        value.Duration{Seconds: 93784},
		`{"@type":"gx:Duration","@value":"-PT1.5S"}`:                                           value.Duration{Seconds: -2, Nanos: 500_000_000},
		`{"@type":"g:Binding","@value":{"key":"x","value":1}}`:                                 int32(1),
		`{"@type":"g:P","@value":{"predicate":"between","value":[1,2]}}`:                       &gremlin.P{Name: "between", Args: []any{int32(1), int32(2)}},
		`{"@type":"g:SeedStrategy","@value":{"fqcn":"a.b.SeedStrategy","conf":{"seed":1}}}`:    gremlin.Strategy{Name: "SeedStrategy", Config: value.MapOf("seed", int32(1))},
		`{"@type":"g:Class","@value":"org.apache.tinkerpop.gremlin.process.ReadOnlyStrategy"}`: gremlin.Class("ReadOnlyStrategy"),
		`{"@type":"g:CardinalityValueTraversal","@value":{"cardinality":"set","value":1}}`:     gremlin.Cardinal{Cardinality: value.SetOf, Val: int32(1)},
		`{"@type":"g:Bytecode","@value":{"source":[["withoutStrategies",{"@type":"g:ReadOnlyStrategy","@value":{}}]]}}`: &gremlin.Traversal{
			Source: []gremlin.Call{{Name: "withoutStrategies", Args: []any{gremlin.Class("ReadOnlyStrategy")}}},
		},
	} {
		codec(graphson.Typed).Form(t, text, []byte(text), want)
	}
	v := &value.Vertex{ID: int32(1), Label: "v"}
	if got, err := graphson.Untyped4.Append(nil, v); err != nil || string(got) != `{"id":1,"label":["v"],"type":"vertex"}` {
		t.Errorf("a vertex is written for TinkerPop 4 as %s, %v", got, err)
	}
}
