package traversal

import (
	"github.com/skerrydb/skerry/graph/value"
)

// group is group and groupCount: a map from what the first by makes of traversers
// to what the second one makes of all those with the same.
type group struct {
	key   *by
	value *by // of group
	plan  *plan
	count bool
}

func makeGroup(b *builder, c *callInfo) (kernel, traits, error) {
	g := &group{key: &by{}, count: c.Name == "groupCount"}
	bys, err := b.bys(c)
	switch {
	case err != nil:
		return nil, traits{}, err
	case g.count && len(bys) > 1:
		return nil, traits{}, known("GroupCount step can only have one by modulator")
	case len(bys) > 2:
		return nil, traits{}, known("The key and value traversals for group()-step have already been set")
	}
	if len(bys) > 0 {
		g.key = bys[0]
	}
	if len(bys) > 1 {
		if g.value = bys[1]; g.value.plan != nil {
			g.plan = g.value.plan
		}
	}
	if len(c.Args) == 0 {
		return reducing(func(r *run) reduction { return newGrouping(r, g) }), reduceTraits, nil
	}
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	key, err := c.string(0)
	b.collects(key, func() any { return &value.Map{} })
	return collecting(func(r *run, all []traverser) ([]traverser, error) {
		at := r.effects.groups[key]
		if at == nil || at.g.count != g.count {
			at = newGrouping(r, g)
			at.keeps = true
			at.before, _ = r.effects.vals[key].(*value.Map)
			r.effects.groups[key] = at
		}
		at.g = g // several steps may fill one side effect
		for _, t := range all {
			if err := at.add(t); err != nil {
				return nil, err
			}
		}
		return all, nil
	}), traits{barrier: true}, err
}

// grouping is a group that is being made.
type grouping struct {
	r       *run
	g       *group
	buckets []*bucket
	at      map[string]*bucket
	before  *value.Map // of a side effect that was given
	keeps   bool       // it may be asked for before its end
}

// bucket has the traversers with one key.
type bucket struct {
	key   any
	count int64
	list  value.List  // without a plan
	pipe  *pipe       // of a plan with a barrier; nil: nothing was pushed yet
	kept  []traverser // for such a plan, if the grouping keeps them
	known bool        // out is what the plan yields of all so far
	out   []any
}

func newGrouping(r *run, g *group) *grouping {
	return &grouping{r: r, g: g, at: map[string]*bucket{}}
}

func (s *grouping) add(t traverser) error {
	key, ok, err := s.g.key.value(s.r, t)
	if err != nil || !ok {
		return err
	}
	h := value.Hash(key)
	b := s.at[h]
	if b == nil {
		if err := s.r.hold(1); err != nil {
			return err
		}
		b = &bucket{key: key}
		s.at[h], s.buckets = b, append(s.buckets, b)
	}
	b.count += t.bulk
	switch {
	case s.g.count:
		return nil
	case s.g.plan != nil:
		return s.feed(b, t)
	}
	v := t.val
	if s.g.value != nil {
		if v, ok, err = s.g.value.value(s.r, t); err != nil || !ok {
			return err
		}
	}
	for range t.bulk {
		if err := s.r.hold(1); err != nil {
			return err
		}
		b.list = append(b.list, v)
	}
	return nil
}

// feed gives a traverser to the traversal of its group, whose first result is the
// value. There is none, and no key, without a result.
func (s *grouping) feed(b *bucket, t traverser) error {
	switch {
	case !s.g.plan.barrier():
		if len(b.out) > 0 {
			return nil
		}
		v, ok, err := s.r.first(s.g.plan, t)
		if b.known = true; ok {
			b.out = append(b.out, v)
		}
		return err
	case s.keeps:
		b.kept, b.known = append(b.kept, t), false
		return s.r.hold(1)
	case b.pipe == nil:
		b.pipe = s.pipe(b)
	}
	return enough(b.pipe.push(t))
}

func (s *grouping) pipe(b *bucket) *pipe {
	b.out = nil
	return s.r.child(s.g.plan, func(got traverser) error {
		b.out = append(b.out, got.val)
		return nil
	})
}

// enough returns err unless it says that a pipe wants no more.
func enough(err error) error {
	if err == errDone {
		return nil
	}
	return err
}

// finish makes out what the plan yields of all so far.
func (s *grouping) finish(b *bucket) error {
	if b.known {
		return nil
	}
	b.known = true
	if !s.keeps {
		return enough(b.pipe.flush())
	}
	pipe := s.pipe(b)
	for _, t := range b.kept {
		if err := enough(pipe.push(t)); err != nil {
			return err
		}
	}
	return enough(pipe.flush())
}

func (s *grouping) result() (any, bool, error) {
	m, err := s.value()
	return m, true, err
}

// value returns the map so far.
func (s *grouping) value() (*value.Map, error) {
	out := &value.Map{}
	if s.before != nil {
		for _, e := range s.before.Entries() {
			out.Set(e.Key, e.Val)
		}
	}
	for _, b := range s.buckets {
		old, ok := out.Get(b.key)
		switch {
		case s.g.count:
			n := any(b.count)
			if ok {
				var err error
				if n, err = value.Calc(value.Add, old, n); err != nil {
					return nil, err
				}
			}
			out.Set(b.key, n)
		case s.g.plan != nil:
			if err := s.finish(b); err != nil {
				return nil, err
			}
			if len(b.out) > 0 {
				out.Set(b.key, b.out[0])
			}
		default:
			items, _ := itemsOf(old)
			out.Set(b.key, append(append(value.List{}, items...), b.list...))
		}
	}
	return out, nil
}
