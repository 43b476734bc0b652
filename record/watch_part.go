package record

import (
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
)

// part is what a stream sees of one collection.
type part struct {
	c      *collection
	ids    []string // nil: all
	rule   *query.Cond
	filter *query.Cond
	marks  bool // rule or filter look at who has updated, deleted or restored a record, or when
}

// cond returns the condition of the records that the stream sees.
func (p *part) cond() *query.Cond {
	if p.ids != nil {
		return query.All(query.IsOneOf(p.ids...), p.rule, p.filter)
	}
	return query.All(p.rule, p.filter)
}

// bind gives the topics their meaning for the actor.
func (s *Stream) bind(t *Tx, sub *Subscription) error {
	for _, topic := range sub.Topics {
		i := slices.IndexFunc(s.parts, func(p *part) bool { return p.c.Name == topic.Collection })
		if i < 0 {
			c, err := t.collection(topic.Collection)
			if err != nil {
				return err
			}
			i = len(s.parts)
			s.parts = append(s.parts, &part{c: c, ids: []string{}})
		}
		if p := s.parts[i]; topic.ID == "" {
			p.ids = nil
		} else if p.ids != nil {
			p.ids = append(p.ids, topic.ID)
		}
	}
	for _, p := range s.parts {
		if err := p.bind(t, sub); err != nil {
			return err
		}
	}
	return nil
}

func (p *part) bind(t *Tx, sub *Subscription) error {
	open := t.env
	open.KeepTimes = true
	p.rule = query.Always()
	ops := []Operation{Subscribe, View, List}
	if p.ids != nil {
		ops = ops[:2]
	}
	for _, op := range ops {
		switch cond := p.c.rules[op].cond; {
		case !t.actor.within(p.c, op):
			p.rule = query.Never()
		case t.actor.System:
		case cond == nil:
			p.rule = query.Never()
		default:
			p.rule = query.All(p.rule, cond).Bind(&open)
		}
	}
	if p.rule.Never() {
		return unknownCollection(p.c.Name) // as if it were not there
	}
	q, err := t.ParseQuery(p.c.Name, sub.params())
	if err != nil {
		return err
	}
	open = t.seen
	open.KeepTimes = true
	p.filter = q.Where.Bind(&open)
	if t.actor.Limit != nil && p.filter.References() > 0 {
		return engine.Errorf(engine.CodeUnsupported, "a subscription with an API key that is limited to scopes cannot filter by fields of other records")
	}
	if n := p.filter.References(); n > MaxFollowing && !t.actor.System {
		return engine.Errorf(CodeTooLarge, "the filter of a subscription follows %d references; the limit is %d", n, MaxFollowing)
	}
	for _, i := range markColumns {
		rule, filter := p.rule.Mentions(i), p.filter.Mentions(i)
		p.marks = p.marks || rule || filter
		switch off := p.c.History.Off; {
		case off && filter:
			return engine.Errorf(CodeQuery, "a subscription to %s cannot filter by who has updated, deleted or restored a record, or when: the collection keeps no history, so that is not known of a record before a change", p.c.Name)
		case off && rule:
			return engine.Errorf(engine.CodeUnsupported, "nobody can subscribe to %s: its rules look at who has updated, deleted or restored a record, or when, and the collection keeps no history, so that is not known of a record before a change", p.c.Name)
		}
	}
	return nil
}

// markColumns are the columns, by their indexes in schema.Columns, whose values before a change only the history has: all
// marks but those of the creation.
var markColumns = []int{4, 5, 6, 8, 9, 10}

// params returns the subscription as parameters of a query.
func (s *Subscription) params() map[string][]string {
	p := map[string][]string{"limit": {strconv.Itoa(s.Limit)}}
	if s.Filter != "" {
		p["filter"] = []string{s.Filter}
	}
	if s.Sort != "" {
		p["sort"] = []string{s.Sort}
	}
	return p
}

// state returns what the stream sees now.
func (s *Stream) state(t *Tx, sub *Subscription) (all []State, err error) {
	t.finding, t.followed = true, 0
	defer func() { t.finding = false }()
	size := 0
	for _, p := range s.parts {
		q, err := t.ParseQuery(p.c.Name, sub.params())
		if err != nil {
			return nil, err
		}
		rule, filter := keys.Test{Cond: p.rule.Bind(&t.env), Env: &t.env}, keys.Test{Cond: q.Where, Env: &t.seen}
		page := &Page{query: q}
		if p.ids == nil {
			err = t.page(p.c, &keys.Search{Tests: []keys.Test{rule, filter}, Orders: q.Orders, Limit: q.Limit}, page)
		} else {
			err = t.pick(p, q, page, rule, filter)
		}
		if err != nil {
			return nil, invalidQuery(err)
		}
		for _, r := range page.Items {
			if size += r.Size(); size > MaxStateBytes {
				return nil, engine.Errorf(CodeTooLarge, "the state has more than %d bytes of records; subscribe to fewer topics, or set a lower limit", MaxStateBytes)
			}
		}
		all = append(all, State{Collection: p.c.Name, Records: page.Items, More: page.Next != ""})
	}
	return all, nil
}

// pick finds the records of topics of single records.
func (t *Tx) pick(p *part, q *query.Query, page *Page, tests ...keys.Test) error {
	slices.Sort(p.ids)
	for _, id := range slices.Compact(p.ids) {
		if keys.CheckID(id) != nil {
			continue
		}
		d, err := keys.Get(t.tx, p.c.Collection, id)
		ok := d != nil && !d.Deleted
		for _, x := range tests {
			if ok && err == nil {
				ok, err = x.Cond.Holds(x.Env, d, nil)
			}
		}
		if err != nil {
			return err
		}
		if ok {
			page.Items = append(page.Items, newRecord(p.c, d))
		}
	}
	slices.SortFunc(page.Items, func(a, b *Record) int { return q.Orders.Compare(q.Orders.Key(a), q.Orders.Key(b)) })
	return nil
}
