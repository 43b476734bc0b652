package kv

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
)

// Events yields one event for each key that a committed change set or deleted. Keys and
// values alias c and may be kept. The order of events within one change is that of its
// writes and has no meaning.
func Events(c engine.Change) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for _, w := range c.Writes {
			e, ok := Decode(w)
			if !ok || w.Deleted && clearsTomb(c, w.Key) {
				continue
			}
			e.Pos, e.Time = c.Pos, c.Time
			if !yield(e) {
				return
			}
		}
	}
}

// clearsTomb reports whether the deletion of a data key in c only clears a tombstone. The
// deletion of the key itself was reported when the tombstone was written.
func clearsTomb(c engine.Change, dataKey []byte) bool {
	for _, w := range c.Writes {
		if w.Deleted && w.Key[0] == graveIndex && len(w.Key) > keyOverhead && bytes.Equal(w.Key[9:], dataKey[1:]) {
			return true
		}
	}
	return false
}

// Watch yields the events of the keys of space that begin with prefix, for all changes
// after the given position, in commit order and each exactly once. Then it waits for more
// until ctx ends. Events of one position come together, and all but the last have More set:
// resume after a position only when its last event was handled.
//
// An error is the last value. ErrTruncated means that the history after that position is no
// longer available, so everything has to be read again. Without Options.Feed it is
// ErrUnsupported. The event of an expired key comes when Run deletes it.
func (s *Store) Watch(ctx context.Context, space uint8, prefix []byte, after engine.Position) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if s.feed == nil {
			yield(Event{}, engine.Errorf(engine.CodeUnsupported, "watch needs a change feed; kv.Options.Feed is nil"))
			return
		}
		filter := feed.Filter{Prefixes: [][]byte{appendDataKey(nil, space, prefix)}, Whole: true}
		for more := true; more && ctx.Err() == nil; {
			from := after
			err := s.follow(ctx, filter, &after, func(c engine.Change) bool {
				more = yieldMatching(c, space, prefix, yield)
				return more
			})
			// A watcher that fell behind the tail continues from the history.
			if behind := errors.Is(err, engine.ErrTruncated) && after > from; err != nil && !behind && ctx.Err() == nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// follow passes each change after a position to handle and updates the position. It ends
// when handle returns false, when ctx ends, or when the subscription ends with an error.
func (s *Store) follow(ctx context.Context, filter feed.Filter, after *engine.Position, handle func(engine.Change) bool) error {
	sub, err := s.feed.Subscribe(filter, *after)
	if err != nil {
		return err
	}
	defer sub.Close()
	for ctx.Err() == nil {
		select {
		case c, ok := <-sub.C:
			if !ok {
				return sub.Err()
			}
			if *after = c.Pos; !handle(c) {
				return nil
			}
		case <-ctx.Done():
		}
	}
	return nil
}

// yieldMatching yields the events of c with a delay of one, to know which is the last.
func yieldMatching(c engine.Change, space uint8, prefix []byte, yield func(Event, error) bool) bool {
	var last Event
	for e := range Events(c) {
		if e.Space != space || !bytes.HasPrefix(e.Key, prefix) {
			continue
		}
		if last.Key != nil {
			last.More = true
			if !yield(last, nil) {
				return false
			}
		}
		last = e
	}
	return last.Key == nil || yield(last, nil)
}
