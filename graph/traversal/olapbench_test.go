package traversal_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/traversal"
)

const (
	manyVertices = 100_000
	manyEdges    = 1_000_000
	manyBatch    = 10_000
)

// many returns a large random graph.
func many(b *testing.B) *graph.DB {
	b.Helper()
	db, err := graph.New(testengine.Open(b, testengine.Options{Memory: true}))
	if err != nil {
		b.Fatal(err)
	}
	vs := make([]int64, 0, manyVertices)
	r := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < manyVertices+manyEdges; at += manyBatch {
		if _, err := db.Update(b.Context(), graph.Default, func(tx *graph.Tx) error {
			for range manyBatch {
				if len(vs) < manyVertices {
					v, err := tx.AddVertex([]string{"person"}, nil)
					if err != nil {
						return err
					}
					vs = append(vs, v.ElementID().(int64))
					continue
				}
				out, _, err := tx.Vertex(vs[r.IntN(len(vs))])
				if err != nil {
					return err
				}
				in, _, err := tx.Vertex(vs[r.IntN(len(vs))])
				if err != nil {
					return err
				}
				if _, err := tx.AddEdge("knows", out, in, nil); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	return db
}

// BenchmarkWholeGraph reports how many edges a step reads in a second, until its
// first progress, and how many it goes along in a second in its iterations.
func BenchmarkWholeGraph(b *testing.B) {
	db := many(b)
	for _, step := range []string{
		"pageRank(1).with(PageRank.times, 20)",
		"pageRank().with(PageRank.edges, outE('knows'))",
		"pageRank().with(PageRank.edges, outE().identity())",
		"peerPressure().with(PeerPressure.times, 20)",
		"connectedComponent()",
		"connectedComponent().with(ConnectedComponent.edges, outE())",
		"shortestPath()",
	} {
		b.Run(step, func(b *testing.B) {
			for b.Loop() {
				var first, last time.Time
				iterations := 0
				begin := time.Now()
				yields(b, db, "g.V().limit(1)."+step+".limit(1)", traversal.Options{Progress: func(string, int64, int64) {
					if last = time.Now(); iterations == 0 {
						first = last
					}
					iterations++
				}}, func() { iterations = 0 }, func(any) {})
				if iterations > 1 {
					each := last.Sub(first) / time.Duration(iterations-1)
					b.ReportMetric(float64(each.Milliseconds()), "ms/iteration")
					b.ReportMetric(manyEdges/(first.Sub(begin)-each).Seconds(), "edges-read/s")
				} else {
					b.ReportMetric(manyEdges/time.Since(begin).Seconds(), "edges/s")
				}
			}
		})
	}
}
