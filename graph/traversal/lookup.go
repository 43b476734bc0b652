package traversal

import (
	"slices"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// lookup finds elements by an index: those whose first keys have the values of
// equal, and whose next one is in the range, or is one of several values.
type lookup struct {
	index  *graph.Index
	equal  []any
	low    *graph.Bound
	high   *graph.Bound
	within []any // of the next key; nil: none
}

// score says how few elements a lookup finds, by how much it asks for.
func (l *lookup) score() int {
	n := 4 * len(l.equal)
	switch {
	case l.within != nil:
		n += 3
	case l.low != nil && l.high != nil:
		n += 2
	case l.low != nil || l.high != nil:
		n++
	}
	if l.index.Unique && len(l.equal) == len(l.index.Keys) {
		n += 100
	}
	return n
}

// find calls yield with what the index has. ok is false, and nothing was found, if
// the index cannot have one of the values.
func (l *lookup) find(r *run, yield func(any) error) (ok bool, err error) {
	one := func(e value.Stored) error {
		if ok, err := r.sees(e); !ok || err != nil {
			return err
		}
		return yield(e)
	}
	if l.within == nil {
		return r.tx.Lookup(l.index, l.equal, l.low, l.high, one)
	}
	for _, v := range l.within { // before anything is found
		if _, ok := graph.AppendIndexKey(nil, v); !ok {
			return false, nil
		}
	}
	seen := map[string]struct{}{}
	for _, v := range l.within {
		if _, err := r.tx.Lookup(l.index, append(slices.Clip(l.equal), v), nil, nil, func(e value.Stored) error {
			h := value.Hash(e)
			if _, ok := seen[h]; ok {
				return nil
			}
			seen[h] = struct{}{}
			return one(e)
		}); err != nil {
			return true, err
		}
	}
	return true, nil
}

// bestLookup returns the lookup for elements that pass all tests, or nil.
func (r *run) bestLookup(kind value.Kind, tests []*hasTest) (best *lookup, err error) {
	if len(tests) == 0 {
		return nil, nil
	}
	all, err := r.tx.Indexes()
	if err != nil {
		return nil, err
	}
	for _, ix := range all {
		if ix.On != kind || ix.Filling || ix.Label != "" && !asksLabel(tests, ix.Label) ||
			slices.ContainsFunc(ix.Keys, func(key string) bool { return !asksKey(tests, key) }) {
			continue
		}
		l := &lookup{index: ix}
		for _, key := range ix.Keys {
			if !l.narrow(tests, key) {
				break
			}
		}
		if l.score() > 0 && (best == nil || l.score() > best.score()) {
			best = l
		}
	}
	return best, nil
}

// asksLabel reports whether the tests let only elements with a label pass.
func asksLabel(tests []*hasTest, label string) bool {
	return slices.ContainsFunc(tests, func(t *hasTest) bool {
		if t.token == nil || *t.token != value.Label || t.pred == nil || len(t.pred.args) != 1 {
			return false
		}
		return (t.pred.name == "eq" || t.pred.name == "within") && t.pred.args[0] == label
	})
}

// asksKey reports whether the tests let only elements pass that have a property with
// a value that indexes have. An index of several keys lacks all others.
func asksKey(tests []*hasTest, key string) bool {
	names := []string{"eq", "within", "gt", "gte", "lt", "lte", "between", "inside", "startingWith"}
	return slices.ContainsFunc(tests, func(t *hasTest) bool {
		return t.token == nil && t.key == key && t.pred != nil && slices.Contains(names, t.pred.name) &&
			!slices.ContainsFunc(t.pred.args, func(a any) bool { _, ok := graph.AppendIndexKey(nil, a); return !ok })
	})
}

// narrow adds what the tests say of the next key. It reports whether the key after
// it may follow: whether this one has one value.
func (l *lookup) narrow(tests []*hasTest, key string) bool {
	for _, t := range tests {
		if t.token != nil || t.key != key || t.pred == nil {
			continue
		}
		switch args := t.pred.args; t.pred.name {
		case "eq":
			l.equal = append(l.equal, args[0])
			l.low, l.high, l.within = nil, nil, nil
			return true
		case "within":
			if len(args) == 1 {
				l.equal = append(l.equal, args[0])
				return true
			}
			l.within = args
		case "gt", "gte":
			l.low = &graph.Bound{Val: args[0], Open: t.pred.name == "gt"}
		case "lt", "lte":
			l.high = &graph.Bound{Val: args[0], Open: t.pred.name == "lt"}
		case "between", "inside":
			l.low, l.high = &graph.Bound{Val: args[0]}, &graph.Bound{Val: args[1]}
		case "startingWith":
			if s := args[0].(string); s != "" && utf8.ValidString(s) {
				l.low, l.high = &graph.Bound{Val: s}, &graph.Bound{Val: s + "\U0010FFFF"}
			}
		}
	}
	if l.within != nil {
		l.low, l.high = nil, nil
	}
	return false
}

// indexed returns the lookup for the elements that have all that a map says.
func (r *run) indexed(kind value.Kind, what *value.Map) (*lookup, error) {
	var tests []*hasTest
	for _, e := range what.Entries() {
		p, err := newPredicate(&gremlin.P{Name: "eq", Args: []any{plainOf(e.Val)}})
		if err != nil {
			return nil, err
		}
		switch k := e.Key.(type) {
		case string:
			tests = append(tests, &hasTest{key: k, pred: p})
		case value.Enum:
			tests = append(tests, &hasTest{token: &k, pred: p})
		}
	}
	return r.bestLookup(kind, tests)
}
