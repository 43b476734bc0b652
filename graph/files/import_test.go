package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
)

// ring returns the files of n vertices in a circle.
func ring(format Format, n int) Source {
	var v, e strings.Builder
	for i := range n {
		next := (i + 1) % n
		switch format {
		case GraphSON:
			fmt.Fprintf(&v, `{"id":%d,"label":"n","outE":{"to":[{"id":%d,"inV":%d,"properties":{"w":%d}}]},"properties":{"i":[{"value":%d}]}}`+"\n", i, i, next, i, i)
		case GraphML:
			fmt.Fprintf(&v, "<node id='%d'><data key='i'>%d</data></node><edge source='%d' target='%d'/>\n", i, i, i, next)
		case CSV:
			fmt.Fprintf(&v, "%d,n,%d\n", i, i)
			fmt.Fprintf(&e, "%d,%d,%d,to\n", i, i, next)
		}
	}
	switch format {
	case GraphML:
		return source(GraphML, "<graphml><key id='i' for='node'/><graph>"+v.String()+"</graph></graphml>")
	case CSV:
		return source(CSV, "~id,~label,i:Int\n"+v.String(), "~id,~from,~to,~label\n"+e.String())
	}
	return source(format, v.String())
}

// TestResume cancels an import after each of its transactions, and continues.
func TestResume(t *testing.T) {
	const n, batch = 7, 3
	db := open(t)
	for _, format := range []Format{GraphSON, GraphML, CSV} {
		src := ring(format, n)
		o := ImportOptions{Batch: batch, EdgeIDs: "edge-"}
		whole, err := imported(t, db, fmt.Sprint(format), src, o)
		if err != nil || whole.Vertices != n || whole.Edges != n || whole.Bytes != whole.Total {
			t.Fatalf("%v: imported %+v, %v", format, whole, err)
		}
		want := elements(t, db, fmt.Sprint(format), asIs)
		for stop := 1; stop <= 6; stop++ {
			name := fmt.Sprint(format, stop)
			ctx, cancel := context.WithCancel(t.Context())
			if err := db.Create(ctx, name); err != nil {
				t.Fatal(err)
			}
			var all []Stats
			o := o
			o.Progress = func(s Stats) {
				if all = append(all, s); len(all) == stop {
					cancel()
				}
			}
			before, err := Import(ctx, db, name, src, o)
			cancel()
			if stop < 6 && !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v, want %v", err, context.Canceled)
			}
			if before.Vertices+before.Edges != int64(min(stop*batch, n)+max(0, min((stop-3)*batch, n))) {
				t.Errorf("%v: imported %+v in %d transactions", format, before, stop)
			}
			o.Progress, o.Resume = nil, true
			after, err := Import(t.Context(), db, name, src, o)
			if err != nil || after.Present != before.Vertices+before.Edges || after.Vertices+before.Vertices != n || after.Edges+before.Edges != n {
				t.Errorf("%v: imported %+v, and %+v when it was resumed with error %v", format, before, after, err)
			}
			for i, s := range all {
				if s.Bytes > s.Total || i > 0 && s.Bytes <= all[i-1].Bytes {
					t.Errorf("%v: progress %+v", format, all)
				}
			}
			same(t, elements(t, db, name, asIs), want)
		}
	}
}

// TestExisting imports elements that the graph has, as they are and otherwise.
func TestExisting(t *testing.T) {
	db := open(t)
	const vertex = `{"id":1,"label":"a","outE":{"e":[{"id":"x","inV":1,"properties":{"w":1}}]},"properties":{"n":[{"value":1,"properties":{"m":1}}]}}`
	if _, err := imported(t, db, "g", source(GraphSON, vertex), ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := imported(t, db, "g", source(GraphSON, vertex), ImportOptions{})
	wants(t, err, graph.CodeExists, "f, line 1, column 1: vertex 1: ")
	for old, now := range map[string]string{
		`"label":"a"`: `"label":"b"`, `"value":1`: `"value":1.0`, `"m":1`: `"m":2`, `"w":1`: `"w":2`, `{"e"`: `{"f"`, `"properties":{"w":1}`: `"properties":{}`,
	} {
		_, err := imported(t, db, "g", source(GraphSON, strings.Replace(vertex, old, now, 1)), ImportOptions{Resume: true})
		wants(t, err, CodeDiffers, "f, line 1, column ", "with this id")
	}
	// the vertex with the number 1 is found by the string 1, but is not it
	stats, err := imported(t, db, "g", source(GraphSON, `{"id":"1"}`), ImportOptions{Resume: true})
	if err != nil || stats.Vertices != 1 {
		t.Errorf("imported %+v, %v", stats, err)
	}
	_, err = imported(t, db, "ml", source(GraphML, "<graphml><graph><node id='1'/><edge source='1' target='1'/></graph></graphml>"), ImportOptions{Resume: true})
	wants(t, err, engine.CodeInvalid, "line 1, column 31: edge: ", "EdgeIDs")
}

// TestDangling imports edges without vertices.
func TestDangling(t *testing.T) {
	db := open(t)
	const lines = `{"id":1,"outE":{"e":[{"id":2,"inV":1},{"id":3,"inV":9}]}}` + "\n" + `{"id":4,"outE":{"e":[{"id":5,"inV":1}]}}`
	stats, err := imported(t, db, "a", source(GraphSON, lines), ImportOptions{})
	wants(t, err, CodeDangling, "f, line 1, column 39: edge 3: there is no vertex 9")
	if stats.Vertices != 2 || stats.Edges != 0 {
		t.Errorf("imported %+v", stats)
	}
	stats, err = imported(t, db, "b", source(GraphSON, lines), ImportOptions{SkipDangling: true})
	if err != nil || stats.Vertices != 2 || stats.Edges != 2 || stats.Dangling != 1 {
		t.Errorf("imported %+v, %v", stats, err)
	}
}

// TestBatches counts the transactions of an import.
func TestBatches(t *testing.T) {
	db := open(t)
	for i, c := range []struct {
		o    ImportOptions
		want int
	}{
		{ImportOptions{}, 2}, {ImportOptions{Batch: 10}, 2}, {ImportOptions{Batch: 9}, 4}, {ImportOptions{BatchBytes: 1}, 20},
		{ImportOptions{Batch: MaxBatch, BatchBytes: MaxBatchBytes}, 2},
	} {
		n := 0
		c.o.Progress = func(Stats) { n++ }
		if _, err := imported(t, db, fmt.Sprint("g", i), ring(CSV, 10), c.o); err != nil || n != c.want {
			t.Errorf("%d transactions with %+v, want %d: %v", n, c.o, c.want, err)
		}
	}
	for _, o := range []ImportOptions{{Batch: -1}, {Batch: MaxBatch + 1}, {BatchBytes: MaxBatchBytes + 1}} {
		_, err := imported(t, db, "g", ring(CSV, 1), o)
		wants(t, err, engine.CodeInvalid)
	}
	_, err := imported(t, db, "g", Source{Format: GraphSON, Edges: []File{text("")}}, ImportOptions{})
	wants(t, err, engine.CodeInvalid, "only CSV has files of edges")
	_, err = Import(t.Context(), db, "none", ring(CSV, 1), ImportOptions{})
	wants(t, err, graph.CodeNoGraph)
	_, err = imported(t, db, "g", source(GraphSON, `{"id":1,"properties":{"n":[{"value":{"@type":"g:Vertex","@value":{"id":1}}}]}}`), ImportOptions{})
	wants(t, err, graph.CodeValue, "line 1, column 1: vertex 1: ", "a vertex")
}

// tight is an engine on which few elements fit in a transaction.
type tight struct{ engine.Engine }

func (e tight) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return e.Engine.Update(ctx, func(tx engine.Tx) error {
		left := 12
		return fn(&tightTx{tx, &left})
	})
}

type tightTx struct {
	engine.Tx
	left *int
}

func (tx *tightTx) Put(key, val []byte) error {
	if *tx.left--; *tx.left < 0 {
		return engine.Errorf(engine.CodeTxTooLarge, "too many writes")
	}
	return tx.Tx.Put(key, val)
}

// TestTooLarge imports batches that are too large for the engine in several
// transactions, and refuses a vertex that alone is.
func TestTooLarge(t *testing.T) {
	db, err := graph.New(tight{testengine.Open(t, testengine.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := imported(t, db, "g", ring(GraphSON, 10), ImportOptions{})
	if err != nil || stats.Vertices != 10 || stats.Edges != 10 {
		t.Errorf("imported %+v, %v", stats, err)
	}
	values := strings.Repeat(`,{"value":1}`, 20)
	_, err = imported(t, db, "g", source(GraphSON, `{"id":"x","properties":{"n":[`+values[1:]+`]}}`), ImportOptions{})
	wants(t, err, engine.CodeTxTooLarge, "vertex x")
}

// TestEdgeIDs gives edges of two files ids that differ.
func TestEdgeIDs(t *testing.T) {
	db := open(t)
	src := Source{Format: GraphML}
	for i, ids := range []string{"", "a#", "b#"} { // "": from the options
		f := text(fmt.Sprintf("<graphml><graph><node id='%d'/><edge source='%[1]d' target='%[1]d'/></graph></graphml>", i))
		f.EdgeIDs = ids
		src.Vertices = append(src.Vertices, f)
	}
	if _, err := imported(t, db, "ids", src, ImportOptions{EdgeIDs: "edge-"}); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(elements(t, db, "ids", asIs), "\n")
	for _, id := range []string{"edge-1", "a#1", "b#1"} {
		if !strings.Contains(all, id) {
			t.Errorf("no edge %s in\n%s", id, all)
		}
	}
	stats, err := imported(t, db, "ids", src, ImportOptions{EdgeIDs: "edge-", Resume: true})
	if err != nil || stats.Present != 6 {
		t.Errorf("imported %+v again, %v", stats, err)
	}
}

// TestEdgesOfCSV tells files of edges by their headers.
func TestEdgesOfCSV(t *testing.T) {
	for header, want := range map[string]bool{
		"~id,~from,~to,~label\n1,2,3,e\n": true, "\ufeff ~id, ~label,\"~to\"": true, "~id,~label,to:String\n1,a,~from": false,
		"~id,from,~x": false, "": false, "~id,\"~from": false,
	} {
		if got, err := text(header).EdgesOfCSV(); got != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", header, got, err, want)
		}
	}
	gone := File{Name: "f", Open: func() (io.ReadCloser, error) { return nil, errGone }}
	if _, err := gone.EdgesOfCSV(); !errors.Is(err, errGone) {
		t.Errorf("error %v, want %v", err, errGone)
	}
	gone.Open = func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(errGone)), nil }
	if _, err := gone.EdgesOfCSV(); !errors.Is(err, errGone) {
		t.Errorf("error %v, want %v", err, errGone)
	}
}

// TestCatalog has every code once, sorted.
func TestCatalog(t *testing.T) {
	all := Catalog()
	for i, m := range all {
		if m.Text == "" || m.Kind == "" || i > 0 && m.Code <= all[i-1].Code {
			t.Errorf("entry %+v", m)
		}
	}
}
