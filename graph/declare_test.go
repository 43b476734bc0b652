package graph

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// named returns a schema by which vertices with a label have a property.
func named(label string) Schema {
	return Schema{Vertices: []VertexType{{Label: label, Properties: []PropertyType{{Key: "name", Required: true}}}}}
}

// closed returns a schema by which all vertices have one of the labels.
func closed(labels ...string) Schema {
	s := Schema{Closed: true}
	for _, l := range labels {
		s.Vertices = append(s.Vertices, VertexType{Label: l})
	}
	return s
}

// add adds a vertex, which it returns an error of.
func add(t *testing.T, d *DB, labels ...string) error {
	t.Helper()
	_, err := d.Update(t.Context(), Default, func(tx *Tx) error { _, err := tx.AddVertex(labels, nil); return err })
	return err
}

// wantSchemas compares the versions of the schemas; 0: none.
func wantSchemas(t *testing.T, d *DB, now, next uint64) {
	t.Helper()
	a, b, err := d.Schema(t.Context(), Default)
	if err != nil {
		t.Fatal(err)
	}
	if a == nil {
		a = &Schema{}
	}
	if b == nil {
		b = &Schema{}
	}
	if a.Version != now || b.Version != next {
		t.Errorf("the version is %d and the next one %d, want %d and %d", a.Version, b.Version, now, next)
	}
}

// TestSetSchema replaces and removes schemas.
func TestSetSchema(t *testing.T) {
	d := open(t)
	wantSchemas(t, d, 0, 0)
	mustSchema(t, d, Default, Schema{})
	wantSchemas(t, d, 0, 0)
	mustSchema(t, d, Default, people())
	wantSchemas(t, d, 1, 0)
	now, _, err := d.Schema(t.Context(), Default)
	want, _ := new(Schema).normal()
	if s := people(); err == nil {
		want, err = s.normal()
	}
	if err != nil {
		t.Fatal(err)
	}
	if want.Version = 1; fmt.Sprint(*now) != fmt.Sprint(*want) {
		t.Errorf("the schema is %v, want %v", now, want)
	}
	again := people()
	slices.Reverse(again.Vertices)
	again.Vertices[1].Properties = slices.Clone(again.Vertices[1].Properties)
	slices.Reverse(again.Edges)
	mustSchema(t, d, Default, again) // it is the same
	wantSchemas(t, d, 1, 0)
	other := closed("a")
	other.Version = 2
	wantCode(t, "another version", d.SetSchema(t.Context(), Default, other), CodeSchema)
	other.Version = 1
	mustSchema(t, d, Default, other)
	wantSchemas(t, d, 2, 0)
	wantCode(t, "the version is not in force any more", d.SetSchema(t.Context(), Default, other), CodeSchema)
	wantCode(t, "AddVertex", add(t, d, "b"), CodeSchema)
	mustSchema(t, d, Default, Schema{})
	wantSchemas(t, d, 0, 0)
	if err := add(t, d, "b"); err != nil {
		t.Error(err)
	}
	wantCode(t, "a vertex b", d.SetSchema(t.Context(), Default, closed("a")), CodeSchema)
	mustSchema(t, d, Default, closed("b"))
	wantSchemas(t, d, 4, 0) // a version is given once
	wantCode(t, "no graph", d.SetSchema(t.Context(), "nowhere", closed()), CodeNoGraph)
	_, _, err = d.Schema(t.Context(), "nowhere")
	wantCode(t, "no graph", err, CodeNoGraph)
	mustCheck(t, d)
}

// TestSetSchemaInterrupted kills the check after each number of batches. Writes obey
// both schemas meanwhile, and the same schema goes on.
func TestSetSchemaInterrupted(t *testing.T) {
	for n := 1; ; n++ {
		d := open(t)
		d.batch = 10
		mustSchema(t, d, Default, closed("a", "b"))
		mustUpdate(t, d, Default, func(tx *Tx) error {
			for range 10 {
				v, err := tx.AddVertex([]string{"a"}, nil)
				if err != nil {
					return err
				}
				if _, err := tx.AddEdge("e", v, v, nil); engine.CodeOf(err) != CodeSchema {
					return fmt.Errorf("an edge: %w", err)
				}
			}
			return nil
		})
		err := d.broken(n).SetSchema(t.Context(), Default, closed("a", "c"))
		mustCheck(t, d)
		if err == nil {
			if n < 6 {
				t.Errorf("the schema was checked in %d batches", n)
			}
			break
		}
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		wantSchemas(t, d, 1, 2)
		for _, label := range []string{"b", "c", "d"} {
			wantCode(t, label, add(t, d, label), CodeSchema)
		}
		if err := add(t, d, "a"); err != nil {
			t.Error(err)
		}
		resumed(t, d, n)
		mustCheck(t, d)
	}
}

// resumed goes on with a schema that was declared, or gives it up.
func resumed(t *testing.T, d *DB, n int) {
	t.Helper()
	switch n % 4 {
	case 0: // the old one stays
		mustSchema(t, d, Default, closed("a", "b"))
		wantSchemas(t, d, 1, 0)
	case 1: // another one
		mustSchema(t, d, Default, closed("a", "d"))
		wantSchemas(t, d, 3, 0)
	case 2:
		mustSchema(t, d, Default, Schema{})
		wantSchemas(t, d, 0, 0)
	case 3:
		if err := d.Resume(t.Context()); err != nil {
			t.Error(err)
		}
		wantSchemas(t, d, 1, 2)
		mustSchema(t, d, Default, closed("c", "a"))
		wantSchemas(t, d, 2, 0)
		wantCode(t, "b", add(t, d, "b"), CodeSchema)
		if err := add(t, d, "c"); err != nil {
			t.Error(err)
		}
	}
	wantRooms(t, d, Default, roomNames, roomNumbers, roomCounters, roomVertices, roomIndexes, roomSchemas)
}

// between is an engine that calls a function before each Update but the first.
type between struct {
	engine.Engine
	call func()
	on   bool
}

func (b *between) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if b.on {
		b.call()
	}
	b.on = true
	return b.Engine.Update(ctx, fn)
}

// TestWritesWhileDeclared writes between all batches of the check: what does not obey
// the schema is refused, wherever the check is.
func TestWritesWhileDeclared(t *testing.T) {
	d := open(t)
	d.batch = 60
	mustUpdate(t, d, Default, func(tx *Tx) error { return ring(tx, 12) })
	s := named("n")
	s.Edges = []EdgeType{{Label: "e", Multiplicity: OneOut}}
	calls := 0
	slow := &DB{eng: &between{Engine: d.eng, call: func() {
		calls++
		wantCode(t, "a vertex without a name", add(t, d, "n"), CodeSchema)
		for _, id := range []int64{0, 11} { // before and behind the check
			_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
				v := (&acting{tx}).number(id)
				_, err := tx.AddEdge("e", v, v, nil)
				return err
			})
			wantCode(t, "a second edge", err, CodeSchema)
			_, err = d.Update(t.Context(), Default, func(tx *Tx) error { return (&acting{tx}).number(id).RemoveProperty("name") })
			wantCode(t, "a name is removed", err, CodeSchema)
		}
		mustUpdate(t, d, Default, func(tx *Tx) error { return ring(tx, 1) })
	}}, batch: d.batch}
	if err := slow.SetSchema(t.Context(), Default, s); err != nil {
		t.Fatal(err)
	}
	if calls < 5 {
		t.Errorf("the schema was checked in %d batches", calls)
	}
	wantSchemas(t, d, 1, 0)
	mustCheck(t, d)
}

// number returns the vertex with a number from ring.
func (a *acting) number(i int64) *Vertex {
	v, ok, err := a.tx.Vertex(1000 + i)
	if !ok || err != nil {
		panic(fmt.Sprint(i, ok, err))
	}
	return v
}

// ring adds n vertices with names, each with an edge to itself.
func ring(tx *Tx, n int64) error {
	for i := range n {
		var id any
		if n > 1 {
			id = 1000 + i
		}
		v, err := tx.AddVertex([]string{"n"}, id)
		if err != nil {
			return err
		}
		if _, err := v.Set(Single, "name", "x"); err != nil {
			return err
		}
		if _, err := tx.AddEdge("e", v, v, nil); err != nil {
			return err
		}
	}
	return nil
}

// TestDeclareBesideWriter declares a schema while a transaction, which does not obey
// it, has written and not been committed: one of them fails.
func TestDeclareBesideWriter(t *testing.T) {
	d := open(t)
	wrote, goOn, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	runs := 0
	go func() {
		_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
			if _, err := tx.AddVertex([]string{"b"}, nil); err != nil {
				return err
			}
			if runs++; runs == 1 {
				close(wrote)
				<-goOn
			}
			return nil
		})
		result <- err
	}()
	<-wrote
	declared := make(chan error, 1)
	go func() { declared <- d.SetSchema(t.Context(), Default, closed("a")) }()
	close(goOn)
	wrongWrite, wrongSchema := <-result, <-declared
	if (wrongWrite == nil) == (wrongSchema == nil) {
		t.Errorf("the write: %v; the schema: %v", wrongWrite, wrongSchema)
	}
	for what, err := range map[string]error{"the write": wrongWrite, "the schema": wrongSchema} {
		if err != nil {
			wantCode(t, what, err, CodeSchema)
		}
	}
	mustCheck(t, d)
}

// TestDeclareTwice: a schema that another one replaces while it is checked is not in
// force, and its call says so.
func TestDeclareTwice(t *testing.T) {
	for _, other := range []Schema{closed("n", "m"), {}} {
		d := open(t)
		d.batch = 60
		mustUpdate(t, d, Default, func(tx *Tx) error { return ring(tx, 12) })
		other.Edges = []EdgeType{{Label: "e"}}
		if !other.Closed {
			other = Schema{}
		}
		calls := 0
		slow := &DB{eng: &between{Engine: d.eng, call: func() {
			if calls++; calls == 2 {
				mustSchema(t, d, Default, other)
			}
		}}, batch: d.batch}
		wantCode(t, "SetSchema", slow.SetSchema(t.Context(), Default, named("n")), CodeSchema)
		if other.Closed {
			wantSchemas(t, d, 2, 0)
		} else {
			wantSchemas(t, d, 0, 0)
		}
		calls = 0
		slow.eng.(*between).on = false
		slow.eng.(*between).call = func() {
			if calls++; calls == 2 {
				mustSchema(t, d, Default, named("n")) // the same: both calls succeed
			}
		}
		mustSchema(t, slow, Default, named("n"))
		mustCheck(t, d)
	}
}

// TestSchemaOfRemoved: what is being removed is not checked.
func TestSchemaOfRemoved(t *testing.T) {
	d := open(t)
	d.batch = 1
	star(t, d, Default, 4)
	if err := d.broken(1).RemoveVertex(t.Context(), Default, "hub"); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	s := closed("vertex")
	s.Vertices[0].Closed = true // the hub has names
	mustSchema(t, d, Default, s)
	if err := d.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, d)
}

// TestHiddenEdges: an edge of a vertex that is being removed does not count, but those
// behind it do.
func TestHiddenEdges(t *testing.T) {
	for _, multi := range []Multiplicity{OneOut, OneIn, OneToOne} {
		d := open(t)
		d.batch = 1
		star(t, d, Default, 4)
		if err := d.broken(1).RemoveVertex(t.Context(), Default, "hub"); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		mustSchema(t, d, Default, Schema{Edges: []EdgeType{{Label: "to", Multiplicity: multi}}})
		mustUpdate(t, d, Default, func(tx *Tx) error {
			for id := int64(2); id < 6; id++ {
				v, _, err := tx.Vertex(id)
				if err != nil {
					return err
				}
				if _, err = tx.AddEdge("to", v, v, nil); err != nil {
					return err
				}
				_, err = tx.AddEdge("to", v, v, nil)
				wantCode(t, "a second edge", err, CodeSchema)
			}
			return nil
		})
		mustCheck(t, d)
	}
}

// TestSchemaDropped: a graph that is dropped takes its schema with it, but for Default.
func TestSchemaDropped(t *testing.T) {
	d := open(t)
	d.batch = 60
	mustUpdate(t, d, Default, func(tx *Tx) error { return ring(tx, 5) })
	mustSchema(t, d, Default, named("n"))
	if err := d.Drop(t.Context(), Default); err != nil {
		t.Fatal(err)
	}
	wantSchemas(t, d, 1, 0)
	wantCode(t, "a vertex without a name", add(t, d, "n"), CodeSchema)
	mustUpdate(t, d, Default, func(tx *Tx) error { return ring(tx, 5) })
	if err := d.broken(2).SetSchema(t.Context(), Default, closed("n", "m")); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	wantSchemas(t, d, 1, 2)
	if err := d.Drop(t.Context(), Default); err != nil {
		t.Fatal(err)
	}
	wantSchemas(t, d, 2, 0) // there was nothing left to be checked
	mustSchema(t, d, Default, closed("n", "m"))
	wantSchemas(t, d, 2, 0)
	if err := d.Create(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	mustSchema(t, d, "two", named("n"))
	if err := d.Drop(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	if err := d.Create(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	now, _, err := d.Schema(t.Context(), "two")
	if now != nil || err != nil {
		t.Errorf("a new graph has the schema %v, %v", now, err)
	}
	mustUpdate(t, d, Default, func(tx *Tx) error {
		for done := false; !done; {
			var err error
			if done, err = tx.Clear(10); err != nil {
				return err
			}
		}
		return nil
	})
	wantSchemas(t, d, 2, 0)
	mustCheck(t, d)
}

// TestSchemaReopened: other graphs on the same engine have the schema too, and one
// whose check was interrupted.
func TestSchemaReopened(t *testing.T) {
	d := open(t)
	mustSchema(t, d, Default, closed("a", "b"))
	if err := d.broken(1).SetSchema(t.Context(), Default, closed("a")); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	d, err := New(d.eng)
	if err != nil {
		t.Fatal(err)
	}
	wantSchemas(t, d, 1, 2)
	wantCode(t, "b", add(t, d, "b"), CodeSchema)
	mustSchema(t, d, Default, closed("a"))
	wantSchemas(t, d, 2, 0)
	mustCheck(t, d)
}

// schemaFile has the keys of a graph with a schema, and another one that is checked.
const schemaFile = "testdata/schema-1.txt"

// TestGoldenSchema checks that the format of schemas stays as it is.
func TestGoldenSchema(t *testing.T) {
	d := open(t)
	d.batch = 20
	mustSchema(t, d, Default, people())
	mustUpdate(t, d, Default, town)
	other := people()
	other.Edges[3].Multiplicity, other.Closed = Many, false
	if err := d.broken(3).SetSchema(t.Context(), Default, other); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	got := dump(t, d)
	if *rewrite {
		if err := os.WriteFile(schemaFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the keys are not those of %s, but\n%s", schemaFile, got)
	}
	restored := open(t)
	restore(t, restored, string(want))
	wantSchemas(t, restored, 1, 2)
	mustCheck(t, restored)
	wantRefusalOf(t, restored, "hates")
	mustSchema(t, restored, Default, other)
	wantSchemas(t, restored, 2, 0)
	mustCheck(t, restored)
	damageSchema(t, string(want))
}

func wantRefusalOf(t *testing.T, d *DB, label string) {
	t.Helper()
	_, err := d.Update(t.Context(), Default, addActing(addEdge(label, "a", "b")))
	wantCode(t, label, err, CodeSchema)
}

func addActing(fn func(*acting) error) func(*Tx) error {
	return func(tx *Tx) error { return fn(&acting{tx}) }
}

// damageSchema cuts and changes the stored schemas: writes say so, and do not panic.
func damageSchema(t *testing.T, text string) {
	t.Helper()
	d := open(t)
	restore(t, d, text)
	for line := range strings.Lines(text) {
		quoted, val, _ := strings.Cut(strings.TrimSpace(line), " ")
		key, err := strconv.Unquote(quoted)
		if err != nil || !strings.Contains(key, "d\x00") && !strings.HasSuffix(key, "\x01s") {
			continue
		}
		raw, err := hex.DecodeString(val)
		if err != nil {
			t.Fatal(err)
		}
		for cut := range len(raw) + 1 {
			for _, more := range []string{"", "\x00", "\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"} {
				damaged := append(raw[:cut:cut], more...)
				_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
					err := tx.Engine().Put([]byte(key), damaged)
					return errors.Join(err, useDamaged(tx), errBack)
				})
				if err == nil || strings.Contains(err.Error(), "useDamaged") {
					t.Errorf("with %q = %x: %v", key, damaged, err)
				}
			}
		}
	}
}

// useDamaged writes and declares. Errors that say what is wrong are none.
func useDamaged(tx *Tx) error {
	_, first := tx.AddVertex([]string{"city"}, "n")
	_, second := tx.declare(&Schema{Closed: true})
	_, _, third := tx.Schema()
	for _, err := range []error{first, second, third} {
		if code := engine.CodeOf(err); err != nil && code != engine.CodeCorrupt && code != engine.CodeFormatNewer && code != CodeSchema {
			return fmt.Errorf("useDamaged: %w", err)
		}
	}
	return nil
}
