package traversal

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// hops are the edges that a step of the whole graph goes along.
type hops struct {
	dir    graph.Direction
	labels []string
	plan   *plan // of edges for each vertex; nil: dir and labels say which
}

// hops reads the option edges: a traversal or a direction.
func (b *builder) hops(v any) (hops, error) {
	if dir, ok := directionOf(v); ok {
		return hops{dir: dir}, nil
	}
	p, err := b.childOption("edges", v)
	if err != nil {
		return hops{}, err
	}
	if len(p.steps) == 1 {
		if a, ok := p.steps[0].kernel.(*adjacent); ok {
			if !a.edges {
				return hops{}, fmt.Errorf("the traversal of the option edges must yield edges, but ends with %s()", p.steps[0].call.Name)
			}
			return hops{dir: a.dir, labels: a.labels}, nil
		}
	}
	return hops{plan: p}, nil
}

// each calls yield with the edges from a vertex that can be seen, and their other ends,
// which may be hidden.
func (h *hops) each(r *run, v *graph.Vertex, yield func(e *graph.Edge, far *graph.Vertex) error) error {
	if h.plan == nil {
		return r.edges(v, h.dir, h.labels, func(e *graph.Edge) error {
			if err := r.tick(); err != nil {
				return err
			}
			return yield(e, e.Other(v))
		})
	}
	return r.each(h.plan, traverser{val: v, bulk: 1, sack: r.firstSack()}, func(t traverser) error {
		e, ok := t.val.(*graph.Edge)
		if !ok {
			return fmt.Errorf("the traversal of the option edges must yield edges, not %s", value.Describe(t.val))
		}
		if n := v.Number(); e.Out().Number() != n && e.In().Number() != n {
			return fmt.Errorf("the traversal of the option edges must yield edges of the vertex that it begins at")
		}
		if err := r.tick(); err != nil {
			return err
		}
		return yield(e, e.Other(v))
	})
}

// numbering numbers the vertices that can be seen from 0 on, in their order.
type numbering struct {
	count  int
	table  []uint32       // by the graph's number: the new one plus 1; nil: those are too sparse
	nums   []uint64       // the graph's numbers, ascending, if there is no table
	ids    []int64        // those that are whole numbers; nil: nobody asks
	others map[uint32]any // the other ids
}

// of returns the new number of a vertex, and whether it has one.
func (n *numbering) of(num uint64) (uint32, bool) {
	if n.table == nil {
		i, ok := slices.BinarySearch(n.nums, num)
		return uint32(i), ok
	}
	if num >= uint64(len(n.table)) {
		return 0, false
	}
	i := n.table[num]
	return i - 1, i > 0
}

// id returns the id of a vertex.
func (n *numbering) id(i uint32) any {
	if len(n.others) > 0 {
		if id, ok := n.others[i]; ok {
			return id
		}
	}
	return n.ids[i]
}

// compare orders vertices by the text of their ids.
func (n *numbering) compare(i, j uint32) int {
	if i == j {
		return 0
	}
	var a, b [24]byte
	return slices.Compare(n.appendID(a[:0], i), n.appendID(b[:0], j))
}

func (n *numbering) appendID(b []byte, i uint32) []byte {
	if len(n.others) > 0 {
		if id, ok := n.others[i]; ok {
			return append(b, value.Text(id)...)
		}
	}
	return strconv.AppendInt(b, n.ids[i], 10)
}

// heldChunk is how many entries of an array are counted at once while it grows.
const heldChunk = 64

// number numbers the vertices.
func (c *computation) number(ids bool) error {
	n := &numbering{}
	if ids {
		n.others = map[uint32]any{}
	}
	var last uint64
	if err := c.r.vertices(func(v any) error {
		if len(n.nums)%heldChunk == 0 {
			if err := c.kept.take(heldChunk * 16); err != nil {
				return err
			}
		}
		if err := c.r.tick(); err != nil {
			return err
		}
		vertex := v.(*graph.Vertex)
		last = vertex.Number()
		if ids {
			id, ok := vertex.ElementID().(int64)
			if !ok {
				n.others[uint32(len(n.nums))] = vertex.ElementID()
				if err := c.r.hold(1); err != nil {
					return err
				}
			}
			n.ids = append(n.ids, id)
		}
		n.nums = append(n.nums, last)
		return nil
	}); err != nil {
		return err
	}
	n.count = len(n.nums)
	c.vertices = n
	if last < 4*uint64(n.count) { // the table is hardly larger than what it replaces
		n.table = make([]uint32, last+1)
		for i, num := range n.nums {
			n.table[num] = uint32(i) + 1
		}
		n.nums = nil
	}
	return nil
}

// network has the neighbours of each vertex i: far[first[i]:first[i+1]].
type network struct {
	first []uint32
	far   []uint32
}

func (n *network) of(i uint32) []uint32 { return n.far[n.first[i]:n.first[i+1]] }

// pair is an edge, from one vertex to another.
type pair struct{ near, far uint32 }

// pairs are edges in chunks, so that they are not copied as they become more.
type pairs struct {
	chunks [][]pair
	ledger ledger
}

// pairsChunk is the most pairs of a chunk.
const pairsChunk = 1 << 14

func (p *pairs) add(near, far uint32) error {
	last := len(p.chunks) - 1
	if last < 0 || len(p.chunks[last]) == cap(p.chunks[last]) {
		size := min(64<<min(len(p.chunks), 16), pairsChunk) // small graphs are common
		if err := p.ledger.take(8 * size); err != nil {
			return err
		}
		p.chunks = append(p.chunks, make([]pair, 0, size))
		last++
	}
	p.chunks[last] = append(p.chunks[last], pair{near, far})
	return nil
}

// network reads the edges of the program. reversed: the neighbours of a vertex are
// those that have it as theirs.
func (c *computation) network(reversed bool) (*network, error) {
	p := &pairs{ledger: ledger{r: c.r}}
	add := p.add
	if reversed {
		add = func(near, far uint32) error { return p.add(far, near) }
	}
	var err error
	if c.p.edges.plan == nil {
		err = c.readAll(add)
	} else {
		err = c.readEach(add)
	}
	if err != nil {
		return nil, err
	}
	out, err := c.arrange(p)
	p.ledger.release()
	return out, err
}

// readAll reads the edges in the order in which they are stored.
func (c *computation) readAll(add func(near, far uint32) error) error {
	h := &c.p.edges
	return c.r.allEdges(func(v any) error {
		if err := c.r.tick(); err != nil {
			return err
		}
		e := v.(*graph.Edge)
		if len(h.labels) > 0 && !slices.Contains(h.labels, e.ElementLabel()) {
			return nil
		}
		out, ok := c.vertices.of(e.Out().Number())
		in, also := c.vertices.of(e.In().Number())
		if !ok || !also { // one of them is hidden
			return nil
		}
		if h.dir&graph.Out != 0 {
			if err := add(out, in); err != nil {
				return err
			}
		}
		if h.dir&graph.In != 0 {
			return add(in, out)
		}
		return nil
	})
}

// readEach runs the traversal of the edges for each vertex.
func (c *computation) readEach(add func(near, far uint32) error) error {
	return c.r.vertices(func(v any) error {
		if err := c.r.tick(); err != nil {
			return err
		}
		vertex := v.(*graph.Vertex)
		near, ok := c.vertices.of(vertex.Number())
		if !ok {
			return nil
		}
		return c.p.edges.each(c.r, vertex, func(_ *graph.Edge, far *graph.Vertex) error {
			if i, ok := c.vertices.of(far.Number()); ok {
				return add(near, i)
			}
			return nil
		})
	})
}

// arrange makes a network of pairs. The neighbours of a vertex keep their order.
func (c *computation) arrange(p *pairs) (*network, error) {
	edges := 0
	for _, chunk := range p.chunks {
		edges += len(chunk)
	}
	if err := c.work.take(4 * (c.vertices.count + 2 + edges)); err != nil {
		return nil, err
	}
	// first[i+2] counts the neighbours of i; first[i+1] then is where the next one goes,
	// and in the end is where those of i+1 begin.
	n := &network{first: make([]uint32, c.vertices.count+2), far: make([]uint32, edges)}
	for _, chunk := range p.chunks {
		for _, e := range chunk {
			n.first[e.near+2]++
		}
		if err := c.beat(len(chunk)); err != nil {
			return nil, err
		}
	}
	for i := 2; i < len(n.first); i++ {
		n.first[i] += n.first[i-1]
	}
	for k, chunk := range p.chunks {
		for _, e := range chunk {
			at := &n.first[e.near+1]
			n.far[*at] = e.far
			*at++
		}
		p.chunks[k] = nil
		if err := c.beat(len(chunk)); err != nil {
			return nil, err
		}
	}
	n.first = n.first[:c.vertices.count+1]
	return n, nil
}
