package series

import (
	"context"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// Find returns the labels of the series that match, in the order of their ids, up to limit of them; 0 is
// MaxQuerySeries. It reads no samples, so a series need not have any.
func (s *Store) Find(ctx context.Context, match []Matcher, r engine.Read, limit int) ([]Labels, error) {
	h, ids, err := s.find(ctx, match, r)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > MaxQuerySeries {
		limit = MaxQuerySeries
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	ids = ids[:min(len(ids), limit)]
	out := make([]Labels, 0, len(ids))
	for _, id := range ids {
		if l := h.labelsOf(id); l != nil { // otherwise it was removed since
			out = append(out, l)
		}
	}
	return out, nil
}

// find returns the ids that match. They must not be modified.
func (s *Store) find(ctx context.Context, match []Matcher, r engine.Read) (*head, []uint32, error) {
	if len(match) > MaxMatchers {
		return nil, nil, engine.Errorf(engine.CodeLimit, "%d matchers are over the limit of %d", len(match), MaxMatchers)
	}
	if err := s.reach(ctx, r); err != nil {
		return nil, nil, err
	}
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h, h.find(match), nil
}

// LabelNames returns the names of the labels of the series that match, sorted.
func (s *Store) LabelNames(ctx context.Context, match []Matcher, r engine.Read) ([]string, error) {
	return s.collect(ctx, match, r, (*index).names, func(name, _ string) (string, bool) { return name, true })
}

// LabelValues returns the values of a label of the series that match, sorted.
func (s *Store) LabelValues(ctx context.Context, label string, match []Matcher, r engine.Read) ([]string, error) {
	all := func(x *index) []string { return x.valuesOf(label) }
	return s.collect(ctx, match, r, all, func(name, value string) (string, bool) { return value, name == label })
}

// FirstLabelValues returns the first n of what LabelValues returns without matchers, and whether there are more. It needs memory for
// 2n of them only.
func (s *Store) FirstLabelValues(ctx context.Context, label string, n int, r engine.Read) (first []string, more bool, err error) {
	if n <= 0 {
		return nil, false, engine.Errorf(engine.CodeInvalid, "the number of values is %d, must be positive", n)
	}
	h, _, err := s.find(ctx, nil, r)
	if err != nil {
		return nil, false, err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	first, more = h.index.firstOf(label, n)
	return first, more, nil
}

// collect returns all, if every series matches, or what pick takes of the labels of those that do.
func (s *Store) collect(ctx context.Context, match []Matcher, r engine.Read, all func(*index) []string, pick func(name, value string) (string, bool)) ([]string, error) {
	h, ids, err := s.find(ctx, match, r)
	if err != nil {
		return nil, err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(match) == 0 {
		return all(&h.index), nil
	}
	seen := map[string]struct{}{}
	for _, id := range ids {
		for _, l := range h.labelsOf(id) {
			if text, ok := pick(l.Name, l.Value); ok {
				seen[text] = struct{}{}
			}
		}
	}
	out := make([]string, 0, len(seen))
	for text := range seen {
		out = append(out, text)
	}
	slices.Sort(out)
	return out, nil
}

// Stats says how much a collection has.
type Stats struct {
	Series   int    // that are defined
	Unsealed int    // samples in memory, and in batches of the engine
	Parts    int    // of compressed samples
	Samples  uint64 // in parts, of each time and order that a merge has not resolved yet
	Bytes    uint64 // of parts
}

// Stats returns what this node knows.
func (s *Store) Stats() Stats {
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	st := Stats{Series: h.members.n, Unsealed: h.pending, Parts: len(h.parts)}
	for _, p := range h.parts {
		st.Samples += p.samples
		st.Bytes += p.bytes
	}
	return st
}
