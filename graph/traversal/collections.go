package traversal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// collections has the makers of the steps that work on lists, sets and maps.
func collections() map[string]maker {
	return map[string]maker{
		"combine": makeSetStep, "merge": makeSetStep, "intersect": makeSetStep, "difference": makeSetStep, "disjunct": makeSetStep,
		"product": makeSetStep, "conjoin": makeConjoin, "reverse": makeReverse, "unfold": makeUnfold, "index": makeIndex,
		"project": makeProject, "constant": makeConstant,
	}
}

// javaName is what errors call a type, as drivers' users know it from other servers.
func javaName(v any) string {
	names := map[string]string{
		"INT": "Integer", "LONG": "Long", "BYTE": "Byte", "SHORT": "Short", "DOUBLE": "Double", "FLOAT": "Float", "BIGINT": "BigInteger",
		"BIGDECIMAL": "BigDecimal", "STRING": "String", "LIST": "ArrayList", "SET": "LinkedHashSet", "MAP": "LinkedHashMap", "BOOLEAN": "Boolean",
		"DATETIME": "OffsetDateTime", "VERTEX": "Vertex", "EDGE": "Edge", "VPROPERTY": "VertexProperty",
	}
	if n, ok := names[value.TypeName(v)]; ok {
		return n
	}
	if v == nil {
		return "null"
	}
	return value.TypeName(v)
}

// iterable returns the items of a list, set or path.
func iterable(v any) ([]any, bool) {
	if p, ok := v.(*value.Path); ok {
		return p.Objects, true
	}
	return itemsOf(v)
}

// makeSetStep makes the steps that join the collection that comes with another one.
func makeSetStep(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	name := c.Name
	arg, err := b.operand(c.Args[0])
	if err != nil {
		return nil, traits{}, err
	}
	if arg.plan == nil {
		_, isMap := arg.val.(*value.Map)
		_, ok := iterable(arg.val)
		switch {
		case arg.val == nil:
			return nil, traits{}, known("Argument provided for %s step can't be null", name)
		case !ok && !(isMap && name == "merge"):
			return nil, traits{}, fmt.Errorf("%s step can only take an array or an Iterable as an argument, encountered %s", name, javaName(arg.val))
		}
	}
	return mapping(func(r *run, t traverser) (any, bool, error) {
		if m, ok := t.val.(*value.Map); ok && name == "merge" {
			return r.mergeMaps(arg, t, m)
		}
		mine, ok := iterable(t.val)
		if !ok {
			if t.val == nil {
				return nil, false, known("Incoming traverser for %s step can't be null", name)
			}
			return nil, false, fmt.Errorf("%s step can only take an array or an Iterable type for incoming traversers, encountered %s", name, javaName(t.val))
		}
		v, _, err := arg.get(r, t)
		if err != nil {
			return nil, false, err
		}
		theirs, ok := iterable(v)
		switch _, isMap := v.(*value.Map); {
		case ok:
		case isMap && arg.plan == nil:
			return nil, false, fmt.Errorf("step type mismatch: expected argument to be Iterable but got Map")
		case v == nil:
			return nil, false, fmt.Errorf("traversal argument for %s step must yield an iterable type, not null", name)
		default:
			return nil, false, fmt.Errorf("traversal argument for %s step must yield an iterable type, encountered %s", name, javaName(v))
		}
		if err := r.hold(len(mine) + len(theirs)); err != nil {
			return nil, false, err
		}
		defer r.release(len(mine) + len(theirs))
		out, err := setOperation(name, mine, theirs)
		return out, err == nil, err
	}), traits{}, nil
}

func (r *run) mergeMaps(arg operand, t traverser, m *value.Map) (any, bool, error) {
	v, _, err := arg.get(r, t)
	if err != nil {
		return nil, false, err
	}
	other, ok := v.(*value.Map)
	if !ok {
		return nil, false, fmt.Errorf("merge step expected provided argument to evaluate to a Map, encountered %s", javaName(v))
	}
	out, err := addAll(m, other)
	return out, err == nil, err
}

// MaxProduct bounds the pairs that product makes.
const MaxProduct = 1_000_000

func setOperation(name string, mine, theirs []any) (any, error) {
	out := &value.Set{}
	other := value.NewSet(theirs...)
	switch name {
	case "combine":
		return append(slices.Clone(value.List(mine)), theirs...), nil
	case "product":
		if len(mine)*len(theirs) > MaxProduct {
			return nil, fmt.Errorf("the product has more than %d pairs (MaxProduct)", MaxProduct)
		}
		pairs := value.List{}
		for _, a := range mine {
			for _, b := range theirs {
				pairs = append(pairs, value.List{a, b})
			}
		}
		return pairs, nil
	case "merge":
		for _, v := range append(slices.Clone(mine), theirs...) {
			out.Add(v)
		}
		return out, nil
	}
	for _, v := range mine {
		if other.Has(v) == (name == "intersect") {
			out.Add(v)
		}
	}
	if name == "disjunct" {
		own := value.NewSet(mine...)
		for _, v := range theirs {
			if !own.Has(v) {
				out.Add(v)
			}
		}
	}
	return out, nil
}

func makeConjoin(_ *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	if c.Args[0] == nil {
		return nil, traits{}, known("Input delimiter to conjoin step can't be null.")
	}
	sep, err := c.string(0)
	return mapping(func(_ *run, t traverser) (any, bool, error) {
		items, ok := iterable(t.val)
		if !ok {
			if t.val == nil {
				return nil, false, known("Incoming traverser for conjoin step can't be null")
			}
			return nil, false, fmt.Errorf("conjoin step can only take an array or an Iterable type for incoming traversers, encountered %s", javaName(t.val))
		}
		var parts []string
		size := 0
		for _, v := range items {
			if v == nil {
				continue
			}
			text := value.Text(v)
			if size += len(text) + len(sep); size > MaxString {
				return nil, false, fmt.Errorf("the text has more than %d bytes (MaxString)", MaxString)
			}
			parts = append(parts, text)
		}
		return strings.Join(parts, sep), true, nil
	}), traits{}, err
}

// makeReverse makes reverse, of strings and collections.
func makeReverse(_ *builder, c *callInfo) (kernel, traits, error) {
	return mapping(func(_ *run, t traverser) (any, bool, error) {
		if s, ok := t.val.(string); ok {
			runes := []rune(s)
			slices.Reverse(runes)
			return string(runes), true, nil
		}
		items, ok := iterable(t.val)
		if !ok {
			return t.val, true, nil
		}
		out := slices.Clone(value.List(items))
		slices.Reverse(out)
		return out, true, nil
	}), traits{}, c.arity(0, 0)
}

func makeUnfold(_ *builder, c *callInfo) (kernel, traits, error) {
	return &unfold{}, traits{moves: true}, c.arity(0, 0)
}

// unfold makes a traverser of each item, with its bulk in a BulkSet.
type unfold struct{}

func (*unfold) open(r *run, next sink) sink { return &unfolding{r, next} }

type unfolding struct {
	r    *run
	next sink
}

func (s *unfolding) push(t traverser) error {
	one := func(v any, bulk int64) error {
		if err := s.r.tick(); err != nil {
			return err
		}
		to := s.r.to(t, v)
		var err error
		if to.bulk, err = multiply(to.bulk, bulk); err != nil {
			return err
		}
		return s.next.push(to)
	}
	switch x := t.val.(type) {
	case *value.BulkSet:
		var err error
		x.All(func(v any, bulk int64) bool {
			err = one(v, bulk)
			return err == nil
		})
		return err
	case *value.Map:
		for _, e := range x.Entries() {
			if err := one(e, 1); err != nil {
				return err
			}
		}
		return nil
	case *value.Tree:
		for _, n := range x.Nodes {
			if err := one(value.Entry{Key: n.Val, Val: n.Below}, 1); err != nil {
				return err
			}
		}
		return nil
	}
	items, ok := iterable(t.val)
	if !ok {
		return one(t.val, 1)
	}
	for _, v := range items {
		if err := one(v, 1); err != nil {
			return err
		}
	}
	return nil
}

func (s *unfolding) flush() error { return s.next.flush() }

// makeIndex makes index(), which numbers the items of a collection.
func makeIndex(_ *builder, c *callInfo) (kernel, traits, error) {
	asMap := false
	for i := range c.mods {
		m := c.mods[i]
		if m.Name != "with" || len(m.Args) != 2 || m.Args[0] != optionIndexer {
			return nil, traits{}, fmt.Errorf("it has only the option WithOptions.indexer")
		}
		n, ok := value.Int(m.Args[1])
		if !ok || n < 0 || n > 1 {
			return nil, traits{}, fmt.Errorf("WithOptions.indexer is WithOptions.list or WithOptions.map")
		}
		asMap = n == 1
	}
	return mapping(func(_ *run, t traverser) (any, bool, error) {
		items, ok := iterable(t.val)
		if m, isMap := t.val.(*value.Map); isMap {
			ok = true
			for _, e := range m.Entries() {
				items = append(items, e)
			}
		}
		if !ok {
			items = []any{t.val}
		}
		if asMap {
			out := &value.Map{}
			for i, v := range items {
				out.Set(int32(i), v)
			}
			return out, true, nil
		}
		out := value.List{}
		for i, v := range items {
			out = append(out, value.List{v, int32(i)})
		}
		return out, true, nil
	}), traits{}, c.arity(0, 0)
}

func makeProject(b *builder, c *callInfo) (kernel, traits, error) {
	keys, err := c.strings(0)
	if err != nil {
		return nil, traits{}, err
	}
	if len(keys) == 0 {
		return nil, traits{}, c.arity(1, -1)
	}
	bys, err := b.bys(c)
	return mapping(func(r *run, t traverser) (any, bool, error) {
		out := &value.Map{}
		for i, key := range keys {
			v, ok := t.val, true
			if len(bys) > 0 {
				var err error
				if v, ok, err = bys[i%len(bys)].value(r, t); err != nil {
					return nil, false, err
				}
			}
			if ok {
				out.Set(key, v)
			}
		}
		return out, true, nil
	}), traits{}, err
}

func makeConstant(_ *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	if _, ok := c.Args[0].(*gremlin.Traversal); ok {
		return nil, traits{}, wrong(0, "a value", c.Args[0])
	}
	return mapping(func(*run, traverser) (any, bool, error) { return c.Args[0], true, nil }), traits{}, nil
}

// makeSubgraph makes subgraph(key), which collects edges with their vertices.
func makeSubgraph(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	key, err := c.string(0)
	b.collects(key, func() any { return &subgraphing{seen: map[string]bool{}} })
	return effect(func(r *run, t traverser) error {
		e, err := r.edgeOf(t.val)
		if e == nil || err != nil {
			return err
		}
		g, ok := r.effects.vals[key].(*subgraphing)
		if !ok {
			return fmt.Errorf("the side effect %q is something else", key)
		}
		return g.add(r, e)
	}), traits{}, err
}

// subgraphing is a subgraph that is being collected.
type subgraphing struct {
	seen     map[string]bool
	vertices []*graph.Vertex
	edges    []*graph.Edge
}

func (g *subgraphing) add(r *run, e *graph.Edge) error {
	h := value.Hash(e)
	if g.seen[h] {
		return nil
	}
	g.seen[h] = true
	g.edges = append(g.edges, e)
	for _, v := range []*graph.Vertex{e.Out(), e.In()} {
		if h := value.Hash(v); !g.seen[h] {
			g.seen[h] = true
			g.vertices = append(g.vertices, v)
		}
	}
	return r.hold(3)
}

// graph returns the subgraph with the properties of its elements.
func (g *subgraphing) graph(r *run) (*value.Graph, error) {
	out := &value.Graph{}
	for _, v := range g.vertices {
		d, err := r.complete(v)
		if err != nil {
			return nil, err
		}
		out.Vertices = append(out.Vertices, d.(*value.Vertex))
	}
	for _, e := range g.edges {
		d, err := r.complete(e)
		if err != nil {
			return nil, err
		}
		out.Edges = append(out.Edges, d.(*value.Edge))
	}
	return out, nil
}

// complete returns an element with its properties.
func (r *run) complete(e value.Stored) (value.Element, error) {
	d := e.Detached()
	err := r.properties(e, nil, func(p any) error {
		switch x := p.(type) {
		case *graph.VertexProperty:
			vp := x.Detached().(*value.VertexProperty)
			if err := x.Properties(nil, func(m *value.Property) error {
				vp.Properties = append(vp.Properties, m)
				return nil
			}); err != nil {
				return err
			}
			d.(*value.Vertex).Properties = append(d.(*value.Vertex).Properties, vp)
		case *value.Property:
			switch of := d.(type) {
			case *value.Edge:
				of.Properties = append(of.Properties, x)
			case *value.VertexProperty:
				of.Properties = append(of.Properties, x)
			}
		}
		return nil
	})
	return d, err
}
