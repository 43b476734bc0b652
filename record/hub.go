package record

import (
	"context"
	"encoding/json"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/match"
	"github.com/skerrydb/skerry/record/query"
)

// hub passes the changes of records on this node to the streams that see them. One goroutine does all of it, so the order
// of changes, of subscriptions and of their ends is certain: a stream that is added while the hub is at a position
// receives exactly what comes after that.
type hub struct {
	db    *DB
	calls chan func(*hub)
	ended chan struct{} // closed when the goroutine has ended

	// Only the goroutine uses what follows.
	pos   engine.Position // all changes up to it were matched
	m     *matcher
	known bool // pos and the collections are known
}

func newHub(db *DB) *hub {
	return &hub{db: db, calls: make(chan func(*hub)), ended: make(chan struct{})}
}

// do calls fn in the goroutine of the hub.
func (h *hub) do(ctx context.Context, fn func(*hub)) error {
	done := make(chan struct{})
	select {
	case h.calls <- func(h *hub) { defer close(done); fn(h) }:
		<-done
		return nil
	case <-h.ended:
		return engine.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

const retryAfter = 50 * time.Millisecond // pause after an error that may pass

func (h *hub) run(ctx context.Context) error {
	h.m = newMatcher(h.db, nil)
	defer close(h.ended)
	defer func() { h.m.endAll(engine.ErrClosed) }()
	for {
		from := h.pos
		err := h.follow(ctx)
		switch code := engine.CodeOf(err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case code == engine.CodeTruncated && h.pos > from:
			continue // it fell behind the feed, and continues from the history
		case code == engine.CodeTruncated:
			h.m.endAll(err)
			h.known = false
		case code == engine.CodeClosed || err != nil && !engine.Retryable(err):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryAfter):
		}
	}
}

// follow matches changes until the feed ends the subscription.
func (h *hub) follow(ctx context.Context) error {
	if !h.known {
		pos, err := h.load(ctx)
		if err != nil {
			return err
		}
		h.pos, h.known = pos, true
	}
	sub, err := h.db.o.Feed.Subscribe(feed.Filter{Prefixes: keys.Watched()}, h.pos)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		select {
		case c, ok := <-sub.C:
			if !ok {
				return sub.Err()
			}
			if keys.EpochOf(c) {
				if _, err := h.load(ctx); err != nil {
					h.m.endAll(err)
				}
			}
			h.m.apply(ctx, c)
			h.pos = c.Pos
		case fn := <-h.calls:
			fn(h)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// load reads the collections as they are now on this node, and ends the streams of those that were changed.
func (h *hub) load(ctx context.Context) (engine.Position, error) {
	var now *catalog
	pos, err := h.db.eng.View(ctx, engine.Read{Level: engine.Local}, func(tx engine.Tx) (err error) {
		now, err = h.db.load(tx)
		return err
	})
	if err == nil {
		h.m.use(now)
	}
	return pos, err
}

// current reports whether the hub uses the collections as c has them, after it has read them again if it does not.
func (h *hub) current(ctx context.Context, c *catalog) bool {
	if h.m.catalog.epoch != c.epoch {
		if _, err := h.load(ctx); err != nil {
			return false
		}
	}
	return h.m.catalog.epoch == c.epoch
}

// matcher passes changes to receivers. It is used by one goroutine.
type matcher struct {
	db      *DB
	catalog *catalog
	rooms   map[string]*room // by collection; those that have receivers
	byID    map[uint32]*room
	tests   int // of all rooms

	tx      engine.Tx   // for tests, while a change is matched
	touched []*receiver // scratch of apply
}

// room are the receivers of changes of one collection.
type room struct {
	c     *collection
	set   match.Set[*receiver]
	tests int // of them, those whose conditions follow references
}

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

// entry is a receiver in a room.
type entry struct {
	room *room
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
		sub, err := in.set.Add(cond, test, r)
		if err != nil {
			m.remove(r)
			return nil, err
		}
		r.in = append(r.in, entry{in, sub, test != nil})
		if test != nil {
			in.tests++
			m.tests++
		}
	}
	return r, nil
}

// test returns a function that decides as the actor at the present.
func (m *matcher) test(p *part, a Actor) match.Test {
	var ids *query.Cond
	if p.ids != nil {
		ids = query.IsOneOf(p.ids...)
	}
	return func(row query.Row) (bool, error) {
		t := m.db.newTx(m.tx, m.catalog, a)
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
		x.room.set.Remove(x.sub)
		if x.test {
			x.room.tests--
			m.tests--
		}
		if x.room.set.Len() == 0 && m.rooms[x.room.c.Name] == x.room {
			delete(m.rooms, x.room.c.Name)
			delete(m.byID, x.room.c.ID)
		}
	}
	r.in = nil
}

// endRoom ends all receivers of changes of a collection.
func (m *matcher) endRoom(in *room, err error) {
	var all []*receiver
	in.set.Clear(func(sub *match.Sub[*receiver]) { all = append(all, sub.To) })
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
	for name, in := range m.rooms {
		switch c := now.byName[name]; {
		case c == nil && in.c.ID != 0:
			m.endRoom(in, unknownCollection(name))
		case c == nil:
		case c.ID != in.c.ID || !same(c, in.c) || in.tests > 0:
			m.endRoom(in, engine.Errorf(engine.CodeTruncated, "collection %s was changed: subscribe again", name))
		default:
			in.c = c
		}
	}
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
	if m.tests == 0 {
		m.match(c, steps)
		m.flush(c.Pos)
		return
	}
	_, err = m.db.eng.View(ctx, engine.Read{Level: engine.Local}, func(tx engine.Tx) error {
		m.drop() // what an earlier run has found
		m.tx = tx
		m.match(c, steps)
		m.tx = nil
		return nil
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

// match finds the events of a change.
func (m *matcher) match(c engine.Change, steps []*keys.Step) {
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
		e := Event{Collection: in.c.Name, ID: s.ID}
		var seen *Record
		if after != nil {
			seen, e.text = newRecord(in.c, after), &recordText{}
		}
		in.set.Match(c.Time, rowOf(before), rowOf(after), func(h match.Hit[*receiver]) {
			if e.Op, e.Record = ops[h.Op], seen; h.Op == match.Leave {
				e.Record = nil
			}
			for _, sub := range h.Subs {
				m.touch(sub.To, e, s.Bytes(), h.Err)
			}
		})
	}
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
