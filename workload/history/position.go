package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Positions are a second clock, provided by the store: transactions that wrote have 1, 2,
// 3 and so on, in the order in which they took effect. docs/histories.md has the rules
// for them; the first four rules need no search.

// order relates times and positions of acknowledged operations. Both lists are sorted;
// best is the maximum up to, or minimum from, each element.
type order struct {
	returned []moment // by Return, with the highest Pos up to there
	called   []moment // writes and linearizable reads by Call, with the lowest time from there
	shared   map[uint64]bool
}

type moment struct {
	at   int64
	best int64
	pos  uint64
	op   *Op
}

// anchored reports whether the operation's position determines its place among all
// others: it is linearizable, and either changed something or is a read.
func (o *Op) anchored() bool {
	return o.Pos > 0 && o.Outcome == OK && !o.weak() && (o.readOnly() || o.changed())
}

// point returns the time by positions of an anchored operation or a weak read: a write is
// at its position, a read after it.
func (o *Op) point() int64 {
	if o.readOnly() {
		return 4*int64(o.Pos) + 2
	}
	return 4 * int64(o.Pos)
}

func newOrder(ops []Op) *order {
	r := &order{shared: map[uint64]bool{}}
	writes := map[uint64]bool{}
	for i := range ops {
		o := &ops[i]
		if !o.anchored() {
			continue
		}
		r.returned = append(r.returned, moment{at: o.Return, pos: o.Pos, op: o})
		r.called = append(r.called, moment{at: o.Call, best: o.point() - 1, op: o})
		if !o.readOnly() {
			r.shared[o.Pos] = writes[o.Pos]
			writes[o.Pos] = true
		}
	}
	byAt := func(a, b moment) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(r.returned, byAt)
	slices.SortStableFunc(r.called, byAt)
	for i := 1; i < len(r.returned); i++ {
		if before := r.returned[i-1]; before.pos > r.returned[i].pos {
			r.returned[i].pos, r.returned[i].op = before.pos, before.op
		}
	}
	for i := len(r.called) - 2; i >= 0; i-- {
		r.called[i].best = min(r.called[i].best, r.called[i+1].best)
	}
	return r
}

// before returns the highest position returned before a time, and the operation that
// returned it.
func (r *order) before(t int64) (uint64, *Op) {
	i := sort.Search(len(r.returned), func(i int) bool { return r.returned[i].at >= t })
	if i == 0 {
		return 0, nil
	}
	return r.returned[i-1].pos, r.returned[i-1].op
}

// after returns the last possible time by positions of an operation that returned at t.
func (r *order) after(t, mark int64) int64 {
	i := sort.Search(len(r.called), func(i int) bool { return r.called[i].at > t })
	if i == len(r.called) {
		return mark
	}
	return r.called[i].best
}

// positions checks the rules that need no search and returns the first violation,
// or "".
func (r *order) positions(ops []Op) string {
	for i := range ops {
		o := &ops[i]
		if !o.anchored() {
			continue
		}
		p, earlier := r.before(o.Call)
		if p > o.Pos {
			return fmt.Sprintf("%s\ngoes back to position %d, although position %d was returned before its call:\n%s\n",
				o.describe(), o.Pos, p, earlier.describe())
		}
		if p == o.Pos && !o.readOnly() && earlier != nil {
			return fmt.Sprintf("%s\nwrote at position %d, which was returned before its call:\n%s\n", o.describe(), o.Pos, earlier.describe())
		}
	}
	if why := r.future(ops); why != "" {
		return why
	}
	return sessions(ops)
}

// future finds reads of positions that had not been written when they returned.
func (r *order) future(ops []Op) string {
	var writes []moment // by position, with the latest call up to there
	for i := range ops {
		if o := &ops[i]; o.anchored() && !o.readOnly() {
			writes = append(writes, moment{at: o.Call, pos: o.Pos, op: o})
		}
	}
	slices.SortStableFunc(writes, func(a, b moment) int { return cmp.Compare(a.pos, b.pos) })
	for i := 1; i < len(writes); i++ {
		if before := writes[i-1]; before.at > writes[i].at {
			writes[i].at, writes[i].op = before.at, before.op
		}
	}
	for i := range ops {
		o := &ops[i]
		if o.Outcome != OK || o.Pos == 0 || !o.readOnly() {
			continue
		}
		n := sort.Search(len(writes), func(i int) bool { return writes[i].pos > o.Pos })
		if n > 0 && writes[n-1].at > o.Return {
			return fmt.Sprintf("%s\nwas answered from position %d, which includes what was called after its return:\n%s\n",
				o.describe(), o.Pos, writes[n-1].op.describe())
		}
	}
	return ""
}

// sessions checks that session reads are as new as they asked for.
func sessions(ops []Op) string {
	type earlier struct {
		at  int64
		pos uint64
		op  *Op
	}
	clients := map[int64][]earlier{} // by Return
	for i := range ops {
		o := &ops[i]
		if o.Outcome == OK && (o.Level == Session || o.anchored()) && o.Pos > 0 {
			clients[o.Client] = append(clients[o.Client], earlier{o.Return, o.Pos, o})
		}
	}
	for _, list := range clients {
		slices.SortStableFunc(list, func(a, b earlier) int { return cmp.Compare(a.at, b.at) })
		for i := 1; i < len(list); i++ {
			if list[i-1].pos > list[i].pos {
				list[i].pos, list[i].op = list[i-1].pos, list[i-1].op
			}
		}
	}
	for i := range ops {
		o := &ops[i]
		if o.Level != Session || o.Outcome != OK {
			continue
		}
		if o.Asked > 0 {
			if o.Pos < o.Asked {
				return fmt.Sprintf("%s\nread at position %d, although it asked for at least %d\n", o.describe(), o.Pos, o.Asked)
			}
			continue
		}
		list := clients[o.Client]
		n := sort.Search(len(list), func(i int) bool { return list[i].at >= o.Call })
		if n > 0 && list[n-1].pos > o.Pos {
			return fmt.Sprintf("%s\nwas answered from position %d, although its client had seen position %d:\n%s\n",
				o.describe(), o.Pos, list[n-1].pos, list[n-1].op.describe())
		}
	}
	return ""
}

// byPosition returns the search for an order in which every read with a position shows
// the state at exactly that position, or nil if no weak read of the partition has one.
// Times are positions: a write that changed something is at its own position. Unknown
// operations, and acknowledged writes without a position or with a shared one, may be
// anywhere that the others' positions allow.
func (p *partition) byPosition(r *order) *search {
	if !slices.ContainsFunc(p.ops, func(o *Op) bool { return o.weak() && o.Pos > 0 }) {
		return nil
	}
	s := &search{model: &model{values: newValues(), keys: p.keys, byPos: true}}
	for _, o := range p.ops {
		c := s.compile(o)
		low, _ := r.before(o.Call)
		floor := 4*int64(low) + 3
		switch {
		case c.readOnly && o.Pos == 0, c.idle():
			continue // byTime checks them
		case o.weak(), o.anchored() && !r.shared[o.Pos]:
			c.pos, c.begin, c.end = o.Pos, o.point(), o.point()
		case o.anchored():
			c.begin, c.end = floor, max(floor, o.point())
		case c.unknown:
			c.begin, c.end = floor, floor
		default:
			c.begin, c.end = floor, max(floor, r.after(o.Return, 4*MaxPosition))
		}
		s.calls = append(s.calls, c)
	}
	s.arrange()
	return s
}

// idle reports whether a call that could write has certainly changed nothing. It then has
// no position of its own.
func (c *call) idle() bool {
	return !c.readOnly && !c.unknown && !slices.ContainsFunc(c.actions, func(a action) bool {
		switch a.kind {
		case Delete, CAS, SetAdd, Transfer:
			return a.blind || a.done
		}
		return !a.kind.reads()
	})
}
