package graphbinary_test

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/message/messagetest"
	"github.com/skerrydb/skerry/graph/value"
)

func codec4() messagetest.Codec {
	return messagetest.Codec{
		Verb:   "%x",
		Decode: graphbinary.Decode4, Append: graphbinary.Append4,
		DecodeRequest: graphbinary.DecodeRequest4, AppendRequest: graphbinary.AppendRequest4,
	}
}

// fromDriver4 returns what gremlinpython 4 has written, by name;
// testdata/gremlinpython.py made the file.
func fromDriver4(t testing.TB) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile("testdata/gremlinpython.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for line := range strings.Lines(string(b)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[name] = bytesOf(t, text)
	}
	return out
}

// values4 are the values of which fromDriver4 has the bytes.
func values4() map[string]any {
	v := &value.Vertex{ID: int32(1), Label: "v"}
	prop := &value.VertexProperty{ID: int32(5), Key: "k", Val: "x", Properties: []*value.Property{{Key: "m", Val: int32(2)}}}
	full := &value.Vertex{ID: int32(1), Label: "v", Properties: []*value.VertexProperty{prop}}
	tree := &value.Tree{}
	tree.Child(int32(1)).Child("a")
	return map[string]any{
		"null": nil, "int": int32(1), "long": int64(-2), "short": int16(-32768), "byte": int8(-1), "double": 1.5, "string": "é",
		"true": true, "false": false, "char": value.Char('€'), "bytes": []byte{1, 2, 255},
		"biginteger": new(big.Int).Lsh(big.NewInt(1), 64), "biginteger-negative": big.NewInt(-5),
		"bigdecimal": value.Decimal{Unscaled: big.NewInt(-12345), Scale: 2},
		"uuid":       value.UUID{0x41, 0xd2, 0xe2, 0x8a, 0x20, 0xa4, 0x4a, 0xb0, 0xb3, 0x79, 0xd8, 0x10, 0xde, 0xde, 0x37, 0x86},
		"datetime":   time.Date(2024, 2, 29, 12, 30, 5, 7000, time.FixedZone("", 3600)),
		"duration":   value.Duration{Seconds: 1, Nanos: 500_000_000},
		"list":       value.List{int32(1), nil}, "set": value.NewSet("x"),
		"map": value.MapOf(value.ID, int32(1), "k", nil), "map-ordered": value.MapOf("b", int32(1), "a", int32(2)),
		"t": value.Label, "direction": value.Out, "merge": value.OnCreate,
		"vertex": v, "vertex-labels": &value.Vertex{ID: int32(1), Label: "a::b"},
		"edge":     &value.Edge{ID: int32(7), Label: "e", Out: v, In: &value.Vertex{ID: int64(2), Label: "w"}},
		"property": &value.Property{Key: "m", Val: int32(2)}, "vertexproperty": &value.VertexProperty{ID: int32(5), Key: "k", Val: "x"},
		"path": &value.Path{Objects: []any{int32(1), nil}, Labels: [][]string{{"a"}, nil}}, "tree": tree,
		"graph": &value.Graph{Vertices: []*value.Vertex{full}, Edges: []*value.Edge{{ID: int32(7), Label: "e", In: full, Out: full, Properties: prop.Properties}}},
	}
}

// TestDriver4: what gremlinpython writes is read, and is written in the same way but
// for a byte and a flag that are not needed.
func TestDriver4(t *testing.T) {
	vals, driver := values4(), fromDriver4(t)
	for name, b := range driver {
		v, ok := vals[name]
		switch {
		case name == "request":
		case !ok:
			t.Errorf("%s: not expected", name)
		case name == "biginteger", name == "map-ordered":
			codec4().Form(t, name, b, v)
		default:
			codec4().Value(t, name, b, v)
		}
	}
	if len(driver) != len(vals)+1 {
		t.Errorf("%d values of the driver, want %d and a request", len(driver), len(vals))
	}
	q, err := graphbinary.DecodeRequest4(driver["request"])
	if got, want := messagetest.Describe(q, err), "eval/ gremlin=g.V(x) batchSize=64"; got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if b, err := graphbinary.AppendRequest4(nil, q); err != nil || !bytes.Equal(b, driver["request"]) {
		t.Errorf("the request is written as\n%x, %v, want\n%x", b, err, driver["request"])
	}
}

// others4 are values that the driver's writer does not have.
func others4() []golden {
	bulk := &value.BulkSet{}
	bulk.Add("x", 2)
	return []golden{
		{"bulk set", "09 02 00000001 03 00 00000001 78 0000000000000002", bulk},
		{"float", "08 00 3fc00000", float32(1.5)},
		{"zone", "04 00 000007e8 02 1d 0000000000000000 00000000", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{
			"vertex with properties", "11 00 01 00 00000001 00000001 03 00 00000001 76 09 00 00000001 12 00 fe 01 00000001 03 00 00000001 6b 27 00 01 fe 01 09 00 00000000",
			&value.Vertex{ID: int32(1), Label: "v", Properties: []*value.VertexProperty{{Key: "k", Val: true, Properties: []*value.Property{}}}},
		},
	}
}

func TestValues4(t *testing.T) {
	for _, g := range others4() {
		codec4().Value(t, g.name, bytesOf(t, g.hex), g.val)
	}
	metrics := &value.TraversalMetrics{Nanos: 1_500_000, Steps: []*value.Metrics{{ID: "i", Name: "n", Nanos: 500_000, Nested: []*value.Metrics{{ID: "j"}}}}}
	inner := value.MapOf("id", "j", "name", "", "dur", 0.0, "counts", &value.Map{}, "annotations", &value.Map{})
	for _, c := range []struct{ v, want any }{
		{value.Enum{Kind: value.KindOrder, Name: "desc"}, "desc"},
		{value.Entry{Key: "k", Val: int32(1)}, value.MapOf("k", int32(1))},
		{metrics, value.MapOf("dur", 1.5, "metrics", value.List{
			value.MapOf("id", "i", "name", "n", "dur", 0.5, "counts", &value.Map{}, "annotations", &value.Map{}, "metrics", value.List{inner}),
		})},
	} {
		got, err := graphbinary.Append4(nil, c.v)
		if want, _ := graphbinary.Append4(nil, c.want); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%#v is written as\n%x, %v, want\n%x", c.v, got, err, want)
		}
	}
	for _, v := range []any{1, &gremlin.Traversal{}, &gremlin.P{Name: "gt"}, message.Traverser{Bulk: 1}, value.List{message.Traverser{}}} {
		if b, err := graphbinary.Append4(nil, v); err == nil {
			t.Errorf("%T is written as %x", v, b)
		}
	}
}

// TestMalformed4: what version 4.0 has not is refused by name, also if 1.0 has it.
func TestMalformed4(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		offset    int
		want      string
	}{
		{"timestamp", "05 00 0000000000000000", 0, "a type of value, found 0x05"},
		{"class", "06 00 00000001 53", 0, "a type of value, found 0x06"},
		{"bytecode", "15 00 00000000 00000000", 0, "a type of value, found 0x15"},
		{"predicate", "1e 00 00000002 6774 00000000", 0, "a type of value, found 0x1e"},
		{"traverser", "21 00 0000000000000001 fe 01", 0, "a type of value, found 0x21"},
		{"bulk set of 1.0", "2a 00 00000000", 0, "a type of value, found 0x2a"},
		{"date and time of 1.0", "88 00 000007e8 02 1d 0000000000000000 00000000", 0, "a type of value, found 0x88"},
		{"provider's type", "f0 00 03 00 00000001 78 0a 00 00000000", 0, "a type of value, found 0xf0"},
		{"marker", "fd 00 00", 0, "a type of value, found 0xfd"},
		{"order", "1a 00 03 00 00000004 64657363", 0, "a type of value, found 0x1a"},
		{"int with a list's flag", "01 02 00000001", 1, "a value flag of 0 or 1, found 0x2"},
		{"set with bulks", "0b 02 00000000", 1, "a value flag of 0 or 1, found 0x2"},
		{"null with a list's flag", "fe 02", 1, "a value flag of 0 or 1, found 0x2"},
		{"too many", "09 02 00000001 fe 01 7fffffffffffffff", 8, "a bulk"},
		{"label", "11 00 fe 01 00000001 fe 01 fe 01", 4, "a list of labels"},
		{"labels too long", "11 00 fe 01 7fffffff fe 01", 4, "a length of a list"},
	} {
		codec4().Malformed(t, c.name, bytesOf(t, c.hex), c.offset, c.want)
	}
	codec4().Limit(t, "depth", message.MaxDepth, nested)
	codec4().Limit(t, "depth of trees", message.MaxDepth-1, trees)
	codec4().Limit(t, "depth of sets", message.MaxKeyDepth, sets)
	codec4().Limit(t, "bytes of an integer", message.MaxBigBytes, func(n int) []byte { return ofBytes("23 00", t, n) })
	for _, text := range []string{"", "81 00000000 00000000", "84", "84 ffffffff 00000000", "84 00000000 00000002 67", "84 00000000 00000001 67 00"} {
		if q, err := graphbinary.DecodeRequest4(bytesOf(t, text)); err == nil || q.Args != nil {
			t.Errorf("%q is read as %+v", text, q)
		}
	}
}

// TestResponse4: a response is what driver/serializer.py of gremlinpython reads.
func TestResponse4(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want graphbinary.Response4
	}{
		{"84 00 fd 00 00 000000cc 01 01", graphbinary.Response4{Status: 204}},
		{"84 00 01 00 00000001 fe 01 fd 00 00 000000c8 01 01", graphbinary.Response4{Results: []any{int32(1), nil}, Status: 200}},
		{
			"84 01 03 00 00000001 78 02 00 0000000000000003 fd 00 00 000001f4 00 00000001 6d 00 00000001 65",
			graphbinary.Response4{Results: []any{message.Traverser{Bulk: 3, Val: "x"}}, Bulked: true, Status: 500, Message: "m", Exception: "e"},
		},
	} {
		want := bytesOf(t, c.hex)
		b := graphbinary.AppendHead4(nil, c.want.Bulked)
		for i, v := range c.want.Results {
			var err error
			if b, err = graphbinary.AppendItem4(b, i, v); err != nil {
				t.Fatal(err)
			}
		}
		if b = graphbinary.AppendEnd4(b, c.want.Status, c.want.Message, c.want.Exception); !bytes.Equal(b, want) {
			t.Errorf("%+v is written as\n%x, want\n%x", c.want, b, want)
		}
		got, err := graphbinary.DecodeResponse4(want)
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s is read as %+v, %v", c.hex, got, err)
		}
		for n := range want {
			if got, err := graphbinary.DecodeResponse4(want[:n]); err == nil {
				t.Errorf("%x is read as %+v", want[:n], got)
			}
		}
	}
	for _, text := range []string{"84 02 fd 00 00 000000c8 01 01", "84 00 fd 00 01 000000c8 01 01", "84 01 fe 01 01 00 00000001 fd 00 00 000000c8 01 01"} {
		if got, err := graphbinary.DecodeResponse4(bytesOf(t, text)); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

// TestAllocations4: encoding results into a buffer that has room allocates little.
func TestAllocations4(t *testing.T) {
	v := &value.Edge{ID: int64(1), Label: "e", In: &value.Vertex{ID: int64(2), Label: "v"}, Out: &value.Vertex{ID: int64(3), Label: "v"}}
	buf := make([]byte, 0, 1024)
	var val any = message.Traverser{Bulk: 1, Val: v}
	if n := testing.AllocsPerRun(100, func() { buf, _ = graphbinary.AppendItem4(buf[:0], 0, val) }); n > 2 {
		t.Errorf("%v allocations for an edge", n)
	}
}

func FuzzValues4(f *testing.F) {
	for _, b := range fromDriver4(f) {
		f.Add(b)
	}
	for _, g := range others4() {
		f.Add(bytesOf(f, g.hex))
	}
	f.Add(nested(10))
	f.Add(trees(10))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := graphbinary.Decode4(b); err == nil {
			codec4().Again(t, v)
		}
	})
}

func FuzzRequest4(f *testing.F) {
	f.Add(fromDriver4(f)["request"])
	f.Fuzz(func(t *testing.T, b []byte) {
		if one, two := codec4().RequestAgain(t, b); !bytes.Equal(one, two) {
			t.Fatalf("written as %x and then as %x", one, two)
		}
	})
}

func FuzzResponse4(f *testing.F) {
	for _, text := range []string{"8400fe01fd0000000000c80101", "8401fe0102000000000000000003fd0000000001f400000000016d000000000165"} {
		b, err := hex.DecodeString(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := graphbinary.DecodeResponse4(b)
		if err != nil {
			return
		}
		out := graphbinary.AppendHead4(nil, p.Bulked)
		for i, v := range p.Results {
			if out, err = graphbinary.AppendItem4(out, i, v); err != nil {
				t.Fatalf("%#v was read and cannot be written: %v", v, err)
			}
		}
		if _, err := graphbinary.DecodeResponse4(graphbinary.AppendEnd4(out, p.Status, p.Message, p.Exception)); err != nil {
			t.Fatalf("%+v is written and cannot be read: %v", p, err)
		}
	})
}
