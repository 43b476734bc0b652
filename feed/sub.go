package feed

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Filter selects keys.
type Filter struct {
	// Prefixes selects the keys that begin with one of them. An empty prefix selects every
	// key. At least one is required; none is CodeInvalid.
	Prefixes [][]byte

	// Whole delivers each matching change with all its writes, not only with those to the
	// selected keys.
	Whole bool
}

// Sub is one subscription.
type Sub struct {
	// C delivers the changes that match the filter in commit order, each exactly once. A
	// change contains only the matching writes unless Filter.Whole is set. A change without
	// writes is a heartbeat: no other change up to its position matched the filter. The
	// changes may be kept but must not be modified. C is closed when the subscription ends;
	// Err returns the reason.
	C <-chan engine.Change

	f        *Feed
	prefixes []string // distinct, none begins with another
	whole    bool     // Filter.Whole
	ch       chan engine.Change

	// The replay owns these until it joins the tail; then Feed.mu guards them.
	pos    engine.Position // all matching changes up to it are in ch
	sent   engine.Position // the last position put into ch; at first the one asked for
	picked []int           // scratch: indices of the writes of one change that match
	room   room

	replayed atomic.Uint64 // pos, for Reached while the replay runs

	// Feed.mu guards these.
	live  bool // served by the tail
	quiet bool // nothing was sent since the last heartbeat

	cancel context.CancelCauseFunc // ends the replay; does nothing afterwards
	gone   chan struct{}           // closed when no replay is running
	closed chan struct{}           // closed, after err is set, just before C is
	err    error
}

// Subscribe begins a subscription to all changes after the given position: Feed.Position
// for "from now on", or the last position that the caller has handled. Changes before the
// tail's position are replayed from the engine. If the engine no longer has them, C ends
// with ErrTruncated. If the engine has never reached the position, because it belongs to
// another history, Subscribe returns ErrTruncated. The caller must Close the subscription.
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
		f: f, prefixes: prefixes, whole: filter.Whole, pos: after, sent: after, quiet: true, cancel: cancel,
		ch: make(chan engine.Change, f.o.Buffer), gone: make(chan struct{}), closed: make(chan struct{}),
	}
	s.C = s.ch
	s.replayed.Store(uint64(after))
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

// reached returns nil if the engine has committed position pos. If this node does not know
// of it, it makes a read, which in a cluster asks the leader.
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

// join adds s to the live subscriptions if s has everything that the tail has delivered.
// The caller holds f.mu.
func (f *Feed) join(s *Sub) bool {
	if f.state != tailing || s.pos < f.pos {
		return false
	}
	s.live, f.moved = true, true
	f.live.add(s)
	f.wake()
	return true
}

// replay reads changes from the engine until it has caught up with the tail.
func (s *Sub) replay(ctx context.Context) {
	joined, err := s.catchUp(ctx)
	s.f.mu.Lock()
	if !joined { // else the tail serves the subscription, which may have ended already
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

// errUnsubscribed ends a replay when its subscription is closed.
var errUnsubscribed = errors.New("unsubscribed")

// heartbeatEvery is the number of changes that do not match the filter after which a replay
// reports its position to its subscriber.
const heartbeatEvery = 4096

// catchUp replays until s joins the tail. It reports whether s has joined, or else why not.
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
		s.replayed.Store(uint64(c.Pos))
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

// pick stores in s.picked which writes of c match the filter.
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

// take returns a copy of the part of c that s receives, given the picked writes, and clears
// them.
func (s *Sub) take(c engine.Change) engine.Change {
	if n := len(s.picked); n > 0 && s.whole {
		c.Writes = slices.Clone(c.Writes)
	} else {
		part := make([]engine.Write, n)
		for i, j := range s.picked {
			part[i] = c.Writes[j]
		}
		c.Writes = part
	}
	s.picked = s.picked[:0]
	return c
}

// send waits for room in the buffer, because a replay blocks nobody else.
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
		s.sent = c.Pos
		return true
	}
}

// offer puts c into the buffer if there is room. The caller holds f.mu.
func (s *Sub) offer(c engine.Change) bool {
	if !s.room.fits(len(s.ch), c) {
		return false
	}
	select {
	case s.ch <- c:
		s.room.add(c)
		s.pos, s.sent = c.Pos, c.Pos
		return true
	default:
		return false
	}
}

// Reached returns the position up to which every matching change has been put into C. A consumer
// that then empties C without waiting has all of them, and needs no heartbeat to know it.
func (s *Sub) Reached() engine.Position {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.live {
		return max(s.pos, s.f.pos)
	}
	return engine.Position(s.replayed.Load())
}

// Close ends the subscription. C is closed and Err returns nil, unless the subscription had
// already ended. Close may be called more than once.
func (s *Sub) Close() {
	s.cancel(errUnsubscribed)
	<-s.gone
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.live {
		s.f.drop(s, nil)
	}
}

// Err returns why C was closed. ErrTruncated means that the subscriber was too slow or the
// history is no longer available, so it must read everything again. ErrClosed means that
// the feed ended. Err returns nil after Close and while C is open.
func (s *Sub) Err() error {
	select {
	case <-s.closed:
		return s.err
	default:
		return nil
	}
}

// finish closes C. The caller holds f.mu, and no replay is sending.
func (s *Sub) finish(err error) {
	s.live, s.err = false, err
	close(s.closed)
	close(s.ch)
}

// room tracks how many bytes are in a channel that the subscriber empties: those of the
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
