package traversal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gql"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// describing is match(text): a query of package gql, which is carried out by
// extending a partial solution edge by edge.
//
// A slot is a place in a solution: each variable has one, and so has each node and
// edge without a name. The plan says in which order slots are filled, so that as
// many of them as possible are reached along an edge.
type describing struct {
	q      *gql.Query
	params map[string]any
	slots  map[string]int // of variables
	tests  [][]*hasTest   // by slot, of vertices and edges
	moves  []join
	size   int // how many slots there are
}

// join fills slots: the vertex to, from all vertices or along an edge.
type join struct {
	edge     int // slot; < 0: all vertices
	from, to int
	dir      graph.Direction // from the vertex from
	labels   []string
	known    bool // to is filled already, and must be that vertex
}

func makeDescribing(c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 2); err != nil {
		return nil, traits{}, err
	}
	q, err := gql.Parse(c.Args[0].(string))
	if err != nil {
		var at *gql.SyntaxError
		if errors.As(err, &at) {
			err = fmt.Errorf("at character %d of the query: %s", at.Pos+1, at.Msg)
		}
		return nil, traits{}, err
	}
	d := &describing{q: q, params: map[string]any{}, slots: map[string]int{}}
	if len(c.Args) == 2 {
		m, ok := c.Args[1].(*value.Map)
		if !ok {
			return nil, traits{}, wrong(1, "a map of parameters", c.Args[1])
		}
		for _, e := range m.Entries() {
			d.params[value.Text(e.Key)] = e.Val
		}
	}
	return d, traits{source: true, moves: true}, d.plan()
}

// slot returns the place of a variable, or of something without a name.
func (d *describing) slot(name string) int {
	if i, ok := d.slots[name]; ok && name != "" {
		return i
	}
	d.tests = append(d.tests, nil)
	d.size++
	if name != "" {
		d.slots[name] = d.size - 1
	}
	return d.size - 1
}

// plan orders the patterns: first the vertex about which most is known, then along
// edges as far as they lead, then the next vertex.
func (d *describing) plan() error {
	var edges []join
	vertices := map[int]bool{} // filled or not
	for _, p := range d.q.Patterns {
		at := -1
		for i, n := range p.Nodes {
			slot := d.slot(n.Var)
			vertices[slot] = false
			if err := d.restrict(slot, n.Labels, n.Props); err != nil {
				return err
			}
			if i > 0 {
				e := p.Edges[i-1]
				j := join{edge: d.slot(e.Var), from: at, to: slot, labels: e.Labels}
				if e.Out {
					j.dir |= graph.Out
				}
				if e.In {
					j.dir |= graph.In
				}
				if err := d.restrict(j.edge, nil, e.Props); err != nil {
					return err
				}
				edges = append(edges, j)
			}
			at = slot
		}
	}
	if d.q.Where != nil {
		if err := d.push(d.q.Where); err != nil {
			return err
		}
	}
	for name, slot := range d.slots {
		if _, isVertex := vertices[slot]; isVertex && slices.ContainsFunc(edges, func(j join) bool { return j.edge == slot }) {
			return fmt.Errorf("%q is a node and an edge", name)
		}
	}
	d.order(edges, vertices)
	return nil
}

func (d *describing) order(edges []join, filled map[int]bool) {
	for {
		at := slices.IndexFunc(edges, func(j join) bool { return filled[j.from] || filled[j.to] })
		if at >= 0 {
			j := edges[at]
			edges = slices.Delete(edges, at, at+1)
			if !filled[j.from] {
				j.from, j.to = j.to, j.from
				j.dir = map[graph.Direction]graph.Direction{graph.Out: graph.In, graph.In: graph.Out, graph.Both: graph.Both}[j.dir]
			}
			j.known, filled[j.to] = filled[j.to], true
			d.moves = append(d.moves, j)
			continue
		}
		best, most := -1, -1
		for slot, done := range filled {
			if n := d.score(slot); !done && (n > most || n == most && slot < best) {
				best, most = slot, n
			}
		}
		if best < 0 {
			return
		}
		filled[best] = true
		d.moves = append(d.moves, join{edge: -1, to: best})
	}
}

func (d *describing) score(slot int) (n int) {
	for _, t := range d.tests[slot] {
		if n++; t.token == nil {
			n += 2
		}
	}
	return n
}

// restrict adds the labels and the properties of a pattern to a slot's tests.
func (d *describing) restrict(slot int, labels []string, props []gql.Prop) error {
	if len(labels) > 0 {
		args := make([]any, len(labels))
		for i, l := range labels {
			args[i] = l
		}
		p, err := newPredicate(&gremlin.P{Name: "within", Args: args})
		if err != nil {
			return err
		}
		d.tests[slot] = append(d.tests[slot], &hasTest{token: &value.Label, pred: p})
	}
	for _, prop := range props {
		if err := d.equal(slot, prop.Key, prop.Val); err != nil {
			return err
		}
	}
	return nil
}

func (d *describing) equal(slot int, key string, o gql.Operand) error {
	v, err := d.constant(o)
	if err != nil {
		return err
	}
	p, err := newPredicate(&gremlin.P{Name: "eq", Args: []any{v}})
	d.tests[slot] = append(d.tests[slot], &hasTest{key: key, pred: p})
	return err
}

func (d *describing) constant(o gql.Operand) (any, error) {
	if o.Param == "" {
		return o.Val, nil
	}
	v, ok := d.params[o.Param]
	if !ok {
		return nil, fmt.Errorf("the parameter $%s has no value", o.Param)
	}
	return v, nil
}

// push adds a condition that a property is equal to a constant to the tests of its
// slot, if the whole condition asks for it, so that an index can answer it.
func (d *describing) push(e *gql.Expr) error {
	switch {
	case e.Op == "and":
		for _, part := range e.Parts {
			if err := d.push(part); err != nil {
				return err
			}
		}
	case e.Op == "=" && e.Left.Key != "" && e.Right.Var == "":
		if v, err := d.constant(e.Right); err != nil || v == nil {
			return err
		}
		return d.equal(d.slots[e.Left.Var], e.Left.Key, e.Right)
	}
	return nil
}

func (d *describing) open(r *run, next sink) sink { return &describer{r, d, next} }

type describer struct {
	r    *run
	d    *describing
	next sink
}

func (s *describer) flush() error { return s.next.flush() }

// push finds all solutions for a traverser.
func (s *describer) push(t traverser) error {
	out := newRows(s.r, s.d.q)
	err := s.solve(make([]value.Element, s.d.size), 0, func(found []value.Element) error {
		if s.d.q.Where != nil {
			ok, err := s.holds(s.d.q.Where, found)
			if err != nil || ok != yes {
				return err
			}
		}
		if s.d.q.Return == nil {
			row := &value.Map{}
			for _, name := range s.d.q.Vars() {
				row.Set(name, found[s.d.slots[name]])
			}
			return s.next.push(s.r.to(t, row))
		}
		return s.returned(out, found)
	})
	if err != nil || s.d.q.Return == nil {
		return err
	}
	rows, err := out.all()
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := s.next.push(s.r.to(t, row)); err != nil {
			return err
		}
	}
	return nil
}

// solve fills the slots of the moves from a number on. found is used again.
func (s *describer) solve(found []value.Element, move int, yield func([]value.Element) error) error {
	if err := s.r.tick(); err != nil {
		return err
	}
	if move == len(s.d.moves) {
		return yield(found)
	}
	j := s.d.moves[move]
	if j.edge < 0 {
		return s.vertices(j.to, func(v value.Element) error {
			found[j.to] = v
			return s.solve(found, move+1, yield)
		})
	}
	from := found[j.from]
	return s.r.edges(from, j.dir, j.labels, func(e *graph.Edge) error {
		for _, other := range s.d.moves[:move] { // no edge occurs twice
			if other.edge >= 0 && value.Equal(found[other.edge], e) {
				return nil
			}
		}
		at, err := s.r.vertexOf(from)
		if err != nil {
			return err
		}
		to := value.Element(e.Other(at))
		if j.known && !value.Equal(found[j.to], to) {
			return nil
		}
		if ok, err := s.passes(j.edge, e); !ok || err != nil {
			return err
		}
		if !j.known {
			if ok, err := s.r.sees(to.(value.Stored)); !ok || err != nil {
				return err
			}
			if ok, err := s.passes(j.to, to); !ok || err != nil {
				return err
			}
			found[j.to] = to
		}
		found[j.edge] = e
		return s.solve(found, move+1, yield)
	})
}

// vertices calls yield with the vertices that pass a slot's tests.
func (s *describer) vertices(slot int, yield func(value.Element) error) error {
	one := func(v any) error {
		if ok, err := s.passes(slot, v.(value.Element)); !ok || err != nil {
			return err
		}
		return yield(v.(value.Element))
	}
	e := &elements{tests: s.d.tests[slot]}
	if done, err := e.byIndex(s.r, one); done || err != nil {
		return err
	}
	return s.r.vertices(one)
}

func (s *describer) passes(slot int, e value.Element) (bool, error) {
	for _, test := range s.d.tests[slot] {
		if ok, err := s.r.passes(traverser{val: e, bulk: 1}, test); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// operand returns the value of an operand in a solution; nil: null.
func (s *describer) operand(o gql.Operand, found []value.Element) (any, error) {
	if o.Var == "" {
		return s.d.constant(o)
	}
	e := found[s.d.slots[o.Var]]
	if o.Key == "" {
		return e, nil
	}
	v, _, err := s.r.keyed(e, o.Key)
	return v, err
}

// holds tests a condition. null makes comparisons unclear.
func (s *describer) holds(e *gql.Expr, found []value.Element) (truth, error) {
	switch e.Op {
	case "and", "or":
		out := yes
		if e.Op == "or" {
			out = no
		}
		for _, part := range e.Parts {
			t, err := s.holds(part, found)
			if err != nil {
				return no, err
			}
			if e.Op == "and" {
				out = min(out, t)
			} else {
				out = max(out, t)
			}
		}
		return out, nil
	case "not":
		t, err := s.holds(e.Parts[0], found)
		return yes - t, err
	}
	left, err := s.operand(e.Left, found)
	if err != nil {
		return no, err
	}
	right, err := s.operand(e.Right, found)
	if err != nil {
		return no, err
	}
	return compareGQL(e.Op, left, right)
}

func compareGQL(op string, left, right any) (truth, error) {
	switch op {
	case "is null":
		return of(left == nil), nil
	case "is not null":
		return of(left != nil), nil
	}
	if left == nil || right == nil {
		return unclear, nil
	}
	names := map[string]string{
		"=": "eq", "<>": "neq", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte", "starts with": "startingWith", "ends with": "endingWith",
		"contains": "containing",
	}
	if op == "in" {
		items, ok := itemsOf(right)
		if !ok {
			return no, fmt.Errorf("IN needs a list, not %s", value.Describe(right))
		}
		return of(slices.ContainsFunc(items, func(v any) bool { return value.Equal(v, left) })), nil
	}
	p, err := newPredicate(&gremlin.P{Name: names[op], Args: []any{right}})
	if err != nil {
		return unclear, nil //nolint:nilerr // what is not text has no beginning
	}
	return p.eval(left, nil)
}
