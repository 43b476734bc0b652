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
	"github.com/skerrydb/skerry/record/value"
)

// Limits of a Set.
const (
	// MaxSubscriptions is how many subscriptions one collection has.
	MaxSubscriptions = 250_000
	// MaxScanned is how many different conditions one collection has that every change is compared with, because they
	// ask for no column or field to be equal to a value.
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
// Subscriptions with the same condition form a group, which is evaluated once. A group is found by equalities: it is in
// the bucket of each equality of its cover (query.Cond.Cover), and a record that meets the condition meets one of them.
// So a change needs a look into two buckets, of the record before and after it, for each column and field that has any.
// Groups without a cover are evaluated for each change.
type Set[T any] struct {
	count   int
	groups  map[name]*group[T]
	buckets []place[T] // by column and field; few
	scanned bucket[T]  // groups without a cover
	alone   uint64     // counts the groups with a Test
	round   uint64     // counts the calls of Match
	env     query.Env  // scratch of Match
}

// place are the buckets of one column or field.
type place[T any] struct {
	of      query.Place
	byValue map[value.Value]*bucket[T]
}

type bucket[T any] struct{ entries []entry[T] }

// entry is a group in a bucket; slot is the index of the bucket in group.slots.
type entry[T any] struct {
	group *group[T]
	slot  int
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

// slot is where a group is in a bucket. The bucket of scanned groups has no equality.
type slot[T any] struct {
	in *bucket[T]
	at int
	eq *query.Equality
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

// place puts a group into the buckets of its cover, preferring those with few groups.
func (s *Set[T]) place(g *group[T]) error {
	cover, ok := g.cond.Cover(func(e query.Equality) int {
		if b := s.bucket(e, false); b != nil {
			return len(b.entries)
		}
		return 0
	})
	if !ok {
		if len(s.scanned.entries) >= MaxScanned {
			return engine.Errorf(engine.CodeLimit, "more than %d different conditions of subscriptions to one collection ask for no value of a field", MaxScanned)
		}
		g.enter(&s.scanned, nil)
	}
	for i := range cover {
		g.enter(s.bucket(cover[i], true), &cover[i])
	}
	return nil
}

func (g *group[T]) enter(b *bucket[T], eq *query.Equality) {
	g.slots = append(g.slots, slot[T]{b, len(b.entries), eq})
	b.entries = append(b.entries, entry[T]{g, len(g.slots) - 1})
}

// bucket returns the bucket of an equality. If there is none, it returns nil or creates it.
func (s *Set[T]) bucket(e query.Equality, create bool) *bucket[T] {
	for i := range s.buckets {
		if p := &s.buckets[i]; p.of == e.Of {
			b := p.byValue[e.Value]
			if b == nil && create {
				b = &bucket[T]{}
				p.byValue[e.Value] = b
			}
			return b
		}
	}
	if !create {
		return nil
	}
	b := &bucket[T]{}
	s.buckets = append(s.buckets, place[T]{e.Of, map[value.Value]*bucket[T]{e.Value: b}})
	return b
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
		x.in.remove(x.at)
		if x.eq != nil && len(x.in.entries) == 0 {
			s.drop(*x.eq)
		}
	}
}

func (b *bucket[T]) remove(at int) {
	last := len(b.entries) - 1
	moved := b.entries[last]
	b.entries[at] = moved
	moved.group.slots[moved.slot].at = at
	b.entries[last] = entry[T]{}
	b.entries = b.entries[:last]
}

// drop removes the empty bucket of an equality.
func (s *Set[T]) drop(e query.Equality) {
	for i := range s.buckets {
		if p := &s.buckets[i]; p.of == e.Of {
			if delete(p.byValue, e.Value); len(p.byValue) == 0 {
				last := len(s.buckets) - 1
				s.buckets[i] = s.buckets[last]
				s.buckets[last] = place[T]{}
				s.buckets = s.buckets[:last]
			}
			return
		}
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
	s.count, s.groups, s.buckets, s.scanned = 0, nil, nil, bucket[T]{}
}

// Len returns the number of subscriptions.
func (s *Set[T]) Len() int { return s.count }

// Match calls hit for the subscriptions that see something of a change: of a record from what it was before to what it
// is after. Either may be nil, for a record that did not exist or does not exist any more. now is what conditions take
// for the present.
func (s *Set[T]) Match(now time.Time, before, after query.Row, hit func(Hit[T])) {
	s.round++
	s.env.Now = now
	for _, p := range s.buckets {
		for i, row := range []query.Row{before, after} {
			if row == nil {
				continue
			}
			v := p.of.In(row)
			if i == 1 && before != nil && v == p.of.In(before) {
				continue
			}
			if b := p.byValue[v]; b != nil {
				s.evaluate(b, before, after, hit)
			}
		}
	}
	s.evaluate(&s.scanned, before, after, hit)
}

func (s *Set[T]) evaluate(b *bucket[T], before, after query.Row, hit func(Hit[T])) {
	for _, e := range b.entries {
		g := e.group
		if g.round == s.round {
			continue
		}
		g.round = s.round
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
