package traversal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

// TestComputed: later steps see what was computed like any property.
func TestComputed(t *testing.T) {
	db := open(t)
	if err := db.AddIndex(t.Context(), graph.Default, graph.Index{On: value.KindVertex, Keys: []string{"c"}}); err != nil {
		t.Fatal(err)
	}
	const c = ".connectedComponent().with(ConnectedComponent.edges, bothE('road')).with(ConnectedComponent.propertyName, 'c')"
	for _, q := range []struct{ text, want string }{
		{"g.V('oslo')" + c + ".values('c')", "[bergen]"},
		{"g.V('oslo')" + c + ".properties('c').value()", "[bergen]"},
		{"g.V('oslo')" + c + ".properties('c').element().id()", "[oslo]"},
		{"g.V('oslo')" + c + ".properties('c').properties()", "[]"},
		{"g.V('oslo')" + c + ".properties().key().dedup().order()", "[c country name nick people]"},
		{"g.V('oslo')" + c + ".valueMap('c', 'name')", "[{c=[bergen], name=[Oslo]}]"},
		{"g.V('oslo')" + c + ".elementMap('c')", "[{id=oslo, label=city, c=bergen}]"},
		{"g.V()" + c + ".has('c', 'bergen').count()", "[5]"},
		{"g.V()" + c + ".limit(1).V().has('c', 'bergen').count()", "[5]"},
		{"g.V()" + c + ".hasNot('c').count()", "[0]"},
		{"g.V('oslo').out('road')" + c + ".in('lives').values('c')", "[]"},
		{"g.V('oslo')" + c + ".in('lives').order().by('c', desc).values('c')", "[bob ann]"},
		{"g.V()" + c + ".group().by('c').by(count())", "[{bergen=5, ann=1, bob=1, eva=1}]"},
		{"g.V()" + c + ".values('c').dedup().count()", "[4]"},
		{"g.V('oslo')" + strings.Replace(c, "'c'", "'name'", 1) + ".values('name')", "[bergen]"},
		{"g.V('ann').pageRank().with(PageRank.propertyName, 'c')" + c + ".values('c')", "[ann]"},
		{"g.V().connectedComponent().pageRank().limit(1).valueMap().select(keys).unfold().is(startingWith('gremlin')).count()", "[2]"},
		{"g.V('ann').union(identity(), identity()).pageRank(1).by('r').with(PageRank.times, 0).values('r')", "[2.0 2.0]"},
		{"g.V('ann').in('none').pageRank(1).V().count()", "[0]"},
		{"g.V().as('a').pageRank().order().by('gremlin.pageRankVertexProgram.pageRank', desc).limit(1).select('a').id()", "[kiruna]"},
		{"g.V().pageRank().peerPressure().by(outE('road')).by('p').has('p').count()", "[8]"},
		{"g.withStrategies(SubgraphStrategy(vertices: hasLabel('city'))).V()" + c + ".group().by('c').by(count())", "[{bergen=5}]"},
		{"g.withStrategies(SubgraphStrategy(edges: has('km', gt(1399)))).V()" + c + ".has('c', 'bergen').id()", "[bergen narvik]"},
		{"g.withComputer().V()" + c + ".has('c', 'bergen').count()", "[5]"},
		{"g.V().has('c')", "[]"},
	} {
		out, err := run(t.Context(), db, q.text, traversal.Options{})
		if err != nil {
			t.Errorf("%s: %v", q.text, err)
			continue
		}
		if got := fmt.Sprint(out); got != q.want {
			t.Errorf("%s yields %s, want %s", q.text, got, q.want)
		}
	}
}

// TestNothingStored: what is computed is not in the graph afterwards, also if the
// traversal writes.
func TestNothingStored(t *testing.T) {
	db := open(t)
	all := func() string {
		out, err := run(t.Context(), db, "g.V().elementMap()", traversal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(out, "\n")
	}
	before := all()
	for _, text := range []string{
		"g.V().pageRank().peerPressure().connectedComponent().valueMap()",
		"g.V().shortestPath().with(ShortestPath.includeEdges)",
		"g.V().pageRank().property('seen', true).properties('seen').drop()",
	} {
		if _, err := run(t.Context(), db, text, traversal.Options{}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if after := all(); after != before {
			t.Fatalf("%s leaves\n%s\nof\n%s", text, after, before)
		}
	}
	const keep = "g.V().hasId('ann').pageRank(1).by('r').with(PageRank.times, 0).property('kept', values('r'))"
	if _, err := run(t.Context(), db, keep, traversal.Options{}); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t.Context(), db, "g.V().has('r').count().union(identity(), V('ann').values('kept'))", traversal.Options{}); err != nil || fmt.Sprint(out) != "[0 1.0]" {
		t.Errorf("%v, %v", out, err)
	}
}

func TestOptionErrors(t *testing.T) {
	db := open(t)
	for _, c := range []struct{ text, want string }{
		{"g.V().pageRank(2)", "from 0 to 1"},
		{"g.V().pageRank('a')", "from 0 to 1"},
		{"g.V().pageRank(NaN)", "from 0 to 1"},
		{"g.V().pageRank(0.1, 0.2)", "at most 1 argument"},
		{"g.V().peerPressure(1)", "at most 0 arguments"},
		{"g.V().pageRank().with('x', 1)", "no option x"},
		{"g.V().pageRank().with(1, 1)", "no option 1"},
		{"g.V().pageRank().with(PeerPressure.times, 1)", "no option"},
		{"g.V().pageRank().with('~tinkerpop.pageRank.epsilon', 1)", "no option epsilon"},
		{"g.V().connectedComponent().with('~tinkerpop.connectedComponent.times', 1)", "no option times"},
		{"g.V().pageRank().with(PageRank.times, 'a')", "from 0 to"},
		{"g.V().pageRank().with(PageRank.times, -1)", "from 0 to"},
		{"g.V().pageRank().with(PageRank.times)", "from 0 to"},
		{"g.V().pageRank().with(PageRank.propertyName, 1)", "the key of a property"},
		{"g.V().pageRank().with(PageRank.propertyName, '')", "the key of a property"},
		{"g.V().pageRank().with(PageRank.edges, 'e')", "a traversal"},
		{"g.V().pageRank().with(PageRank.edges, out())", "must yield edges"},
		{"g.V().pageRank().with(PageRank.edges, out().in())", "must yield edges"},
		{"g.V('ann').pageRank().with(PageRank.edges, out().outE())", "edges of the vertex"},
		{"g.V().pageRank().with(PageRank.edges, outE().property('a', 1))", "must not write"},
		{"g.V().pageRank().by()", "1 argument"},
		{"g.V().values('name').pageRank()", "needs a vertex"},
		{"g.V().where(pageRank())", "within another"},
		{"g.V().local(shortestPath())", "within another"},
		{"g.withSack(V()).V().sack()", "a value"},
		{"g.withStrategies(SubgraphStrategy(vertices: connectedComponent())).V()", "within another"},
		{"g.withStrategies(SubgraphStrategy(vertices: shortestPath())).V()", "within another"},
		{"g.V().shortestPath(1)", "at most 0 arguments"},
		{"g.V().shortestPath().with('~tinkerpop.shortestPath.times', 1)", "no option times"},
		{"g.V().shortestPath().with(ShortestPath.target, 1)", "a traversal"},
		{"g.V().shortestPath().with(ShortestPath.target, drop())", "must not write"},
		{"g.V().shortestPath().with(ShortestPath.edges, 1)", "a traversal"},
		{"g.V().shortestPath().with(ShortestPath.distance, 1)", "a property or a traversal"},
		{"g.V().shortestPath().with(ShortestPath.maxDistance, 'a')", "a number"},
		{"g.V().shortestPath().with(ShortestPath.includeEdges, 1)", "a boolean"},
		{"g.V().shortestPath().with(ShortestPath.distance, 'km')", "has no distance"},
		{"g.V().shortestPath().with(ShortestPath.distance, constant(-1))", "not negative"},
		{"g.V().shortestPath().with(ShortestPath.distance, constant('a'))", "not negative"},
		{"g.E().shortestPath()", "needs a vertex"},
	} {
		_, err := run(t.Context(), db, c.text, traversal.Options{})
		var own *traversal.StepError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.text, err)
		case c.want != "" && (!errors.As(err, &own) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestWholeGraphLimits: one more than a limit is refused.
func TestWholeGraphLimits(t *testing.T) {
	db := open(t)
	times := func(n int) string { return fmt.Sprintf("g.V().pageRank().with(PageRank.times, %d)", n) }
	if _, err := run(t.Context(), db, times(traversal.MaxIterations), traversal.Options{}); err != nil {
		t.Error(err)
	}
	if _, err := run(t.Context(), db, times(traversal.MaxIterations+1), traversal.Options{}); err == nil || !strings.Contains(err.Error(), "MaxIterations") {
		t.Errorf("too many iterations: %v", err)
	}
	for step, needs := range map[string]int64{"pageRank": 80, "peerPressure": 80, "connectedComponent": 80, "shortestPath": 200} {
		text := "g.V()." + step + "().count()"
		if _, err := run(t.Context(), db, text, traversal.Options{MaxHeld: needs}); err != nil {
			t.Errorf("%s with %d values: %v", step, needs, err)
		}
		for most := int64(1); most < needs; most *= 2 {
			_, err := run(t.Context(), db, text, traversal.Options{MaxHeld: most})
			if err == nil {
				continue // it needs less
			}
			var own *traversal.StepError
			if !errors.As(err, &own) || own.Step != step || !strings.Contains(err.Error(), "MaxHeld") {
				t.Errorf("%s with %d values: %v", step, most, err)
			}
		}
		if _, err := run(t.Context(), db, text, traversal.Options{MaxHeld: 20}); err == nil {
			t.Errorf("%s needs hardly anything", step)
		}
	}
}

// TestReleased: what a step held is given back, so that many steps fit. Only the
// computed properties stay.
func TestReleased(t *testing.T) {
	db := open(t)
	for text, most := range map[string]int64{
		"g.V()" + strings.Repeat(".pageRank()", 10) + ".count()":                       300,
		"g.V()" + strings.Repeat(".shortestPath().limit(8).unfold()", 10) + ".count()": 300,
	} {
		if _, err := run(t.Context(), db, text, traversal.Options{MaxHeld: most}); err != nil {
			t.Errorf("%.40s…: %v", text, err)
		}
	}
}

// ring returns a graph of n vertices, each with an edge to the next one. A walker who
// never leaps goes round for ever.
func ring(t *testing.T, n int) *mesh {
	m := &mesh{}
	for i := range n {
		m.edges = append(m.edges, meshEdge{out: i, in: (i + 1) % n, label: "e"})
	}
	m.store(t, make([]bool, n))
	return m
}

// TestProgress: steps report what they have done, in order.
func TestProgress(t *testing.T) {
	m := ring(t, 20)
	for text, want := range map[string][]string{
		"g.V().has('n', 0).pageRank(1).with(PageRank.times, 3).count()": {"pageRank 1/3", "pageRank 2/3", "pageRank 3/3"},
		"g.V().pageRank(1).count()":                                     {"pageRank 1/20"},
		"g.V().peerPressure().with(PeerPressure.times, 2).count()":      {"peerPressure 1/2", "peerPressure 2/2"},
		"g.V().connectedComponent().count()":                            {"connectedComponent 20/20"},
		"g.V().limit(2).shortestPath().count()":                         {"shortestPath 1/2", "shortestPath 2/2"},
	} {
		var got []string
		yields(t, m.db, text, traversal.Options{Progress: func(step string, done, total int64) {
			got = append(got, fmt.Sprintf("%s %d/%d", step, done, total))
		}}, func() { got = nil }, func(any) {})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestWholeGraphCancel: each stage of the steps ends soon after the context.
func TestWholeGraphCancel(t *testing.T) {
	m := ring(t, 1000)
	for _, text := range []string{
		"g.V().has('n', 0).pageRank(1).with(PageRank.times, 10000)",
		"g.V().shortestPath().with(ShortestPath.edges, outE()).none()",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var done int64
		_, err := run(ctx, m.db, text, traversal.Options{Progress: func(_ string, n, _ int64) {
			cancel()
			done = n
		}})
		if !errors.Is(err, context.Canceled) || done > 100 {
			t.Errorf("%s: %v after %d", text, err, done)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, step := range []string{
		"pageRank()", "pageRank().by(outE().identity())", "peerPressure()", "connectedComponent()", "shortestPath()",
	} {
		q, err := gremlin.Parse("g.V()."+step, nil)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := traversal.Compile(q.Traversal)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.db.View(t.Context(), engine.Read{}, graph.Default, func(tx *graph.Tx) error {
			return plan.Run(ended, tx, traversal.Options{}, func(any, int64) error { return nil })
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// TestManyPaths: paths are made one by one, so that the first ones of very many come
// at once.
func TestManyPaths(t *testing.T) {
	m := &mesh{}
	const layers = 40 // 2^39 paths
	for i := range layers - 1 {
		for k := range 4 {
			m.edges = append(m.edges, meshEdge{out: 2*i + k/2, in: 2*(i+1) + k%2, label: "e"})
		}
	}
	m.store(t, make([]bool, 2*layers))
	text := fmt.Sprintf("g.V().has('n', 0).shortestPath().with(ShortestPath.target, has('n', %d)).limit(1000).dedup().count()", 2*layers-1)
	yields(t, m.db, text, traversal.Options{}, func() {}, func(v any) {
		if v != int64(1000) {
			t.Errorf("%v paths", v)
		}
	})
}
