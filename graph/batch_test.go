package graph

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// breaking is an engine whose Update fails after a number of calls.
type breaking struct {
	engine.Engine
	left int
}

var errBroken = errors.New("the process has died")

func (b *breaking) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if b.left == 0 {
		return 0, errBroken
	}
	b.left--
	return b.Engine.Update(ctx, fn)
}

// broken returns the same graphs, of a process that dies after n transactions.
func (d *DB) broken(n int) *DB { return &DB{eng: &breaking{d.eng, n}, batch: d.batch} }

// star adds a hub with spokes, a loop and properties, and indexes on them.
func star(t *testing.T, d *DB, name string, spokes int) {
	t.Helper()
	for _, ix := range starIndexes() {
		if err := d.AddIndex(t.Context(), name, ix); err != nil {
			t.Fatal(err)
		}
	}
	mustUpdate(t, d, name, func(tx *Tx) error {
		hub, err := tx.AddVertex(nil, "hub")
		if err != nil {
			return err
		}
		for i := range spokes {
			if _, err := hub.Set(List, "name", fmt.Sprint("hub", i)); err != nil {
				return err
			}
			v, err := tx.AddVertex(nil, nil)
			if err != nil {
				return err
			}
			out, in := hub, v
			if i%2 == 0 {
				out, in = v, hub
			}
			e, err := tx.AddEdge("to", out, in, fmt.Sprint("e", i))
			if err != nil {
				return err
			}
			if err := e.Set("n", int64(i)); err != nil {
				return err
			}
		}
		_, err = tx.AddEdge("to", hub, hub, nil)
		return err
	})
}

func starIndexes() []Index {
	return []Index{{On: value.KindVertex, Keys: []string{"name"}}, {On: value.KindEdge, Label: "to", Keys: []string{"n"}, Unique: true}}
}

// TestRemoveVertexInterrupted kills the removal after each number of batches. What is
// left of the vertex is hidden, and the removal goes on.
func TestRemoveVertexInterrupted(t *testing.T) {
	const spokes = 20
	for n := 1; ; n++ {
		d := open(t)
		d.batch = 200
		star(t, d, Default, spokes)
		err := d.broken(n).RemoveVertex(t.Context(), Default, "hub")
		mustCheck(t, d)
		wantNoHub(t, d, spokes)
		if err == nil {
			if n < 5 {
				t.Errorf("the removal took only %d batches", n)
			}
			break
		}
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		if n%2 == 0 {
			err = d.Resume(t.Context())
		} else {
			err = d.RemoveVertex(t.Context(), Default, "hub")
		}
		if err != nil {
			t.Fatal(err)
		}
		wantNoHub(t, d, spokes)
		wantRooms(t, d, Default, roomNames, roomNumbers, roomCounters, roomVertices, roomIndexes)
	}
}

// wantNoHub checks that nothing shows the hub, that it cannot be used, and that its
// values are free.
func wantNoHub(t *testing.T, d *DB, spokes int) {
	t.Helper()
	_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
		if _, ok, err := tx.Vertex("hub"); ok || err != nil {
			return fmt.Errorf("Vertex finds the hub: %v, %w", ok, err)
		}
		for i := range spokes {
			if _, ok, err := tx.Edge(fmt.Sprint("e", i)); ok || err != nil {
				return fmt.Errorf("Edge finds an edge of the hub: %v, %w", ok, err)
			}
		}
		found := func(what any) error { return fmt.Errorf("found %s", value.Text(what)) }
		if err := tx.AllEdges(func(e *Edge) error { return found(e) }); err != nil {
			return err
		}
		n := 0
		if err := tx.Vertices(func(v *Vertex) error {
			n++
			return errors.Join(
				tx.Edges(v, Both, nil, func(e *Edge) error { return found(e) }),
				tx.Neighbours(v, Both, nil, func(v *Vertex) error { return found(v) }))
		}); err != nil || n != spokes {
			return fmt.Errorf("there are %d vertices: %w", n, err)
		}
		all, err := tx.Indexes()
		if err != nil {
			return err
		}
		for _, ix := range all {
			for _, lo := range []*Bound{{Val: ""}, {Val: int64(0)}} {
				if _, err := tx.Lookup(ix, nil, lo, nil, func(s value.Stored) error { return found(s) }); err != nil {
					return err
				}
			}
		}
		v, _, err := tx.Vertex(int64(2))
		if err != nil {
			return err
		}
		e, err := tx.AddEdge("to", v, v, nil)
		if err != nil {
			return err
		}
		if err := e.Set("n", int64(0)); err != nil { // an edge of the hub has the value too
			return err
		}
		return errBack
	})
	if !errors.Is(err, errBack) {
		t.Fatal(err)
	}
}

// wantRooms checks that a graph has keys in these rooms only.
func wantRooms(t *testing.T, d *DB, name string, rooms ...byte) {
	t.Helper()
	mustView(t, d, name, func(tx *Tx) error {
		lo, hi := within(tx.prefix)
		for p, err := range tx.tx.Scan(lo, hi) {
			if err != nil {
				return err
			}
			has := false
			for _, room := range rooms {
				has = has || p.Key[len(tx.prefix)] == room
			}
			if !has {
				return fmt.Errorf("there is a key %q", p.Key)
			}
		}
		return nil
	})
}

// TestLeavingVertex checks what is refused while a vertex is being removed.
func TestLeavingVertex(t *testing.T) {
	d := open(t)
	d.batch = 1 // so that each batch removes one edge
	star(t, d, Default, 4)
	mustUpdate(t, d, Default, func(tx *Tx) error { _, err := tx.AddVertex(nil, int64(100)); return err })
	for _, id := range []any{"hub", int64(100)} {
		if err := d.broken(1).RemoveVertex(t.Context(), Default, id); !errors.Is(err, errBroken) && id == "hub" {
			t.Fatal(err)
		}
	}
	_, err := d.Update(t.Context(), Default, func(tx *Tx) error { _, err := tx.AddVertex(nil, "hub"); return err })
	wantCode(t, "AddVertex with the id of a vertex that is being removed", err, CodeExists)
	var hub *Vertex
	_, err = d.Update(t.Context(), Default, func(tx *Tx) error {
		hub = &Vertex{t: tx, num: 1<<1 | 1}
		v, _, err := tx.Vertex(int64(2))
		if err != nil {
			return err
		}
		_, err = tx.AddEdge("to", v, hub, nil)
		return err
	})
	wantCode(t, "AddEdge to a vertex that is being removed", err, CodeNoElement)
	// The neighbours can be removed meanwhile, and everything else.
	mustUpdate(t, d, Default, func(tx *Tx) error {
		return tx.Vertices(func(v *Vertex) error { return v.Remove() })
	})
	mustCheck(t, d)
	if err := d.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRooms(t, d, Default, roomNames, roomNumbers, roomCounters, roomIndexes)
}

func TestMaxLeaving(t *testing.T) {
	d := open(t)
	mustUpdate(t, d, Default, func(tx *Tx) error {
		for range MaxLeaving + 1 {
			if _, err := tx.AddVertex(nil, nil); err != nil {
				return err
			}
		}
		for i := range MaxLeaving {
			v := &Vertex{t: tx, num: uint64(i+1) << 1}
			raw, _, err := v.stored()
			if err != nil {
				return err
			}
			if err := v.leave(raw); err != nil {
				return err
			}
		}
		return nil
	})
	wantCode(t, "one more", d.RemoveVertex(t.Context(), Default, int64(MaxLeaving+1)), engine.CodeLimit)
	if err := d.RemoveVertex(t.Context(), Default, int64(1)); err != nil {
		t.Fatal(err)
	}
	if err := d.RemoveVertex(t.Context(), Default, int64(MaxLeaving+1)); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, d)
}

// TestAddIndexInterrupted kills the filling after each number of batches, and writes
// before it goes on.
func TestAddIndexInterrupted(t *testing.T) {
	for _, ix := range starIndexes() {
		for n := 0; ; n++ {
			d := open(t)
			star(t, d, Default, 20)
			if err := d.RemoveIndex(t.Context(), Default, ix); err != nil {
				t.Fatal(err)
			}
			d.batch = 100
			err := d.broken(n).AddIndex(t.Context(), Default, ix)
			mustCheck(t, d)
			done := err == nil
			mustUpdate(t, d, Default, func(tx *Tx) error {
				if e, ok, err := tx.Edge("e7"); !ok || err != nil || e.Set("n", int64(700)) != nil {
					return fmt.Errorf("set: %v, %w", ok, err)
				}
				e, _, err := tx.Edge("e11")
				if err != nil {
					return err
				}
				return e.Remove()
			})
			mustCheck(t, d)
			if err := d.AddIndex(t.Context(), Default, ix); err != nil {
				t.Fatal(err)
			}
			mustCheck(t, d)
			mustView(t, d, Default, func(tx *Tx) error {
				all, err := tx.Indexes()
				for _, ix := range all {
					if ix.Filling {
						err = fmt.Errorf("the index on %q is still filling", ix.Keys)
					}
				}
				return err
			})
			if done {
				if n < 4 {
					t.Errorf("filling took only %d batches", n)
				}
				break
			}
		}
	}
}

// TestFillNotUnique checks that an index whose elements are not unique is removed.
func TestFillNotUnique(t *testing.T) {
	d := open(t)
	d.batch = 100
	mustUpdate(t, d, Default, func(tx *Tx) error {
		for i := range 30 {
			v, err := tx.AddVertex(nil, fmt.Sprint("v", i))
			if err != nil {
				return err
			}
			if _, err := v.Set(Single, "n", int64(i%29)); err != nil {
				return err
			}
		}
		return nil
	})
	ix := Index{On: value.KindVertex, Keys: []string{"n"}, Unique: true}
	err := d.AddIndex(t.Context(), Default, ix)
	wantCode(t, "AddIndex", err, CodeUnique)
	if want := "the vertices with the ids v0 and v29 would have the same n, which is unique [graph_not_unique]"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	wantRooms(t, d, Default, roomNames, roomNumbers, roomCounters, roomVertices, roomIDs)
	mustCheck(t, d)
	if err := d.RemoveVertex(t.Context(), Default, "v29"); err != nil {
		t.Fatal(err)
	}
	if err := d.AddIndex(t.Context(), Default, ix); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, d)
}

// TestRemoveIndexInterrupted kills the removal of an index. Its number is not given
// to another one before its entries are gone.
func TestRemoveIndexInterrupted(t *testing.T) {
	d := open(t)
	d.batch = 100
	star(t, d, Default, 20)
	ix := starIndexes()[0]
	if err := d.broken(2).RemoveIndex(t.Context(), Default, ix); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	mustCheck(t, d)
	if err := d.AddIndex(t.Context(), Default, ix); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, d)
	if err := d.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, d)
	mustView(t, d, Default, func(tx *Tx) error {
		all, err := tx.Indexes()
		if len(all) != 2 || len(tx.dropped) != 0 {
			return fmt.Errorf("there are %d indexes, and %d dropped", len(all), len(tx.dropped))
		}
		return err
	})
}

// TestDropInterrupted kills Drop. The graph is gone, and its keys are removed later.
func TestDropInterrupted(t *testing.T) {
	for _, name := range []string{Default, "other"} {
		d := open(t)
		d.batch = 300
		if err := d.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		star(t, d, name, 20)
		if err := d.broken(3).Drop(t.Context(), name); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		mustCheck(t, d)
		if err := d.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		mustView(t, d, name, func(tx *Tx) error {
			all, err := tx.Indexes()
			if want := map[string]int{Default: 2, "other": 0}[name]; len(all) != want {
				return fmt.Errorf("%s has %d indexes, want %d", name, len(all), want)
			}
			for _, ix := range all {
				if ix.Filling {
					return fmt.Errorf("the index on %q is filling", ix.Keys)
				}
			}
			return errors.Join(err, tx.Vertices(func(v *Vertex) error { return fmt.Errorf("there is %s", value.Text(v)) }))
		})
		star(t, d, name, 5)
		if err := d.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustCheck(t, d)
		if err := d.Drop(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Names(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("the graphs are %q: %v", got, err)
		}
		wantNoElements(t, d)
	}
}

// wantNoElements checks that there are at most names, and indexes, of graphs.
func wantNoElements(t *testing.T, d *DB) {
	t.Helper()
	if _, err := d.eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		lo, hi := within(graphPrefix(0)[:1])
		for p, err := range tx.Scan(lo, hi) {
			if err != nil {
				return err
			}
			_, rest, ok := number(p.Key[1:])
			if !ok || rest[0] != roomNames && rest[0] != roomNumbers && rest[0] != roomIndexes {
				return fmt.Errorf("there is a key %q", p.Key)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestClear empties a graph in small transactions, each of which leaves a whole graph.
func TestClear(t *testing.T) {
	d := open(t)
	star(t, d, Default, 10)
	for done, n := false, 0; !done; n++ {
		mustUpdate(t, d, Default, func(tx *Tx) (err error) {
			done, err = tx.Clear(3)
			return err
		})
		mustCheck(t, d)
		if n > 100 {
			t.Fatal("Clear does not end")
		}
	}
	wantRooms(t, d, Default, roomNames, roomNumbers, roomCounters, roomIndexes)
}
