package graph

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// TestWriteWhileIterating writes in each kind of iteration: what is added is not
// found, and what is removed is not either.
func TestWriteWhileIterating(t *testing.T) {
	const n = 3 * firstPage
	d := open(t)
	ix := Index{On: value.KindVertex, Keys: []string{"n"}}
	edges := Index{On: value.KindEdge, Keys: []string{"n"}}
	for _, ix := range []Index{ix, edges} {
		if err := d.AddIndex(t.Context(), Default, ix); err != nil {
			t.Fatal(err)
		}
	}
	mustUpdate(t, d, Default, func(tx *Tx) error {
		for i := range n {
			v, err := tx.AddVertex(nil, int64(10*i+10))
			if err != nil {
				return err
			}
			if err := tag(v, int64(i)); err != nil {
				return err
			}
			hub, _, err := tx.Vertex(int64(10))
			if err != nil {
				return err
			}
			e, err := tx.AddEdge("e", hub, v, nil)
			if err != nil {
				return err
			}
			if err := e.Set("n", int64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	all := iterations(n)
	maps.Copy(all, lookups(n))
	for name, run := range all {
		t.Run(name, func(t *testing.T) {
			_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
				if err := run(tx); err != nil {
					return err
				}
				return errBack
			})
			if !errors.Is(err, errBack) {
				t.Fatal(err)
			}
		})
	}
}

func tag(v *Vertex, n int64) error {
	_, err := v.Set(Single, "n", n)
	return err
}

// grow adds a vertex with an edge from the hub, a number below the counter, and a
// higher value.
func grow(tx *Tx, seen int) error {
	v, err := tx.AddVertex(nil, int64(10*seen-5))
	if err != nil {
		return err
	}
	if err := tag(v, int64(1000+seen)); err != nil {
		return err
	}
	hub, _, err := tx.Vertex(int64(10))
	if err != nil {
		return err
	}
	e, err := tx.AddEdge("e", hub, v, nil)
	if err != nil {
		return err
	}
	if err := e.Set("n", int64(1000+seen)); err != nil {
		return err
	}
	w, err := tx.AddVertex(nil, nil)
	if err != nil {
		return err
	}
	return tag(w, int64(1000+seen))
}

// iterations returns transactions that iterate over the n vertices or edges, by name.
func iterations(n int) map[string]func(tx *Tx) error {
	return map[string]func(tx *Tx) error{
		"vertices, added": func(tx *Tx) error {
			seen := 0
			err := tx.Vertices(func(*Vertex) error { seen++; return grow(tx, seen) })
			return errors.Join(err, wantCount(seen, n))
		},
		"vertices, removed": func(tx *Tx) error {
			seen := 0
			err := tx.Vertices(func(v *Vertex) error {
				next, ok, err := tx.Vertex(v.ElementID().(int64) + 10)
				if err == nil && ok {
					err = next.Remove()
				}
				seen++
				return err
			})
			return errors.Join(err, wantCount(seen, n/2))
		},
		"edges, added": func(tx *Tx) error {
			hub, _, err := tx.Vertex(int64(10))
			seen := 0
			err = errors.Join(err, tx.Edges(hub, Out, nil, func(*Edge) error { seen++; return grow(tx, seen) }))
			return errors.Join(err, wantCount(seen, n))
		},
		"neighbours, added and removed": func(tx *Tx) error {
			hub, _, err := tx.Vertex(int64(10))
			seen := 0
			err = errors.Join(err, tx.Neighbours(hub, Out, nil, func(v *Vertex) error {
				if seen++; seen%2 == 0 {
					return grow(tx, seen)
				}
				if v.Number() == hub.Number() {
					return nil
				}
				return v.Remove()
			}))
			return errors.Join(err, wantCount(seen, n))
		},
		"all edges, removed": func(tx *Tx) error {
			seen := 0
			err := tx.AllEdges(func(e *Edge) error { seen++; return e.Remove() })
			return errors.Join(err, wantCount(seen, n))
		},
		"edges of a vertex that is removed": func(tx *Tx) error {
			hub, _, err := tx.Vertex(int64(10))
			seen := 0
			err = errors.Join(err, tx.Edges(hub, Out, nil, func(*Edge) error { seen++; return hub.Remove() }))
			return errors.Join(err, wantCount(seen, 1))
		},
	}
}

// lookups does the same with indexes.
func lookups(n int) map[string]func(tx *Tx) error {
	lookup := func(i int, change func(tx *Tx, s value.Stored, seen int) error) func(tx *Tx) error {
		return func(tx *Tx) error {
			all, err := tx.Indexes()
			if err != nil {
				return err
			}
			seen := 0
			_, err = tx.Lookup(all[i], nil, &Bound{Val: int64(0)}, nil, func(s value.Stored) error { seen++; return change(tx, s, seen) })
			return errors.Join(err, wantCount(seen, n))
		}
	}
	return map[string]func(tx *Tx) error{
		"index, raised": lookup(0, func(tx *Tx, s value.Stored, seen int) error { return tag(s.(*Vertex), int64(2000+seen)) }),
		"index, added":  lookup(0, func(tx *Tx, _ value.Stored, seen int) error { return grow(tx, seen) }),
		"index of edges, raised": lookup(1, func(tx *Tx, s value.Stored, seen int) error {
			return errors.Join(s.(*Edge).Set("n", int64(2000+seen)), grow(tx, seen))
		}),
		"index, removed": lookup(0, func(tx *Tx, s value.Stored, _ int) error { return s.(*Vertex).Remove() }),
	}
}

func wantCount(got, want int) error {
	if got != want {
		return fmt.Errorf("%d were found, want %d", got, want)
	}
	return nil
}

// TestNumbers checks the ids at which numbers meet own ids.
func TestNumbers(t *testing.T) {
	d := open(t)
	mustUpdate(t, d, Default, func(tx *Tx) error {
		for _, id := range []any{int64(ownIDs), int64(ownIDs - 2), int64(ownIDs + 1)} {
			if _, err := tx.AddVertex(nil, id); err != nil {
				return err
			}
		}
		var got []any
		for range 3 { // the counter passes ids that are taken
			v, err := tx.AddVertex(nil, nil)
			if err != nil {
				return err
			}
			got = append(got, v.ElementID())
			if w, ok, err := tx.Vertex(v.ElementID()); !ok || err != nil || w.Number() != v.Number() {
				return fmt.Errorf("the vertex %v is not found: %w", v.ElementID(), err)
			}
		}
		// The counter is at ownIDs, and each vertex with an id of its own takes a number.
		if _, err := tx.AddVertex(nil, got[2]); engine.CodeOf(err) != CodeExists {
			return fmt.Errorf("AddVertex with an id that was given: %v", err)
		}
		for _, c := range []struct {
			id   any
			want bool
		}{{got[1], true}, {fmt.Sprint(got[1]), true}, {fmt.Sprint("0", got[1]), false}, {"0", false}, {int64(-7), false}, {value.UUID{}, false}, {nil, false}, {"99999999999999999999", false}} {
			if _, ok, err := tx.Vertex(c.id); ok != c.want || err != nil {
				return fmt.Errorf("Vertex(%v) is %v, %w", c.id, ok, err)
			}
		}
		return nil
	})
	mustCheck(t, d)
}

// TestEdgeIDs checks that an edge is never given an id that another one has.
func TestEdgeIDs(t *testing.T) {
	d := open(t)
	mustUpdate(t, d, Default, func(tx *Tx) error {
		v, err := tx.AddVertex(nil, nil)
		if err != nil {
			return err
		}
		first, err := tx.AddEdge("e", v, v, nil)
		if err != nil {
			return err
		}
		if first.ElementID() != any("1-2-2-2") {
			return fmt.Errorf("the id is %v", first.ElementID())
		}
		for _, id := range []any{"2-2-2-2", int64(0)} {
			if _, err := tx.AddEdge("e", v, v, id); err != nil {
				return err
			}
		}
		for _, id := range []any{nil, 1.5, "", "1-2-2", "01-2-2-2"} {
			if _, ok, err := tx.Edge(id); ok || err != nil {
				return fmt.Errorf("Edge(%v) is %v, %w", id, ok, err)
			}
		}
		next, err := tx.AddEdge("e", v, v, nil)
		if err != nil {
			return err
		}
		if next.ElementID() != any("5-2-2-2") {
			return fmt.Errorf("the id is %v", next.ElementID())
		}
		if _, err := tx.AddEdge("e", v, v, "1-2-2-2"); engine.CodeOf(err) != CodeExists {
			return fmt.Errorf("the error is %v", err)
		}
		return nil
	})
	mustCheck(t, d)
}

// TestLargeRecords reads elements that do not fit into one page, and fills an index
// with them in several batches.
func TestLargeRecords(t *testing.T) {
	const n = 40
	d := open(t)
	for range n {
		mustUpdate(t, d, Default, func(tx *Tx) error {
			v, err := tx.AddVertex(nil, nil)
			if err != nil {
				return err
			}
			if err := tag(v, 1); err != nil {
				return err
			}
			_, err = v.Set(Single, "large", make([]byte, maxPageBytes/2))
			return err
		})
	}
	if err := d.broken(2).AddIndex(t.Context(), Default, Index{On: value.KindVertex, Keys: []string{"n"}}); !errors.Is(err, errBroken) {
		t.Errorf("the index was filled in one batch: %v", err)
	}
	if err := d.AddIndex(t.Context(), Default, Index{On: value.KindVertex, Keys: []string{"n"}}); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, d)
	seen := 0
	mustUpdate(t, d, Default, func(tx *Tx) error {
		seen = 0
		return tx.Vertices(func(v *Vertex) error { seen++; return tag(v, 2) })
	})
	if seen != n {
		t.Errorf("%d vertices were found, want %d", seen, n)
	}
}
