package graph

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph/value"
)

// refused runs fn in a transaction, which must fail with a code, and checks that it
// has written nothing, even if the failure is ignored.
func refused(t *testing.T, d *DB, what string, code engine.Code, fn func(tx *Tx, v *Vertex) error) {
	t.Helper()
	before := dump(t, d)
	for _, ignore := range []bool{false, true} {
		_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
			v, _, err := tx.Vertex("v")
			if err != nil {
				return err
			}
			if err = fn(tx, v); err == nil {
				return fmt.Errorf("not refused")
			}
			wantCode(t, what, err, code)
			if ignore {
				return nil
			}
			return err
		})
		if !ignore {
			wantCode(t, what, err, code)
			if dump(t, d) != before {
				t.Errorf("%s: something was written", what)
			}
		}
		mustCheck(t, d)
	}
}

// nested returns a list in a list, and so on.
func nested(depth int) any {
	v := value.List{}
	for range depth - 1 {
		v = value.List{v}
	}
	return v
}

// refusal is a call that is refused.
type refusal struct {
	what string
	code engine.Code
	fn   func(tx *Tx, v *Vertex) error
}

// setTo sets a property to a value.
func setTo(val any) func(*Tx, *Vertex) error {
	return func(_ *Tx, v *Vertex) error { _, err := v.Set(Single, "p", val); return err }
}

// tooManyDigits returns a number that is too large.
func tooManyDigits() *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(2*value.MaxDigits), nil)
}

func refusals() []refusal {
	return []refusal{
		{"an id twice", CodeExists, func(tx *Tx, _ *Vertex) error { _, err := tx.AddVertex(nil, "v"); return err }},
		{"an edge's id twice", CodeExists, func(tx *Tx, v *Vertex) error { _, err := tx.AddEdge("e", v, v, "e"); return err }},
		{"a removed end", CodeNoElement, func(tx *Tx, v *Vertex) error { _, err := tx.AddEdge("e", v, &Vertex{t: tx, num: 800}, nil); return err }},
		{"a unique value", CodeUnique, func(_ *Tx, v *Vertex) error { _, err := v.Set(List, "u", "w"); return err }},
		{"an edge as a property", CodeValue, func(tx *Tx, v *Vertex) error { return setTo(v)(tx, v) }},
		{"a float as an id", CodeValue, func(tx *Tx, _ *Vertex) error { _, err := tx.AddVertex(nil, 1.5); return err }},
		{"a huge id", CodeValue, func(tx *Tx, _ *Vertex) error { _, err := tx.AddVertex(nil, tooManyDigits()); return err }},
		{"a meta-property's key", CodeValue, func(_ *Tx, v *Vertex) error {
			_, err := v.Set(Single, "p", 1.0, value.Entry{Key: 1.0})
			return err
		}},
		{"a char", CodeValue, setTo(value.Char(-1))},
		{"a duration", CodeValue, setTo(value.Duration{Nanos: 1e9})},
	}
}

// limitsBeyond are one beyond limits.
func limitsBeyond() []refusal {
	bulky := &value.BulkSet{}
	bulky.Add("x", 1<<40)
	return []refusal{
		{"an index on properties", CodeSchema, func(tx *Tx, _ *Vertex) error {
			_, err := tx.DefineIndex(Index{On: value.KindVertexProperty, Keys: []string{"a"}})
			return err
		}},
		{"a key twice", CodeSchema, func(tx *Tx, _ *Vertex) error {
			_, err := tx.DefineIndex(Index{On: value.KindVertex, Keys: []string{"a", "a"}})
			return err
		}},
		{"another index", CodeSchema, func(tx *Tx, _ *Vertex) error {
			_, err := tx.DefineIndex(Index{On: value.KindVertex, Keys: []string{"u"}})
			return err
		}},
		{"MaxIndexKeys", engine.CodeLimit, func(tx *Tx, _ *Vertex) error {
			_, err := tx.DefineIndex(Index{On: value.KindVertex, Keys: make([]string, MaxIndexKeys+1)})
			return err
		}},
		{"too many keys looked up", engine.CodeInvalid, func(tx *Tx, _ *Vertex) error {
			all, err := tx.Indexes()
			if err != nil {
				return err
			}
			_, err = tx.Lookup(all[0], []any{"a"}, &Bound{Val: "b"}, nil, nil)
			return err
		}},
		{"MaxIDBytes", engine.CodeLimit, func(tx *Tx, _ *Vertex) error {
			_, err := tx.AddVertex(nil, strings.Repeat("x", MaxIDBytes+1))
			return err
		}},
		{"an empty id", engine.CodeLimit, func(tx *Tx, v *Vertex) error { _, err := tx.AddEdge("e", v, v, ""); return err }},
		{"MaxNameBytes", engine.CodeLimit, func(tx *Tx, _ *Vertex) error {
			_, err := tx.AddVertex([]string{strings.Repeat("x", MaxNameBytes+1)}, nil)
			return err
		}},
		{"an empty name", engine.CodeLimit, func(_ *Tx, v *Vertex) error { _, err := v.Set(Single, "", 1.0); return err }},
		{"MaxLabels", engine.CodeLimit, func(tx *Tx, _ *Vertex) error {
			_, err := tx.AddVertex(slices.Repeat([]string{"l"}, MaxLabels+1), nil)
			return err
		}},
		{"MaxDepth", engine.CodeLimit, setTo(nested(MaxDepth + 1))},
		{"MaxPropertyBytes", engine.CodeLimit, setTo(make([]byte, MaxPropertyBytes-3))},
		{"digits", engine.CodeLimit, setTo(tooManyDigits())},
		{"scale", engine.CodeLimit, setTo(value.Decimal{Unscaled: big.NewInt(1), Scale: value.MaxDigits + 1})},
		{"bulk", engine.CodeLimit, setTo(bulky)},
	}
}

// TestRefused has each code of Catalog, and each limit one beyond.
func TestRefused(t *testing.T) {
	d := open(t)
	for _, ix := range []Index{{On: value.KindVertex, Keys: []string{"u"}, Unique: true}, {On: value.KindVertex, Keys: []string{"a", "b"}}} {
		if err := d.AddIndex(t.Context(), Default, ix); err != nil {
			t.Fatal(err)
		}
	}
	mustUpdate(t, d, Default, func(tx *Tx) error {
		for _, id := range []any{"v", "w"} {
			v, err := tx.AddVertex(nil, id)
			if err == nil {
				_, err = v.Set(Single, "u", id)
			}
			if err == nil && id == "v" {
				_, err = tx.AddEdge("e", v, v, "e")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range append(refusals(), limitsBeyond()...) {
		refused(t, d, c.what, c.code, c.fn)
	}
	mustUpdate(t, d, Default, func(tx *Tx) error { // at the limit
		v, err := tx.AddVertex(slices.Repeat([]string{"l"}, MaxLabels), strings.Repeat("x", MaxIDBytes))
		for _, val := range []any{nested(MaxDepth), value.Decimal{Unscaled: big.NewInt(-1), Scale: -value.MaxDigits}, new(big.Int).Rsh(tooManyDigits(), 33_400)} {
			if err == nil {
				_, err = v.Set(List, strings.Repeat("x", MaxNameBytes), val)
			}
		}
		return err
	})
	_, err := d.Update(t.Context(), "nowhere", func(*Tx) error { return nil })
	wantCode(t, "no graph", err, CodeNoGraph)
	wantCode(t, "a name of a graph", d.Create(t.Context(), strings.Repeat("x", MaxNameBytes+1)), engine.CodeInvalid)
	wantCode(t, "drop", d.Drop(t.Context(), "nowhere"), CodeNoGraph)
}

// TestRemovedElements checks that what was removed cannot be changed, and says so.
func TestRemovedElements(t *testing.T) {
	d := open(t)
	mustUpdate(t, d, Default, func(tx *Tx) error {
		v, err := tx.AddVertex(nil, "v")
		if err != nil {
			return err
		}
		p, err := v.Set(Single, "a", "b")
		if err != nil {
			return err
		}
		e, err := tx.AddEdge("e", v, v, "e")
		if err != nil {
			return err
		}
		if err := v.Remove(); err != nil {
			return err
		}
		_, err = v.Set(Single, "a", "c")
		wantCode(t, "Vertex.Set", err, CodeNoElement)
		wantCode(t, "Edge.Set", e.Set("a", "c"), CodeNoElement)
		wantCode(t, "VertexProperty.Set", p.Set("a", "c"), CodeNoElement)
		for _, of := range []value.Element{v, e, p} {
			if err := tx.RemoveProperty(of, "a"); err != nil && of != value.Element(v) {
				t.Errorf("RemoveProperty of %T: %v", of, err)
			}
		}
		wantCode(t, "RemoveProperty of a path", tx.RemoveProperty(&value.Vertex{}, "a"), CodeValue)
		if v.ElementID() != any("v") || e.ElementID() != any("e") {
			t.Errorf("the ids are %v and %v", v.ElementID(), e.ElementID())
		}
		for _, remove := range []func() error{v.Remove, e.Remove, p.Remove} {
			if err := remove(); err != nil {
				t.Errorf("remove again: %v", err)
			}
		}
		return nil
	})
	mustCheck(t, d)
}

// TestMaxGraphs and the limits of indexes count what is still being removed.
func TestMaxGraphs(t *testing.T) {
	d := open(t)
	if _, err := d.eng.Update(t.Context(), func(tx engine.Tx) error {
		for i := range MaxGraphs - 1 {
			if err := tx.Put(graphName(fmt.Sprint("g", i)), appendNumber(nil, uint64(i+2))); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.broken(1).Drop(t.Context(), "g0"); err == nil {
		t.Fatal("Drop was not interrupted")
	}
	if err := d.Create(t.Context(), "last"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "one more", d.Create(t.Context(), "more"), engine.CodeLimit)
	if err := d.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Create(t.Context(), "more"); err != nil {
		t.Fatal(err)
	}
}

func TestMaxIndexes(t *testing.T) {
	d := open(t)
	ix := func(i int) Index { return Index{On: value.KindVertex, Keys: []string{fmt.Sprint("k", i)}} }
	mustUpdate(t, d, Default, func(tx *Tx) error {
		for i := range MaxIndexes {
			if _, err := tx.DefineIndex(ix(i)); err != nil {
				return err
			}
		}
		_, err := tx.DefineIndex(ix(0))
		return err
	})
	wantCode(t, "one more", d.AddIndex(t.Context(), Default, ix(MaxIndexes)), engine.CodeLimit)
	if err := d.RemoveIndex(t.Context(), Default, ix(3)); err != nil {
		t.Fatal(err)
	}
	if err := d.AddIndex(t.Context(), Default, ix(MaxIndexes)); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, d)
}

// TestMaxNames gives the last number of a name.
func TestMaxNames(t *testing.T) {
	d := open(t)
	mustUpdate(t, d, Default, func(tx *Tx) error {
		return tx.put(tx.key(roomNumbers, MaxNames-1), []byte("last but one"))
	})
	for i, want := range []engine.Code{"", engine.CodeLimit} {
		_, err := d.Update(t.Context(), Default, func(tx *Tx) error {
			_, err := tx.AddVertex([]string{fmt.Sprint("l", i)}, nil)
			return err
		})
		wantCode(t, fmt.Sprint("name ", i), err, want)
	}
}

// TestMaxEntries and MaxProperties are tested on records, which take too long to fill.
func TestMaxEntries(t *testing.T) {
	tx := begin(nil, 1, true)
	ix := &Index{num: 1, keys: []uint64{1, 2}, Keys: []string{"a", "b"}}
	vals := func(n int) func(uint64) []any {
		return func(key uint64) []any {
			if key == 2 {
				return []any{"x", "y"}
			}
			return slices.Repeat([]any{true}, n)
		}
	}
	if _, err := ix.entries(tx, nil, vals(MaxEntries/2)); err != nil {
		t.Error(err)
	}
	_, err := ix.entries(tx, nil, vals(MaxEntries/2+1))
	wantCode(t, "one more", err, engine.CodeLimit)
	rec := &vertexRecord{props: make([]vertexProp, MaxProperties)}
	if _, err := rec.encode(); err != nil {
		t.Error(err)
	}
	rec.props = append(rec.props, vertexProp{})
	_, err = rec.encode()
	wantCode(t, "a property more", err, engine.CodeLimit)
	_, err = (&edgeRecord{props: make([]prop, MaxProperties+1)}).encode()
	wantCode(t, "an edge's property more", err, engine.CodeLimit)
}

// TestCatalog checks that the codes are sorted and have texts.
func TestCatalog(t *testing.T) {
	all := Catalog()
	for i, m := range all {
		if m.Text == "" || m.Kind == "" || i > 0 && all[i-1].Code >= m.Code {
			t.Errorf("the code %q is out of order, or has no text", m.Code)
		}
	}
}

// TestNeeds checks that weaker engines are refused by name.
func TestNeeds(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{Memory: true})
	_, err := New(enginetest.Within(eng, engine.OnePartition))
	wantCode(t, "New", err, engine.CodeUnsupported)
}

// TestDamage flips and cuts the values of all keys. Every reader returns CodeCorrupt,
// or reads something else, and never panics.
func TestDamage(t *testing.T) {
	d := open(t)
	mustUpdate(t, d, Default, goldenGraph)
	text := dump(t, d)
	lines := strings.Split(strings.TrimSpace(text), "\n")[1:]
	for i, line := range lines {
		for _, bad := range []string{"", "ff", "00", "fdfdfdfdfdfdfdfdfdfd"} {
			key, _, _ := strings.Cut(line, `" `)
			damaged := slices.Clone(lines)
			damaged[i] = key + `" ` + bad
			readDamaged(t, d, damaged[i])
		}
		readDamaged(t, d, line)
	}
}

// readDamaged stores one line of a dump and reads everything.
func readDamaged(t *testing.T, d *DB, line string) {
	t.Helper()
	restore(t, d, line+"\n")
	_, err := d.View(t.Context(), engine.Read{}, Default, func(tx *Tx) error {
		all, err := tx.Indexes()
		if err != nil {
			return err
		}
		for _, ix := range all {
			found := *ix
			found.Filling = false
			for _, lo := range []*Bound{nil, {Val: ""}, {Val: 0.0}} {
				if _, err := tx.Lookup(&found, nil, lo, nil, func(s value.Stored) error { _ = value.Text(s); return nil }); err != nil {
					return err
				}
			}
		}
		for _, id := range []any{"own", int64(1), int64(-1)} {
			if _, _, err := tx.Vertex(id); err != nil {
				return err
			}
		}
		if _, _, err := tx.Edge("e"); err != nil {
			return err
		}
		if err := tx.Vertices(func(v *Vertex) error {
			_ = value.Text(v)
			if err := tx.Edges(v, Both, nil, func(e *Edge) error {
				_ = value.Text(e)
				return e.Properties(nil, func(*value.Property) error { return nil })
			}); err != nil {
				return err
			}
			return v.Properties(nil, func(*VertexProperty) error { return nil })
		}); err != nil {
			return err
		}
		return tx.Err()
	})
	if code := engine.CodeOf(err); err != nil && code != engine.CodeCorrupt && code != CodeNoElement {
		t.Errorf("with %s: the error is %v", line, err)
	}
}
