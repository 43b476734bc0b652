package graph_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

const (
	socialVertices = 10_000
	socialEdges    = 100_000
	socialBatch    = 1_000
)

// social returns a graph of people who know others at random.
func social(tb testing.TB) *graph.DB {
	tb.Helper()
	db, err := graph.New(testengine.Open(tb, testengine.Options{Memory: true}))
	if err != nil {
		tb.Fatal(err)
	}
	addPeople(tb, db)
	addKnows(tb, db)
	return db
}

// addPeople adds vertices with a name each.
func addPeople(tb testing.TB, db *graph.DB) {
	tb.Helper()
	for at := 0; at < socialVertices; at += socialBatch {
		update(tb, db, func(tx *graph.Tx) error {
			for i := range socialBatch {
				v, err := tx.AddVertex([]string{"person"}, nil)
				if err != nil {
					return err
				}
				if _, err := v.Set(graph.Single, "name", fmt.Sprintf("p%d", at+i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// addKnows adds edges without properties.
func addKnows(tb testing.TB, db *graph.DB) {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < socialEdges; at += socialBatch {
		ends := make([][2]int64, socialBatch)
		for i := range ends {
			ends[i] = [2]int64{1 + r.Int64N(socialVertices), 1 + r.Int64N(socialVertices)}
		}
		update(tb, db, func(tx *graph.Tx) error {
			for _, e := range ends {
				if err := knows(tx, e[0], e[1]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func knows(tx *graph.Tx, out, in int64) error {
	a, _, err := tx.Vertex(out)
	if err != nil {
		return err
	}
	b, _, err := tx.Vertex(in)
	if err != nil {
		return err
	}
	_, err = tx.AddEdge("knows", a, b, nil)
	return err
}

func update(tb testing.TB, db *graph.DB, fn func(*graph.Tx) error) {
	tb.Helper()
	if _, err := db.Update(tb.Context(), graph.Default, fn); err != nil {
		tb.Fatal(err)
	}
}

func view(tb testing.TB, db *graph.DB, fn func(*graph.Tx) error) {
	tb.Helper()
	if _, err := db.View(tb.Context(), engine.Read{}, graph.Default, fn); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkAddEdges(b *testing.B) {
	db := social(b)
	r := rand.New(rand.NewPCG(3, 4))
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += socialBatch {
		update(b, db, func(tx *graph.Tx) error {
			for range min(socialBatch, b.N-n) {
				if err := knows(tx, 1+r.Int64N(socialVertices), 1+r.Int64N(socialVertices)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// BenchmarkNeighbours walks one or two edges from random vertices, 100 in a
// transaction, and reports the time for each vertex that it reaches.
func BenchmarkNeighbours(b *testing.B) {
	db := social(b)
	for _, c := range []struct {
		name   string
		dir    graph.Direction
		labels []string
		hops   int
	}{{"out", graph.Out, nil, 1}, {"out label", graph.Out, []string{"knows"}, 1}, {"both", graph.Both, nil, 1}, {"2 out label", graph.Out, []string{"knows"}, 2}} {
		b.Run(c.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(5, 6))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				view(b, db, func(tx *graph.Tx) error {
					for range 100 {
						v, _, err := tx.Vertex(1 + r.Int64N(socialVertices))
						if err != nil {
							return err
						}
						if err := reach(tx, v, c.dir, c.labels, c.hops, &n); err != nil {
							return err
						}
					}
					return nil
				})
			}
			perElement(b, n)
		})
	}
}

// perElement reports the time for each of n elements.
func perElement(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/element")
}

func reach(tx *graph.Tx, v *graph.Vertex, dir graph.Direction, labels []string, hops int, n *int) error {
	return tx.Neighbours(v, dir, labels, func(v *graph.Vertex) error {
		if hops > 1 {
			return reach(tx, v, dir, labels, hops-1, n)
		}
		*n++
		return nil
	})
}

// BenchmarkEdges walks the edges of random vertices.
func BenchmarkEdges(b *testing.B) {
	db := social(b)
	r := rand.New(rand.NewPCG(5, 6))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		view(b, db, func(tx *graph.Tx) error {
			for range 100 {
				v, _, err := tx.Vertex(1 + r.Int64N(socialVertices))
				if err != nil {
					return err
				}
				if err := tx.Edges(v, graph.Out, nil, func(*graph.Edge) error { n++; return nil }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	perElement(b, n)
}

// BenchmarkScan reads a property of all vertices.
func BenchmarkScan(b *testing.B) {
	db := social(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		view(b, db, func(tx *graph.Tx) error {
			return tx.Vertices(func(v *graph.Vertex) error {
				n++
				return v.Properties([]string{"name"}, func(*graph.VertexProperty) error { return nil })
			})
		})
	}
	perElement(b, n)
}

// BenchmarkProperty reads a property of a vertex with several, by its key.
func BenchmarkProperty(b *testing.B) {
	db := social(b)
	update(b, db, func(tx *graph.Tx) error {
		v, _, err := tx.Vertex(int64(1))
		for _, key := range []string{"a", "b", "c", "d"} {
			if err == nil {
				_, err = v.Set(graph.Single, key, "some text as a value")
			}
		}
		return err
	})
	b.ReportAllocs()
	b.ResetTimer()
	view(b, db, func(tx *graph.Tx) error {
		v, _, err := tx.Vertex(int64(1))
		if err != nil {
			return err
		}
		for range b.N {
			if err := v.Properties([]string{"c"}, func(p *graph.VertexProperty) error {
				if p.Val != any("some text as a value") {
					return fmt.Errorf("the property is %s", value.Text(p.Val))
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}
