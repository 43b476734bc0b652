package traversal

import (
	"slices"

	"github.com/skerrydb/skerry/graph/value"
)

// lazySize is how many traversers wait in a barrier that the optimizer adds.
const lazySize = 2500

// optimize makes a plan faster without changing what it yields.
func (b *builder) optimize(p *Plan) {
	b.config.paths = max(b.config.paths, b.pathUse())
	p.main.steps = findByTests(p.main.steps)
	if b.config.paths == noPaths && b.config.sack == nil && b.writes == "" {
		p.main.steps = addBarriers(p.main.steps)
	}
}

func (b *builder) pathUse() pathUse {
	switch {
	case b.used.full:
		return fullPaths
	case b.used.any:
		return labelledPaths
	}
	return noPaths
}

// findByTests gives the tests after V() and E() to these steps, so that they need
// not read all elements. The tests stay: a lookup may find more.
func findByTests(steps []*step) []*step {
	for i, s := range steps {
		e, ok := s.kernel.(*elements)
		if !ok || e.byID {
			continue
		}
		for _, next := range steps[i+1:] {
			h, ok := next.kernel.(*has)
			if !ok {
				break
			}
			e.tests = append(e.tests, h.tests...)
		}
		if ids, ok := idsAsked(e.tests); ok {
			e.byID, e.ids = true, ids
		}
	}
	return steps
}

// idsAsked returns the ids of a test that an id is one of some.
func idsAsked(tests []*hasTest) ([]any, bool) {
	for _, t := range tests {
		if t.token == nil || *t.token != value.ID || t.pred.name != "eq" && t.pred.name != "within" {
			continue
		}
		ids := []any{}
		for _, id := range t.pred.args {
			if !slices.ContainsFunc(ids, func(other any) bool { return value.Equal(id, other) }) {
				ids = append(ids, id)
			}
		}
		return ids, true
	}
	return nil, false
}

// foldCounts has edges counted where all that the next step asks is how many there are,
// so that nothing is made of each.
func foldCounts(steps []*step) {
	for i, s := range steps {
		if a, ok := s.kernel.(*adjacent); ok && i+1 < len(steps) {
			_, all := steps[i+1].kernel.(reducing) // not of a collection
			a.counted = all && steps[i+1].call.Name == "count"
		}
	}
}

// addBarriers joins traversers that are at the same vertex before they move on for
// the third time: there they begin to be many. A traversal that may stop early is
// left as it is.
func addBarriers(steps []*step) []*step {
	for _, s := range steps {
		if s.traits.reduces {
			break
		}
		if _, ok := s.kernel.(window); ok {
			return steps
		}
	}
	var out []*step
	moved := 0
	for _, s := range steps {
		if _, ok := s.kernel.(*adjacent); ok {
			if moved++; moved > 2 {
				lazy := &step{kernel: lazy(lazySize), traits: traits{barrier: true}}
				lazy.call.Name, lazy.call.Pos = "barrier", s.call.Pos
				out = append(out, lazy)
			}
		}
		out = append(out, s)
	}
	return out
}
