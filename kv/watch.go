package kv

import (
	"bytes"
	"context"
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// Events yields what a committed change means to kv: one event for each key
// that was set or deleted. Keys and values alias c and may be kept. Within one
// change the order is that of its writes and has no meaning.
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

// clearsTomb reports whether the deletion of a data key in c only clears a
// tombstone: the deletion of the key itself was told when that was written.
func clearsTomb(c engine.Change, dataKey []byte) bool {
	for _, w := range c.Writes {
		if w.Deleted && w.Key[0] == graveIndex && len(w.Key) > keyOverhead && bytes.Equal(w.Key[9:], dataKey[1:]) {
			return true
		}
	}
	return false
}

// Watch yields the events of the keys of space that begin with prefix, of all
// changes after the given position, in commit order, none left out and none
// twice, and waits for more; when ctx ends, so does the sequence. Events of one
// position stand together, all but the last with More set: resume after a
// position only when its last event was handled. An error is the last value:
// ErrTruncated says that the history after that position is no longer kept, so
// that everything has to be read again. A key that expires has its event when
// Run deletes it.
func (s *Store) Watch(ctx context.Context, space uint8, prefix []byte, after engine.Position) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if !s.eng.Promises().Feed {
			yield(Event{}, engine.Errorf(engine.CodeUnsupported, "watch needs a change feed, which this engine does not promise"))
			return
		}
		for c, err := range s.eng.Changes(ctx, after) {
			if err != nil {
				if ctx.Err() == nil {
					yield(Event{}, err)
				}
				return
			}
			if !yieldMatching(c, space, prefix, yield) {
				return
			}
		}
	}
}

// yieldMatching yields the events of c one behind, to know which is the last.
func yieldMatching(c engine.Change, space uint8, prefix []byte, yield func(Event, error) bool) bool {
	var held Event
	for e := range Events(c) {
		if e.Space != space || !bytes.HasPrefix(e.Key, prefix) {
			continue
		}
		if held.Key != nil {
			held.More = true
			if !yield(held, nil) {
				return false
			}
		}
		held = e
	}
	return held.Key == nil || yield(held, nil)
}
