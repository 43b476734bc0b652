package graph_test

import (
	"runtime"
	"testing"

	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// maxBytesPerEdge is what an edge without properties may need of the embedded
// engine's memory, with its keys in both directions and its share of the vertices. The
// two keys have 26 bytes; the rest is the engine's.
const maxBytesPerEdge = 100

// TestBytesPerEdge measures the heap of a graph with ten edges for each vertex, which
// has a property with an index.
func TestBytesPerEdge(t *testing.T) {
	if testing.Short() {
		t.Skip("loads 100,000 edges")
	}
	if testengine.Remote() {
		t.Skip("the data is in another process")
	}
	db, err := graph.New(testengine.Open(t, testengine.Options{HistoryBytes: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.AddIndex(t.Context(), graph.Default, graph.Index{On: value.KindVertex, Label: "person", Keys: []string{"name"}}); err != nil {
		t.Fatal(err)
	}
	empty := liveHeap()
	addPeople(t, db)
	vertices := liveHeap()
	addKnows(t, db)
	all := liveHeap()
	edge := float64(all-vertices) / socialEdges
	whole := float64(all-empty) / socialEdges
	t.Logf("%.1f bytes per edge, %.1f with the vertices and their index; %.1f bytes per vertex", edge, whole, float64(vertices-empty)/socialVertices)
	if whole > maxBytesPerEdge {
		t.Errorf("an edge needs %.1f bytes, want at most %d", whole, maxBytesPerEdge)
	}
	runtime.KeepAlive(db)
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
