// Package feed delivers the changes of one engine to many subscribers. A node reads the
// changes once, in a single tail, and fans them out by key prefix.
//
// It knows positions, prefixes, bounded buffers and how to resume; it must not know what a
// key means or who subscribes. A subscriber that is too slow is cut off and must read
// everything again: it never blocks the tail or a writer. DESIGN.md describes how a replay
// joins the tail.
package feed

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Limits; going over one is CodeLimit.
const (
	MaxSubs     = 100_000 // subscriptions of one Feed
	MaxPrefixes = 1024    // prefixes of one subscription
	MaxBuffer   = 65_536  // Options.Buffer
	MaxWaiters  = 100_000 // calls of Wait at once
)

const (
	defaultBuffer      = 128
	defaultBufferBytes = 64 << 20
	defaultHeartbeat   = 5 * time.Second

	retryAfter  = 50 * time.Millisecond // pause of the tail after an error that may pass
	aheadWithin = 5 * time.Second       // how long Subscribe asks whether a position exists

	// restTime is how long the tail rests while nobody needs it. Otherwise every commit
	// would wake it.
	restTime = 20 * time.Millisecond
)

// Options configure a Feed. The zero value works.
type Options struct {
	// Buffer is how many changes one subscription may lag behind the tail before it is cut
	// off; 0 means 128.
	Buffer int
	// BufferBytes is the same in bytes of keys and values; 0 means 64 MiB. A single change
	// is always accepted, however large.
	BufferBytes int
	// Heartbeat is how often a subscription without changes receives the position of the
	// tail; 0 means 5 s.
	Heartbeat time.Duration
}

// Feed fans out the changes of one engine. All methods are safe for concurrent use.
type Feed struct {
	eng  engine.Engine
	skim skimmer // eng, or nil if it is none
	o    Options
	need chan struct{} // one token: a subscription or a call of Wait needs the tail

	mu      sync.Mutex // guards the fields below and the live state of every Sub
	state   state
	pos     engine.Position // all changes up to it have been delivered to the live subscriptions
	at      time.Time       // when the last change before pos was made
	moved   bool            // a live subscription may not know the tail's position
	subs    map[*Sub]struct{}
	live    index // the subscriptions that the tail serves
	waiters waiters
	touched []*Sub         // scratch of deliver
	replays sync.WaitGroup // goroutines of subscriptions; Add under mu while not ended
}

type state uint8

const (
	fresh   state = iota // Run has not been called
	started              // Run is active, but the tail has no position yet
	tailing              // pos is the tail's
	ended                // Run has returned or is about to
)

// New returns a Feed on eng. If eng has no change feed, the error matches ErrUnsupported.
// Nothing runs before Run.
func New(eng engine.Engine, o Options) (*Feed, error) {
	if err := eng.Promises().Meets("feed", engine.Promises{Feed: true}); err != nil {
		return nil, err
	}
	if o.Buffer < 0 || o.BufferBytes < 0 || o.Heartbeat < 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "feed: an option is negative")
	}
	if o.Buffer > MaxBuffer {
		return nil, engine.Errorf(engine.CodeLimit, "feed: buffer of %d changes is over the limit of %d", o.Buffer, MaxBuffer)
	}
	if o.Buffer == 0 {
		o.Buffer = defaultBuffer
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = defaultBufferBytes
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	skim, _ := eng.(skimmer)
	return &Feed{eng: eng, skim: skim, o: o, need: make(chan struct{}, 1), subs: map[*Sub]struct{}{}, live: newIndex()}, nil
}

// Run follows the engine's changes until ctx ends or the engine fails permanently, and
// returns the reason. It must be called only once. When it has returned, all subscriptions
// and waits have ended with ErrClosed and no goroutine is left.
func (f *Feed) Run(ctx context.Context) error {
	f.mu.Lock()
	if f.state != fresh {
		f.mu.Unlock()
		return engine.Errorf(engine.CodeInvalid, "feed: Run was called before")
	}
	f.state = started
	f.mu.Unlock()

	beats := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(beats)
		f.beat(stop)
	}()
	err := f.follow(ctx)
	close(stop)
	<-beats
	f.end()
	return err
}

// follow keeps a tail on the engine until a permanent error.
func (f *Feed) follow(ctx context.Context) error {
	known := false // whether the tail has a position to continue from
	var from engine.Position
	for {
		err := f.tail(ctx, &from, &known)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, engine.ErrTruncated):
			// The tail itself fell behind, so all subscriptions have missed the same
			// changes.
			f.cutAll(err)
			known = false
		case err != nil && (errors.Is(err, engine.ErrClosed) || !engine.Retryable(err)):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryAfter):
		}
	}
}

// tail delivers changes until the engine ends the iteration. It starts at from, if known,
// and keeps from up to date.
func (f *Feed) tail(ctx context.Context, from *engine.Position, known *bool) error {
	if !*known {
		pos, err := f.Committed()
		if err != nil {
			return err
		}
		*from, *known = pos, true
		f.begin(pos)
	}
	for {
		missed := false // changes were left out that a new subscription needs
		for c, err := range f.changes(ctx, *from) {
			if err != nil {
				return err
			}
			if missed = !f.deliver(c); missed {
				break
			}
			*from = c.Pos
			if f.skim != nil && len(c.Writes) == 0 {
				f.rest(ctx, c.Pos)
			}
		}
		if !missed {
			return nil
		}
	}
}

// rest waits for restTime, or until somebody needs the tail, if it has reached the engine's
// position and nobody does now.
func (f *Feed) rest(ctx context.Context, pos engine.Position) {
	if p, ok := f.eng.(engine.Positioner); !ok || p.Position() > pos {
		return
	}
	f.mu.Lock()
	needed := len(f.live.byPrefix) > 0 || len(f.waiters) > 0
	f.mu.Unlock()
	if needed {
		return
	}
	select {
	case <-f.need:
	case <-time.After(restTime):
	case <-ctx.Done():
	}
}

// wake ends the tail's rest.
func (f *Feed) wake() {
	select {
	case f.need <- struct{}{}:
	default:
	}
}

// skimmer is satisfied by engines that need not decode the changes that nobody reads.
type skimmer interface {
	// SkimChanges is Changes, except that while wanted returns false it may yield one
	// change without writes in place of any number of changes, with the position and the
	// time of the last of them. The slice of a change's writes is valid until the next
	// change; their keys and values stay.
	SkimChanges(ctx context.Context, after engine.Position, wanted func() bool) iter.Seq2[engine.Change, error]
}

// changes returns the engine's changes. Those that come while there is no live
// subscription may be left out.
func (f *Feed) changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	if f.skim != nil {
		return f.skim.SkimChanges(ctx, after, f.served)
	}
	return f.eng.Changes(ctx, after)
}

// served reports whether there are live subscriptions.
func (f *Feed) served() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.live.byPrefix) > 0
}

// begin sets the tail's position to pos.
func (f *Feed) begin(pos engine.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.pos, f.moved = tailing, pos, true
	f.waiters.release(pos, nil)
}

// deliver passes c to every live subscription whose filter it matches and moves the tail.
// It never blocks on a subscriber. If c stands for changes that were left out, and there
// is a live subscription by now, deliver does nothing and returns false: the tail must
// read them.
func (f *Feed) deliver(c engine.Change) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(c.Writes) == 0 && f.skim != nil && len(f.live.byPrefix) > 0 {
		return false
	}
	f.touched = f.live.match(c, f.touched[:0])
	for i, s := range f.touched {
		f.touched[i] = nil
		part := s.take(c)
		if c.Pos <= s.pos {
			continue // the subscription is ahead of the tail
		}
		if s.offer(part) {
			s.quiet = false
		} else {
			f.drop(s, errBehind(s.sent))
		}
	}
	f.pos, f.at, f.moved = c.Pos, c.Time, true
	f.waiters.release(c.Pos, nil)
	return true
}

func errBehind(pos engine.Position) error {
	return engine.Errorf(engine.CodeTruncated, "subscription fell behind after position %d: read everything again", pos)
}

// beat sends quiet subscriptions the tail's position until stop is closed.
func (f *Feed) beat(stop <-chan struct{}) {
	tick := time.NewTicker(f.o.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			f.heartbeat()
		}
	}
}

// heartbeat sends the tail's position to every live subscription that received nothing
// since the last heartbeat. It skips subscriptions whose buffer is not empty: the buffered
// changes move the position too, and heartbeats must not take the room of changes.
func (f *Feed) heartbeat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != tailing || !f.moved {
		return
	}
	f.moved = false
	for s := range f.subs {
		if s.live && s.quiet && s.sent < f.pos && len(s.ch) == 0 {
			s.offer(engine.Change{Pos: f.pos, Time: f.at})
		}
		f.moved = f.moved || s.live && s.sent < f.pos
		s.quiet = true
	}
}

// Position returns the position up to which the tail has delivered all changes. It is 0
// before Run has begun.
func (f *Feed) Position() engine.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pos
}

// Committed returns the last position that the engine has committed on this node. The tail
// may not have reached it yet.
func (f *Feed) Committed() (engine.Position, error) {
	if p, ok := f.eng.(engine.Positioner); ok {
		return p.Position(), nil
	}
	return f.eng.View(context.Background(), engine.Read{}, func(engine.Tx) error { return nil })
}

// Wait returns nil once Position is at least pos. If ctx's deadline passes first, it
// returns ErrPositionTimeout; if ctx is cancelled, ctx's error; if the feed ends,
// ErrClosed.
func (f *Feed) Wait(ctx context.Context, pos engine.Position) error {
	f.mu.Lock()
	if f.state == tailing && f.pos >= pos {
		f.mu.Unlock()
		return nil
	}
	if f.state == ended {
		f.mu.Unlock()
		return engine.ErrClosed
	}
	if len(f.waiters) >= MaxWaiters {
		f.mu.Unlock()
		return engine.Errorf(engine.CodeLimit, "more than %d calls wait for a position", MaxWaiters)
	}
	w := &waiter{pos: pos, done: make(chan error, 1)}
	f.waiters.add(w)
	f.wake()
	f.mu.Unlock()

	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.waiters.remove(w)
	f.mu.Unlock()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return engine.Errorf(engine.CodePositionTimeout, "position %d was not reached in time: %w", pos, ctx.Err())
	}
	return ctx.Err()
}

// drop ends a subscription with err. The caller holds f.mu.
func (f *Feed) drop(s *Sub, err error) {
	f.live.remove(s)
	delete(f.subs, s)
	s.finish(err)
}

// cutAll ends the live subscriptions with err and clears the tail's position. Replays
// continue, because they follow the engine on their own.
func (f *Feed) cutAll(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = started
	for s := range f.subs {
		if s.live {
			f.drop(s, err)
		}
	}
}

// end ends all subscriptions and waits for the replays.
func (f *Feed) end() {
	f.mu.Lock()
	f.state = ended
	for s := range f.subs {
		if s.live {
			f.drop(s, engine.ErrClosed)
		} else {
			s.cancel(engine.ErrClosed)
		}
	}
	f.waiters.release(^engine.Position(0), engine.ErrClosed)
	f.mu.Unlock()
	f.replays.Wait()
}
