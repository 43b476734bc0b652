package record

import (
	"context"
	"encoding/json"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/match"
	"github.com/skerrydb/skerry/record/query"
)

// matcher finds the receivers that see something of a change, and passes it to them. It is used by one goroutine.
type matcher struct {
	db      *DB
	catalog *catalog
	rooms   map[string]*room // by collection; those that have receivers
	byID    map[uint32]*room
	reads   int // receivers whose conditions look at more than the change: with a test, or at marks

	tx      engine.Tx   // while a change is matched; nil if no condition needs it
	reading *catalog    // with tx: catalog, with what is known in tx of where records are
	touched []*receiver // scratch of apply
}

// room has the receivers of changes of one collection.
type room struct {
	c     *collection
	plain receivers // their conditions look at no marks
	marks receivers // their conditions look at who has updated, deleted or restored a record, or when
	tests int       // receivers whose conditions follow references
}

type receivers = match.Set[*receiver]

// receiver receives what one subscriber sees.
type receiver struct {
	take func(batch) error // an error ends it
	end  func(error)
	in   []entry

	// Of the change that is being matched.
	events  []Event
	bytes   int
	failed  error
	touched bool
}

// entry is where a receiver is in a room.
type entry struct {
	room *room
	set  *receivers
	sub  *match.Sub[*receiver]
	test bool
}

func newMatcher(db *DB, c *catalog) *matcher {
	return &matcher{db: db, catalog: c, rooms: map[string]*room{}, byID: map[uint32]*room{}}
}

// add adds a receiver of the changes that parts see.
func (m *matcher) add(parts []*part, a Actor, take func(batch) error, end func(error)) (*receiver, error) {
	r := &receiver{take: take, end: end}
	for _, p := range parts {
		in := m.rooms[p.c.Name]
		if in == nil {
			in = &room{c: p.c}
			m.rooms[p.c.Name] = in
			if p.c.ID != 0 { // it is stored
				m.byID[p.c.ID] = in
			}
		}
		cond := p.cond()
		var test match.Test
		if cond.Follows() {
			test = m.test(p, a)
		}
		set := &in.plain
		if p.marks {
			set = &in.marks
		}
		sub, err := set.Add(cond, test, r)
		if err != nil {
			m.remove(r)
			return nil, err
		}
		m.enter(r, entry{in, set, sub, test != nil}, 1)
	}
	return r, nil
}

// enter adds an entry to those of a receiver and to the counts, or with -1 removes it from the counts.
func (m *matcher) enter(r *receiver, x entry, by int) {
	if by > 0 {
		r.in = append(r.in, x)
	}
	if x.test {
		x.room.tests += by
	}
	if x.test || x.set == &x.room.marks {
		m.reads += by
	}
}

// test returns a function that decides as the actor at the present.
func (m *matcher) test(p *part, a Actor) match.Test {
	var ids *query.Cond
	if p.ids != nil {
		ids = query.IsOneOf(p.ids...)
	}
	return func(row query.Row) (bool, error) {
		t := m.db.newTx(m.tx, m.reading, a)
		for _, x := range []struct {
			cond *query.Cond
			env  *query.Env
		}{{ids, &t.env}, {p.rule, &t.env}, {p.filter, &t.seen}} {
			if x.cond == nil {
				continue
			}
			if ok, err := x.cond.Holds(x.env, row, nil); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

// remove removes a receiver. It does nothing if that was done before.
func (m *matcher) remove(r *receiver) {
	for _, x := range r.in {
		x.set.Remove(x.sub)
		m.enter(r, x, -1)
		if x.room.plain.Len()+x.room.marks.Len() == 0 && m.rooms[x.room.c.Name] == x.room {
			delete(m.rooms, x.room.c.Name)
			delete(m.byID, x.room.c.ID)
		}
	}
	r.in = nil
}

// endRoom ends all receivers of changes of a collection.
func (m *matcher) endRoom(in *room, err error) {
	m.endSet(&in.plain, err)
	m.endSet(&in.marks, err)
}

func (m *matcher) endSet(set *receivers, err error) {
	var all []*receiver
	set.Clear(func(sub *match.Sub[*receiver]) { all = append(all, sub.To) })
	for _, r := range all {
		r.end(err)
		m.remove(r)
	}
}

func (m *matcher) endAll(err error) {
	for _, in := range m.rooms {
		m.endRoom(in, err)
	}
}

// use makes the matcher use other descriptions of collections. It ends the receivers of changes of collections that are
// not the same any more, and those beside which a condition looks at other collections.
func (m *matcher) use(now *catalog) {
	was := m.catalog
	m.catalog = now
	if was == nil || was.epoch == now.epoch {
		return
	}
	alike := sameAll(was, now)
	for name, in := range m.rooms {
		switch c := now.byName[name]; {
		case c == nil && in.c.ID != 0:
			m.endRoom(in, unknownCollection(name))
		case c == nil:
		case c.ID != in.c.ID || !same(c, in.c) || in.tests > 0 && !alike:
			m.endRoom(in, engine.Errorf(engine.CodeTruncated, "collection %s was changed: subscribe again", name))
		default:
			in.c = c
		}
	}
}

// sameAll reports whether two catalogs have the same descriptions: an index was built, or records were converted.
func sameAll(a, b *catalog) bool {
	for name, c := range a.byName {
		if n := b.byName[name]; n == nil || n.ID != c.ID || !same(n, c) {
			return false
		}
	}
	return len(a.byName) == len(b.byName)
}

// same reports whether two descriptions of a collection are the same, apart from what is stored of its indexes.
func same(a, b *collection) bool {
	x, _ := json.Marshal(a.Collection.Collection)
	y, _ := json.Marshal(b.Collection.Collection)
	return string(x) == string(y)
}

// apply passes what a change means to the receivers.
func (m *matcher) apply(ctx context.Context, c engine.Change) {
	steps, err := keys.Steps(c, func(id uint32) bool { return m.byID[id] != nil })
	if err != nil {
		m.endAll(err)
		return
	}
	if len(steps) == 0 {
		return
	}
	if m.reads == 0 {
		_ = m.match(c, steps) // it reads nothing
		m.flush(c.Pos)
		return
	}
	_, err = m.db.eng.View(ctx, engine.Read{Level: engine.Local}, func(tx engine.Tx) error {
		m.drop() // what an earlier run has found
		m.tx, m.reading = tx, m.catalog
		if keys.HasTables(tx) { // they may have been converted since the catalog was read
			now, err := m.db.load(tx)
			if err != nil {
				return err
			}
			m.reading = m.catalog.at(now)
		}
		err := m.match(c, steps)
		m.tx, m.reading = nil, nil
		return err
	})
	if err != nil {
		m.drop()
		m.endAll(err)
		return
	}
	m.flush(c.Pos)
}

// ops are the names of what a change may be for a subscriber.
var ops = [...]string{match.Enter: "create", match.Update: "update", match.Leave: "delete"}

// match finds the events of a change. An error means that the view may succeed if it runs again.
func (m *matcher) match(c engine.Change, steps []*keys.Step) error {
	for _, s := range steps {
		in := m.byID[s.Collection]
		if in == nil {
			continue // its receivers have ended
		}
		before, after, known, err := s.Live(in.c.Collection)
		if err == nil && !known {
			err = engine.Errorf(engine.CodeTruncated, "what record %s of %s was before a change is not known: subscribe again", s.ID, in.c.Name)
		}
		if err != nil {
			m.endRoom(in, err)
			continue
		}
		if before != nil && in.marks.Len() > 0 {
			if err := m.addMarks(in, s, before); engine.Retryable(err) {
				return err
			} else if err != nil {
				m.endSet(&in.marks, err)
			}
		}
		e := Event{Collection: in.c.Name, ID: s.ID}
		var seen *Record
		if after != nil {
			seen, e.text = newRecord(in.c, after), &recordText{}
		}
		for _, set := range []*receivers{&in.plain, &in.marks} {
			set.Match(c.Time, rowOf(before), rowOf(after), func(h match.Hit[*receiver]) {
				if e.Op, e.Record = ops[h.Op], seen; h.Op == match.Leave {
					e.Record = nil
				}
				for _, sub := range h.Subs {
					m.touch(sub.To, e, s.Bytes(), h.Err)
				}
			})
		}
	}
	return nil
}

// addMarks adds to a record before a step who had updated, deleted and restored it, and when, from the history.
func (m *matcher) addMarks(in *room, s *keys.Step, before *keys.Doc) error {
	known, err := s.Marks(m.tx, m.reading.byName[in.c.Name].Collection, before)
	if err == nil && !known {
		err = engine.Errorf(engine.CodeTruncated, "who had updated, deleted or restored record %s of %s before a change, and when, is not kept any more: subscribe again", s.ID, in.c.Name)
	}
	return err
}

// rowOf returns d as a Row, nil if it is nil.
func rowOf(d *keys.Doc) query.Row {
	if d == nil {
		return nil
	}
	return d
}

func (m *matcher) touch(r *receiver, e Event, bytes int, failed error) {
	if !r.touched {
		r.touched = true
		m.touched = append(m.touched, r)
	}
	if failed != nil {
		r.failed = failed
		return
	}
	r.events = append(r.events, e)
	r.bytes += bytes
}

// flush delivers the events of the change at a position.
func (m *matcher) flush(pos engine.Position) {
	for _, r := range m.touched {
		err := r.failed
		if err == nil && r.in != nil {
			err = r.take(batch{pos, r.events, r.bytes})
		}
		if err != nil {
			r.end(err)
			m.remove(r)
		}
	}
	m.drop()
}

// drop forgets the events of a change.
func (m *matcher) drop() {
	for i, r := range m.touched {
		r.events, r.bytes, r.failed, r.touched = nil, 0, nil, false
		m.touched[i] = nil
	}
	m.touched = m.touched[:0]
}
