package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

// compile converts an operation for the search.
func (m *model) compile(o *Op) *call {
	c := &call{op: o, readOnly: o.readOnly(), unknown: o.Outcome == Unknown, begin: o.Call, end: o.Return}
	if o.Kind != Txn {
		c.actions = []action{m.action(&o.Step)}
		return c
	}
	c.actions = make([]action, len(o.Steps))
	for i := range o.Steps {
		c.actions[i] = m.action(&o.Steps[i])
	}
	return c
}

func (m *model) slot(key string) int {
	i, ok := slices.BinarySearch(m.keys, key)
	if !ok {
		panic("BUG: partition without key " + key)
	}
	return i
}

func (m *model) action(s *Step) action {
	a := action{kind: s.Kind, delta: s.Delta, sum: s.Sum, done: s.Done, blind: s.Blind, limit: s.Limit}
	switch s.Kind {
	case MGet:
		for _, k := range s.Keys {
			a.slots = append(a.slots, m.slot(k))
		}
		for _, v := range s.Values {
			a.ids = append(a.ids, m.value(v))
		}
		return a
	case MSet:
		for _, p := range s.Pairs {
			a.slots, a.ids = append(a.slots, m.slot(p.Key)), append(a.ids, m.value(p.Value))
		}
		return a
	case Scan:
		from := sort.SearchStrings(m.keys, s.Prefix)
		for i := from; i < len(m.keys) && strings.HasPrefix(m.keys[i], s.Prefix); i++ {
			a.slots = append(a.slots, i)
		}
		for _, p := range s.Pairs {
			a.found, a.ids = append(a.found, m.slot(p.Key)), append(a.ids, m.value(p.Value))
		}
		return a
	case Get:
		a.want = m.value(s.Got)
	case List, SetRead:
		a.want = m.list(s.Kind, s.List)
	case Transfer:
		a.to = m.slot(s.To)
	default:
		a.value, a.expect = m.value(s.Value), m.value(s.Expect)
	}
	a.key = m.slot(s.Key)
	return a
}

// search is a model and the calls that it must explain.
type search struct {
	*model
	calls []*call // by begin, then end
	mark  int64   // after which unknown calls are never done
}

// byTime returns the search that includes every operation except weak reads with a
// position, which byPosition checks. A weak read without a position may show any state
// before its return.
func (p *partition) byTime() *search {
	s := &search{model: &model{values: newValues(), keys: p.keys}}
	for _, o := range p.ops {
		if o.weak() && o.Pos > 0 {
			continue
		}
		c := s.compile(o)
		if o.weak() {
			c.begin = -MaxTime
		}
		s.calls = append(s.calls, c)
	}
	s.arrange()
	return s
}

// arrange sorts the calls, removes unknown ones that no call can have seen, and ends the
// others as early as possible.
func (s *search) arrange() {
	s.mark = -MaxTime
	for _, c := range s.calls {
		s.mark = max(s.mark, c.begin+1)
		if !c.unknown {
			s.mark = max(s.mark, c.end+1)
		}
	}
	for _, c := range s.calls {
		if c.unknown {
			c.end = s.mark + 1
		}
	}
	s.bound()
	slices.SortStableFunc(s.calls, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	type sort struct {
		kind    Kind
		key, to int
		delta   int64
		value   id
	}
	classes, count := map[sort]int{}, map[int]uint32{}
	for _, c := range s.calls {
		if !c.unknown || c.end <= s.mark || len(c.actions) != 1 {
			continue
		}
		a := &c.actions[0]
		if a.kind == MSet || a.kind == CAS {
			continue
		}
		k := sort{a.kind, a.key, a.to, a.delta, a.value}
		if classes[k] == 0 {
			s.classes++
			classes[k] = s.classes
		}
		c.class = classes[k]
		c.rank = count[c.class]
		count[c.class]++
	}
}

// cell is a value at a key: the whole value, or an element of a list or set.
type cell struct {
	key   int
	value id
}

// bound considers values that only one operation can have written. If a call saw such a
// value, an unknown write of it took effect before the end of the first call that saw it.
// If no call can have seen any value that the unknown operation wrote, and no call
// observed more about its keys than the value, the operation makes no difference and is
// removed.
func (s *search) bound() {
	if !slices.ContainsFunc(s.calls, func(c *call) bool { return c.unknown }) {
		return
	}
	writers := map[cell]int{}
	seen := map[cell]int64{} // the end of the first to see it
	hoped := map[cell]bool{} // an unknown call did something only if it saw it
	vague := make([]bool, len(s.keys))
	for _, c := range s.calls {
		for i := range c.actions {
			a := &c.actions[i]
			s.written(a, func(w cell) { writers[w]++ })
			if a.vague(c.unknown) {
				vague[a.key] = true
				if a.kind == Transfer {
					vague[a.to] = true
				}
			}
			if c.unknown {
				if a.kind == CAS {
					hoped[cell{a.key, a.expect}] = true
				}
				continue
			}
			s.observed(a, func(w cell) {
				if t, ok := seen[w]; !ok || c.end < t {
					seen[w] = c.end
				}
			})
		}
	}
	kept := s.calls[:0]
	for _, c := range s.calls {
		if !c.unknown {
			kept = append(kept, c)
			continue
		}
		needed := false
		for i := range c.actions {
			a := &c.actions[i]
			s.written(a, func(w cell) {
				t, ok := seen[w]
				if ok && w.value != 0 && writers[w] == 1 && !vague[w.key] {
					c.end = min(c.end, max(t, c.begin))
				}
				needed = needed || ok || hoped[w] || w.value == 0 || vague[w.key]
			})
			needed = needed || a.kind != Set && a.kind != MSet && a.kind != Append && a.kind != SetAdd && !a.kind.reads()
		}
		if needed {
			kept = append(kept, c)
		}
	}
	s.calls = kept
}

// vague reports whether the action writes or observes something about its key other than
// a value that is in the history.
func (a *action) vague(unknown bool) bool {
	switch a.kind {
	case Add, Transfer:
		return true
	case Delete, CAS, SetAdd:
		return !unknown && !a.blind
	}
	return false
}

// written calls fn with the values that an action may write.
func (s *search) written(a *action, fn func(cell)) {
	switch a.kind {
	case Set, CAS, Append, SetAdd:
		fn(cell{a.key, a.value})
	case MSet:
		for i, k := range a.slots {
			fn(cell{k, a.ids[i]})
		}
	}
}

// observed calls fn with the values that an action saw.
func (s *search) observed(a *action, fn func(cell)) {
	switch a.kind {
	case Get:
		fn(cell{a.key, a.want})
	case MGet:
		for i, k := range a.slots {
			fn(cell{k, a.ids[i]})
		}
	case Scan:
		for i, k := range a.found {
			fn(cell{k, a.ids[i]})
		}
	case CAS:
		if a.done && !a.blind {
			fn(cell{a.key, a.expect})
		}
	case List:
		for v := a.want; v != 0; v = s.all[v].parent {
			fn(cell{a.key, s.all[v].elem})
		}
	case SetRead:
		if a.want != never {
			for _, m := range s.all[a.want].members {
				fn(cell{a.key, m})
			}
		}
	}
}

// operations returns the calls and the mark as operations of porcupine.
func (s *search) operations() []porcupine.Operation {
	clients := map[int64]int{}
	ops := make([]porcupine.Operation, 0, len(s.calls)+1)
	for _, c := range s.calls {
		n, ok := clients[c.op.Client]
		if !ok {
			n = len(clients)
			clients[c.op.Client] = n
		}
		ops = append(ops, porcupine.Operation{ClientId: n, Input: c, Call: c.begin, Return: c.end})
	}
	if s.hasUnknown() {
		ops = append(ops, porcupine.Operation{
			ClientId: len(clients), Input: &call{last: true}, Call: s.mark, Return: s.mark,
		})
	}
	return ops
}

func (s *search) hasUnknown() bool {
	return slices.ContainsFunc(s.calls, func(c *call) bool { return c.unknown })
}

// describe lists the keys that are not absent.
func (m *model) describe(s state) string {
	var b strings.Builder
	for i, k := range m.keys {
		v := slot(s.vec, i)
		if v == 0 {
			continue
		}
		if b.Len() > maxShown {
			b.WriteString(" …")
			break
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s = %s", short(k), m.show(v))
	}
	if b.Len() == 0 {
		return "everything absent"
	}
	return b.String()
}

func (m *model) show(v id) string {
	switch x := m.all[v]; x.shape {
	case aString:
		return short(x.text)
	case aSet:
		var texts []string
		for _, e := range x.members {
			texts = append(texts, m.all[e].text)
		}
		slices.Sort(texts)
		return "{" + shortList(texts) + "}"
	case aList:
		var texts []string
		for ; v != 0; v = m.all[v].parent {
			texts = append(texts, m.all[m.all[v].elem].text)
		}
		slices.Reverse(texts)
		return "[" + shortList(texts) + "]"
	}
	return "nothing"
}
