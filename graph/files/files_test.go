package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

func open(t testing.TB) *graph.DB {
	t.Helper()
	db, err := graph.New(testengine.Open(t, testengine.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func update(t testing.TB, db *graph.DB, name string, fn func(*graph.Tx) error) {
	t.Helper()
	if err := db.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Update(t.Context(), name, fn); err != nil {
		t.Fatal(err)
	}
}

// text returns a File of text.
func text(s string) File {
	return File{Name: "f", Size: int64(len(s)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }}
}

// source returns the Source of what exported returned.
func source(format Format, files ...string) Source {
	s := Source{Format: format, Vertices: []File{text(files[0])}}
	if format == CSV {
		s.Edges = []File{text(files[1])}
	}
	return s
}

// exported returns the files of a graph.
func exported(t testing.TB, db *graph.DB, name string, format Format, o ExportOptions) ([]string, Stats) {
	t.Helper()
	var w, edges bytes.Buffer
	if format == CSV {
		o.Edges = &edges
	}
	stats, err := Export(t.Context(), db, name, &w, format, o)
	if err != nil {
		t.Fatal(err)
	}
	return []string{w.String(), edges.String()}, stats
}

// imported imports files to a new graph.
func imported(t testing.TB, db *graph.DB, name string, src Source, o ImportOptions) (Stats, error) {
	t.Helper()
	if err := db.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return Import(t.Context(), db, name, src, o)
}

// typed returns a value with its type.
func typed(v any) string {
	return fmt.Sprintf("%s(%q)", value.TypeName(v), value.EqualHash(v))
}

func propsText(props []Property) string {
	var b strings.Builder
	for _, p := range props {
		fmt.Fprintf(&b, " %q=%s{%s}", p.Key, typed(p.Val), propsText(p.Properties))
	}
	return b.String()
}

// elements returns what a graph has, sorted. order sorts the properties of an element
// as a format does.
func elements(t testing.TB, db *graph.DB, name string, order func([]Property)) (out []string) {
	t.Helper()
	if _, err := db.View(t.Context(), engine.Read{}, name, func(tx *graph.Tx) error {
		out = nil
		if err := tx.Vertices(func(v *graph.Vertex) error {
			rec, err := vertexOf(v)
			if err != nil {
				return err
			}
			order(rec.Properties)
			out = append(out, fmt.Sprintf("v %s %q%s", typed(rec.ID), rec.Labels, propsText(rec.Properties)))
			return nil
		}); err != nil {
			return err
		}
		return tx.AllEdges(func(e *graph.Edge) error {
			rec, err := edgeOf(e)
			if err != nil {
				return err
			}
			order(rec.Properties)
			out = append(out, fmt.Sprintf("e %s %q %s %s%s", typed(rec.ID), rec.Label, typed(rec.Out), typed(rec.In), propsText(rec.Properties)))
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// asIs keeps the order of properties.
func asIs([]Property) {}

// byKey sorts properties by their keys and types, which keeps the order of several values.
func byKey(props []Property) {
	slices.SortStableFunc(props, func(a, b Property) int {
		return strings.Compare(a.Key+"\x00"+value.TypeName(a.Val), b.Key+"\x00"+value.TypeName(b.Val))
	})
}

// grouped brings values of one key together.
func grouped(props []Property) {
	first := map[string]int{}
	for i, p := range props {
		if _, ok := first[p.Key]; !ok {
			first[p.Key] = i
		}
	}
	slices.SortStableFunc(props, func(a, b Property) int { return first[a.Key] - first[b.Key] })
}

func same(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// small has multi-properties, properties of properties, a loop and several labels.
func small(t testing.TB, db *graph.DB, name string) {
	update(t, db, name, func(tx *graph.Tx) error {
		a, err := tx.AddVertex([]string{"person", "author"}, int64(1))
		if err == nil {
			_, err = a.Set(graph.List, "name", "Ada; \"A\"")
		}
		if err == nil {
			_, err = a.Set(graph.List, "name", "A & B", value.Entry{Key: "since", Val: int32(1840)})
		}
		if err == nil {
			_, err = a.Set(graph.List, "age", int32(36))
		}
		if err != nil {
			return err
		}
		b, err := tx.AddVertex([]string{"software"}, "engine")
		if err != nil {
			return err
		}
		e, err := tx.AddEdge("wrote", a, b, int64(7))
		if err == nil {
			err = e.Set("weight", 0.5)
		}
		if err == nil {
			_, err = tx.AddEdge("knows", a, a, "loop")
		}
		return err
	})
}

func code(err error) engine.Code { return engine.CodeOf(err) }

// wants reports an error that has not the code or not all of the texts.
func wants(t testing.TB, err error, c engine.Code, texts ...string) {
	t.Helper()
	if err == nil || code(err) != c {
		t.Errorf("error %v with code %q, want %q", err, code(err), c)
		return
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q has no %q", err, s)
		}
	}
}

var errGone = errors.New("the client has gone")

type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errGone
	}
	return len(p), nil
}

// TestExportFails returns the error of the writer.
func TestExportFails(t *testing.T) {
	db := open(t)
	small(t, db, "s")
	for _, format := range []Format{GraphSON, GraphML, CSV} {
		o := ExportOptions{LeaveOut: true}
		if format == CSV {
			o.Edges = &broken{}
		}
		if _, err := Export(t.Context(), db, "s", &broken{left: 10}, format, o); !errors.Is(err, errGone) {
			t.Errorf("%v: error %v, want %v", format, err, errGone)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Export(ctx, db, "s", io.Discard, GraphSON, ExportOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	_, err := Export(t.Context(), db, "s", io.Discard, CSV, ExportOptions{})
	wants(t, err, engine.CodeInvalid)
	_, err = Export(t.Context(), db, "s", io.Discard, 9, ExportOptions{})
	wants(t, err, engine.CodeInvalid, "Format(9)")
	_, err = Export(t.Context(), db, "none", io.Discard, GraphSON, ExportOptions{})
	wants(t, err, graph.CodeNoGraph)
}

// TestReplay begins a file again, with the same content and with another.
func TestReplay(t *testing.T) {
	var b bytes.Buffer
	r := newReplay(&b)
	r.again()
	io.WriteString(r, "one ")
	r.again()
	io.WriteString(r, "o")
	io.WriteString(r, "ne two")
	if err := r.end(); err != nil || b.String() != "one two" {
		t.Errorf("wrote %q with error %v", b.String(), err)
	}
	r.again()
	if _, err := io.WriteString(r, "one too"); code(err) != engine.CodeConflict {
		t.Errorf("error %v, want a conflict", err)
	}
	r.again()
	io.WriteString(r, "one")
	wants(t, r.end(), engine.CodeConflict)
}
