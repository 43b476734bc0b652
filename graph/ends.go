package graph

import (
	"slices"
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

// allowEdge returns CodeSchema if there may be no new edge with a label between two
// vertices, which exist. The labels of vertices do not change, so that it need not be
// asked again.
func (t *Tx) allowEdge(label string, out, in *Vertex) error {
	all, err := t.rules()
	if err != nil || len(all) == 0 {
		return err
	}
	n, err := t.numberOf(label)
	if err != nil {
		return err
	}
	for _, s := range all {
		typ := typeOf(s.edges, n)
		switch {
		case typ == nil && s.closed:
			return s.undeclaredEdge(label)
		case typ == nil:
			continue
		}
		if err := s.between(typ, out, in); err != nil {
			return err
		}
		if err := s.alone(t, typ, &Edge{t: t, out: out.num, label: n, in: in.num}); err != nil {
			return err
		}
	}
	return nil
}

// between returns CodeSchema if edges of a type may not lead from one vertex to
// another.
func (s *rules) between(typ *typeRules, out, in *Vertex) error {
	if err := s.end(typ, typ.from, out, "leaves"); err != nil {
		return err
	}
	return s.end(typ, typ.to, in, "enters")
}

func (s *rules) end(typ *typeRules, want []uint64, v *Vertex, verb string) error {
	if len(want) == 0 {
		return nil
	}
	raw, _, err := v.record()
	if err != nil {
		return err
	}
	r := reader{b: raw}
	_, labels := r.head()
	if r.bad {
		return v.damaged()
	}
	if slices.ContainsFunc(labels, func(l uint64) bool { return slices.Contains(want, l) }) {
		return nil
	}
	names, err := v.t.textsOf(want)
	if err != nil {
		return err
	}
	return s.refuse("an edge %q %s %s, which has none of the labels %s", v.t.text(typ.label), verb, v.describe(), strings.Join(names, ", "))
}

// alone returns CodeSchema if there is another edge than e where a type allows one.
func (s *rules) alone(t *Tx, typ *typeRules, e *Edge) error {
	leaves := t.key(roomOut, e.out, e.label)
	switch typ.multi {
	case Simple:
		return s.only(e, Out, t.key(roomOut, e.out, e.label, e.in))
	case OneOut:
		return s.only(e, Out, leaves)
	case OneIn:
		return s.only(e, In, t.key(roomIn, e.in, e.label))
	case OneToOne:
		if err := s.only(e, Out, leaves); err != nil {
			return err
		}
		return s.only(e, In, t.key(roomIn, e.in, e.label))
	}
	return nil
}

// only returns CodeSchema if another edge than e has a key that begins with prefix.
func (s *rules) only(e *Edge, d Direction, prefix []byte) error {
	t := e.t
	if _, err := t.leavers(); err != nil {
		return err
	}
	found, other := false, [4]uint64{}
	lo, hi := within(prefix)
	for p, err := range t.tx.Scan(lo, hi) {
		if err != nil {
			return err
		}
		if !numbers(p.Key, len(t.prefix)+1, other[:]) {
			return corrupt("edge", p.Key)
		}
		if found = other[3] != e.num && !t.isHidden(other[0], other[2]); found {
			break
		}
	}
	if !found {
		return nil
	}
	label := t.text(e.label)
	switch v := (&Vertex{t: t, num: other[0]}); {
	case len(prefix) > len(t.key(d.room(), other[0], other[1])):
		return s.refuse("an edge %q leads from the vertex %s to the vertex %s already, and there may be one", label, value.Text(v.ElementID()), value.Text(e.In().ElementID()))
	case d == Out:
		return s.refuse("an edge %q leaves the vertex %s already, and one may", label, value.Text(v.ElementID()))
	default:
		return s.refuse("an edge %q enters the vertex %s already, and one may", label, value.Text(v.ElementID()))
	}
}
