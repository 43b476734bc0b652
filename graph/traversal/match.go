package traversal

import (
	"fmt"
	"maps"
	"slices"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// pattern is a traversal of match or where, which leads from what one label stands
// for to what another one stands for: as('a').out('knows').as('b').
type pattern struct {
	start, end string // "": it has none
	plan       *plan  // nil: it consists of parts
	op         string // of parts: and, or, not; filter: a plan that asks for labels
	parts      []*pattern
	asks       []string // the labels that a filter asks for
}

// pattern makes a pattern of a traversal.
func (b *builder) pattern(t *gremlin.Traversal) (*pattern, error) {
	b.used.any = true
	steps := slices.Clone(t.Steps)
	if len(steps) == 1 && slices.Contains([]string{"and", "or", "not"}, steps[0].Name) || infix(steps) {
		return b.patternParts(steps)
	}
	p := &pattern{asks: labelsIn(steps)}
	if len(steps) > 0 && steps[0].Name == "as" && len(steps[0].Args) == 1 {
		p.start, _ = steps[0].Args[0].(string)
		steps = steps[1:]
	}
	if n := len(steps); n > 0 && steps[n-1].Name == "as" && len(steps[n-1].Args) == 1 {
		p.end, _ = steps[n-1].Args[0].(string)
		steps = steps[:n-1]
	}
	var err error
	p.plan, err = b.plan(steps, false)
	return p, err
}

func infix(steps []gremlin.Call) bool {
	return slices.ContainsFunc(steps, func(c gremlin.Call) bool { return (c.Name == "and" || c.Name == "or") && len(c.Args) == 0 })
}

func (b *builder) patternParts(steps []gremlin.Call) (*pattern, error) {
	call := steps[0]
	if infix(steps) {
		infos, labels, err := groupCalls(steps)
		if err != nil {
			return nil, err
		}
		if infos, _, err = b.connect(infos, labels); err != nil {
			return nil, err
		}
		call = infos[0].Call
	}
	p := &pattern{op: call.Name}
	for i, a := range call.Args {
		t, ok := a.(*gremlin.Traversal)
		if !ok {
			return nil, wrong(i, "a traversal", a)
		}
		part, err := b.pattern(t)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, part)
	}
	return p, nil
}

// holds reports whether a traverser meets a pattern of where.
func (r *run) holds(p *pattern, t traverser) (bool, error) {
	switch p.op {
	case "and":
		for _, part := range p.parts {
			if ok, err := r.holds(part, t); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	case "or":
		for _, part := range p.parts {
			if ok, err := r.holds(part, t); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	case "not":
		ok, err := r.holds(p.parts[0], t)
		return !ok, err
	}
	at := t
	if p.start != "" {
		v, ok, err := r.selected(t, p.start, value.PopLast)
		if err != nil || !ok {
			return false, err
		}
		at.val = v
	}
	if p.end == "" {
		return r.test(p.plan, at)
	}
	want, ok, err := r.selected(t, p.end, value.PopLast)
	if err != nil || !ok {
		return false, err
	}
	found := false
	err = r.each(p.plan, at, func(got traverser) error {
		if found = value.Equal(got.val, want); found {
			return errFirst
		}
		return nil
	})
	if err == errFirst {
		err = nil
	}
	return found, err
}

// makeMatch makes match(patterns…): it finds all bindings of the labels that meet
// every pattern, by trying them one after the other.
func makeMatch(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, -1); err != nil {
		return nil, traits{}, err
	}
	if _, ok := c.Args[0].(string); ok {
		return makeDescribing(c)
	}
	m := &matching{}
	for i, a := range c.Args {
		t, ok := a.(*gremlin.Traversal)
		if !ok {
			return nil, traits{}, wrong(i, "a traversal", a)
		}
		p, err := b.pattern(t)
		if err != nil {
			return nil, traits{}, err
		}
		if p.op == "" && p.start == "" { // a where, whose labels are inside
			p.op = "filter"
		}
		if p.op == "and" {
			m.patterns = append(m.patterns, p.parts...)
			continue
		}
		m.patterns = append(m.patterns, p)
	}
	m.first = m.firstLabel()
	if m.first == "" {
		return nil, traits{}, fmt.Errorf("one of its patterns must begin with as() of a label")
	}
	return m, traits{moves: true}, nil
}

type matching struct {
	patterns []*pattern
	first    string
}

// firstLabel returns the label that the traverser comes with: one that begins a
// pattern and ends none.
func (m *matching) firstLabel() string {
	var starts, ends []string
	var look func(p *pattern)
	look = func(p *pattern) {
		if p.start != "" {
			starts = append(starts, p.start)
		}
		if p.end != "" {
			ends = append(ends, p.end)
		}
		for _, part := range p.parts {
			look(part)
		}
	}
	for _, p := range m.patterns {
		look(p)
	}
	for _, s := range starts {
		if !slices.Contains(ends, s) {
			return s
		}
	}
	if len(starts) > 0 {
		return starts[0]
	}
	return ""
}

func (m *matching) open(r *run, next sink) sink { return &matcher{r, m, next} }

type matcher struct {
	r    *run
	m    *matching
	next sink
}

func (s *matcher) flush() error { return s.next.flush() }

// push binds the first label to the traverser, unless the path already has others.
func (s *matcher) push(t traverser) error {
	bound := map[string]any{}
	for n := t.path; n != nil; n = n.prev {
		for _, l := range n.labels {
			if _, ok := bound[l]; !ok && s.m.has(l) {
				bound[l] = n.val
			}
		}
	}
	if _, ok := bound[s.m.first]; !ok {
		bound[s.m.first] = t.val
	}
	return s.solve(t, s.m.patterns, bound, nil)
}

func (m *matching) has(label string) bool {
	var has func(p *pattern) bool
	has = func(p *pattern) bool {
		return p.start == label || p.end == label || slices.ContainsFunc(p.parts, has)
	}
	return slices.ContainsFunc(m.patterns, has)
}

// solve meets the patterns that are left, by the bindings so far, and then calls
// done, or pushes what was found.
func (s *matcher) solve(t traverser, left []*pattern, bound map[string]any, done func(map[string]any) error) error {
	if err := s.r.tick(); err != nil {
		return err
	}
	if len(left) == 0 {
		if done != nil {
			return done(bound)
		}
		return s.found(t, bound)
	}
	at := slices.IndexFunc(left, func(p *pattern) bool { return p.ready(bound) })
	if at < 0 {
		return fmt.Errorf("no pattern leads to the label %q", left[0].start)
	}
	p := left[at]
	rest := slices.Delete(slices.Clone(left), at, at+1)
	switch p.op {
	case "or": // the first part with a solution counts
		for _, part := range p.parts {
			found := false
			if err := s.solve(t, append([]*pattern{part}, rest...), bound, func(b map[string]any) error {
				found = true
				return s.solve(t, nil, b, done)
			}); err != nil || found {
				return err
			}
		}
		return nil
	case "and":
		return s.solve(t, append(slices.Clone(p.parts), rest...), bound, done)
	case "not", "filter":
		ok, err := s.meets(t, p, bound)
		if err != nil || !ok {
			return err
		}
		return s.solve(t, rest, bound, done)
	}
	from := s.bind(t, bound)
	from.val = bound[p.start]
	return s.r.each(p.plan, from, func(got traverser) error {
		if p.end == "" {
			if err := s.solve(t, rest, bound, done); err != nil {
				return err
			}
			return nil
		}
		if old, ok := bound[p.end]; ok {
			if !value.Equal(old, got.val) {
				return nil
			}
			return s.solve(t, rest, bound, done)
		}
		more := maps.Clone(bound)
		more[p.end] = got.val
		return s.solve(t, rest, more, done)
	})
}

// ready reports whether a pattern can be tried: its start is bound, and of a filter
// all its labels.
func (p *pattern) ready(bound map[string]any) bool {
	switch p.op {
	case "":
		_, ok := bound[p.start]
		return ok
	case "or", "and":
		return slices.ContainsFunc(p.parts, func(part *pattern) bool { return part.ready(bound) })
	case "not":
		return !slices.ContainsFunc(p.parts, func(part *pattern) bool { return !part.ready(bound) })
	}
	return !slices.ContainsFunc(p.asks, func(l string) bool { _, ok := bound[l]; return !ok })
}

// meets tests a pattern that binds nothing.
func (s *matcher) meets(t traverser, p *pattern, bound map[string]any) (bool, error) {
	at := s.bind(t, bound)
	if p.op == "filter" {
		return s.r.test(p.plan, at)
	}
	if sub := p.parts[0]; sub.op == "" && sub.end != "" {
		if _, ok := bound[sub.end]; !ok { // nothing may be found at all
			free := *sub
			free.end = ""
			ok, err := s.r.holds(&free, at)
			return !ok, err
		}
	}
	ok, err := s.r.holds(p.parts[0], at)
	return !ok, err
}

// bind returns t with the bindings as the labels of its path.
func (s *matcher) bind(t traverser, bound map[string]any) traverser {
	for _, label := range slices.Sorted(maps.Keys(bound)) {
		t.path = extend(t.path, bound[label], []string{label})
	}
	return t
}

func (s *matcher) found(t traverser, bound map[string]any) error {
	out := &value.Map{}
	for _, label := range slices.Sorted(maps.Keys(bound)) {
		out.Set(label, bound[label])
	}
	return s.next.push(s.r.to(s.bind(t, bound), out))
}

// labelsIn returns the labels that steps ask for: those of where, and of as in the
// traversals inside.
func labelsIn(steps []gremlin.Call) (out []string) {
	for _, c := range steps {
		for _, a := range c.Args {
			switch x := a.(type) {
			case string:
				if c.Name == "where" || c.Name == "as" {
					out = append(out, x)
				}
			case *gremlin.P:
				if c.Name == "where" {
					out = append(out, labelsOf(x)...)
				}
			case *gremlin.Traversal:
				out = append(out, labelsIn(x.Steps)...)
			}
		}
	}
	return out
}

func labelsOf(p *gremlin.P) (out []string) {
	for _, a := range p.Args {
		switch x := a.(type) {
		case string:
			out = append(out, x)
		case *gremlin.P:
			out = append(out, labelsOf(x)...)
		}
	}
	return out
}
