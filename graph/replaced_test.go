package graph

import (
	"errors"
	"testing"
)

// half declares a schema whose check is interrupted before its first batch.
func half(t *testing.T, d *DB, s Schema) {
	t.Helper()
	if err := d.broken(1).SetSchema(t.Context(), Default, s); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
}

// TestReplacedWhileChecked: a check ends when another schema is the next one, and
// leaves that alone.
func TestReplacedWhileChecked(t *testing.T) {
	for _, first := range []Schema{named("n"), closed("other")} { // obeyed, and not
		d := open(t)
		mustUpdate(t, d, Default, func(tx *Tx) error { return ring(tx, 12) })
		d.batch = 60
		for before := 1; before <= 2; before++ { // of its updates after the declaration
			calls := 0
			slow := &DB{eng: &between{Engine: d.eng, call: func() {
				if calls++; calls == before {
					half(t, d, Schema{Vertices: []VertexType{{Label: "n", Closed: before == 2}}})
				}
			}}, batch: d.batch}
			wantCode(t, "SetSchema", slow.SetSchema(t.Context(), Default, first), CodeSchema)
			wantSchemas(t, d, 0, uint64(2*before))
		}
		mustCheck(t, d)
	}
}

// TestReplacedFromTheStart: the check of a schema that replaces another one, which is
// half checked, begins anew.
func TestReplacedFromTheStart(t *testing.T) {
	d := open(t)
	d.batch = 20
	mustUpdate(t, d, Default, func(tx *Tx) error {
		if _, err := tx.AddVertex([]string{"wrong"}, nil); err != nil {
			return err
		}
		return ring(tx, 12)
	})
	if err := d.broken(4).SetSchema(t.Context(), Default, named("n")); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	s := closed("n")
	s.Edges = []EdgeType{{Label: "e"}}
	wantCode(t, "SetSchema", d.SetSchema(t.Context(), Default, s), CodeSchema)
	if err := d.broken(4).SetSchema(t.Context(), Default, named("n")); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	mustSchema(t, d, Default, Schema{})
	wantCode(t, "SetSchema after it was removed", d.SetSchema(t.Context(), Default, s), CodeSchema)
	mustCheck(t, d)
}
