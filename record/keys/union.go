package keys

import (
	"iter"
	"slices"

	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Limits of unions. Conditions that would exceed them are tested against records that are found in another way.
const (
	maxBranches = 16 // of one union
	maxPlanned  = 64 // alternatives that are looked at for one search
)

// Branch is how the records of one part of a union were found, as in Plan.
type Branch struct {
	Access   string   `json:"access"`
	Index    string   `json:"index,omitempty"`
	Bounds   []string `json:"bounds,omitempty"`
	Ranges   int      `json:"ranges,omitempty"`
	Backward bool     `json:"backward,omitempty"`
	Expected int      `json:"expected"`
	Read     int      `json:"read"`
}

// union is a union while it is planned: the ways to the records of each alternative.
type union struct {
	*search
	ordered []*access // those that have their records in the order of the search; nil among them: there is none
	fewest  []*access // those with the fewest records
	planned *int      // alternatives that were looked at, for all unions of the search
}

// unions returns a way for each disjunction that all records of the search must meet: it reads what meets the first
// alternative, then what meets the second, and so on, or merges these if all are in the order of the search. A disjunction
// with an alternative that no index and no id helps with has none. bounds are those of all conditions. never reports that no
// record meets any alternative.
func (f *search) unions(bounds []query.Bound) (ways []*access, never bool, err error) {
	var conds []*query.Cond
	for _, t := range f.Tests {
		conds = t.Cond.Conjuncts(conds)
	}
	planned := 0
	for i, c := range conds {
		all := c.Alternatives(nil)
		if len(all) == 0 || len(c.Bounds(f.c.Compiled)) > 0 {
			continue
		}
		bounded := true
		for j, other := range conds {
			bounded = bounded && (i == j || other.Bounded(f.c.Compiled))
		}
		u := &union{search: f, planned: &planned}
		ok, err := u.addAll(all, bounds, bounded)
		if err != nil {
			return nil, false, err
		}
		switch {
		case ok && len(u.fewest) == 0:
			return nil, true, nil
		case ok:
			ways = append(ways, u.ways()...)
		}
	}
	return ways, false, nil
}

// addAll adds ways to the records of some alternatives. It returns false if one of them has none.
func (u *union) addAll(alternatives []*query.Cond, outer []query.Bound, bounded bool) (bool, error) {
	for _, c := range alternatives {
		if ok, err := u.add(c, outer, bounded); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// add adds the ways to the records of one alternative, which are also within the outer bounds. If no index helps with it,
// but it has alternatives itself, it adds those.
func (u *union) add(c *query.Cond, outer []query.Bound, bounded bool) (bool, error) {
	if *u.planned++; *u.planned > maxPlanned || len(u.fewest) == maxBranches {
		return false, nil
	}
	all := append(slices.Clip(outer), c.Bounds(u.c.Compiled)...)
	b, never := boundsOf(all)
	if never {
		return true, nil
	}
	ways, err := u.accesses(u.tx, u.c, b, bounded && c.Bounded(u.c.Compiled))
	if err != nil {
		return false, err
	}
	var ordered, fewest *access
	for _, a := range ways {
		if len(a.used) == 0 {
			continue // it reads everything
		}
		if (a.sorted || a.byID) && (ordered == nil || a.count < ordered.count) {
			ordered = a
		}
		if fewest == nil || a.count < fewest.count {
			fewest = a
		}
	}
	if fewest != nil {
		if ordered != nil {
			ordered.pins = b.pins(u.c)
		}
		u.ordered, u.fewest = append(u.ordered, ordered), append(u.fewest, fewest)
		return true, nil
	}
	parts := c.Conjuncts(nil)
	for i, p := range parts {
		inner := p.Alternatives(nil)
		if len(inner) == 0 {
			continue
		}
		rest := bounded
		for j, other := range parts {
			rest = rest && (i == j || other.Bounded(u.c.Compiled))
		}
		before := len(u.fewest)
		if ok, err := u.addAll(inner, all, rest); ok || err != nil {
			return ok, err
		}
		u.ordered, u.fewest = u.ordered[:before], u.fewest[:before]
	}
	if u.lacking == nil {
		u.lacking = u.c.lacks(u.wanted(b, false))
	}
	return false, nil
}

// lacks returns the fields of an index that would help, nil if the collection has it.
func (c *Collection) lacks(fields []schema.IndexField) []schema.IndexField {
	for i := range c.stored {
		if x := c.stored[i].Fields; c.stored[i].Ready && len(x) >= len(fields) && slices.Equal(x[:len(fields)], fields) {
			return nil
		}
	}
	return fields
}

// ways returns the union that merges, if there is one, and the one that reads the fewest records.
func (u *union) ways() (all []*access) {
	heads := 0
	for _, a := range u.ordered {
		if a == nil {
			heads = maxRanges + 1
			break
		}
		heads += len(a.ranges) + len(a.ids)
	}
	if heads <= maxRanges {
		all = append(all, unite(u.ordered, true))
	}
	if len(all) == 0 || !slices.Equal(u.ordered, u.fewest) {
		all = append(all, unite(u.fewest, false))
	}
	return all
}

func unite(parts []*access, sorted bool) *access {
	a := &access{parts: parts, sorted: sorted, whole: true, counted: true}
	for _, p := range parts {
		a.count += p.count
		a.whole = a.whole && p.whole
		a.counted = a.counted && p.counted
	}
	return a
}

// begin prepares for reading by a way.
func (f *search) begin(a *access) {
	f.read, f.met, a.read, f.seen = 0, 0, 0, nil
	for _, p := range a.parts {
		p.read = 0
	}
	if a.parts != nil {
		f.seen = map[string]bool{}
	}
}

// streams appends the records of each range and id of a way, each stream in the order of the search.
func (f *search) streams(dst []iter.Seq2[*Doc, error], a *access) []iter.Seq2[*Doc, error] {
	for _, p := range a.parts {
		dst = f.streams(dst, p)
	}
	for _, id := range a.ids {
		dst = append(dst, f.withIDs(a, id))
	}
	for _, x := range a.ranges {
		dst = append(dst, f.within(a, x))
	}
	return dst
}

// withIDs yields the records of the search with some ids.
func (f *search) withIDs(a *access, ids ...string) iter.Seq2[*Doc, error] {
	return func(yield func(*Doc, error) bool) {
		for _, id := range ids {
			d, err := f.get(a, id)
			if (d != nil || err != nil) && !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// get returns the record with an id; nil if it is not of the search.
func (f *search) get(a *access, id string) (*Doc, error) {
	if f.read == f.budget {
		return nil, errBudget
	}
	f.read++
	a.read++
	if f.seen[id] {
		return nil, nil
	}
	d, err := Get(f.tx, f.c, id)
	if d == nil || err != nil {
		return nil, err
	}
	return f.meets(a, d)
}

// meets returns d if it is a record of the search that no part of a union has come to before. A record without the values
// that a part relies on is left to another part: here it would be out of order.
func (f *search) meets(a *access, d *Doc) (*Doc, error) {
	for _, p := range a.pins {
		if value.Compare(p.part.of(d), p.value) != 0 {
			return nil, nil
		}
	}
	if f.seen != nil {
		f.seen[d.ID] = true
	}
	d, err := f.Meets(d)
	if d != nil {
		f.met++
	}
	return d, err
}

// branches returns how the records of the parts of a union were found.
func (f *search) branches(a *access) (all []Branch) {
	for _, p := range a.parts {
		b := Branch{Access: "documents", Bounds: p.used, Ranges: len(p.ranges), Backward: p.back && a.sorted && !f.everything, Expected: p.count, Read: p.read}
		switch {
		case p.byID:
			b.Access = "id"
		case p.index != nil:
			b.Access, b.Index = "index", p.index.Name
		}
		all = append(all, b)
	}
	return all
}
