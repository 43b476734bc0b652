package graph

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph/value"
)

// soakEnv makes TestConcurrent long: it is how many operations it does, for example
// 1000000.
const soakEnv = "SKERRY_GRAPH_OPS"

// TestConcurrent drops vertices while others add edges to them. In the end there are
// no vertices that were dropped, no halves of edges and no edges without vertices.
func TestConcurrent(t *testing.T) {
	ops, vertices, workers := 1500, int64(20), 4
	if testengine.Remote() {
		ops = 200
	}
	if s := os.Getenv(soakEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", soakEnv, err)
		}
		ops, vertices = n, 200
	}
	from := seed.Of(t)
	d := open(t)
	d.batch = 400 // a vertex with many edges takes several batches
	for _, ix := range []Index{{On: value.KindVertex, Keys: []string{"n"}}, {On: value.KindEdge, Keys: []string{"n"}}} {
		if err := d.AddIndex(t.Context(), Default, ix); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(from, uint64(w)))
			for range ops / workers {
				if err := disturb(t, d, r, vertices); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := d.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, d)
	mustView(t, d, Default, func(tx *Tx) error {
		leaving, err := tx.leavers()
		if len(leaving) != 0 {
			t.Errorf("%d vertices are still being removed", len(leaving))
		}
		return err
	})
}

// disturb is one random operation.
func disturb(t *testing.T, d *DB, r *rand.Rand, vertices int64) error {
	a, b, what, from := r.Int64N(vertices), r.Int64N(vertices), r.IntN(10), r.Uint64()
	var err error
	switch {
	case what == 0:
		err = d.RemoveVertex(t.Context(), Default, a)
	case what == 1:
		_, err = d.Update(t.Context(), Default, func(tx *Tx) error {
			v, ok, err := tx.Vertex(a)
			if err == nil && ok {
				err = v.Remove()
			}
			return err
		})
	case what == 2:
		err = d.Resume(t.Context())
	default:
		_, err = d.Update(t.Context(), Default, func(tx *Tx) error { return connect(tx, a, b, from) })
	}
	switch engine.CodeOf(err) {
	case "", CodeExists, CodeNoElement, engine.CodeConflict: // while the vertex is being removed
		return nil
	}
	return err
}

// connect adds an edge between two vertices, which it adds if they are not there.
func connect(tx *Tx, a, b int64, from uint64) error {
	r := rand.New(rand.NewPCG(from, 0))
	var ends [2]*Vertex
	for i, id := range []int64{a, b} {
		v, ok, err := tx.Vertex(id)
		if err == nil && !ok {
			if v, err = tx.AddVertex(nil, id); err == nil {
				_, err = v.Set(Single, "n", id)
			}
		}
		if err != nil {
			return err
		}
		ends[i] = v
	}
	var id any
	if r.IntN(3) == 0 {
		id = strconv.Itoa(r.IntN(1000))
	}
	e, err := tx.AddEdge("e", ends[0], ends[1], id)
	if err == nil && r.IntN(2) == 0 {
		err = e.Set("n", r.Int64N(100))
	}
	return err
}
