package traversal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// filters has the makers of the steps that pass on some traversers.
func filters() map[string]maker {
	return map[string]maker{
		"has": makeHas, "hasId": makeHasID, "hasLabel": makeHasLabel, "hasNot": makeHasNot,
		"hasKey": makeHasPart(value.Key), "hasValue": makeHasPart(value.Val),
		"is": makeIs, "filter": makeWhereTraversal, "where": makeWhere, "not": makeNot, "and": makeAnd, "or": makeOr,
		"discard": makeDiscard, "none": makeQuantifier, "all": makeQuantifier, "any": makeQuantifier,
		"coin": makeCoin, "timeLimit": makeTimeLimit, "identity": makeIdentity,
		"simplePath": makeSimplePath, "cyclicPath": makeSimplePath, "fail": makeFail,
	}
}

// hasTest is one condition on an element: on its id, its label or a property.
type hasTest struct {
	token *value.Enum // nil: of a property
	key   string
	pred  *predicate // nil: the property exists
	plan  *plan      // of the property's value
}

// has is a filter of elements. The optimizer moves its tests into a look-up.
type has struct{ tests []*hasTest }

func (h *has) open(r *run, next sink) sink {
	return filter(func(r *run, t traverser) (bool, error) {
		for _, test := range h.tests {
			if ok, err := r.passes(t, test); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}).open(r, next)
}

func (r *run) passes(t traverser, test *hasTest) (bool, error) {
	e, ok := t.val.(value.Element)
	if !ok {
		if p, isProperty := t.val.(*value.Property); isProperty {
			return r.passesProperty(p, test)
		}
		return false, nil
	}
	switch {
	case test.token == nil:
	case *test.token == value.ID:
		return test.pred.acceptsID(e.ElementID()), nil
	case *test.token == value.Label:
		return test.labelled(e), nil
	default:
		v, err := tokenOf(*test.token, e)
		return err == nil && test.pred.accepts(v), nil
	}
	found := false
	err := r.properties(e, []string{test.key}, func(p any) error {
		ok := test.pred == nil && test.plan == nil || test.pred != nil && test.pred.accepts(propertyValue(p))
		if test.plan != nil {
			var err error
			if ok, err = r.test(test.plan, r.to(t, propertyValue(p))); err != nil {
				return err
			}
		}
		if ok {
			found = true
			return errFirst
		}
		return nil
	})
	if err == errFirst {
		err = nil
	}
	return found, err
}

func (r *run) passesProperty(p *value.Property, test *hasTest) (bool, error) {
	if test.token == nil || test.pred == nil {
		return false, nil
	}
	switch *test.token {
	case value.Key, value.Label:
		return test.pred.accepts(p.Key), nil
	case value.Val:
		return test.pred.accepts(p.Val), nil
	}
	return false, nil
}

// labelled tests the labels of an element: one of them must pass, unless the
// predicate refuses some.
func (h *hasTest) labelled(e value.Element) bool {
	label := e.ElementLabel()
	if !strings.Contains(label, value.LabelSeparator) {
		return h.pred.accepts(label)
	}
	labels := strings.Split(label, value.LabelSeparator)
	if slices.Contains([]string{"neq", "without", "not"}, h.pred.name) {
		return !slices.ContainsFunc(labels, func(l string) bool { return !h.pred.accepts(l) })
	}
	return slices.ContainsFunc(labels, func(l string) bool { return h.pred.accepts(l) })
}

// acceptsID tests an id: text of digits also equals a number.
func (p *predicate) acceptsID(id any) bool {
	if p.accepts(id) {
		return true
	}
	n, ok := id.(int64)
	return ok && (p.name == "eq" || p.name == "within") && slices.ContainsFunc(p.args, func(a any) bool {
		s, ok := a.(string)
		return ok && s == fmt.Sprint(n)
	})
}

func makeHas(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 3); err != nil {
		return nil, traits{}, err
	}
	h := &has{}
	args := c.Args
	if len(args) == 3 {
		pred, err := predicateOf(args[0])
		if err != nil {
			return nil, traits{}, err
		}
		if s, ok := args[0].(string); !ok && args[0] != nil {
			if _, isP := args[0].(*gremlin.P); !isP {
				return nil, traits{}, wrong(0, "a label", s)
			}
		}
		h.tests, args = append(h.tests, &hasTest{token: &value.Label, pred: pred}), args[1:]
	}
	test := &hasTest{}
	switch x := args[0].(type) {
	case string:
		test.key = x
	case nil:
		test.key = nothing
	case value.Enum:
		if x.Kind != value.KindT {
			return nil, traits{}, wrong(0, "a key or a token", x)
		}
		test.token = &x
		if len(args) == 1 {
			return nil, traits{}, c.arity(2, 3)
		}
	default:
		return nil, traits{}, wrong(len(c.Args)-len(args), "a key", x)
	}
	h.tests = append(h.tests, test)
	if len(args) == 1 {
		return h, traits{}, nil
	}
	var err error
	if t, ok := args[1].(*gremlin.Traversal); ok {
		if test.token != nil {
			return nil, traits{}, fmt.Errorf("a token cannot be tested by a traversal")
		}
		test.plan, err = b.child(t)
		return h, traits{}, err
	}
	if test.token != nil && *test.token == value.ID {
		test.pred, err = idPredicate(args[1:])
		return h, traits{}, err
	}
	test.pred, err = predicateOf(args[1])
	return h, traits{}, err
}

// idPredicate returns the predicate that an id is one of args. Elements stand for
// their ids.
func idPredicate(args []any) (*predicate, error) {
	if len(args) == 1 {
		if p, ok := args[0].(*gremlin.P); ok {
			return newPredicate(&gremlin.P{Name: p.Name, Args: idsOf(p.Args)})
		}
	}
	return newPredicate(&gremlin.P{Name: "within", Args: idsOf(flat(args))})
}

func idsOf(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
		if e, ok := a.(value.Element); ok {
			out[i] = e.ElementID()
		}
	}
	return out
}

func makeHasID(_ *builder, c *callInfo) (kernel, traits, error) {
	if len(c.Args) == 0 {
		return nil, traits{}, c.arity(1, -1)
	}
	pred, err := idPredicate(c.Args)
	return &has{[]*hasTest{{token: &value.ID, pred: pred}}}, traits{}, err
}

func makeHasLabel(_ *builder, c *callInfo) (kernel, traits, error) {
	pred, err := oneOf(c)
	return &has{[]*hasTest{{token: &value.Label, pred: pred}}}, traits{}, err
}

// oneOf returns the predicate that a value is one of the arguments.
func oneOf(c *callInfo) (*predicate, error) {
	if len(c.Args) == 1 {
		return predicateOf(c.Args[0])
	}
	if err := c.arity(1, -1); err != nil {
		return nil, err
	}
	return newPredicate(&gremlin.P{Name: "within", Args: c.Args})
}

func makeHasPart(token value.Enum) maker {
	return func(_ *builder, c *callInfo) (kernel, traits, error) {
		pred, err := oneOf(c)
		return filter(func(_ *run, t traverser) (bool, error) {
			v, err := tokenOf(token, t.val)
			return err == nil && pred.accepts(v), nil
		}), traits{}, err
	}
}

func makeHasNot(_ *builder, c *callInfo) (kernel, traits, error) {
	key, err := c.string(0)
	test := &hasTest{key: key}
	return filter(func(r *run, t traverser) (bool, error) {
		ok, err := r.passes(t, test)
		return !ok, err
	}), traits{}, err
}

func makeIs(_ *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	pred, err := predicateOf(c.Args[0])
	return filter(func(_ *run, t traverser) (bool, error) { return pred.accepts(t.val), nil }), traits{}, err
}

func makeWhereTraversal(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	if p, ok := c.Args[0].(*gremlin.P); ok {
		c.Args = []any{p}
		return makeIs(b, c)
	}
	p, err := b.child(c.Args[0])
	return filter(func(r *run, t traverser) (bool, error) { return r.test(p, t) }), traits{}, err
}

func makeNot(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	p, err := b.child(c.Args[0])
	return filter(func(r *run, t traverser) (bool, error) {
		ok, err := r.test(p, t)
		return !ok, err
	}), traits{}, err
}

func makeAnd(b *builder, c *callInfo) (kernel, traits, error) {
	plans, err := b.children(c.Args)
	return filter(func(r *run, t traverser) (bool, error) {
		for _, p := range plans {
			if ok, err := r.test(p, t); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}), traits{}, err
}

func makeOr(b *builder, c *callInfo) (kernel, traits, error) {
	plans, err := b.children(c.Args)
	return filter(func(r *run, t traverser) (bool, error) {
		for _, p := range plans {
			if ok, err := r.test(p, t); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}), traits{}, err
}

func makeDiscard(_ *builder, c *callInfo) (kernel, traits, error) {
	return filter(func(*run, traverser) (bool, error) { return false, nil }), traits{}, c.arity(0, 0)
}

// makeQuantifier makes all, any and none, which test the items of a collection.
func makeQuantifier(b *builder, c *callInfo) (kernel, traits, error) {
	if c.Name == "none" && len(c.Args) == 0 {
		return makeDiscard(b, c)
	}
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	p, ok := c.Args[0].(*gremlin.P)
	if !ok {
		return nil, traits{}, wrong(0, "a predicate", c.Args[0])
	}
	pred, err := newPredicate(p)
	return filter(func(_ *run, t traverser) (bool, error) {
		items, ok := itemsOf(t.val)
		if !ok {
			return false, nil
		}
		switch c.Name {
		case "all":
			return !slices.ContainsFunc(items, func(v any) bool { return !pred.accepts(v) }), nil
		case "any":
			return slices.ContainsFunc(items, pred.accepts), nil
		}
		return !slices.ContainsFunc(items, pred.accepts), nil
	}), traits{}, err
}

// itemsOf returns the items of a list or set, and whether v is one.
func itemsOf(v any) ([]any, bool) {
	switch v.(type) {
	case value.List, *value.Set, *value.BulkSet:
		return value.Items(v), true
	}
	return nil, false
}

func makeCoin(_ *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	f, ok := value.Float(c.Args[0])
	if !ok || f < 0 || f > 1 {
		return nil, traits{}, fmt.Errorf("argument 1 must be a probability from 0 to 1")
	}
	return &coin{f}, traits{}, nil
}

// coin passes on each of a traverser's bulk by chance.
type coin struct{ p float64 }

func (c *coin) open(r *run, next sink) sink { return &tossing{r.random(c), c.p, next} }

type tossing struct {
	rand *random
	p    float64
	next sink
}

func (s *tossing) push(t traverser) error {
	bulk := int64(0)
	for range t.bulk {
		if s.rand.float() <= s.p {
			bulk++
		}
	}
	if t.bulk = bulk; bulk == 0 {
		return nil
	}
	return s.next.push(t)
}

func (s *tossing) flush() error { return s.next.flush() }

func makeTimeLimit(_ *builder, c *callInfo) (kernel, traits, error) {
	n, err := c.int(0)
	if err == nil && (n < 0 || n > 1<<40) {
		err = fmt.Errorf("argument 1 must be milliseconds, from 0")
	}
	return timeLimit(time.Duration(n) * time.Millisecond), traits{stateful: true}, err
}

type timeLimit time.Duration

func (d timeLimit) open(r *run, next sink) sink { return &timing{d: time.Duration(d), next: next} }

type timing struct {
	d     time.Duration
	until time.Time
	next  sink
}

func (s *timing) push(t traverser) error {
	now := time.Now()
	if s.until.IsZero() {
		s.until = now.Add(s.d)
	}
	if !now.Before(s.until) {
		return errDone
	}
	return s.next.push(t)
}

func (s *timing) flush() error { return s.next.flush() }

func makeIdentity(_ *builder, c *callInfo) (kernel, traits, error) {
	return filter(func(*run, traverser) (bool, error) { return true, nil }), traits{}, c.arity(0, 0)
}

func makeFail(_ *builder, c *callInfo) (kernel, traits, error) {
	msg := "the traversal has come to fail()"
	if len(c.Args) > 0 {
		s, err := c.string(0)
		if err != nil {
			return nil, traits{}, err
		}
		msg = s
	}
	return effect(func(*run, traverser) error { return fmt.Errorf("%s", msg) }), traits{}, c.arity(0, 1)
}

// makeWhere makes where: of a traversal, or of predicates whose values are labels.
func makeWhere(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 2); err != nil {
		return nil, traits{}, err
	}
	if t, ok := c.Args[0].(*gremlin.Traversal); ok {
		return b.wherePattern(c, t)
	}
	start, args := "", c.Args
	if len(args) == 2 {
		s, err := c.string(0)
		if err != nil {
			return nil, traits{}, err
		}
		start, args = s, args[1:]
	}
	p, ok := args[0].(*gremlin.P)
	if !ok {
		return nil, traits{}, wrong(len(c.Args)-1, "a predicate or a traversal", args[0])
	}
	pred, err := newPredicate(p)
	if err != nil {
		return nil, traits{}, err
	}
	bys, err := b.bys(c)
	b.used.any = true
	return &whereP{start, pred, bys}, traits{}, err
}

type whereP struct {
	start string // a label; "": where the traverser is
	pred  *predicate
	bys   []*by
}

func (w *whereP) open(r *run, next sink) sink {
	return filter(func(r *run, t traverser) (bool, error) {
		at, v := 0, t.val
		project := func(v any) (any, error) {
			if len(w.bys) == 0 {
				return v, nil
			}
			m := w.bys[at%len(w.bys)]
			at++
			moved := r.alone(t, v)
			out, ok, err := m.value(r, moved)
			if err == nil && !ok {
				err = errMissing
			}
			return out, err
		}
		if w.start != "" {
			var ok bool
			var err error
			if v, ok, err = r.selected(t, w.start, value.PopLast); err == nil && !ok {
				err = unlabelled(w.start)
			}
			if err != nil {
				return false, err
			}
		}
		v, err := project(v)
		if err != nil {
			return false, notMissing(err)
		}
		verdict, err := w.pred.eval(v, func(a any) (any, error) {
			label, ok := a.(string)
			if !ok {
				return a, nil
			}
			got, ok, err := r.selected(t, label, value.PopLast)
			if err == nil && !ok {
				err = unlabelled(label)
			}
			if err != nil {
				return nil, err
			}
			if items, ok := got.(*value.BulkSet); ok { // of a side effect: one of its values
				return value.List(value.Items(items)), nil
			}
			return project(got)
		})
		return verdict == yes, notMissing(err)
	}).open(r, next)
}

var errMissing = fmt.Errorf("a by() has no value")

// unlabelled: where() asks for a label that nothing has.
func unlabelled(label string) error {
	return fmt.Errorf("the label %q is neither in the path nor a side effect", label)
}

func notMissing(err error) error {
	if err == errMissing {
		return nil
	}
	return err
}

// wherePattern makes where(traversal), in which as() at the start and the end stand
// for what has these labels.
func (b *builder) wherePattern(c *callInfo, t *gremlin.Traversal) (kernel, traits, error) {
	p, err := b.pattern(t)
	if err != nil {
		return nil, traits{}, err
	}
	return filter(func(r *run, t traverser) (bool, error) { return r.holds(p, t) }), traits{}, nil
}

func makeSimplePath(b *builder, c *callInfo) (kernel, traits, error) {
	bys, err := b.bys(c)
	if err != nil {
		return nil, traits{}, err
	}
	part, err := pathPart(c)
	b.needPath()
	simple := c.Name == "simplePath"
	return filter(func(r *run, t traverser) (bool, error) {
		seen := map[string]bool{}
		for i, n := range part.nodes(t.path) {
			v := n.val
			if len(bys) > 0 {
				moved := r.alone(t, v)
				var ok bool
				var err error
				if v, ok, err = bys[i%len(bys)].value(r, moved); err != nil {
					return false, err
				}
				if !ok {
					return false, nil
				}
			}
			h := value.Hash(v)
			if seen[h] {
				return !simple, nil
			}
			seen[h] = true
		}
		return simple, nil
	}), traits{}, err
}
