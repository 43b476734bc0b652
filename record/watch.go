package record

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
)

// A change of a record reaches its subscribers in these stages, of which each only knows the next:
//
//	feed      the engine's changes, in their order
//	hub       one goroutine for the DB: at which position the node is, which collections there are
//	matcher   which receivers see something of a change, and what: match.Set, rules, filters
//	Stream    a bounded queue for each subscriber, from the hub's goroutine to that of Next
//	face      package web/records, or whoever calls Next
//
// A subscription begins the other way round: DB.join binds the topics to the actor (part), adds the Stream to the hub,
// which is at a position then, and finds the messages up to that position or a later one: from the history of the engine
// (replay), or the state. What the queue has up to there is skipped. So there is no gap, and nothing comes twice.

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

// Topic is what a subscription is about: one record, or all records of a collection.
type Topic struct {
	Collection string
	ID         string // "": all
}

// ParseTopic parses a topic: "orders/*", or "orders/ID" for one record.
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

// String returns the topic in the form that ParseTopic parses.
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

	// Filter is an expression that the records of all topics must meet; "" is none. If it looks at who has updated, deleted
	// or restored a record, or when, the collections must keep a history.
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

// recordText is the JSON of a record, encoded once for all subscribers.
type recordText struct {
	once sync.Once
	text []byte
}

// AppendJSON appends the event in the form that clients receive: {"op":…,"collection":…,"id":…,"record":{…}}.
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

// Subscribe begins a subscription of an actor. The first Message of the Stream is the state at one position, and those
// that follow are all changes after it, each once and in their order. A collection that the actor may not subscribe to
// is unknown. Errors of the Stream end it:
//
//   - engine.CodeTruncated: the subscriber has read too slowly, rules or fields of a collection have changed, or the
//     history does not say any more what a record was before a change. Subscribe again; Resume then works as far as it can.
//   - CodeUnknownCollection: a collection was removed.
//   - engine.CodeClosed: the server stops.
//
// Conditions are decided when the record itself changes: not when a record changes to which it refers, and not when time
// passes. Without Options.Feed, Subscribe is engine.CodeUnsupported.
func (db *DB) Subscribe(ctx context.Context, a Actor, sub Subscription) (*Stream, error) {
	if err := db.refuses("subscriptions"); err != nil {
		return nil, err
	}
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

// replay finds the messages after the position from, which the subscriber has, up to the position to. ok is false if the
// history does not have all of them, if they are too many, or if there is no position from.
func (s *Stream) replay(ctx context.Context, from, to engine.Position) (ok bool, err error) {
	s.after = max(from, to)
	if from == to {
		return true, nil
	}
	if from > to { // another node was ahead of this one, or the data are from an older backup
		last, err := s.db.eng.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
		return from <= last, err
	}
	ok = true
	size, read := 0, 0
	m := newMatcher(s.db, s.catalog)
	_, err = m.add(s.parts, s.actor, func(b batch) error {
		if size += b.bytes; len(s.first) == MaxReplayed || size > MaxReplayedBytes {
			return errSlow
		}
		s.first = append(s.first, s.message(b))
		return nil
	}, func(error) { ok = false })
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
