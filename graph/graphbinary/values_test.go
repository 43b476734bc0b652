package graphbinary_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// golden is a value and its bytes in hex, as the specification has them. Spaces
// are between fields.
type golden struct {
	name, hex string
	val       any
}

func scalars() []golden {
	return []golden{
		{"null", "fe 01", nil},
		{"int", "01 00 00000001", int32(1)},
		{"int min", "01 00 80000000", int32(math.MinInt32)},
		{"long", "02 00 fffffffffffffffe", int64(-2)},
		{"string", "03 00 00000003 616263", "abc"},
		{"string empty", "03 00 00000000", ""},
		{"string long", "03 00 00000002 c3a9", "é"},
		{"double", "07 00 3ff8000000000000", 1.5},
		{"double NaN", "07 00 7ff8000000000001", math.NaN()},
		{"double infinite", "07 00 fff0000000000000", math.Inf(-1)},
		{"float", "08 00 3fc00000", float32(1.5)},
		{"UUID", "0c 00 41d2e28a20a44ab0b379d810dede3786", value.UUID{0x41, 0xd2, 0xe2, 0x8a, 0x20, 0xa4, 0x4a, 0xb0, 0xb3, 0x79, 0xd8, 0x10, 0xde, 0xde, 0x37, 0x86}},
		{"byte", "24 00 ff", int8(-1)},
		{"short", "26 00 8000", int16(math.MinInt16)},
		{"true", "27 00 01", true},
		{"false", "27 00 00", false},
		{"bytes", "25 00 00000003 0102ff", []byte{1, 2, 255}},
		{"char", "80 00 61", value.Char('a')},
		{"char of 3 bytes", "80 00 e282ac", value.Char('€')},
		{"duration", "81 00 0000000000000001 1dcd6500", value.Duration{Seconds: 1, Nanos: 500_000_000}},
		{"duration negative", "81 00 fffffffffffffffe 1dcd6500", value.Duration{Seconds: -2, Nanos: 500_000_000}},
		{"date and time", "88 00 000007e8 02 1d 000028ee8b09c207 00000e10", time.Date(2024, 2, 29, 12, 30, 5, 7, time.FixedZone("", 3600))},
		{"date and time before Christ", "88 00 ffffffff 01 01 0000000000000000 00000000", time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
}

func bigs() []golden {
	return []golden{
		{"0", "23 00 00000001 00", big.NewInt(0)},
		{"-1", "23 00 00000001 ff", big.NewInt(-1)},
		{"127", "23 00 00000001 7f", big.NewInt(127)},
		{"128", "23 00 00000002 0080", big.NewInt(128)},
		{"-128", "23 00 00000001 80", big.NewInt(-128)},
		{"-129", "23 00 00000002 ff7f", big.NewInt(-129)},
		{"-256", "23 00 00000002 ff00", big.NewInt(-256)},
		{"2^64", "23 00 00000009 010000000000000000", new(big.Int).Lsh(big.NewInt(1), 64)},
		{"decimal", "22 00 00000002 00000002 cfc7", value.Decimal{Unscaled: big.NewInt(-12345), Scale: 2}},
		{"decimal with negative scale", "22 00 fffffffd 00000001 01", value.Decimal{Unscaled: big.NewInt(1), Scale: -3}},
	}
}

func enums() []golden {
	text := func(s string) string {
		return "0300000000" + hex.EncodeToString([]byte{byte(len(s))}) + hex.EncodeToString([]byte(s))
	}
	var out []golden
	codes := map[string]string{
		value.KindBarrier: "13", value.KindCardinality: "16", value.KindColumn: "17", value.KindDirection: "18", value.KindOperator: "19",
		value.KindOrder: "1a", value.KindPick: "1b", value.KindPop: "1c", value.KindScope: "1f", value.KindT: "20", value.KindMerge: "2e",
		value.KindDT: "2f", value.KindGType: "30",
	}
	for kind, names := range value.Enums() {
		for _, name := range names {
			out = append(out, golden{kind + "." + name, codes[kind] + " 00 " + text(name), value.Enum{Kind: kind, Name: name}})
		}
	}
	return out
}

func collections() []golden {
	bulk := &value.BulkSet{}
	bulk.Add("x", 2)
	tree := &value.Tree{}
	tree.Child(int32(1)).Child("a")
	return []golden{
		{"list", "09 00 00000002 01 00 00000001 fe 01", value.List{int32(1), nil}},
		{"list empty", "09 00 00000000", value.List{}},
		{"set", "0b 00 00000001 03 00 00000001 78", value.NewSet("x")},
		{"map", "0a 00 00000002 20 00 03 00 00000002 6964 01 00 00000001 03 00 00000001 6b fe 01", value.MapOf(value.ID, int32(1), "k", nil)},
		{"bulk set", "2a 00 00000001 03 00 00000001 78 0000000000000002", bulk},
		{"tree", "2b 00 00000001 01 00 00000001 00000001 03 00 00000001 61 00000000", tree},
		{"traverser", "21 00 0000000000000003 03 00 00000001 78", message.Traverser{Bulk: 3, Val: "x"}},
	}
}

func elements() []golden {
	v := &value.Vertex{ID: int32(1), Label: "v"}
	meta := []*value.Property{{Key: "m", Val: int32(2)}}
	p := &value.VertexProperty{ID: int32(5), Key: "k", Val: "x", Properties: meta}
	full := &value.Vertex{ID: int32(1), Label: "v", Properties: []*value.VertexProperty{p}}
	const (
		refHex  = "01 00 00000001 00000001 76"
		metaHex = "0f 00 00000001 6d 01 00 00000002 fe 01"
		propHex = "01 00 00000005 00000001 6b 03 00 00000001 78 fe 01 09 00 00000001 " + metaHex
	)
	graph := &value.Graph{Vertices: []*value.Vertex{full}, Edges: []*value.Edge{{ID: int32(7), Label: "e", In: full, Out: full, Properties: meta}}}
	metrics := &value.Metrics{ID: "i", Name: "n", Nanos: 9, Counts: value.MapOf("c", int64(1)), Annotations: &value.Map{}}
	const metricsHex = "2c 00 00000001 69 00000001 6e 0000000000000009 00000001 03 00 00000001 63 02 00 0000000000000001 00000000 00000000"
	return []golden{
		{"vertex", "11 00 " + refHex + "fe 01", v},
		{"vertex with properties", "11 00 " + refHex + " 09 00 00000001 12 00 " + propHex, full},
		{"vertex without properties", "11 00 " + refHex + " 09 00 00000000", &value.Vertex{ID: int32(1), Label: "v", Properties: []*value.VertexProperty{}}},
		{"edge", "0d 00 01 00 00000007 00000001 65" + refHex + refHex + "fe 01 fe 01", &value.Edge{ID: int32(7), Label: "e", In: v, Out: v}},
		{"edge with properties", "0d 00 01 00 00000007 00000001 65" + refHex + refHex + "fe 01 09 00 00000001" + metaHex, &value.Edge{ID: int32(7), Label: "e", In: v, Out: v, Properties: meta}},
		{"vertex property", "12 00 " + propHex, p},
		{"property", metaHex, meta[0]},
		{"path", "0e 00 09 00 00000002 0b 00 00000001 03 00 00000001 61 0b 00 00000000 09 00 00000002 01 00 00000001 fe 01", &value.Path{Objects: []any{int32(1), nil}, Labels: [][]string{{"a"}, nil}}},
		{
			"graph", "10 00 00000001 " + refHex + " 00000001 " + propHex + " 00000001 01 00 00000007 00000001 65 01 00 00000001 fe 01 01 00 00000001 fe 01 fe 01 09 00 00000001 " + metaHex,
			graph,
		},
		{"metrics", metricsHex, metrics},
		{"traversal metrics", "2d 00 000000000000000a 00000001 " + metricsHex, &value.TraversalMetrics{Nanos: 10, Steps: []*value.Metrics{metrics}}},
	}
}

func programs() []golden {
	return []golden{
		{
			"bytecode", "15 00 00000001 00000001 56 00000001 01 00 00000001 00000001 00000008 77697468 5061 7468 00000000",
			&gremlin.Traversal{Source: []gremlin.Call{{Name: "withPath"}}, Steps: []gremlin.Call{{Name: "V", Args: []any{int32(1)}}}},
		},
		{"P", "1e 00 00000002 6774 00000001 01 00 00000001", &gremlin.P{Name: "gt", Args: []any{int32(1)}}},
		{"P within", "1e 00 00000006 77697468696e 00000002 01 00 00000001 01 00 00000002", &gremlin.P{Name: "within", Args: []any{int32(1), int32(2)}}},
		{"TextP", "28 00 0000000a 636f6e7461696e696e67 00000001 03 00 00000001 78", &gremlin.P{Name: "containing", Args: []any{"x"}}},
		{"strategy", "29 00 00000001 53 00000001 03 00 00000001 6b 27 00 01", gremlin.Strategy{Name: "S", Config: value.MapOf("k", true)}},
		{"class", "06 00 00000001 53", gremlin.Class("S")},
		{
			"cardinality", "15 00 00000000 00000001 00000019 43617264696e616c69747956616c756554726176657273616c 00000002 16 00 03 00 00000006 73696e676c65 01 00 00000003",
			gremlin.Cardinal{Cardinality: value.Single, Val: int32(3)},
		},
	}
}

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func all() []golden {
	out := append(scalars(), bigs()...)
	out = append(append(out, enums()...), collections()...)
	return append(append(out, elements()...), programs()...)
}

// TestValues: each type is written and read as the specification says.
func TestValues(t *testing.T) {
	for _, g := range all() {
		codec().Value(t, g.name, bytesOf(t, g.hex), g.val)
	}
}

// TestOtherForms: what drivers write differently from us is read.
func TestOtherForms(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      any
	}{
		{"typed null", "03 01", nil},
		{"0 without bytes", "23 00 00000000", big.NewInt(0)},
		{"duration of gremlin-go", "81 00 ffffffffffffffff e2329b00", value.Duration{Seconds: -2, Nanos: 500_000_000}},
		{"date", "04 00 00000000000003e8", time.Unix(1, 0).UTC()},
		{"timestamp", "05 00 00000000000003e8", time.Unix(1, 0).UTC()},
		{"instant", "83 00 0000000000000001 00000002", time.Unix(1, 2).UTC()},
		{"zoned date and time", "8d 00 000007e8 02 1d 0000000000000000 00000000", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{"binding", "14 00 00000001 78 01 00 00000009", int32(9)},
		{
			"cardinality of Java", "15 00 00000000 00000001 00000019 43617264696e616c69747956616c756554726176657273616c 00000002 03 00 00000006 73696e676c65 01 00 00000003",
			gremlin.Cardinal{Cardinality: value.Single, Val: int32(3)},
		},
		{"within of a list", "1e 00 00000006 77697468696e 00000001 09 00 00000001 01 00 00000001", &gremlin.P{Name: "within", Args: []any{int32(1)}}},
		{"without of a set", "1e 00 00000007 776974686f7574 00000001 0b 00 00000001 01 00 00000001", &gremlin.P{Name: "without", Args: []any{int32(1)}}},
	} {
		codec().Form(t, c.name, bytesOf(t, c.hex), c.want)
	}
	if b, err := graphbinary.Append(nil, value.Entry{Key: "k", Val: int32(1)}); err != nil || !bytes.Equal(b, bytesOf(t, "0a 00 00000001 03 00 00000001 6b 01 00 00000001")) {
		t.Errorf("an entry is written as %x, %v", b, err)
	}
	for _, v := range []any{1, uint8(1), value.Enum{Kind: "X", Name: "y"}, value.List{struct{}{}}} {
		if b, err := graphbinary.Append(nil, v); err == nil {
			t.Errorf("%T is written as %x", v, b)
		}
	}
}
