package graph

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

var rewrite = flag.Bool("rewrite", false, "write the keys in testdata anew: only for a format that is new, which must still read the old one")

// goldenFile has every key and value of some graphs, as this version stores them: the
// key as text and the value in hexadecimal digits. A # begins a comment.
const goldenFile = "testdata/keys-1.txt"

// goldenValues has a value of each kind that can be stored.
func goldenValues() []any {
	small, _ := value.ParseDecimal("-12.50")
	return []any{
		nil, false, true, int8(-1), int16(-300), int32(70000), int64(math.MinInt64), new(big.Int).Lsh(big.NewInt(-3), 70), float32(1.5),
		math.Inf(-1), math.Copysign(0, -1), small, "", "ü\x00", value.Char('ü'), value.UUID{1, 15: 255},
		time.Date(2026, 1, 31, 12, 0, 0, 5, time.FixedZone("", 5400)), time.Unix(-1, 0).UTC(), value.Duration{Seconds: -1, Nanos: 999_999_999},
		[]byte{0, 255}, value.List{int32(1), value.List{}}, value.NewSet("a", int64(1)), value.MapOf("k", nil, int32(1), value.MapOf()),
	}
}

// goldenGraph writes elements of all kinds.
func goldenGraph(tx *Tx) error {
	for _, ix := range []Index{
		{On: value.KindVertex, Keys: []string{"v"}}, {On: value.KindVertex, Label: "person", Keys: []string{"name", "v"}, Unique: true},
		{On: value.KindEdge, Label: "knows", Keys: []string{"n"}},
	} {
		if _, err := tx.DefineIndex(ix); err != nil {
			return err
		}
	}
	a, err := tx.AddVertex([]string{"person", "other"}, nil)
	if err != nil {
		return err
	}
	for _, val := range goldenValues() {
		if _, err := a.Set(List, "v", val); err != nil {
			return err
		}
	}
	if _, err := a.Set(Single, "name", "Anna", value.Entry{Key: "since", Val: int64(2026)}); err != nil {
		return err
	}
	vertices := []*Vertex{a}
	for _, id := range []any{int64(300), int64(5000), int64(1 << 40), "own", int64(-1), value.UUID{2}} {
		v, err := tx.AddVertex(nil, id)
		if err != nil {
			return err
		}
		vertices = append(vertices, v)
	}
	for i, v := range vertices {
		e, err := tx.AddEdge("knows", a, v, []any{nil, "e", int64(7)}[i%3])
		if err == nil && i%2 == 0 {
			err = e.Set("n", int64(i))
		}
		if err != nil && i < 3 {
			return err
		}
	}
	raw, _, err := vertices[2].stored()
	if err != nil {
		return err
	}
	return vertices[2].leave(raw)
}

// dump returns all keys of graphs as goldenFile has them.
func dump(t *testing.T, d *DB) string {
	t.Helper()
	var b strings.Builder
	if _, err := d.eng.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		b.Reset()
		b.WriteString("# written by go test -run TestGolden -rewrite ./graph\n")
		lo, hi := within(graphPrefix(0)[:1])
		for p, err := range tx.Scan(lo, hi) {
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%q %x\n", p.Key, p.Val)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGolden checks that the format stays as it is, and can be read.
func TestGolden(t *testing.T) {
	d := open(t)
	for _, name := range []string{"second", "third"} {
		if err := d.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	mustUpdate(t, d, "second", goldenGraph)
	d.batch = 100
	if err := d.broken(1).Drop(t.Context(), "third"); err == nil {
		t.Fatal("Drop was not interrupted")
	}
	if err := d.broken(2).AddIndex(t.Context(), "second", Index{On: value.KindVertex, Keys: []string{"name", "v"}}); err == nil {
		t.Fatal("AddIndex was not interrupted")
	}
	if err := d.broken(1).RemoveIndex(t.Context(), "second", Index{On: value.KindEdge, Label: "knows", Keys: []string{"n"}}); err == nil {
		t.Fatal("RemoveIndex was not interrupted")
	}
	mustCheck(t, d)
	got := dump(t, d)
	if *rewrite {
		if err := os.WriteFile(goldenFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the keys are not those of %s, but\n%s", goldenFile, got)
	}
	restored := open(t)
	restore(t, restored, string(want))
	mustCheck(t, restored)
	wantGolden(t, restored)
	if dump(t, restored) != string(want) {
		t.Error("reading has changed something")
	}
	if err := restored.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCheck(t, restored)
}

// restore stores the keys of a golden file.
func restore(t *testing.T, d *DB, text string) {
	t.Helper()
	if _, err := d.eng.Update(t.Context(), func(tx engine.Tx) error {
		for line := range strings.Lines(text) {
			if line[0] == '#' {
				continue
			}
			var key, val string
			if _, err := fmt.Sscanf(line, "%q %s", &key, &val); err != nil && strings.Count(line, " ") == 0 {
				return err
			}
			raw, err := hex.DecodeString(val)
			if err != nil {
				return err
			}
			if err := tx.Put([]byte(key), raw); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// wantGolden checks what can be read of goldenGraph.
func wantGolden(t *testing.T, d *DB) {
	t.Helper()
	mustView(t, d, "second", func(tx *Tx) error {
		a, ok, err := tx.Vertex(int64(1))
		if !ok || err != nil {
			return fmt.Errorf("the first vertex: %v, %w", ok, err)
		}
		want := goldenValues()
		if err := a.Properties([]string{"v"}, func(p *VertexProperty) error {
			if !sameValue(p.Val, want[0]) || value.Text(p.Val) != value.Text(want[0]) {
				t.Errorf("a value is %#v, want %#v", p.Val, want[0])
			}
			want = want[1:]
			return nil
		}); err != nil {
			return err
		}
		var names []string
		if err := tx.Vertices(func(v *Vertex) error { names = append(names, value.Text(v)); return nil }); err != nil {
			return err
		}
		if got, want := strings.Join(names, " "), "v[1] v[300] v[1099511627776] v[own] v[-1] v[02000000-0000-0000-0000-000000000000]"; got != want || len(want) == 0 {
			t.Errorf("the vertices are %s, want %s", got, want)
		}
		return nil
	})
}
