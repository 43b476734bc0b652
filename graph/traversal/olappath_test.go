package traversal_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

// lengths returns the distances of all vertices by the algorithm of Floyd and Warshall.
func lengths(n int, hops [][3]int) [][]float64 {
	d := make([][]float64, n)
	for i := range d {
		d[i] = make([]float64, n)
		for j := range d[i] {
			if d[i][j] = math.Inf(1); i == j {
				d[i][j] = 0
			}
		}
	}
	for _, h := range hops {
		d[h[0]][h[1]] = min(d[h[0]][h[1]], float64(h[2]))
	}
	for k := range d {
		for i := range d {
			for j := range d {
				d[i][j] = min(d[i][j], d[i][k]+d[k][j])
			}
		}
	}
	return d
}

// ways returns how many shortest paths go from one vertex to another. parallel edges
// make different ones only if each says so.
func ways(d [][]float64, hops [][3]int, from, to int, each bool) int {
	if from == to {
		return 1
	}
	n, seen := 0, map[int]bool{}
	for _, h := range hops {
		if h[1] == to && !math.IsInf(d[from][to], 1) && d[from][h[0]]+float64(h[2]) == d[from][to] && (each || !seen[h[0]]) {
			seen[h[0]] = true
			n += ways(d, hops, from, h[0], each)
		}
	}
	return n
}

// weighted returns the edges with their lengths.
func (m *mesh) weighted(dir graph.Direction, weights bool) (out [][3]int) {
	for _, e := range m.edges {
		w := 1
		if weights {
			w = e.weight
		}
		if dir&graph.Out != 0 {
			out = append(out, [3]int{e.out, e.in, w})
		}
		if dir&graph.In != 0 && (e.out != e.in || dir == graph.In) {
			out = append(out, [3]int{e.in, e.out, w})
		}
	}
	return out
}

func TestShortestPath(t *testing.T) {
	r := seed.Rand(t)
	for range 10 {
		m := newMesh(t, r, 2+r.IntN(12), r.IntN(30))
		for _, c := range []struct {
			with    string
			dir     graph.Direction
			weights bool
			edges   bool
			most    float64
		}{
			{"", graph.Both, false, false, math.Inf(1)},
			{".with(ShortestPath.edges, Direction.OUT)", graph.Out, false, false, math.Inf(1)},
			{".with(ShortestPath.edges, outE('e', 'f'))", graph.Out, false, false, math.Inf(1)},
			{".with(ShortestPath.edges, identity().inE())", graph.In, false, false, math.Inf(1)},
			{".with(ShortestPath.distance, 'w')", graph.Both, true, false, math.Inf(1)},
			{".with(ShortestPath.distance, values('w')).with(ShortestPath.edges, Direction.IN)", graph.In, true, false, math.Inf(1)},
			{".with(ShortestPath.distance, 'w').with(ShortestPath.maxDistance, 4)", graph.Both, true, false, 4},
			{".with(ShortestPath.maxDistance, 1)", graph.Both, false, false, 1},
			{".with(ShortestPath.maxDistance, -1)", graph.Both, false, false, -1},
			{".with(ShortestPath.includeEdges)", graph.Both, false, true, math.Inf(1)},
			{".with(ShortestPath.includeEdges, true).with(ShortestPath.distance, 'w').with(ShortestPath.edges, outE())", graph.Out, true, true, math.Inf(1)},
		} {
			m.checkPaths(t, c.with, m.weighted(c.dir, c.weights), c.edges, c.most)
		}
	}
}

// checkPaths compares all shortest paths with the distances.
func (m *mesh) checkPaths(t *testing.T, with string, hops [][3]int, edges bool, most float64) {
	t.Helper()
	d := lengths(len(m.ids), hops)
	found := map[[2]int]map[string]bool{}
	index := map[any]int{}
	for i, id := range m.ids {
		index[id] = i
	}
	yields(t, m.db, "g.V().shortestPath()"+with, traversal.Options{}, func() { clear(found) }, func(v any) {
		var at []int
		for i, x := range v.(*value.Path).Objects {
			if e, isEdge := x.(*graph.Edge); isEdge != (edges && i%2 == 1) {
				t.Fatalf("%s: %s", with, value.Text(v))
			} else if !isEdge {
				at = append(at, index[x.(*graph.Vertex).ElementID()])
			} else if e.Other(v.(*value.Path).Objects[i-1].(*graph.Vertex)).Number() != v.(*value.Path).Objects[i+1].(*graph.Vertex).Number() {
				t.Fatalf("%s: %s", with, value.Text(v))
			}
		}
		length := 0.0
		for i := range at[1:] {
			length += d[at[i]][at[i+1]]
		}
		ends := [2]int{at[0], at[len(at)-1]}
		if length != d[ends[0]][ends[1]] {
			t.Fatalf("%s: %v has length %v, want %v", with, at, length, d[ends[0]][ends[1]])
		}
		if found[ends] == nil {
			found[ends] = map[string]bool{}
		}
		text := value.Text(v)
		if found[ends][text] {
			t.Fatalf("%s: %s twice", with, text)
		}
		found[ends][text] = true
	})
	for i := range d {
		for j := range d {
			want := 0
			if d[i][j] <= most {
				want = ways(d, hops, i, j, edges)
			}
			if got := len(found[[2]int{i, j}]); got != want {
				t.Fatalf("%s: %d paths from %d to %d, want %d", with, got, i, j, want)
			}
		}
	}
}

// TestZeroDistances: edges of length 0 make no circles.
func TestZeroDistances(t *testing.T) {
	m := &mesh{}
	for i := range 4 {
		for j := range 4 {
			m.edges = append(m.edges, meshEdge{out: i, in: j, label: "e"})
		}
	}
	m.store(t, make([]bool, 4))
	got := map[string]bool{}
	yields(t, m.db, "g.V().has('n', 0).shortestPath().with(ShortestPath.distance, 'w').with(ShortestPath.target, has('n', 1)).with(ShortestPath.edges, outE())",
		traversal.Options{}, func() { clear(got) }, func(v any) { got[value.Text(v)] = true })
	if len(got) != 5 { // through none of two others, one of them or both in either order
		t.Errorf("%d paths: %v", len(got), got)
	}
}

// TestPathTargets: targets are tested, and what is known of a traverser stays.
func TestPathTargets(t *testing.T) {
	db := open(t)
	for _, c := range []struct{ text, want string }{
		{"g.V('ann').shortestPath().with(ShortestPath.target, has('name', 'Kiruna')).by('name')", "error"},
		{"g.V('ann').shortestPath().with(ShortestPath.target, has('name', 'Kiruna')).unfold().values('name').fold()", "[[Ann, Eva, Kiruna]]"},
		{"g.V('oslo').shortestPath().with(ShortestPath.target, hasId('tromso')).with(ShortestPath.edges, outE('road')).with(ShortestPath.distance, 'km').unfold().values('name').fold()", "[[Oslo, Narvik, Tromsø]]"},
		{"g.V('ann', 'ann').as('a').shortestPath().with(ShortestPath.target, hasId('eva')).select('a').values('name')", "[Ann Ann]"},
		{"g.V('ann').shortestPath().limit(1).unfold().values('name')", "[Ann]"},
		{"g.withStrategies(SubgraphStrategy(vertices: hasLabel('city'))).V('oslo').shortestPath().count()", "[5]"},
		{"g.withStrategies(SubgraphStrategy(vertices: hasLabel('city'))).V('oslo').shortestPath().with(ShortestPath.edges, union(outE(), inE())).count()", "[5]"},
		{"g.withStrategies(SubgraphStrategy(edges: hasLabel('lives'))).V('ann').shortestPath().count()", "[3]"},
		{"g.V().hasLabel('none').shortestPath()", "[]"},
	} {
		out, err := run(t.Context(), db, c.text, traversal.Options{})
		if got := fmt.Sprint(out); got != c.want && (err == nil || c.want != "error") {
			t.Errorf("%s yields %s, want %s; %v", c.text, got, c.want, err)
		}
	}
}
