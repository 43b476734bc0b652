package traversal

import (
	"math"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// index finds traversers that are the same as another one: at the same value, with
// the same path, sack and loops. They then go on as one, with their bulks added.
type index struct {
	vertices map[uint64]int // those that have nothing but a vertex and loop
	loop     *loop
	others   map[string]int
}

// join adds t to all, or to the one of all that is the same: then it reports true.
func (x *index) join(r *run, all *[]traverser, t traverser) (bool, error) {
	if v, ok := t.val.(*graph.Vertex); ok && t.path == nil && t.sack == nil && (x.vertices == nil || t.loops == x.loop) {
		if x.vertices == nil {
			x.vertices, x.loop = map[uint64]int{}, t.loops
		}
		if i, ok := x.vertices[v.Number()]; ok {
			return true, r.addBulk(&(*all)[i], t)
		}
		x.vertices[v.Number()] = len(*all)
		*all = append(*all, t)
		return false, nil
	}
	if x.others == nil {
		x.others = map[string]int{}
	}
	h := same(r, t)
	if i, ok := x.others[h]; ok {
		other := &(*all)[i]
		if t.sack != nil {
			sack, err := r.mergeSacks(*other, t)
			if err != nil {
				return false, err
			}
			other.sack = sack
		}
		return true, r.addBulk(other, t)
	}
	x.others[h] = len(*all)
	*all = append(*all, t)
	return false, nil
}

// same returns text that is the same for traversers that can be joined.
func same(r *run, t traverser) string {
	b := value.AppendHash(nil, t.val)
	for n := t.path; n != nil; n = n.prev {
		b = value.AppendHash(append(b, 0), n.val)
		for _, l := range n.labels {
			b = append(append(b, 1), l...)
		}
	}
	for l := t.loops; l != nil; l = l.outer {
		b = value.AppendHash(append(b, 2), int64(l.count))
	}
	if t.sack != nil && (r.source.sack == nil || r.source.sack.merge == nil) {
		b = value.AppendHash(append(b, 3), t.sack)
	}
	return string(b)
}

// mergeSacks returns the sack of two traversers that become one.
func (r *run) mergeSacks(a, b traverser) (any, error) {
	if r.source.sack == nil || r.source.sack.merge == nil {
		return a.sack, nil
	}
	return operate(r.source.sack.merge.Name, a.sack, b.sack)
}

func (r *run) addBulk(to *traverser, t traverser) error {
	if r.source.single {
		return nil
	}
	if to.bulk > math.MaxInt64-t.bulk {
		return errBulk
	}
	to.bulk += t.bulk
	return nil
}

// errBulk: so many traversers are the same that they cannot be counted.
var errBulk = engine.Errorf(engine.CodeLimit, "there are more than 2^63 traversers: a repeat needs a times() or until() that ends it")

// multiply returns the bulk of a traverser that stands for several others.
func multiply(a, b int64) (int64, error) {
	if b != 0 && a > math.MaxInt64/b {
		return 0, errBulk
	}
	return a * b, nil
}
