package traversal_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

// mesh is a random graph, in memory and in a database. Each vertex has its number as
// the property n; some have ids of their own.
type mesh struct {
	db    *graph.DB
	ids   []any
	edges []meshEdge
}

type meshEdge struct {
	out, in, weight int
	label           string
}

func newMesh(t testing.TB, r *rand.Rand, vertices, edges int) *mesh {
	t.Helper()
	m := &mesh{}
	for range edges {
		m.edges = append(m.edges, meshEdge{r.IntN(vertices), r.IntN(vertices), 1 + r.IntN(4), string("ef"[r.IntN(2)])})
	}
	own := make([]bool, vertices)
	for i := range own {
		own[i] = r.IntN(3) == 0
	}
	m.store(t, own)
	return m
}

// store makes the graph of the database. own: which vertices have ids of their own.
func (m *mesh) store(t testing.TB, own []bool) {
	t.Helper()
	var err error
	if m.db, err = graph.New(testengine.Open(t, testengine.Options{Memory: true})); err != nil {
		t.Fatal(err)
	}
	if _, err := m.db.Update(t.Context(), graph.Default, func(tx *graph.Tx) error {
		m.ids = nil
		var vs []*graph.Vertex
		for i := range own {
			var id any
			if own[i] {
				id = fmt.Sprintf("%d~", len(own)-i)
			}
			v, err := tx.AddVertex([]string{string("xy"[i%2])}, id)
			if err != nil {
				return err
			}
			if _, err := v.Set(graph.Single, "n", int64(i)); err != nil {
				return err
			}
			vs, m.ids = append(vs, v), append(m.ids, v.ElementID())
		}
		for _, e := range m.edges {
			edge, err := tx.AddEdge(e.label, vs[e.out], vs[e.in], nil)
			if err != nil {
				return err
			}
			if err := edge.Set("w", int64(e.weight)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// hops returns the pairs of vertices that edges with one of the labels join.
func (m *mesh) hops(dir graph.Direction, labels ...string) (out [][2]int) {
	for _, e := range m.edges {
		if len(labels) > 0 && !slices.Contains(labels, e.label) {
			continue
		}
		if dir&graph.Out != 0 {
			out = append(out, [2]int{e.out, e.in})
		}
		if dir&graph.In != 0 {
			out = append(out, [2]int{e.in, e.out})
		}
	}
	return out
}

// yields calls use with what a text yields. It calls begin before that: an engine may
// read again from the beginning.
func yields(t testing.TB, db *graph.DB, text string, o traversal.Options, begin func(), use func(v any)) {
	t.Helper()
	q, err := gremlin.Parse(text, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	plan, err := traversal.Compile(q.Traversal)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if plan.Writes() {
		t.Fatalf("%s writes", text)
	}
	if _, err := db.View(t.Context(), engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		begin()
		return plan.Run(t.Context(), tx, o, func(v any, bulk int64) error {
			for range bulk {
				use(v)
			}
			return nil
		})
	}); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// computed returns the property p that a step gives to each vertex.
func (m *mesh) computed(t *testing.T, step string) map[int]any {
	t.Helper()
	out := map[int]any{}
	yields(t, m.db, "g."+step+".V().project('n','p').by('n').by('p')", traversal.Options{}, func() { clear(out) }, func(v any) {
		n, _ := v.(*value.Map).Get("n")
		p, _ := v.(*value.Map).Get("p")
		out[int(n.(int64))] = p
	})
	if len(out) != len(m.ids) {
		t.Fatalf("%s: %d of %d vertices", step, len(out), len(m.ids))
	}
	return out
}

// rank is pageRank in its simplest form.
func rank(hops [][2]int, start []float64, alpha float64, times int) []float64 {
	degree := make([]float64, len(start))
	for _, h := range hops {
		degree[h[0]]++
	}
	now := start
	for range times {
		next, free := make([]float64, len(now)), 0.0
		for i, x := range now {
			if degree[i] == 0 {
				free += x
			} else {
				free += (1 - alpha) * x
			}
		}
		for _, h := range hops {
			next[h[1]] += alpha * now[h[0]] / degree[h[0]]
		}
		change := 0.0
		for i := range next {
			next[i] += free / float64(len(now))
			change += math.Abs(next[i] - now[i])
		}
		if now = next; change < 1e-5 {
			break
		}
	}
	return now
}

func TestPageRank(t *testing.T) {
	r := seed.Rand(t)
	for range 20 {
		m := newMesh(t, r, 2+r.IntN(40), r.IntN(150))
		even, ones := make([]float64, len(m.ids)), make([]float64, len(m.ids))
		for i := range even {
			even[i] = 1 / float64(len(even))
			ones[i] = float64(1 - i%2)
		}
		for _, c := range []struct {
			step  string
			hops  [][2]int
			start []float64
			alpha float64
			times int
		}{
			{"V().pageRank()", m.hops(graph.Out), even, 0.85, 20},
			{"V().pageRank(0.5).with(PageRank.times, 3)", m.hops(graph.Out), even, 0.5, 3},
			{"V().pageRank(1).with(PageRank.times, 0)", nil, even, 1, 0},
			{"V().pageRank().with(PageRank.edges, inE('e'))", m.hops(graph.In, "e"), even, 0.85, 20},
			{"V().pageRank().with(PageRank.edges, bothE('e', 'f'))", m.hops(graph.Both), even, 0.85, 20},
			{"V().pageRank().with(PageRank.edges, outE('none'))", nil, even, 0.85, 20},
			{"V().pageRank().by(outE().hasLabel('f'))", m.hops(graph.Out, "f"), even, 0.85, 20},
			{"V().pageRank().with(PageRank.edges, union(outE('e'), inE('f')))", append(m.hops(graph.Out, "e"), m.hops(graph.In, "f")...), even, 0.85, 20},
			{"V().hasLabel('x').pageRank()", m.hops(graph.Out), ones, 0.85, 20},
			{"V().hasLabel('x').pageRank(1).with(PageRank.times, 2)", m.hops(graph.Out), ones, 1, 2},
		} {
			want := rank(c.hops, c.start, c.alpha, c.times)
			got := m.computed(t, c.step+".with(PageRank.propertyName, 'p').limit(1)")
			for i := range want {
				if math.Abs(got[i].(float64)-want[i]) > 1e-9 {
					t.Fatalf("%s: vertex %d has rank %v, want %v", c.step, i, got[i], want[i])
				}
			}
		}
	}
}

// TestKnownRanks: the ranks of a graph that has them in closed form: three vertices
// that point at a fourth one.
func TestKnownRanks(t *testing.T) {
	m := &mesh{edges: []meshEdge{{out: 1, in: 0, label: "e"}, {out: 2, in: 0, label: "e"}, {out: 3, in: 0, label: "e"}}}
	m.store(t, make([]bool, 4))
	got := m.computed(t, "V().pageRank().with(PageRank.times, 1000).with(PageRank.propertyName, 'p').limit(1)")
	leaf := 1 / (4 + 3*0.85) // x = ((1-a)·3x + hub)/4 and hub = x + 3ax
	for i, want := range []float64{leaf * (1 + 3*0.85), leaf, leaf, leaf} {
		if math.Abs(got[i].(float64)-want) > 1e-5 {
			t.Errorf("vertex %d has rank %v, want %v", i, got[i], want)
		}
	}
}

// component returns the least id, as text, of the vertices with a way to each.
func (m *mesh) component(hops [][2]int) []string {
	out := make([]string, len(m.ids))
	for i, id := range m.ids {
		out[i] = value.Text(id)
	}
	for changed := true; changed; {
		changed = false
		for _, h := range hops {
			if out[h[0]] < out[h[1]] {
				out[h[1]], changed = out[h[0]], true
			}
		}
	}
	return out
}

// unions finds the components of a graph whose edges go both ways by union and find.
func (m *mesh) unions() []string {
	parent := make([]int, len(m.ids))
	for i := range parent {
		parent[i] = i
	}
	var find func(i int) int
	find = func(i int) int {
		if parent[i] != i {
			parent[i] = find(parent[i])
		}
		return parent[i]
	}
	for _, e := range m.edges {
		parent[find(e.out)] = find(e.in)
	}
	least, out := map[int]string{}, make([]string, len(m.ids))
	for i, id := range m.ids {
		if text, at := value.Text(id), find(i); least[at] == "" || text < least[at] {
			least[at] = text
		}
	}
	for i := range out {
		out[i] = least[find(i)]
	}
	return out
}

func TestConnectedComponent(t *testing.T) {
	r := seed.Rand(t)
	for range 20 {
		n := 1 + r.IntN(200)
		m := newMesh(t, r, n, r.IntN(n))
		for _, c := range []struct {
			edges string
			want  []string
		}{
			{"", m.unions()},
			{".with(ConnectedComponent.edges, bothE('e'))", m.component(m.hops(graph.Both, "e"))},
			{".with(ConnectedComponent.edges, outE())", m.component(m.hops(graph.Out))},
			{".with(ConnectedComponent.edges, inE('f'))", m.component(m.hops(graph.In, "f"))},
			{".with(ConnectedComponent.edges, bothE().where(values('w').is(gt(1))))", m.component(heavy(m, graph.Both))},
		} {
			got := m.computed(t, "V().limit(1).connectedComponent().with(ConnectedComponent.propertyName, 'p')"+c.edges)
			for i := range c.want {
				if got[i] != c.want[i] {
					t.Fatalf("%s: vertex %v is in %v, want %s", c.edges, m.ids[i], got[i], c.want[i])
				}
			}
		}
	}
}

func heavy(m *mesh, dir graph.Direction) [][2]int {
	other := *m
	other.edges = slices.DeleteFunc(slices.Clone(m.edges), func(e meshEdge) bool { return e.weight <= 1 })
	return other.hops(dir)
}

// TestManyComponents: vertices are sorted in several chunks.
func TestManyComponents(t *testing.T) {
	m := &mesh{}
	const n = 40_000
	for i := range n / 2 {
		m.edges = append(m.edges, meshEdge{out: n - 1 - i, in: i, label: "e"})
	}
	m.store(t, make([]bool, n))
	want := m.component(m.hops(graph.Out))
	got := m.computed(t, "V().limit(1).connectedComponent().with(ConnectedComponent.propertyName, 'p').with(ConnectedComponent.edges, outE())")
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("vertex %v is in %v, want %s", m.ids[i], got[i], want[i])
		}
	}
}

// votes is peerPressure in its simplest form.
func (m *mesh) votes(hops [][2]int, weights []float64, times int) []any {
	now := slices.Clone(m.ids)
	for range times {
		boxes := make([]map[any]float64, len(now))
		for i := range boxes {
			boxes[i] = map[any]float64{now[i]: weights[i]}
		}
		for _, h := range hops {
			boxes[h[1]][now[h[0]]] += weights[h[0]]
		}
		next := slices.Clone(m.ids)
		for i, box := range boxes {
			most := 0.0
			for _, id := range slices.SortedFunc(maps.Keys(box), func(a, b any) int { return strings.Compare(value.Text(a), value.Text(b)) }) {
				if box[id] > most {
					next[i], most = id, box[id]
				}
			}
		}
		if slices.Equal(now, next) {
			break
		}
		now = next
	}
	return now
}

func TestPeerPressure(t *testing.T) {
	r := seed.Rand(t)
	for range 20 {
		m := newMesh(t, r, 2+r.IntN(40), r.IntN(150))
		ones, weights := make([]float64, len(m.ids)), make([]float64, len(m.ids))
		for i := range ones {
			ones[i], weights[i] = 1, float64(1-i%2)
		}
		for _, c := range []struct {
			step string
			want []any
		}{
			{"V().peerPressure()", m.votes(m.hops(graph.Out), ones, 30)},
			{"V().peerPressure().with(PeerPressure.times, 0)", m.ids},
			{"V().peerPressure().with(PeerPressure.times, 2)", m.votes(m.hops(graph.Out), ones, 2)},
			{"V().peerPressure().with(PeerPressure.edges, bothE('e'))", m.votes(m.hops(graph.Both, "e"), ones, 30)},
			{"V().hasLabel('x').peerPressure().with(PeerPressure.edges, inE())", m.votes(m.hops(graph.In), weights, 30)},
		} {
			for range 2 { // it is the same each time
				got := m.computed(t, c.step+".with(PeerPressure.propertyName, 'p').limit(1)")
				for i := range c.want {
					if got[i] != c.want[i] {
						t.Fatalf("%s: vertex %v is in %v, want %v", c.step, m.ids[i], got[i], c.want[i])
					}
				}
			}
		}
	}
}
