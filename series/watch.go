package series

import (
	"context"
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// watchBatches is how many batches a watch may be behind.
const watchBatches = 64

// Watch delivers the samples of some series as they are stored.
type Watch struct {
	h     *head
	match []Matcher
	known map[uint32]bool // whether a series matches
	c     chan []Live     // closed after err is set; h.mu guards sending
	err   error
}

// Live is one sample that was stored.
type Live struct {
	ID     ID
	Labels Labels // not to be modified
	Sample
}

// Watch calls for the samples of series that match all of match, from now on. It must be closed. It waits until the series
// are in memory: those who watch earlier would be told that they have missed samples.
func (s *Store) Watch(ctx context.Context, match []Matcher) (*Watch, error) {
	if len(match) > MaxMatchers {
		return nil, engine.Errorf(engine.CodeLimit, "%d matchers are over the limit of %d", len(match), MaxMatchers)
	}
	if err := s.waitFor(ctx, 0); err != nil {
		return nil, err
	}
	_, h := s.state()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watches) >= MaxWatches {
		return nil, engine.Errorf(CodeBusy, "collection %s has %d watches, as many as it may have", s.c.Name, MaxWatches)
	}
	w := &Watch{h: h, match: match, known: map[uint32]bool{}, c: make(chan []Live, watchBatches)}
	h.watches[w] = struct{}{}
	return w, nil
}

// All yields the samples of one batch after the other. It ends with an error: ctx's, ErrTruncated if samples were
// missed because they were not taken fast enough, or ErrClosed.
func (w *Watch) All(ctx context.Context) iter.Seq2[[]Live, error] {
	return func(yield func([]Live, error) bool) {
		for {
			select {
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			case batch, ok := <-w.c:
				if !ok {
					yield(nil, w.err)
					return
				}
				if !yield(batch, nil) {
					return
				}
			}
		}
	}
}

// Close ends the watch.
func (w *Watch) Close() {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	w.end(engine.ErrClosed)
}

// end ends the watch, unless it has ended. The caller holds h.mu.
func (w *Watch) end(err error) {
	if _, ok := w.h.watches[w]; !ok {
		return
	}
	delete(w.h.watches, w)
	w.err = err
	close(w.c)
}

// notify passes a batch on. The caller holds h.mu.
func (h *head) notify(val []byte) {
	if len(h.watches) == 0 {
		return
	}
	for w := range h.watches {
		r, _ := readBatch(val)
		var batch []Live
		for r.next() {
			if w.matches(r.id) {
				batch = append(batch, Live{ID(r.id), h.labelsOf(r.id), r.s})
			}
		}
		if len(batch) == 0 {
			continue
		}
		select {
		case w.c <- batch:
		default:
			w.end(engine.Errorf(engine.CodeTruncated, "the watch is more than %d batches behind", watchBatches))
		}
	}
}

// matches reports whether a series matches. The caller holds h.mu.
func (w *Watch) matches(id uint32) bool {
	is, ok := w.known[id]
	if !ok {
		is = matchesAll(w.match, w.h.labelsOf(id))
		w.known[id] = is
	}
	return is
}

func matchesAll(match []Matcher, l Labels) bool {
	for _, m := range match {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// endWatches ends all watches.
func (h *head) endWatches(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watches {
		w.end(err)
	}
}
