package graph_test

import (
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// TestSmoke walks from one vertex to another.
func TestSmoke(t *testing.T) {
	db, err := graph.New(testengine.Open(t, testengine.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Update(t.Context(), graph.Default, func(tx *graph.Tx) error {
		a, err := tx.AddVertex([]string{"person"}, nil)
		if err != nil {
			return err
		}
		if _, err := a.Set(graph.Single, "name", "marko"); err != nil {
			return err
		}
		b, err := tx.AddVertex([]string{"person"}, "v")
		if err != nil {
			return err
		}
		e, err := tx.AddEdge("knows", a, b, nil)
		if err != nil {
			return err
		}
		return e.Set("weight", 0.5)
	}); err != nil {
		t.Fatal(err)
	}
	var got []string
	if _, err := db.View(t.Context(), engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		got = nil
		return tx.Vertices(func(v *graph.Vertex) error {
			got = append(got, value.Text(v))
			return tx.Edges(v, graph.Out, []string{"knows"}, func(e *graph.Edge) error {
				got = append(got, value.Text(e))
				return e.Properties(nil, func(p *value.Property) error {
					got = append(got, value.Text(p))
					return nil
				})
			})
		})
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"v[1]", "e[1-2-3-5][1-knows->v]", "p[weight->0.5]", "v[v]"}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}
