package graph

import (
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// Direction says which edges of a vertex are meant.
type Direction byte

// The directions.
const (
	Out  Direction = 1
	In   Direction = 2
	Both Direction = Out | In
)

// room returns where the edges of one direction are.
func (d Direction) room() byte {
	if d == In {
		return roomIn
	}
	return roomOut
}

// Edges calls yield with the edges of v in a direction that have one of the labels,
// or any if there are none, until yield returns an error, which it returns. For
// Both, those that leave v come first, and an edge from v to itself twice. yield
// may write; edges that it adds are not among those yielded.
func (t *Tx) Edges(v *Vertex, dir Direction, labels []string, yield func(*Edge) error) error {
	return t.adjacent(v, dir, labels, func(d Direction, prefix []byte) error { return t.edges(d, prefix, false, yield) })
}

// adjacent calls scan with the prefixes of the keys of v's edges.
func (t *Tx) adjacent(v *Vertex, dir Direction, labels []string, scan func(d Direction, prefix []byte) error) error {
	var buf [8]uint64
	nums, err := t.numbersOf(buf[:0], labels)
	if err != nil || len(labels) > 0 && len(nums) == 0 {
		return err
	}
	slices.Sort(nums)
	nums = slices.Compact(nums)
	for d := Out; d <= In; d++ {
		if dir&d == 0 {
			continue
		}
		if len(nums) == 0 {
			if err := scan(d, t.key(d.room(), v.num)); err != nil {
				return err
			}
		}
		for _, n := range nums {
			if err := scan(d, t.key(d.room(), v.num, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// AllEdges calls yield with all edges of the graph, as Edges does.
func (t *Tx) AllEdges(yield func(*Edge) error) error {
	return t.edges(Out, t.key(roomOut), false, yield)
}

// EdgesBetween calls yield with the edges from one vertex to another, as Edges does.
func (t *Tx) EdgesBetween(out *Vertex, label string, in *Vertex, yield func(*Edge) error) error {
	n, err := t.numberOf(label)
	if n == 0 || err != nil {
		return err
	}
	return t.edges(Out, t.key(roomOut, out.num, n, in.num), false, yield)
}

// edges yields the edges whose keys begin with prefix. hidden: also those of vertices
// that are being removed.
func (t *Tx) edges(d Direction, prefix []byte, hidden bool, yield func(*Edge) error) error {
	start, err := t.now()
	if err != nil {
		return err
	}
	if _, err := t.leavers(); err != nil {
		return err
	}
	lo, hi := within(prefix)
	var page []Edge
	take := func(p engine.Pair) error {
		var at [4]uint64
		if !numbers(p.Key, len(t.prefix)+1, at[:]) {
			return corrupt("edge", p.Key)
		}
		e := Edge{t: t, out: at[0], label: at[1], in: at[2], num: at[3]}
		if d == In {
			e.out, e.in = e.in, e.out
		} else {
			e.raw, e.known, e.read = t.keep(p.Val), true, t.version
		}
		if start.hasEdge(e.num) && (hidden || !t.isHidden(e.out, e.in)) {
			page = append(page, e)
		}
		return nil
	}
	return t.pages(lo, hi, take, func() error {
		found := page
		page = nil // those that were yielded may be kept
		before := t.version
		for i := range found {
			if t.version != before {
				if ok, err := found[i].isThere(hidden); err != nil || !ok {
					if err != nil {
						return err
					}
					continue
				}
			}
			if err := yield(&found[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *Edge) isThere(hidden bool) (ok bool, err error) {
	if hidden {
		_, ok, err = e.stored()
		return ok, err
	}
	return e.Exists()
}

// hop is an edge as its key at one of its vertices has it.
type hop struct{ label, far, num uint64 }

// Neighbours calls yield with the vertex at the other end of each of the edges
// that Edges yields.
func (t *Tx) Neighbours(v *Vertex, dir Direction, labels []string, yield func(*Vertex) error) error {
	return t.hops(v, dir, labels, func(d Direction, prefix []byte, start moment) error {
		return t.neighbours(v.num, d, prefix, start, yield)
	})
}

// CountEdges calls yield with how many edges Edges would yield, a page of them at a time.
func (t *Tx) CountEdges(v *Vertex, dir Direction, labels []string, yield func(n int) error) error {
	return t.hops(v, dir, labels, func(_ Direction, prefix []byte, start moment) error {
		n := 0
		lo, hi := within(prefix)
		skip := len(t.prefix) + 1
		return t.pages(lo, hi, func(p engine.Pair) error {
			var at [4]uint64
			if !numbers(p.Key, skip, at[:]) {
				return corrupt("edge", p.Key)
			}
			if start.hasEdge(at[3]) && !t.isHidden(v.num, at[2]) {
				n++
			}
			return nil
		}, func() error {
			found := n
			n = 0
			return yield(found)
		})
	})
}

// hops calls scan with the prefixes of the keys of v's edges, of those that are there now.
func (t *Tx) hops(v *Vertex, dir Direction, labels []string, scan func(d Direction, prefix []byte, start moment) error) error {
	start, err := t.now()
	if err != nil {
		return err
	}
	if _, err := t.leavers(); err != nil {
		return err
	}
	return t.adjacent(v, dir, labels, func(d Direction, prefix []byte) error { return scan(d, prefix, start) })
}

func (t *Tx) neighbours(near uint64, d Direction, prefix []byte, start moment, yield func(*Vertex) error) error {
	lo, hi := within(prefix)
	skip := len(t.prefix) + 1
	page := t.ends[:0] // yield may ask for other neighbours: it is not in use then
	take := func(p engine.Pair) error {
		var at [4]uint64
		if !numbers(p.Key, skip, at[:]) {
			return corrupt("edge", p.Key)
		}
		if start.hasEdge(at[3]) && !t.isHidden(near, at[2]) {
			page = append(page, hop{at[1], at[2], at[3]})
		}
		return nil
	}
	return t.pages(lo, hi, take, func() error {
		found := make([]Vertex, len(page)) // those that were yielded may be kept
		for i, h := range page {
			found[i].t, found[i].num = t, h.far
		}
		var hops []hop
		if t.writes {
			hops = slices.Clone(page)
		}
		t.ends, page = page[:0], nil
		before := t.version
		for i := range found {
			if t.version != before {
				if ok, err := t.isEdge(near, d, hops[i]); err != nil || !ok {
					if err != nil {
						return err
					}
					continue
				}
			}
			if err := yield(&found[i]); err != nil {
				return err
			}
		}
		page = t.ends[:0]
		return nil
	})
}

// isEdge reports whether an edge of the vertex near is still there.
func (t *Tx) isEdge(near uint64, d Direction, h hop) (bool, error) {
	e := Edge{t: t, out: near, label: h.label, in: h.far, num: h.num}
	if d == In {
		e.out, e.in = e.in, e.out
	}
	return e.Exists()
}

// leavers returns the vertices that are being removed by DB.RemoveVertex. They are
// read once in a transaction, so that hiding them costs nothing if there are none.
func (t *Tx) leavers() (map[uint64]struct{}, error) {
	if t.leaving != nil {
		return t.leaving, nil
	}
	return t.readLeavers()
}

func (t *Tx) readLeavers() (map[uint64]struct{}, error) {
	var found []uint64
	lo, hi := within(t.key(roomLeaving))
	for p, err := range t.tx.Scan(lo, hi) {
		if err != nil {
			return nil, err
		}
		var num [1]uint64
		if !numbers(p.Key, len(lo), num[:]) {
			return nil, corrupt("mark of a vertex", p.Key)
		}
		found = append(found, num[0])
	}
	t.leaving = make(map[uint64]struct{}, len(found))
	for _, num := range found {
		t.leaving[num] = struct{}{}
	}
	return t.leaving, nil
}

// isHidden reports whether an edge between two vertices is hidden. leavers was called
// before.
func (t *Tx) isHidden(a, b uint64) bool {
	if len(t.leaving) == 0 {
		return false
	}
	_, first := t.leaving[a]
	_, second := t.leaving[b]
	return first || second
}

// hides reports the same, whether leavers was called or not.
func (t *Tx) hides(a, b uint64) (bool, error) {
	_, err := t.leavers()
	return err == nil && t.isHidden(a, b), err
}
