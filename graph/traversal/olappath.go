package traversal

import (
	"container/heap"
	"fmt"
	"math"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// shortestPath moves each traverser to all shortest paths from its vertex to others.
type shortestPath struct {
	edges     hops
	target    *plan // tests vertices; nil: all are targets
	distance  *by   // of an edge; nil: each has length 1
	most      float64
	withEdges bool // paths have the edges in them
}

func makeShortestPath(b *builder, c *callInfo) (kernel, traits, error) {
	s := &shortestPath{edges: hops{dir: graph.Both}, most: math.Inf(1)}
	err := c.arity(0, 0)
	if err == nil {
		err = b.mainOnly()
	}
	if err == nil {
		err = c.eachOption(func(name string, v any) error { return s.option(b, name, v) })
	}
	return s, traits{barrier: true}, err
}

func (s *shortestPath) option(b *builder, name string, v any) (err error) {
	var ok bool
	switch name {
	case "target":
		s.target, err = b.childOption(name, v)
	case "edges":
		s.edges, err = b.hops(v)
	case "distance":
		switch x := v.(type) {
		case string:
			s.distance = &by{key: &x}
		case *gremlin.Traversal:
			s.distance = &by{}
			s.distance.plan, err = b.childOption(name, x)
		default:
			err = wrongOption(name, "the key of a property or a traversal", v)
		}
	case "maxDistance":
		if s.most, ok = value.Float(v); !ok || math.IsNaN(s.most) {
			err = wrongOption(name, "a number", v)
		}
	case "includeEdges":
		if s.withEdges, ok = v.(bool); !ok {
			err = wrongOption(name, "a boolean", v)
		}
	default:
		err = unknownOption(name)
	}
	return err
}

func (s *shortestPath) open(r *run, next sink) sink { return &pathing{r: r, s: s, next: next} }

// pathing is an open shortestPath. It collects the traversers, so that the graph is
// read before a later step can change it, and equal ones are one.
type pathing struct {
	r    *run
	s    *shortestPath
	all  []traverser
	at   index
	next sink
}

func (p *pathing) push(t traverser) error {
	if _, err := p.r.vertexOf(t.val); err != nil {
		return err
	}
	joined, err := p.at.join(p.r, &p.all, t)
	if err != nil || joined {
		return err
	}
	return p.r.hold(1)
}

func (p *pathing) flush() error {
	all := p.all
	p.all, p.at = nil, index{}
	if err := p.pushPaths(all); err != nil && err != errDone {
		return err
	}
	p.r.release(len(all))
	return p.next.flush()
}

func (p *pathing) pushPaths(all []traverser) error {
	if len(all) == 0 {
		return nil
	}
	if at, _ := p.r.place(p.s); at < 0 {
		return errNested
	}
	f := &pathFinder{r: p.r, s: p.s, pulse: pulse{ctx: p.r.ctx}, numbers: map[uint64]uint32{}}
	defer func() { p.r.release(f.held) }()
	for i, t := range all {
		v, err := p.r.vertexOf(t.val)
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		source, ok, err := f.number(v)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := f.search(source); err != nil {
			return err
		}
		if err := f.paths(source, func(path *value.Path) error { return p.next.push(p.r.to(t, path)) }); err != nil {
			return err
		}
		f.reset()
		p.r.progressed("shortestPath", int64(i+1), int64(len(all)))
	}
	return nil
}

// pathFinder searches from one vertex after the other. It reads the edges of a vertex
// when it first gets there.
type pathFinder struct {
	r *run
	s *shortestPath
	pulse
	held int // counted by run.hold

	numbers map[uint64]uint32 // by the graph's number; hidden: not to be seen
	spots   []*spot           // by number
	settled []uint32          // by this search, nearest first
	found   []uint32          // by this search
	queue   pathQueue
}

// hidden is the number of a vertex that cannot be seen.
const hidden = math.MaxUint32

// spot is a vertex that a search came to.
type spot struct {
	vertex   *graph.Vertex
	read     bool // ways are known
	ways     []way
	tested   bool // target is known
	target   bool
	distance float64   // of this search; infinite: not found
	done     bool      // settled
	before   []arrival // the last steps of the shortest paths to it
	onPath   bool      // the path that is being made goes through it
}

// way is an edge from a vertex.
type way struct {
	to     uint32
	length float64
	edge   *graph.Edge // nil unless paths have edges
}

// arrival is the last step of a path: where it comes from, and along which edge.
type arrival struct {
	from uint32
	edge *graph.Edge
}

func (f *pathFinder) hold(n int) error {
	f.held += n
	return f.r.hold(n)
}

// number returns the number of a vertex; ok is false if it cannot be seen.
func (f *pathFinder) number(v *graph.Vertex) (n uint32, ok bool, err error) {
	if n, ok := f.numbers[v.Number()]; ok {
		return n, n != hidden, nil
	}
	if err := f.hold(3); err != nil { // it, its spot and its entry
		return 0, false, err
	}
	if ok, err = f.r.sees(v); err != nil {
		return 0, false, err
	}
	n = hidden
	if ok {
		n = uint32(len(f.spots))
		f.spots = append(f.spots, &spot{vertex: v, distance: math.Inf(1)})
	}
	f.numbers[v.Number()] = n
	return n, ok, nil
}

// read finds the ways from a vertex.
func (f *pathFinder) read(s *spot) error {
	if s.read {
		return nil
	}
	if err := f.s.edges.each(f.r, s.vertex, func(e *graph.Edge, far *graph.Vertex) error {
		to, ok, err := f.number(far)
		if err != nil || !ok {
			return err
		}
		if err := f.hold(1); err != nil {
			return err
		}
		w := way{to: to, length: 1}
		if f.s.distance != nil {
			if w.length, err = f.length(e); err != nil {
				return err
			}
		}
		if f.s.withEdges {
			w.edge = e
		}
		s.ways = append(s.ways, w)
		return nil
	}); err != nil {
		return err
	}
	s.read = true
	return nil
}

func (f *pathFinder) length(e *graph.Edge) (float64, error) {
	v, ok, err := f.s.distance.value(f.r, traverser{val: e, bulk: 1, sack: f.r.firstSack()})
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("the edge %s has no distance", value.Text(e.ElementID()))
	}
	n, ok := value.Float(v)
	if !ok || !(n >= 0) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("the distance of the edge %s must be a number that is not negative, not %s", value.Text(e.ElementID()), value.Text(v))
	}
	return n, nil
}

// search finds the distances of all vertices from one, by Dijkstra's algorithm.
func (f *pathFinder) search(source uint32) error {
	if f.s.most < 0 {
		return nil
	}
	first := f.spots[source]
	first.distance = 0
	f.found = append(f.found, source)
	f.queue = append(f.queue[:0], waiting{source, 0})
	for len(f.queue) > 0 {
		next := heap.Pop(&f.queue).(waiting)
		s := f.spots[next.at]
		if s.done {
			continue
		}
		s.done = true
		f.settled = append(f.settled, next.at)
		if err := f.read(s); err != nil {
			return err
		}
		for _, w := range s.ways {
			f.relax(next.at, w)
		}
		if err := f.beat(16 * (1 + len(s.ways))); err != nil {
			return err
		}
	}
	return nil
}

// relax notes that a way leads to a vertex, if none that is known is shorter.
func (f *pathFinder) relax(from uint32, w way) {
	s := f.spots[w.to]
	d := f.spots[from].distance + w.length
	if d > s.distance || d > f.s.most {
		return
	}
	if d < s.distance {
		if math.IsInf(s.distance, 1) {
			f.found = append(f.found, w.to)
		}
		s.distance, s.before = d, s.before[:0]
		heap.Push(&f.queue, waiting{w.to, d})
	}
	// Without the edges, parallel ones make the same path. They come one after the other.
	if last := len(s.before) - 1; last >= 0 && s.before[last].from == from && !f.s.withEdges {
		return
	}
	s.before = append(s.before, arrival{from, w.edge})
}

// reset forgets the search.
func (f *pathFinder) reset() {
	for _, i := range f.found {
		s := f.spots[i]
		s.distance, s.done, s.before = math.Inf(1), false, s.before[:0]
	}
	f.found, f.settled = f.found[:0], f.settled[:0]
}

// paths calls yield with the shortest paths to the targets.
func (f *pathFinder) paths(source uint32, yield func(*value.Path) error) error {
	for _, i := range f.settled {
		s := f.spots[i]
		if !s.tested {
			s.tested, s.target = true, true
			if f.s.target != nil {
				var err error
				if s.target, err = f.r.test(f.s.target, traverser{val: s.vertex, bulk: 1, sack: f.r.firstSack()}); err != nil {
					return err
				}
			}
		}
		if !s.target {
			continue
		}
		if err := f.backTo(source, i, yield); err != nil {
			return err
		}
	}
	return nil
}

// leg is a vertex of a path that is made from its end to its beginning.
type leg struct {
	at   uint32
	edge *graph.Edge // to the vertex after it
	next int         // of the steps before it that is to be tried next
}

// backTo walks all ways back from a target to the source. Edges of length 0 can lead
// in circles, which are left out.
func (f *pathFinder) backTo(source, target uint32, yield func(*value.Path) error) error {
	legs := []leg{{at: target}}
	f.spots[target].onPath = true
	defer func() {
		for _, l := range legs {
			f.spots[l.at].onPath = false
		}
	}()
	for len(legs) > 0 {
		if err := f.beat(64); err != nil {
			return err
		}
		last := &legs[len(legs)-1]
		s := f.spots[last.at]
		if last.at == source {
			if err := f.beat(32 * len(legs)); err != nil {
				return err
			}
			if err := yield(f.path(legs)); err != nil {
				return err
			}
		} else if last.next < len(s.before) {
			step := s.before[last.next]
			last.next++
			if !f.spots[step.from].onPath {
				f.spots[step.from].onPath = true
				legs = append(legs, leg{at: step.from, edge: step.edge})
			}
			continue
		}
		s.onPath = false
		legs = legs[:len(legs)-1]
	}
	return nil
}

func (f *pathFinder) path(legs []leg) *value.Path {
	n := len(legs)
	if f.s.withEdges {
		n = 2*n - 1
	}
	out := &value.Path{Objects: make([]any, 0, n), Labels: make([][]string, n)}
	for i := len(legs) - 1; i >= 0; i-- {
		out.Objects = append(out.Objects, f.spots[legs[i].at].vertex)
		if f.s.withEdges && i > 0 {
			out.Objects = append(out.Objects, legs[i].edge)
		}
	}
	return out
}

// waiting is a vertex that is to be settled at a distance.
type waiting struct {
	at       uint32
	distance float64
}

// pathQueue is a heap of vertices, the nearest first.
type pathQueue []waiting

func (q pathQueue) Len() int           { return len(q) }
func (q pathQueue) Less(i, j int) bool { return q[i].distance < q[j].distance }
func (q pathQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *pathQueue) Push(x any)        { *q = append(*q, x.(waiting)) }

func (q *pathQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
