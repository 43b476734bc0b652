// Package match finds, among many subscriptions to the records of a collection, those that see something of a change.
//
// It knows conditions and the record before and after a change. It must not know who subscribes, where changes come
// from, or how they are delivered.
package match

import (
	"crypto/sha256"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/query"
)

// Limits of a Set.
const (
	// MaxSubscriptions is how many subscriptions one collection has.
	MaxSubscriptions = 250_000
	// MaxScanned is how many different conditions one collection has that every change is compared with, because they
	// do not compare a column or field with a value by =, in, <, <=, > or >=.
	MaxScanned = 10_000
)

// Op is what a change is for a subscription, which sees the records that meet its condition.
type Op uint8

// What a change may be.
const (
	Enter  Op = iota + 1 // the record is seen now and was not before
	Update               // it is seen and was before
	Leave                // it was seen before and is not now
)

// Hit is what a change is for some subscriptions that see something of it.
type Hit[T any] struct {
	Op   Op
	Err  error     // why it is not known what the change is for them; Op is 0
	Subs []*Sub[T] // must not be kept or changed
}

// Sub is a subscription in a Set. To is whatever Add was given.
type Sub[T any] struct {
	To    T
	group *group[T]
	at    int // in group.subs; -1 once removed
}

// Set holds the subscriptions to one collection. Only one goroutine may use it at a time, and no
// function that it calls may call its methods. The zero Set is empty.
//
// Subscriptions with the same condition form a group, which is evaluated once. An index leads from a record to the
// groups that it may concern: every record that meets a condition meets all intervals of one path of its cover
// (query.Cond.Cover), and the group is in the index once for each path. The index is a tree. Below a node there are, for a
// column or field, a map by value and an interval tree; what a path asks for beyond the first interval is looked at only
// where a node is crowded. So the cost of a change grows with the number of groups that see something of it, and with the
// logarithm of the number of others. DESIGN.md says for which conditions that does not hold.
type Set[T any] struct {
	count  int
	groups map[name]*group[T]
	root   node[T] // its own groups are those of which any record may meet the condition
	alone  uint64  // counts the groups with a Test
	round  uint64  // counts the calls of Match
	env    query.Env
}

// name is what tells groups apart: the fingerprint of the condition or, if there is a Test, a number of its own.
type name struct {
	print [sha256.Size]byte
	alone uint64
}

type group[T any] struct {
	name  name
	cond  *query.Cond
	test  Test
	subs  []*Sub[T]
	slots []slot[T]
	round uint64 // the last call of Match that has looked at it
}

// Test decides in place of a condition whether a record is seen. It must not be true for a record that does not meet the
// condition.
type Test = func(query.Row) (bool, error)

// Add adds a subscription to the records that meet a condition, in which nothing about the subscriber is left open
// (query.Cond.Bind). test is nil unless the condition follows references (query.Cond.Follows): what a subscriber sees
// depends then on more than the record. The error is engine.CodeLimit.
func (s *Set[T]) Add(cond *query.Cond, test Test, to T) (*Sub[T], error) {
	if s.count >= MaxSubscriptions {
		return nil, engine.Errorf(engine.CodeLimit, "more than %d subscriptions to one collection", MaxSubscriptions)
	}
	var n name
	if test == nil {
		n.print = cond.Fingerprint()
	} else {
		s.alone++
		n.alone = s.alone
	}
	g := s.groups[n]
	if g == nil {
		g = &group[T]{name: n, cond: cond, test: test}
		if err := s.place(g); err != nil {
			return nil, err
		}
		if s.groups == nil {
			s.groups = map[name]*group[T]{}
		}
		s.groups[n] = g
	}
	sub := &Sub[T]{To: to, group: g, at: len(g.subs)}
	g.subs = append(g.subs, sub)
	s.count++
	return sub, nil
}

// place puts a group into the index.
func (s *Set[T]) place(g *group[T]) error {
	paths := g.cond.Cover(s.root.cost)
	for _, p := range paths {
		if len(p) == 0 && len(s.root.groups) >= MaxScanned {
			return engine.Errorf(engine.CodeLimit, "more than %d different subscription conditions in one collection compare no column or field with a value; use =, in, <, <=, > or >=", MaxScanned)
		}
	}
	for _, p := range paths {
		s.root.enter(g, p)
	}
	return nil
}

// Remove removes a subscription. It does nothing if that was done before.
func (s *Set[T]) Remove(sub *Sub[T]) {
	if sub.at < 0 {
		return
	}
	g, last := sub.group, len(sub.group.subs)-1
	moved := g.subs[last]
	g.subs[sub.at], moved.at = moved, sub.at
	g.subs[last] = nil
	g.subs = g.subs[:last]
	sub.at = -1
	if s.count--; last > 0 {
		return
	}
	delete(s.groups, g.name)
	for _, x := range g.slots {
		x.in.leave(x.at)
	}
}

// Clear removes all subscriptions and calls fn with each of them.
func (s *Set[T]) Clear(fn func(*Sub[T])) {
	for _, g := range s.groups {
		for _, sub := range g.subs {
			sub.at = -1
			fn(sub)
		}
	}
	s.count, s.groups, s.root = 0, nil, node[T]{}
}

// Len returns the number of subscriptions.
func (s *Set[T]) Len() int { return s.count }

// Match calls hit for the subscriptions that see something of a change: of a record from what it was before to what it
// is after. Either may be nil, for a record that did not exist or does not exist any more. now is what conditions take
// for the present.
func (s *Set[T]) Match(now time.Time, before, after query.Row, hit func(Hit[T])) {
	s.round++
	s.env.Now = func() time.Time { return now }
	r, some := rows{[2]query.Row{before, after}}, uint8(0)
	for i, row := range r.row {
		if row != nil {
			some |= 1 << i
		}
	}
	if some == 0 {
		return
	}
	s.root.walk(&r, some, func(n *node[T]) {
		for _, e := range n.groups {
			if e.group.round != s.round {
				e.group.round = s.round
				s.evaluate(e.group, before, after, hit)
			}
		}
	})
}

func (s *Set[T]) evaluate(g *group[T], before, after query.Row, hit func(Hit[T])) {
	h := Hit[T]{Subs: g.subs}
	was, err := s.holds(g, before)
	if err == nil {
		var is bool
		is, err = s.holds(g, after)
		h.Op = opOf(was, is)
	}
	if h.Err = err; err != nil {
		h.Op = 0
	}
	if h.Op != 0 || err != nil {
		hit(h)
	}
}

func (s *Set[T]) holds(g *group[T], row query.Row) (bool, error) {
	if row == nil {
		return false, nil
	}
	if g.test != nil {
		return g.test(row)
	}
	return g.cond.Holds(&s.env, row, nil)
}

// opOf returns what a change is for those who saw the record before it, or see it after it. It is 0 for others.
func opOf(was, is bool) Op {
	switch {
	case was && is:
		return Update
	case is:
		return Enter
	case was:
		return Leave
	}
	return 0
}
