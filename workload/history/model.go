package history

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/anishathalye/porcupine"
)

// id identifies one value: equal values have equal ids, so that the search compares
// numbers. 0 means absent, which is also the empty list and the empty set.
type id = uint32

// never is the id of an impossible value.
const never id = math.MaxUint32

// shape distinguishes strings, lists and sets.
type shape uint8

const (
	nothing shape = iota
	aString
	aList // the list parent followed by the element elem
	aSet
)

type value struct {
	shape   shape
	text    string
	parent  id
	elem    id
	members []id // of a set, ascending
	num     int64
	isNum   bool
}

// values assigns ids.
type values struct {
	all     []value
	strings map[string]id
	lists   map[[2]id]id
	sets    map[string]id
	grown   map[[2]id]id // set and element to the greater set
}

func newValues() *values {
	return &values{
		all: make([]value, 1), strings: map[string]id{}, lists: map[[2]id]id{},
		sets: map[string]id{}, grown: map[[2]id]id{},
	}
}

func (v *values) put(x value) id {
	v.all = append(v.all, x)
	return id(len(v.all) - 1)
}

func (v *values) text(s string) id {
	n, ok := v.strings[s]
	if !ok {
		num, err := strconv.ParseInt(s, 10, 64)
		n = v.put(value{shape: aString, text: s, num: num, isNum: err == nil})
		v.strings[s] = n
	}
	return n
}

func (v *values) value(x Value) id {
	if !x.Present {
		return 0
	}
	return v.text(x.Text)
}

// appended returns list followed by elem.
func (v *values) appended(list, elem id) id {
	n, ok := v.lists[[2]id{list, elem}]
	if !ok {
		n = v.put(value{shape: aList, parent: list, elem: elem})
		v.lists[[2]id{list, elem}] = n
	}
	return n
}

// with returns set with elem added.
func (v *values) with(set, elem id) id {
	n, ok := v.grown[[2]id{set, elem}]
	if ok {
		return n
	}
	members := v.all[set].members
	i, there := slices.BinarySearch(members, elem)
	if there {
		n = set
	} else {
		members = slices.Insert(slices.Clone(members), i, elem)
		var name []byte
		for _, m := range members {
			name = binary.LittleEndian.AppendUint32(name, m)
		}
		if n, ok = v.sets[string(name)]; !ok {
			n = v.put(value{shape: aSet, members: members})
			v.sets[string(name)] = n
		}
	}
	v.grown[[2]id{set, elem}] = n
	return n
}

// list returns the id of the result of List or SetRead.
func (v *values) list(kind Kind, texts []string) id {
	var n id
	for _, text := range texts {
		var next id
		if kind == List {
			next = v.appended(n, v.text(text))
		} else if next = v.with(n, v.text(text)); next == n {
			return never // a duplicate element
		}
		n = next
	}
	return n
}

// action is one Step prepared for the search: keys are slots of the state.
type action struct {
	kind        Kind
	key, to     int
	value       id // argument
	expect      id
	delta, sum  int64
	want        id // result of a read
	done, blind bool
	slots       []int // of Keys, Pairs, or all that a Scan could see
	ids         []id  // of Values or Pairs
	found       []int // slots of a Scan's result
	limit       int
}

// call is one operation prepared for the search.
type call struct {
	op       *Op
	actions  []action
	readOnly bool
	unknown  bool // may never be done; results do not count
	last     bool // the mark after which unknown calls are never done

	// Identical unknown calls are done in the order of their calls: the slot counts
	// how many were.
	class int // 0: none
	rank  uint32

	pos        uint64 // for the search by positions: its exact position; 0: unknown
	begin, end int64
}

// state is a state of the model. vec has four bytes per slot: keys, then classes, then
// one that is 1 after the last mark.
type state struct {
	vec string
	// By positions: the position reached, and how many writes without a position came
	// after it.
	at, extra uint64
}

// model runs the calls of one partition. It is used by one goroutine.
type model struct {
	*values
	keys    []string // by slot, ascending
	classes int
	byPos   bool
	buf     []byte // a copy of vec while a call writes

	ctx    context.Context
	budget int64 // remaining steps
	ended  string
}

// Reasons why a search was given up.
const (
	outOfTime   = "the time limit was reached"
	outOfMemory = "the search took too much memory"
)

func (m *model) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{vec: string(make([]byte, 4*m.slots()))} },
		Step: func(s, in, _ any) (bool, any) {
			next, ok := m.step(s.(state), in.(*call))
			return ok, next
		},
		Hash:              func(s any) uint64 { return hash(s.(state)) },
		DescribeOperation: func(in, _ any) string { return in.(*call).describe() },
		DescribeState:     func(s any) string { return m.describe(s.(state)) },
	}
}

func (m *model) slots() int { return len(m.keys) + m.classes + 1 }

// hash is FNV-1a over the slots.
func hash(s state) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(s.vec); i += 4 {
		h = (h ^ uint64(slot(s.vec, i/4))) * 1099511628211
	}
	h = (h ^ s.at) * 1099511628211
	return (h ^ s.extra) * 1099511628211
}

func slot(vec string, i int) uint32 {
	b := vec[4*i : 4*i+4]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// step returns the state after a call, and whether the call is possible in s with its
// results.
func (m *model) step(s state, c *call) (state, bool) {
	if m.budget--; m.budget&63 == 0 || m.budget < 0 || m.ended != "" {
		if m.budget < 0 {
			m.ended = outOfMemory
		} else if m.ctx.Err() != nil {
			m.ended = outOfTime
		}
		if m.ended != "" {
			return s, false
		}
	}
	mark := m.slots() - 1
	if c.last {
		m.buf = append(m.buf[:0], s.vec...)
		m.buf[4*mark] = 1
		s.vec = string(m.buf)
		return s, true
	}
	if c.unknown && s.vec[4*mark] == 1 {
		return s, true
	}
	if c.class > 0 && slot(s.vec, len(m.keys)+c.class-1) != c.rank {
		return s, false
	}
	m.buf = append(m.buf[:0], s.vec...)
	for i := range c.actions {
		if !m.do(&c.actions[i], c.unknown) {
			return s, false
		}
	}
	changed := !c.readOnly && string(m.buf) != s.vec
	if c.unknown && !changed {
		return s, false // the same as never done, which comes after the mark
	}
	if m.byPos && !s.reach(c, changed) {
		return s, false
	}
	if c.class > 0 {
		m.set(len(m.keys)+c.class-1, c.rank+1)
	}
	if changed {
		s.vec = string(m.buf)
	}
	return s, true
}

// reach moves s to the position of a call, if the writes without a recorded position fit
// in between. Each of them has a separate position.
func (s *state) reach(c *call, changed bool) bool {
	if c.pos == 0 {
		if changed {
			s.extra++
		}
		return true
	}
	room := c.pos - s.at // the search never goes back
	if !c.readOnly && room > 0 {
		room--
	}
	if s.extra > room {
		return false
	}
	s.at, s.extra = c.pos, 0
	return true
}

func (m *model) get(i int) id { return binary.LittleEndian.Uint32(m.buf[4*i:]) }

func (m *model) set(i int, v id) { binary.LittleEndian.PutUint32(m.buf[4*i:], v) }

// is reports whether a value is absent or of that shape.
func (m *model) is(v id, want shape) bool { return v == 0 || m.all[v].shape == want }

// do runs one action on buf and reports whether it is possible with its results. If free
// is set, results do not matter.
func (m *model) do(a *action, free bool) bool {
	switch a.kind {
	case Get, List, SetRead:
		return free || m.get(a.key) == a.want
	case MGet:
		for i, k := range a.slots {
			if !free && m.get(k) != a.ids[i] {
				return false
			}
		}
	case Scan:
		return free || m.scan(a)
	case Set:
		m.set(a.key, a.value)
	case MSet:
		for i, k := range a.slots {
			m.set(k, a.ids[i])
		}
	case Append:
		old := m.get(a.key)
		if !m.is(old, aList) {
			return false
		}
		m.set(a.key, m.appended(old, a.value))
	case Add:
		sum, ok := m.add(a.key, a.delta)
		return ok && (free || a.blind || sum == a.sum)
	default:
		done, ok := m.conditional(a)
		return ok && (free || a.blind || done == a.done)
	}
	return true
}

// conditional runs an action that may have no effect.
func (m *model) conditional(a *action) (done, ok bool) {
	old := m.get(a.key)
	switch a.kind {
	case Delete:
		m.set(a.key, 0)
		return old != 0, true
	case CAS:
		if old != a.expect {
			return false, true
		}
		m.set(a.key, a.value)
		return true, true
	case SetAdd:
		if !m.is(old, aSet) {
			return false, false
		}
		grown := m.with(old, a.value)
		m.set(a.key, grown)
		return grown != old, true
	case Transfer:
		from, ok := m.number(a.key)
		if !ok || from < a.delta {
			return false, ok
		}
		if _, ok := m.add(a.key, -a.delta); !ok {
			return false, false
		}
		_, ok = m.add(a.to, a.delta)
		return true, ok
	}
	panic("BUG: no model of " + string(a.kind))
}

// number reads a key as a decimal number; absent is 0.
func (m *model) number(key int) (int64, bool) {
	v := m.get(key)
	if v == 0 {
		return 0, true
	}
	return m.all[v].num, m.all[v].isNum
}

func (m *model) add(key int, delta int64) (int64, bool) {
	n, ok := m.number(key)
	sum := n + delta
	if !ok || (sum > n) != (delta > 0) && delta != 0 {
		return 0, false
	}
	m.set(key, m.text(strconv.FormatInt(sum, 10)))
	return sum, true
}

func (m *model) scan(a *action) bool {
	n := 0
	for _, k := range a.slots {
		v := m.get(k)
		if v == 0 || m.all[v].shape != aString {
			continue
		}
		if a.limit > 0 && n == a.limit {
			break
		}
		if n == len(a.found) || a.found[n] != k || a.ids[n] != v {
			return false
		}
		n++
	}
	return n == len(a.found)
}
