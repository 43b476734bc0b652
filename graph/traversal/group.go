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
	}), traits{filter: true, barrier: true}, err
}

// grouping is a group that is being made.
type grouping struct {
	r      *run
	g      *group
	keys   []any
	at     map[string]int
	counts []int64
	lists  []value.List
	pipes  []*pipe
	outs   [][]any
	before *value.Map // of a side effect that was given
}

func newGrouping(r *run, g *group) *grouping { return &grouping{r: r, g: g, at: map[string]int{}} }

func (s *grouping) add(t traverser) error {
	key, ok, err := s.g.key.value(s.r, t)
	if err != nil || !ok {
		return err
	}
	h := value.Hash(key)
	i, ok := s.at[h]
	if !ok {
		if err := s.r.hold(1); err != nil {
			return err
		}
		i = len(s.keys)
		s.at[h], s.keys = i, append(s.keys, key)
		s.counts, s.lists, s.outs = append(s.counts, 0), append(s.lists, nil), append(s.outs, nil)
		s.pipes = append(s.pipes, nil)
	}
	s.counts[i] += t.bulk
	switch {
	case s.g.count:
		return nil
	case s.g.plan != nil:
		return s.feed(i, t)
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
		s.lists[i] = append(s.lists[i], v)
	}
	return nil
}

// feed gives a traverser to the traversal of its group, whose first result is the
// value. There is none, and no key, without a result.
func (s *grouping) feed(i int, t traverser) error {
	if !s.g.plan.barrier() {
		if len(s.outs[i]) > 0 {
			return nil
		}
		v, ok, err := s.r.first(s.g.plan, t)
		if ok {
			s.outs[i] = append(s.outs[i], v)
		}
		return err
	}
	if s.pipes[i] == nil {
		s.pipes[i] = s.r.child(s.g.plan, func(got traverser) error {
			s.outs[i] = append(s.outs[i], got.val)
			return nil
		})
	}
	if err := s.pipes[i].push(t); err != nil && err != errDone {
		return err
	}
	return nil
}

func (s *grouping) result() (any, bool, error) {
	m, err := s.value()
	return m, true, err
}

// value returns the map so far. The traversals of the groups end with it.
func (s *grouping) value() (*value.Map, error) {
	out := &value.Map{}
	if s.before != nil {
		for _, e := range s.before.Entries() {
			out.Set(e.Key, e.Val)
		}
	}
	for i, key := range s.keys {
		switch {
		case s.g.count:
			n := any(s.counts[i])
			if old, ok := out.Get(key); ok {
				var err error
				if n, err = value.Calc(value.Add, old, n); err != nil {
					return nil, err
				}
			}
			out.Set(key, n)
		case s.g.plan != nil:
			if s.pipes[i] != nil && !s.pipes[i].ended {
				s.pipes[i].ended = true
				if err := s.pipes[i].flush(); err != nil && err != errDone {
					return nil, err
				}
			}
			if len(s.outs[i]) > 0 {
				out.Set(key, s.outs[i][0])
			}
		default:
			list := s.lists[i]
			if old, ok := out.Get(key); ok {
				if items, ok := itemsOf(old); ok {
					list = append(append(value.List{}, items...), list...)
				}
			}
			if list == nil {
				list = value.List{}
			}
			out.Set(key, list)
		}
	}
	return out, nil
}
