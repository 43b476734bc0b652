package feed

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Filter says which keys a subscription is about.
type Filter struct {
	// Prefixes: the keys that begin with one of them. An empty prefix is every
	// key; none at all is CodeInvalid.
	Prefixes [][]byte

	// Whole delivers each change that has such a key with all its writes, not
	// only with those of such keys.
	Whole bool
}

// Sub is one subscription.
type Sub struct {
	// C yields the changes that concern the filter, cut down to the writes
	// that do unless Filter.Whole is set, in commit order, none left out and none twice. A change
	// without writes is a heartbeat: nothing else that concerns the filter
	// happened up to its position. What C yields may be kept but not modified.
	// C is closed when the subscription ends; Err says why.
	C <-chan engine.Change

	f        *Feed
	prefixes []string // distinct, none begins with another
	whole    bool     // Filter.Whole
	ch       chan engine.Change

	// The replay owns these until it joins the tail; then Feed.mu guards them.
	pos    engine.Position // all up to it is in ch or did not concern the filter
	told   engine.Position // the last position put into ch; at first the one asked for
	picked []int           // scratch: indices of the writes of one change that match
	room   room

	// Feed.mu guards these.
	live  bool // served by the tail
	quiet bool // nothing came since the last heartbeat

	cancel context.CancelCauseFunc // ends the replay; does nothing afterwards
	gone   chan struct{}           // closed when no replay runs
	closed chan struct{}           // closed, after err is set, just before C is
	err    error
}

// Subscribe begins a subscription to all changes after the given position:
// Feed.Position for "from now on", or the last position that the caller has
// handled. Changes before the tail's position are replayed from the engine; if
// it no longer keeps them, C ends with ErrTruncated. A position that the
// engine has not reached at all, because it is of another history, is
// ErrTruncated at once. The caller must Close the subscription.
func (f *Feed) Subscribe(filter Filter, after engine.Position) (*Sub, error) {
	prefixes, err := distinct(filter.Prefixes)
	if err != nil {
		return nil, err
	}
	if after > f.Position() {
		if err := f.reached(after); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &Sub{
		f: f, prefixes: prefixes, whole: filter.Whole, pos: after, told: after, quiet: true, cancel: cancel,
		ch: make(chan engine.Change, f.o.Buffer), gone: make(chan struct{}), closed: make(chan struct{}),
	}
	s.C = s.ch
	s.room.max = f.o.BufferBytes

	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.state == ended:
		cancel(nil)
		return nil, engine.ErrClosed
	case len(f.subs) >= MaxSubs:
		cancel(nil)
		return nil, engine.Errorf(engine.CodeLimit, "more than %d subscriptions", MaxSubs)
	}
	f.subs[s] = struct{}{}
	if f.join(s) {
		cancel(nil)
		close(s.gone)
		return s, nil
	}
	f.replays.Add(1)
	go s.replay(ctx)
	return s, nil
}

// reached returns nil if the engine has committed position pos. What this node
// knows is enough if it does; else a read asks, in a cluster, the leader.
func (f *Feed) reached(pos engine.Position) error {
	if p, ok := f.eng.(engine.Positioner); ok && pos <= p.Position() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), aheadWithin)
	defer cancel()
	last, err := f.eng.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
	if err != nil {
		return err
	}
	if pos > last {
		return engine.Errorf(engine.CodeTruncated, "position %d is not of this history, which ends at %d: read everything again", pos, last)
	}
	return nil
}

// join lets the tail serve s, if s has all that the tail has handed out; f.mu is held.
func (f *Feed) join(s *Sub) bool {
	if f.state != tailing || s.pos < f.pos {
		return false
	}
	s.live, f.moved = true, true
	f.live.add(s)
	return true
}

// replay reads the engine's changes itself until it has met the tail.
func (s *Sub) replay(ctx context.Context) {
	joined, err := s.catchUp(ctx)
	s.f.mu.Lock()
	if !joined { // else the subscription is the tail's, and may have ended already
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if errors.Is(err, errUnsubscribed) {
			err = nil
		}
		s.f.drop(s, err)
	}
	close(s.gone)
	s.f.mu.Unlock()
	s.f.replays.Done()
}

// errUnsubscribed is why a replay ends when its subscription is closed.
var errUnsubscribed = errors.New("unsubscribed")

// heartbeatEvery is after how many changes that do not concern it a replay
// reports its position to its subscriber.
const heartbeatEvery = 4096

// catchUp reports whether s has joined the tail, else why not.
func (s *Sub) catchUp(ctx context.Context) (joined bool, err error) {
	skipped := 0
	for c, err := range s.f.eng.Changes(ctx, s.pos) {
		if err != nil {
			return false, err
		}
		s.pick(c)
		if skipped++; len(s.picked) > 0 || skipped == heartbeatEvery {
			if !s.send(ctx, s.take(c)) {
				return false, ctx.Err()
			}
			skipped = 0
		}
		s.pos = c.Pos
		if s.tryJoin() {
			return true, nil
		}
	}
	return false, engine.ErrClosed
}

func (s *Sub) tryJoin() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.f.join(s)
}

// pick notes in s.picked which writes of c concern s.
func (s *Sub) pick(c engine.Change) {
	for i, w := range c.Writes {
		// As no prefix begins with another, only the last one that is not
		// greater than the key can be a prefix of it.
		n := sort.Search(len(s.prefixes), func(j int) bool { return s.prefixes[j] > string(w.Key) })
		if n == 0 {
			continue
		}
		if p := s.prefixes[n-1]; len(p) <= len(w.Key) && p == string(w.Key[:len(p)]) {
			s.picked = append(s.picked, i)
		}
	}
}

// take returns what s gets of c, of which it has picked writes, and forgets these.
func (s *Sub) take(c engine.Change) engine.Change {
	if n := len(s.picked); n < len(c.Writes) && (n == 0 || !s.whole) {
		part := make([]engine.Write, len(s.picked))
		for i, j := range s.picked {
			part[i] = c.Writes[j]
		}
		c.Writes = part
	}
	s.picked = s.picked[:0]
	return c
}

// send waits for room in the buffer: a replay blocks nobody else.
func (s *Sub) send(ctx context.Context, c engine.Change) bool {
	for !s.room.fits(len(s.ch), c) {
		// Rare: changes of many megabytes. The consumer takes them one by one.
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case <-ctx.Done():
		return false
	case s.ch <- c:
		s.room.add(c)
		s.told = c.Pos
		return true
	}
}

// offer puts c into the buffer if there is room; f.mu is held.
func (s *Sub) offer(c engine.Change) bool {
	if !s.room.fits(len(s.ch), c) {
		return false
	}
	select {
	case s.ch <- c:
		s.room.add(c)
		s.pos, s.told = c.Pos, c.Pos
		return true
	default:
		return false
	}
}

// Close ends the subscription; C is closed and Err is nil, unless it had ended
// before. It may be called more than once.
func (s *Sub) Close() {
	s.cancel(errUnsubscribed)
	<-s.gone
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.live {
		s.f.drop(s, nil)
	}
}

// Err returns why C was closed: ErrTruncated when the subscriber was too slow
// or the history is no longer kept, so that it must read everything again;
// ErrClosed when the feed ended; nil after Close and while C is open.
func (s *Sub) Err() error {
	select {
	case <-s.closed:
		return s.err
	default:
		return nil
	}
}

// finish closes C; f.mu is held and no replay sends any more.
func (s *Sub) finish(err error) {
	s.live, s.err = false, err
	close(s.closed)
	close(s.ch)
}

// room knows how many bytes are in a channel that the subscriber empties: the
// last len(ch) changes that were sent.
type room struct {
	max   int
	sizes []int // of the last changes sent, oldest first, from head on
	head  int
	sum   int
}

// fits reports whether c may follow the n changes that are in the channel.
func (r *room) fits(n int, c engine.Change) bool {
	for len(r.sizes)-r.head > n {
		r.sum -= r.sizes[r.head]
		r.head++
	}
	if r.head > len(r.sizes)/2 {
		r.sizes, r.head = append(r.sizes[:0], r.sizes[r.head:]...), 0
	}
	return n == 0 || r.sum+size(c) <= r.max
}

func (r *room) add(c engine.Change) {
	n := size(c)
	r.sizes = append(r.sizes, n)
	r.sum += n
}

func size(c engine.Change) (n int) {
	for _, w := range c.Writes {
		n += len(w.Key) + len(w.Val)
	}
	return n
}

// distinct returns the prefixes without those that begin with another one.
func distinct(prefixes [][]byte) ([]string, error) {
	if len(prefixes) == 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "subscription without a prefix")
	}
	if len(prefixes) > MaxPrefixes {
		return nil, engine.Errorf(engine.CodeLimit, "%d prefixes are over the limit of %d", len(prefixes), MaxPrefixes)
	}
	ps := make([]string, len(prefixes))
	for i, p := range prefixes {
		ps[i] = string(p)
	}
	slices.Sort(ps) // a prefix stands before all that begin with it
	kept := ps[:1]
	for _, p := range ps[1:] {
		if !strings.HasPrefix(p, kept[len(kept)-1]) {
			kept = append(kept, p)
		}
	}
	return kept, nil
}
