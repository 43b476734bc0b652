package series

import (
	"context"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// Delete removes the series that match all of match, with all their samples, and returns how many there were. At least one of
// match must need a label, as in Prometheus: with {host!="a"} alone, series without a host would go too. It deletes what was
// acknowledged before it began. Samples that are written later, of any time, belong to new series: Append refuses the old
// ids with CodeGone, and Define returns new ones.
//
// More than MaxDefine series are removed in several transactions. If one fails, Delete returns how many were removed
// before, and can be called again. The space of the samples is freed when they would be merged or expire. Series of
// a summary are not removed with those of the collection that it summarizes. An engine.SampleStore is
// engine.CodeUnsupported.
func (s *Store) Delete(ctx context.Context, match []Matcher) (n int, pos engine.Position, err error) {
	switch {
	case !slices.ContainsFunc(match, func(m Matcher) bool { return !m.Matches("") }):
		return 0, 0, engine.Errorf(CodeMatcher, "a deletion needs a matcher that an empty value does not match; {__name__=~\".+\"} selects all series")
	case s.db.own != nil:
		return 0, 0, engine.Errorf(engine.CodeUnsupported, "series cannot be deleted from the tables of this engine; delete the rows")
	}
	h, ids, err := s.find(ctx, match, engine.Read{})
	if err != nil {
		return 0, 0, err
	}
	no, _ := s.state()
	for len(ids) > 0 {
		some := ids[:min(len(ids), MaxDefine)]
		ids = ids[len(some):]
		h.mu.RLock()
		list := h.definitions(some, func(*member) bool { return true })
		h.mu.RUnlock()
		removed := 0
		at, err := s.db.eng.Update(ctx, func(tx engine.Tx) error {
			before, err := readGone(tx, no)
			if err != nil {
				return err
			}
			after, err := removeSeries(tx, no, list)
			removed = int(after.removed - before.removed)
			return err
		})
		if err != nil {
			return n, pos, err
		}
		n, pos = n+removed, at
		if err := s.db.wait(ctx, pos); err != nil {
			return n, pos, err
		}
	}
	return n, pos, nil
}

// removed reports whether a series was removed, so that its samples need not be kept. It is false if h does not know.
func (h *head) removed(id uint32) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.gone.removed > 0 && uint64(id) <= h.meta.series && h.members.get(id) == nil
}
