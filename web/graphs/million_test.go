package graphs_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/skerrydb/skerry/graph"
)

// TestMillionEdges reads, pages and drops a vertex with a million edges.
func TestMillionEdges(t *testing.T) {
	if testing.Short() {
		t.Skip("adds a million edges")
	}
	const edges, batch, others = 1_000_000, 5000, 1000
	b, db := openBoth(t)
	want(t, b, "g.addV('hub').property(T.id, 'hub').count()", "1")
	want(t, b, fmt.Sprintf("g.inject(0).repeat(addV('end').constant(0)).times(%d).count()", others), "1")
	for from := 0; from < edges; from += batch {
		if _, err := db.Update(t.Context(), graph.Default, func(tx *graph.Tx) error {
			hub, _, err := tx.Vertex("hub")
			if err != nil {
				return err
			}
			ends := make([]*graph.Vertex, 0, others)
			if err := tx.Vertices(func(v *graph.Vertex) error {
				if v.ElementID() != "hub" {
					ends = append(ends, v)
				}
				return nil
			}); err != nil {
				return err
			}
			for i := range batch {
				if _, err := tx.AddEdge("to", hub, ends[i%others], nil); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, b, "g.V('hub').outE().count()", strconv.Itoa(edges))
	want(t, b, "g.V('hub').out().dedup().count()", strconv.Itoa(others))
	want(t, b, fmt.Sprintf("g.V('hub').outE().range(%d, %d).count()", edges-3, edges+10), "3")
	want(t, b, "g.V('hub').out().limit(2).label()", "end", "end")
	want(t, b, "g.V().hasLabel('end').limit(1).inE('to').count()", strconv.Itoa(edges/others))
	want(t, b, "g.V('hub').drop()")
	want(t, b, "g.E().count()", "0")
	want(t, b, "g.V().count()", strconv.Itoa(others))
}
