package files

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

const goldenLines = `{"id":{"@type":"g:Int64","@value":1},"label":"person::author","inE":{"knows":[{"id":"loop","outV":{"@type":"g:Int64","@value":1}}]},"outE":{"wrote":[{"id":{"@type":"g:Int64","@value":7},"inV":"engine","properties":{"weight":{"@type":"g:Double","@value":0.5}}}],"knows":[{"id":"loop","inV":{"@type":"g:Int64","@value":1}}]},"properties":{"name":[{"id":{"@type":"g:Int64","@value":0},"value":"Ada; \"A\""},{"id":{"@type":"g:Int64","@value":1},"value":"A & B","properties":{"since":{"@type":"g:Int32","@value":1840}}}],"age":[{"id":{"@type":"g:Int64","@value":2},"value":{"@type":"g:Int32","@value":36}}]}}
{"id":"engine","label":"software","inE":{"wrote":[{"id":{"@type":"g:Int64","@value":7},"outV":{"@type":"g:Int64","@value":1},"properties":{"weight":{"@type":"g:Double","@value":0.5}}}]}}
`

const goldenML = xmlHead + `  <key id="name" for="node" attr.name="name" attr.type="string"/>
  <key id="age" for="node" attr.name="age" attr.type="int"/>
  <key id="weight" for="edge" attr.name="weight" attr.type="double"/>
  <graph id="G" edgedefault="directed">
    <node id="1"><data key="labelV">person::author</data><data key="name">Ada; &#34;A&#34;</data><data key="age">36</data></node>
    <node id="engine"><data key="labelV">software</data></node>
    <edge id="7" source="1" target="engine"><data key="labelE">wrote</data><data key="weight">0.5</data></edge>
    <edge id="loop" source="1" target="1"><data key="labelE">knows</data></edge>
  </graph>
</graphml>
`

const goldenVertices = `~id,~label,name:String[],age:Int
1,person;author,"Ada\; ""A"";A & B",36
engine,software,,
`

const goldenEdges = `~id,~from,~to,~label,weight:Double
7,1,engine,wrote,0.5
loop,1,1,knows,
`

// TestGolden compares what is written of a small graph.
func TestGolden(t *testing.T) {
	db := open(t)
	small(t, db, "s")
	for _, c := range []struct {
		format   Format
		w, edges string
		left     int64
	}{{GraphSON, goldenLines, "", 0}, {GraphML, goldenML, "", 2}, {CSV, goldenVertices, goldenEdges, 1}} {
		files, stats := exported(t, db, "s", c.format, ExportOptions{LeaveOut: true})
		if files[0] != c.w || files[1] != c.edges {
			t.Errorf("%v: wrote\n%s%s\nwant\n%s%s", c.format, files[0], files[1], c.w, c.edges)
		}
		want := Stats{Vertices: 2, Edges: 2, LeftOut: c.left, Bytes: int64(len(c.w) + len(c.edges))}
		if stats != want {
			t.Errorf("%v: stats %+v, want %+v", c.format, stats, want)
		}
	}
	files, _ := exported(t, db, "s", GraphSON, ExportOptions{OutOnly: true})
	if _, err := imported(t, db, "out", source(GraphSON, files...), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, db, "out", asIs), elements(t, db, "s", asIs))
}

// TestNotKept names what a format cannot hold.
func TestNotKept(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		id     any
		labels []string
		key    string
		val    any
		left   int64
		texts  []string
	}{
		{"type", GraphML, int64(1), nil, "b", int8(1), 1, []string{"vertex 1: GraphML cannot hold", `"b"`, "a byte"}},
		{"no type", GraphML, int64(1), nil, "u", value.UUID{1}, 1, []string{`"u"`, "a UUID"}},
		{"control character", GraphML, int64(1), nil, "s", "\x01", 1, []string{`"s"`, "characters that XML has not"}},
		{"control character in a label", GraphML, int64(1), []string{"\x01"}, "s", "x", -1, []string{"vertex 1", "label"}},
		{"digits", GraphML, "12", nil, "s", "x", 1, []string{"vertex 12", "type of its id", "a string"}},
		{"UUID as id", CSV, value.UUID{1}, nil, "s", "x", 1, []string{"type of its id", "a UUID"}},
		{"separator", GraphML, int64(1), []string{"a::b"}, "s", "x", 1, []string{`a label with "::"`}},
		{"semicolon", CSV, int64(1), []string{"a;b"}, "s", "x", 1, []string{"a label with a semicolon"}},
		{"list", CSV, int64(1), nil, "l", value.List{"x"}, 1, []string{`"l"`, "a list"}},
		{"empty", CSV, int64(1), nil, "s", "", 1, []string{`"s"`, "an empty string"}},
		{"line end", CSV, int64(1), nil, "s", "a\r\nb", 1, []string{`"s"`, "CR LF"}},
		{"line end in a label", CSV, int64(1), []string{"a\r\nb"}, "s", "x", -1, []string{"label", "CR LF"}},
		{"column", CSV, int64(1), nil, "~id", "x", 1, []string{`"~id"`, "cannot be a column"}},
		{"not UTF-8", GraphSON, int64(1), nil, "l", value.List{"\xff"}, 1, []string{`"l"`, "not UTF-8"}},
		{"label not UTF-8", GraphSON, int64(1), []string{"\xff"}, "l", "x", -1, []string{"label", "not UTF-8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := open(t)
			update(t, db, "s", func(tx *graph.Tx) error {
				v, err := tx.AddVertex(c.labels, c.id)
				if err == nil {
					_, err = v.Set(graph.List, c.key, c.val)
				}
				return err
			})
			for _, leave := range []bool{false, true} {
				o := ExportOptions{LeaveOut: leave}
				if c.format == CSV {
					o.Edges = &broken{1000}
				}
				stats, err := Export(t.Context(), db, "s", &broken{10_000}, c.format, o)
				if !leave || c.left < 0 {
					wants(t, err, CodeNotKept, c.texts...)
				} else if err != nil || stats.LeftOut != c.left {
					t.Errorf("left out %d with error %v, want %d", stats.LeftOut, err, c.left)
				}
			}
		})
	}
}

// TestEdgesNotKept names what a format cannot hold of an edge, and of several values.
func TestEdgesNotKept(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		label  string
		val    any
		values []any // of a property of the vertex
		left   int64
		texts  []string
	}{
		{"control character", GraphML, "\x01", true, nil, -1, []string{"edge e: ", "label"}},
		{"line end", CSV, "\r\n", true, nil, -1, []string{"edge e: ", "label"}},
		{"not UTF-8", GraphSON, "\xff", true, nil, -1, []string{"edge e: ", "label"}},
		{"value not UTF-8", GraphSON, "x", value.MapOf("\xff", 1.5), nil, 1, []string{`edge e: GraphSON cannot hold the property "p"`, "not UTF-8"}},
		{"map", GraphML, "x", value.MapOf("k", 1.5), nil, 1, []string{`edge e: GraphML cannot hold the property "p", which is a map`}},
		{"map", CSV, "x", value.MapOf("k", 1.5), nil, 1, []string{`edge e: CSV cannot hold the property "p", which is a map`}},
		{"several values", GraphML, "x", true, []any{"a", int64(1)}, 1, []string{`vertex v: GraphML cannot hold the property "n"`, "one of several values"}},
		{"backslash", CSV, "x", true, []any{"a", `b\`}, 1, []string{`vertex v: CSV cannot hold the property "n"`, "backslash"}},
	} {
		t.Run(c.format.String()+" "+c.name, func(t *testing.T) {
			db := open(t)
			update(t, db, "s", func(tx *graph.Tx) error {
				v, err := tx.AddVertex(nil, "v")
				for _, val := range c.values {
					if err == nil {
						_, err = v.Set(graph.List, "n", val)
					}
				}
				if err != nil {
					return err
				}
				e, err := tx.AddEdge(c.label, v, v, "e")
				if err != nil {
					return err
				}
				return e.Set("p", c.val)
			})
			for _, leave := range []bool{false, true} {
				o := ExportOptions{LeaveOut: leave, OutOnly: true}
				if c.format == CSV {
					o.Edges = &broken{1000}
				}
				stats, err := Export(t.Context(), db, "s", &broken{10_000}, c.format, o)
				if !leave || c.left < 0 {
					wants(t, err, CodeNotKept, c.texts...)
				} else if err != nil || stats.LeftOut != c.left {
					t.Errorf("left out %d with error %v, want %d", stats.LeftOut, err, c.left)
				}
			}
		})
	}
}

// TestExportProgress reports elements and bytes, and stops when it is cancelled.
func TestExportProgress(t *testing.T) {
	db := open(t)
	if _, err := imported(t, db, "g", ring(GraphSON, progressEvery), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, format := range []Format{GraphSON, GraphML} {
		ctx, cancel := context.WithCancel(t.Context())
		var seen []Stats
		o := ExportOptions{Progress: func(s Stats) {
			seen = append(seen, s)
			cancel()
		}}
		if _, err := Export(ctx, db, "g", io.Discard, format, o); !errors.Is(err, context.Canceled) || len(seen) == 0 ||
			seen[0].Vertices+seen[0].Edges != progressEvery {
			t.Errorf("%v: progress %+v with error %v", format, seen, err)
		}
		cancel()
	}
}

// TestWriteLimits are those of readers.
func TestWriteLimits(t *testing.T) {
	if err := columnLimit(MaxProperties); err != nil {
		t.Error(err)
	}
	wants(t, columnLimit(MaxProperties+1), engine.CodeLimit, "MaxProperties")
	if err := recordLimit("vertex 1", MaxRecordBytes); err != nil {
		t.Error(err)
	}
	wants(t, recordLimit("vertex 1", MaxRecordBytes+1), engine.CodeLimit, "vertex 1", "MaxRecordBytes")
}
