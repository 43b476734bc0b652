package record

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
)

// Limits of subscriptions.
const (
	MaxTopics        = 100     // topics of one subscription
	MaxQueuedChanges = 1_000   // changes that wait for one subscriber to read them
	MaxQueuedBytes   = 4 << 20 // records in these changes, as they are stored; one change always fits
	MaxReplayed      = 10_000  // changes that a subscription that resumes receives from the history; with more it begins with the state
	MaxReplayedBytes = 8 << 20 // records in these changes, as they are stored
	MaxReplayRead    = 100_000 // changes of the store that a subscription that resumes looks at
	MaxStateBytes    = 8 << 20 // records of the state of all topics, as they are stored
	MaxFollowing     = 16      // references that the filter of an actor who is not System follows, because it does for each change
)

// Topic is what a subscriber wants to see: one record, or all records of a collection.
type Topic struct {
	Collection string
	ID         string // "": all
}

// ParseTopic reads a topic: "orders/*", or "orders/ID" for one record.
func ParseTopic(text string) (Topic, error) {
	collection, id, ok := strings.Cut(text, "/")
	if !ok || collection == "" || id == "" {
		return Topic{}, engine.Errorf(CodeQuery, "%.80q is not a topic: write COLLECTION/* or COLLECTION/ID", text)
	}
	if id == "*" {
		return Topic{Collection: collection}, nil
	}
	if err := keys.CheckID(id); err != nil {
		return Topic{}, engine.Errorf(CodeQuery, "topic %.80q: %w", text, err)
	}
	return Topic{collection, id}, nil
}

// String returns the topic as ParseTopic reads it.
func (t Topic) String() string {
	if t.ID == "" {
		return t.Collection + "/*"
	}
	return t.Collection + "/" + t.ID
}

// Subscription says what a subscriber wants to see. The subscriber sees the records that the rules Subscribe and View of
// their collection show to it, and for all records of a collection also the rule List.
type Subscription struct {
	// Topics are what the subscription is about, at most MaxTopics. With all records of a collection, its topics of single
	// records mean nothing.
	Topics []Topic

	// Filter is an expression that the records of all topics must meet; "" is none. It must not look at who has updated,
	// deleted or restored a record, and when.
	Filter string

	// Sort and Limit are for the first message: the order of records, as in a query, and how many of them it has for each
	// collection. 0 is query.MaxLimit, the highest.
	Sort  string
	Limit int

	// Resume is the ID of a Message of the same subscription of the same actor: what came after it is delivered, if the
	// history still has it. Otherwise, and with "", the first message is the state.
	Resume string

	// Read says how new the state must be.
	Read engine.Read
}

// Message is what a Stream delivers at once: the state, or all events of one change.
type Message struct {
	ID       string // for Subscription.Resume
	Position engine.Position
	State    []State // the records as of Position, by collection; nil if there are Events
	Events   []Event
}

// State is what a subscriber sees of one collection.
type State struct {
	Collection string
	Records    []*Record
	More       bool // there are more records than Limit
}

// Event is what a subscriber sees of a change of one record.
type Event struct {
	// Op is "create" if the subscriber sees the record now and did not before, "update" if it does and did, and "delete"
	// if it did and does not: the record was deleted, or does not meet the rules or the filter any more.
	Op         string
	Collection string
	ID         string
	Record     *Record // nil for "delete"

	text *recordText
}

// recordText is the JSON of a record, which is made once for all subscribers.
type recordText struct {
	once sync.Once
	text []byte
}

// AppendJSON appends the event as clients see it: {"op":…,"collection":…,"id":…,"record":{…}}.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = append(append(dst, `{"op":"`...), e.Op...)
	dst = strconv.AppendQuote(append(dst, `","collection":`...), e.Collection)
	dst = strconv.AppendQuote(append(dst, `,"id":`...), e.ID)
	if e.Record != nil {
		e.text.once.Do(func() { e.text.text = e.Record.AppendJSON(nil) })
		dst = append(append(dst, `,"record":`...), e.text.text...)
	}
	return append(dst, '}')
}

// Stream delivers what one subscriber sees. It must be closed.
type Stream struct {
	db      *DB
	actor   Actor
	catalog *catalog
	parts   []*part
	shape   string
	read    engine.Read

	receiver *receiver       // in the hub
	first    []Message       // to be delivered before the queue
	after    engine.Position // what the queue has up to it is in first, or was delivered earlier

	mu    sync.Mutex // guards queue, bytes and err
	queue []batch
	bytes int
	err   error         // why the stream has ended
	ready chan struct{} // has an element when queue or err was set
}

// batch are the events of one change.
type batch struct {
	pos    engine.Position
	events []Event
	bytes  int
}

// Subscribe begins a subscription of an actor. The first Message of the Stream is the state at one position, and those
// that follow are all changes after it, each once and in their order. A collection that the actor may not subscribe to
// is unknown. Errors of the Stream end it:
//
//   - engine.CodeTruncated: the subscriber has read too slowly, or rules or fields of a collection have changed.
//     Subscribe again; Resume then works as far as it can.
//   - CodeUnknownCollection: a collection was removed.
//   - engine.CodeClosed: the server stops.
//
// What a condition says about a record that another one refers to is decided when the record itself changes. Without
// Options.Feed, Subscribe is engine.CodeUnsupported.
func (db *DB) Subscribe(ctx context.Context, a Actor, sub Subscription) (*Stream, error) {
	if db.hub == nil {
		return nil, engine.Errorf(engine.CodeUnsupported, "subscriptions need a change feed; record.Options.Feed is nil")
	}
	if n := len(sub.Topics); n == 0 || n > MaxTopics {
		return nil, engine.Errorf(CodeQuery, "a subscription has from 1 to %d topics, not %d", MaxTopics, n)
	}
	if sub.Limit < 0 || sub.Limit > query.MaxLimit {
		return nil, engine.Errorf(CodeQuery, "the limit of a subscription is from 1 to %d, not %d", query.MaxLimit, sub.Limit)
	}
	if sub.Limit == 0 {
		sub.Limit = query.MaxLimit
	}
	for {
		s, ok, err := db.join(ctx, a, &sub)
		if ok || err != nil {
			return s, err
		}
		// A collection was changed meanwhile.
	}
}

// join makes a Stream. ok is false if collections were changed meanwhile.
func (db *DB) join(ctx context.Context, a Actor, sub *Subscription) (s *Stream, ok bool, err error) {
	s = &Stream{db: db, actor: a, read: sub.Read, ready: make(chan struct{}, 1)}
	_, err = db.View(ctx, sub.Read, a, func(t *Tx) error {
		s.catalog, s.parts = t.catalog, nil
		return s.bind(t, sub)
	})
	if err != nil {
		return nil, false, err
	}
	s.shape = s.shapeOf(sub)
	var at engine.Position // all changes after it come into the queue
	ended := db.hub.do(ctx, func(h *hub) {
		if ok = h.current(ctx, s.catalog); ok {
			s.receiver, err = h.m.add(s.parts, a, s.offer, s.end)
			at = h.pos
		}
	})
	if err = cmp.Or(ended, err); err != nil || !ok {
		return nil, false, err
	}
	ok, err = s.begin(ctx, sub, at)
	if err != nil || !ok {
		s.Close()
		return nil, ok, err
	}
	return s, true, nil
}

// begin finds the first messages: what came after the position to resume from up to the position at, or the state at a
// later one. ok is false if collections were changed meanwhile.
func (s *Stream) begin(ctx context.Context, sub *Subscription, at engine.Position) (ok bool, err error) {
	if from, ok := s.resumes(sub.Resume); ok {
		if ok, err := s.replay(ctx, from, at); ok || err != nil {
			return ok, err
		}
	}
	read := s.read
	read.AtLeast = max(read.AtLeast, at)
	var state []State
	pos, err := s.db.View(ctx, read, s.actor, func(t *Tx) error {
		if ok = t.catalog.epoch == s.catalog.epoch; !ok {
			return nil
		}
		state, err = s.state(t, sub)
		return err
	})
	s.after = pos
	s.first = []Message{{ID: s.id(pos), Position: pos, State: state}}
	return ok, err
}

// shapeOf returns a text that another subscription, another actor, or collections that were changed do not have.
func (s *Stream) shapeOf(sub *Subscription) string {
	a := s.actor
	a.Request = ""
	text, err := json.Marshal([]any{s.catalog.epoch, a, sub.Topics, sub.Filter})
	if err != nil {
		panic("BUG: an actor is not JSON: " + err.Error())
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:16]
}

func (s *Stream) id(pos engine.Position) string {
	return strconv.FormatUint(uint64(pos), 10) + "-" + s.shape
}

// resumes returns the position of an id that this subscription has made.
func (s *Stream) resumes(id string) (engine.Position, bool) {
	number, shape, _ := strings.Cut(id, "-")
	pos, err := strconv.ParseUint(number, 10, 64)
	return engine.Position(pos), err == nil && shape == s.shape
}

// replay delivers the events after the position from up to the position to. It reports whether the history has them.
func (s *Stream) replay(ctx context.Context, from, to engine.Position) (ok bool, err error) {
	s.after = max(from, to)
	if from >= to {
		return true, nil
	}
	m := newMatcher(s.db, s.catalog)
	ok = true
	end := func(error) { ok = false }
	size, read := 0, 0
	_, err = m.add(s.parts, s.actor, func(b batch) error {
		if size += b.bytes; len(s.first) == MaxReplayed || size > MaxReplayedBytes {
			return errSlow
		}
		s.first = append(s.first, s.message(b))
		return nil
	}, end)
	if err != nil {
		return false, err
	}
	for c, err := range s.db.eng.Changes(ctx, from) {
		switch {
		case engine.CodeOf(err) == engine.CodeTruncated:
			ok = false
		case err != nil:
			return false, err
		case c.Pos <= to && keys.EpochOf(c):
			ok = false
		case c.Pos <= to:
			m.apply(ctx, c)
		}
		if read++; read > MaxReplayRead {
			ok = false
		}
		if !ok || c.Pos >= to {
			break
		}
	}
	if !ok {
		s.first = nil
	}
	return ok, nil
}

func (s *Stream) message(b batch) Message {
	return Message{ID: s.id(b.pos), Position: b.pos, Events: b.events}
}

// errSlow ends a stream whose subscriber does not read.
var errSlow = engine.Errorf(engine.CodeTruncated, "the subscriber has not read what was queued for it: subscribe again")

// offer adds the events of a change to the queue.
func (s *Stream) offer(b batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queue); n >= MaxQueuedChanges || n > 0 && s.bytes+b.bytes > MaxQueuedBytes {
		return errSlow
	}
	s.queue = append(s.queue, b)
	s.bytes += b.bytes
	s.wake()
	return nil
}

// end ends the stream, after what is queued.
func (s *Stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.wake()
}

func (s *Stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next returns the next message, for which it waits. Only one goroutine may call it at a time. After an error there are
// no more messages.
func (s *Stream) Next(ctx context.Context) (Message, error) {
	if len(s.first) > 0 {
		m := s.first[0]
		s.first = s.first[1:]
		return m, nil
	}
	for {
		b, ok, err := s.take()
		switch {
		case err != nil:
			return Message{}, err
		case ok && b.pos > s.after:
			return s.message(b), nil
		case ok:
			continue
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
}

func (s *Stream) take() (b batch, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return b, false, s.err
	}
	b = s.queue[0]
	s.queue[0] = batch{}
	s.queue = s.queue[1:]
	s.bytes -= b.bytes
	return b, true, nil
}

// Close ends the subscription. It may be called more than once.
func (s *Stream) Close() {
	_ = s.db.hub.do(context.Background(), func(h *hub) { h.m.remove(s.receiver) }) // an error means that the hub has ended
}

// part is what a stream sees of one collection.
type part struct {
	c      *collection
	ids    []string // nil: all
	rule   *query.Cond
	filter *query.Cond
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
	for i, column := range unknownBefore {
		if column && p.filter.Mentions(i) {
			return engine.Errorf(CodeQuery, "a subscription cannot filter by who has updated, deleted or restored a record, or when: what that was before a change is not known")
		}
		if column && p.rule.Mentions(i) {
			return engine.Errorf(engine.CodeUnsupported, "nobody can subscribe to %s: its rules look at who has updated, deleted or restored a record, or when, and what that was before a change is not known", p.c.Name)
		}
	}
	return nil
}

// unknownBefore are the columns whose values before a change it does not tell.
var unknownBefore = []bool{4: true, 5: true, 6: true, 8: true, 9: true, 10: true}

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
