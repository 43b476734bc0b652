package traversal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

// random writes a traversal of n steps that can follow each other.
func random(r *rand.Rand, n int) string {
	values := []string{"0", "1", "2", "3", "'a'", "'ab'", "2.0d", "true"}
	val := func() string { return values[r.IntN(len(values))] }
	preds := []func() string{
		val,
		func() string { return "gt(" + val() + ")" },
		func() string { return "lte(" + val() + ")" },
		func() string { return "within(" + val() + ", " + val() + ")" },
		func() string { return "between(" + val() + ", " + val() + ")" },
		func() string { return "neq(" + val() + ")" },
		func() string { return "startingWith('a')" },
	}
	has := func() string {
		key := string("pq"[r.IntN(2)])
		if r.IntN(3) == 0 {
			return fmt.Sprintf(".has('%c', '%s', %s)", "xy"[r.IntN(2)], key, preds[r.IntN(len(preds))]())
		}
		return fmt.Sprintf(".has('%s', %s)", key, preds[r.IntN(len(preds))]())
	}
	text := "g.V()"
	for range r.IntN(3) {
		text += has()
	}
	for range n {
		switch r.IntN(8) {
		case 0:
			text += ".out()"
		case 1:
			text += ".both('e')"
		case 2:
			text += ".in('e', 'f')"
		case 3:
			text += has()
		case 4:
			text += ".where(__.out()" + has() + ")"
		case 5:
			text += ".repeat(__.out()).times(2)"
		case 6:
			text += ".union(__.out(), __.in('f'))"
		case 7:
			text += ".dedup()"
		}
	}
	return text + ".values('p', 'n').fold()"
}

// fill makes a random graph in two of a database: a and b, of which b has indexes.
func fill(t *testing.T, db *graph.DB, r *rand.Rand) {
	t.Helper()
	for _, name := range []string{"a", "b"} {
		if err := db.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, ix := range []graph.Index{
		{On: value.KindVertex, Label: "x", Keys: []string{"p", "q"}},
		{On: value.KindVertex, Keys: []string{"q"}},
	} {
		if err := db.AddIndex(t.Context(), "b", ix); err != nil {
			t.Fatal(err)
		}
	}
	vals := []any{int32(0), int64(1), 2.0, int32(3), "a", "ab", "abc", true, nil}
	type edge struct{ out, in, label int }
	var labels []string
	var props [][2]any
	var edges []edge
	for range 12 {
		labels = append(labels, string("xy"[r.IntN(2)]))
		props = append(props, [2]any{vals[r.IntN(len(vals))], vals[r.IntN(len(vals))]})
	}
	for range 25 {
		edges = append(edges, edge{r.IntN(12), r.IntN(12), r.IntN(2)})
	}
	for _, name := range []string{"a", "b"} {
		if _, err := db.Update(t.Context(), name, func(tx *graph.Tx) error {
			var vs []*graph.Vertex
			for i := range labels {
				v, err := tx.AddVertex(labels[i:i+1], nil)
				if err != nil {
					return err
				}
				for j, key := range []string{"p", "q"} {
					if props[i][j] == nil {
						continue
					}
					if _, err := v.Set(graph.Single, key, props[i][j]); err != nil {
						return err
					}
				}
				if _, err := v.Set(graph.Single, "n", int64(i)); err != nil {
					return err
				}
				vs = append(vs, v)
			}
			for _, e := range edges {
				if _, err := tx.AddEdge(string("ef"[e.label]), vs[e.out], vs[e.in], nil); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSameResults: a traversal yields the same with and without indexes, and with
// and without paths, which keep traversers from being joined.
func TestSameResults(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	db := open(t)
	fill(t, db, r)
	yields := func(name, text string) string {
		q, err := gremlin.Parse(text, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		plan, err := traversal.Compile(q.Traversal)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var out []string
		if _, err := db.View(t.Context(), engine.Read{}, name, func(tx *graph.Tx) error {
			out = nil
			return plan.Run(t.Context(), tx, traversal.Options{}, func(v any, _ int64) error {
				for _, item := range value.Items(v) {
					out = append(out, value.Text(item))
				}
				return nil
			})
		}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for range 300 {
		text := random(r, r.IntN(5))
		want := yields("a", text)
		for _, other := range []struct{ name, text string }{{"b", text}, {"a", strings.Replace(text, "g.", "g.withPath().", 1)}} {
			if got := yields(other.name, other.text); got != want {
				t.Fatalf("%s on %s yields\n%s, want\n%s", other.text, other.name, got, want)
			}
		}
	}
}

// TestLimits: what asks for too much ends with an error that names the step.
func TestLimits(t *testing.T) {
	db := open(t)
	deep := strings.Repeat("__.where(", 240) + "__.out()" + strings.Repeat(")", 240)
	for _, c := range []struct{ text, want string }{
		{"g.V().fold()", ""},
		{"g.V().repeat(both()).times(30).path()", "MaxHeld"},
		{"g.V().repeat(both())", "2^63"},
		{"g.inject(1).repeat(identity())", "MaxLoops"},
		{"g.V().where(" + deep + ")", ""},
		{"g.inject('" + strings.Repeat("x", 1<<16) + "').repeat(concat(identity())).times(20)", "MaxString"},
		{"g.V().math('" + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + "')", "nested"},
		{"g.V().has('name', regex('" + strings.Repeat("a", traversal.MaxRegexp+1) + "'))", "MaxRegexp"},
	} {
		_, err := run(t.Context(), db, c.text, traversal.Options{MaxHeld: 2000})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%.60s: %v", c.text, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%.60s: %v, want %s", c.text, err, c.want)
		}
		var own *traversal.StepError
		if err != nil && (!errors.As(err, &own) || own.Step == "") {
			t.Errorf("%.60s: %T names no step", c.text, err)
		}
	}
}

// TestNesting: traversals are nested so deep at most.
func TestNesting(t *testing.T) {
	inner := &gremlin.Traversal{Steps: []gremlin.Call{{Name: "out"}}}
	for range traversal.MaxDepth {
		inner = &gremlin.Traversal{Steps: []gremlin.Call{{Name: "where", Args: []any{inner}}}}
	}
	all := &gremlin.Traversal{Steps: []gremlin.Call{{Name: "V"}, {Name: "where", Args: []any{inner}}}}
	if _, err := traversal.Compile(all); err == nil || !strings.Contains(err.Error(), "MaxDepth") {
		t.Errorf("too deep: %v", err)
	}
}

// TestCancel: a traversal ends soon after its context.
func TestCancel(t *testing.T) {
	db := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	q, err := gremlin.Parse("g.V().emit().repeat(both().simplePath().or().both())", nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := traversal.Compile(q.Traversal)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.View(ctx, engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		return plan.Run(ctx, tx, traversal.Options{}, func(any, int64) error {
			if rounds++; rounds == 10 {
				cancel()
			}
			return nil
		})
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after %d results: %v", rounds, err)
	}
}

// TestStop: an error of whoever takes the results ends the traversal and comes back
// as it is.
func TestStop(t *testing.T) {
	db := open(t)
	q, err := gremlin.Parse("g.V().union(both(), identity()).local(union(out(), in()))", nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := traversal.Compile(q.Traversal)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = db.View(t.Context(), engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		n = 0
		return plan.Run(t.Context(), tx, traversal.Options{}, func(any, int64) error {
			n++
			return errUndo
		})
	})
	if err != errUndo || n != 1 {
		t.Errorf("%d results, %v", n, err)
	}
}

// TestProfile: profile yields the time and the traversers of each step.
func TestProfile(t *testing.T) {
	db := open(t)
	q, err := gremlin.Parse("g.V().hasLabel('city').out().count().profile()", nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := traversal.Compile(q.Traversal)
	if err != nil {
		t.Fatal(err)
	}
	var m *value.TraversalMetrics
	if _, err := db.View(t.Context(), engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		return plan.Run(t.Context(), tx, traversal.Options{}, func(v any, _ int64) error {
			m = v.(*value.TraversalMetrics)
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range m.Steps {
		n, _ := s.Counts.Get("elementCount")
		got = append(got, fmt.Sprint(s.Name, " ", n))
		if s.Nanos < 0 {
			t.Errorf("%s took %d ns", s.Name, s.Nanos)
		}
	}
	want := []string{`V() 8`, `hasLabel("city") 5`, `out() 5`, `count() 1`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestIndexOfSeveralKeys: an index lacks elements that lack one of its keys, so that
// it does not answer tests of the others alone.
func TestIndexOfSeveralKeys(t *testing.T) {
	db := open(t)
	if err := db.AddIndex(t.Context(), graph.Default, graph.Index{On: value.KindVertex, Label: "city", Keys: []string{"country", "founded"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), db, "g.V('bergen').property('founded', 1070)", traversal.Options{}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"g.V().has('city', 'country', 'no').count()":                                        "4",
		"g.V().has('city', 'country', 'no').has('founded', gt(1000)).count()":               "1",
		"g.V().has('city', 'country', 'no').has('founded', neq('x')).count()":               "1",
		"g.V().has('city', 'country', 'no').has('founded', within(1070, 1)).values('name')": "Bergen",
	} {
		if got, err := run(t.Context(), db, text, traversal.Options{}); err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, %v; want %s", text, got, err, want)
		}
	}
}
