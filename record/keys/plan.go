package keys

import (
	"bytes"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// maxRanges is how many ranges of an index one search reads at most. With more values, records are tested instead.
const maxRanges = 64

// access is one way to the records of a search: all of them are in its ranges, or have one of its ids.
type access struct {
	parts  []*access // of a union, which has nothing of its own but the counts
	index  *Index    // nil: the documents, by id
	ids    []string
	byID   bool // by ids
	ranges []span
	back   bool     // ranges are read backward
	sorted bool     // each range has the order of the search
	whole  bool     // what is in the ranges are the records of the search, and no others
	used   []string // names of the bounds that the ranges have
	pins   []pin    // of a part of a union: values that its records have, by which the order of its ranges is that of the search

	count   int  // of records in the ranges, or a guess
	counted bool // count is no guess
	cost    int  // how many records will probably be read
	read    int  // how many were read
}

// pin is the only value that a field or column may have.
type pin struct {
	part  part
	value value.Value
}

// span is a range of keys: lo <= key < hi.
type span struct{ lo, hi []byte }

// accesses returns the ways to the records within some bounds that read one range of ids, some ids or one index. There is
// always one, unless the records are in partitions. bounded reports whether the bounds are all that is asked of a record.
func (s *Search) accesses(tx engine.Tx, c *Collection, b bounds, bounded bool) ([]*access, error) {
	if x := b["id"]; x != nil && x.equal {
		return []*access{byIDs(x.values)}, nil
	}
	all := []*access{s.documents(c, b)}
	if c.parted() {
		all = s.paths(c, b)
	}
	for i := range c.stored {
		if s.Past != nil || c.parted() {
			break
		}
		if a := s.entries(c, &c.stored[i], b); a != nil {
			all = append(all, a)
		}
	}
	for _, a := range all {
		if s.sizes != nil {
			a.count, a.counted = s.sizes(a, b, bounded), true
		} else if err := a.estimate(tx, b); err != nil {
			return nil, err
		}
		names := len(b)
		if b["is_deleted"] != nil && b["is_deleted"].equal && a.index != nil {
			names-- // entries are kept apart by it
		}
		a.whole = bounded && s.Past == nil && len(a.used) == names && (a.index != nil || s.Deleted == query.Both)
	}
	return all, nil
}

// rank sorts the ways to the records of a search, the best first.
func (s *Search) rank(all []*access) {
	least := all[0].count
	for _, a := range all {
		least = min(least, a.count)
	}
	for _, a := range all {
		a.cost = a.count
		if need := s.Offset + s.Limit + 1; a.sorted && !s.everything {
			if !a.whole {
				need = need * a.count / max(1, least) // as if the records were spread evenly
			}
			a.cost = min(a.count, need+len(a.parts))
		}
		if a.index != nil || a.parts != nil {
			a.cost += a.cost / 2 // entries are read besides documents
		}
	}
	slices.SortStableFunc(all, func(x, y *access) int { return x.cost - y.cost })
}

// estimate counts the records in the ranges, or guesses.
func (a *access) estimate(tx engine.Tx, b bounds) error {
	r, ok := tx.(engine.Ranker)
	if !ok {
		a.count = 100_000
		for _, name := range a.used {
			if b[name].equal {
				a.count = a.count / 100 * len(b[name].values)
			} else {
				a.count /= 4
			}
		}
		return nil
	}
	a.counted = true
	for _, x := range a.ranges {
		n, err := r.Count(x.lo, x.hi)
		if err != nil {
			return err
		}
		a.count += n
	}
	return nil
}

// byIDs returns the way to records with one of some ids.
func byIDs(values []value.Value) *access {
	a := &access{byID: true, used: []string{"id"}}
	for _, v := range values {
		if id, _ := v.Text(); CheckID(id) == nil {
			a.ids = append(a.ids, id)
		}
	}
	a.count, a.counted = len(a.ids), true
	return a
}

// documents returns the way that reads documents by id.
func (s *Search) documents(c *Collection, b bounds) *access {
	a := &access{}
	x := span{prefix(docKeys, c.ID), engine.PrefixEnd(prefix(docKeys, c.ID))}
	if r := b["id"]; r != nil {
		a.used = []string{"id"}
		if r.lo.set {
			x.lo = append(x.lo, r.lo.at.String()...)
			if r.lo.open {
				x.lo = append(x.lo, 0)
			}
		}
		if r.hi.set {
			x.hi = append(prefix(docKeys, c.ID), r.hi.at.String()...)
			if !r.hi.open {
				x.hi = append(x.hi, 0)
			}
		}
	}
	order := s.Orders[len(s.Orders)-1]
	for _, o := range s.Orders[:len(s.Orders)-1] {
		if _, ok := b.one(o.Name); !ok {
			a.add(x)
			return a
		}
	}
	a.sorted, a.back = true, order.Desc
	place := s.pinned(b)
	switch {
	case place > 0:
		return a // all records are before the page
	case place == 0 && s.After != nil:
		id := append(prefix(docKeys, c.ID), s.After[len(s.After)-1].String()...)
		switch {
		case !a.back && bytes.Compare(id, x.lo) >= 0:
			x.lo = append(id, 0)
		case a.back && bytes.Compare(id, x.hi) < 0:
			x.hi = id
		}
	}
	a.add(x)
	return a
}

// pinned compares the place where the page begins with the only values that the records have by which they are sorted
// before their id.
func (s *Search) pinned(b bounds) int {
	if s.After == nil {
		return 0
	}
	for i, o := range s.Orders[:len(s.Orders)-1] {
		pin, _ := b.one(o.Name)
		if c := value.Compare(s.After[i], pin); c != 0 {
			if o.Desc {
				return -c
			}
			return c
		}
	}
	return 0
}

// add adds a range unless it is empty.
func (a *access) add(x span) {
	if bytes.Compare(x.lo, x.hi) < 0 {
		a.ranges = append(a.ranges, x)
	}
}

// entries returns the way by an index, nil if that is of no use.
func (s *Search) entries(c *Collection, x *Index, b bounds) *access {
	if !x.Ready {
		return nil
	}
	a := &access{index: x}
	var starts []start
	for _, deleted := range b.keep(s.Deleted) {
		starts = append(starts, start{key: append(x.prefix(entryKeys, c.ID), deleted), row: map[string]value.Value{"is_deleted": value.OfBool(deleted == 1)}})
	}
	n := 0 // fields of the index that have one value in each range
	for ; n < len(x.parts); n++ {
		e := b[x.Fields[n].Name]
		if e == nil || !e.equal || len(starts)*len(e.values) > maxRanges {
			break
		}
		starts = extend(starts, x.parts[n].desc, x.Fields[n].Name, e.values)
		a.used = append(a.used, x.Fields[n].Name)
	}
	var r *bound
	if n < len(x.parts) {
		if r = b[x.Fields[n].Name]; r != nil && (r.equal || !r.lo.set && !r.hi.set) {
			r = nil
		}
	}
	if r != nil {
		a.used = append(a.used, x.Fields[n].Name)
	}
	t := s.track(x, n, b)
	if t == nil && len(a.used) == 0 {
		return nil
	}
	a.sorted = t != nil
	a.back = t != nil && t.back
	for _, from := range starts {
		key := span{from.key, engine.PrefixEnd(from.key)}
		if r != nil {
			key = r.keys(from.key, x.parts[n].desc)
		}
		if t != nil && s.After != nil {
			key = t.seek(key, from, s.After)
		}
		a.add(key)
	}
	return a
}

// start is the beginning of the keys of a range, and the values that all records in it have.
type start struct {
	key []byte
	row map[string]value.Value
}

// extend appends each of values to each of the keys.
func extend(starts []start, desc bool, name string, values []value.Value) (all []start) {
	for _, s := range starts {
		for _, v := range values {
			row := map[string]value.Value{name: v}
			for n, v := range s.row {
				row[n] = v
			}
			all = append(all, start{appendPart(slices.Clip(s.key), v, desc), row})
		}
	}
	return all
}

// keys returns the keys that begin with key and whose next value is within the ends.
func (b *bound) keys(key []byte, desc bool) span {
	key = slices.Clip(key)
	first, last := b.lo, b.hi
	if desc {
		first, last = last, first
	}
	null := appendPart(key, value.Value{}, desc)
	x := span{engine.PrefixEnd(null), engine.PrefixEnd(key)}
	if desc {
		x = span{key, null} // null is the last
	}
	if first.set {
		x.lo = appendPart(key, first.at, desc)
		if first.open {
			x.lo = engine.PrefixEnd(x.lo)
		}
	}
	if last.set {
		x.hi = appendPart(key, last.at, desc)
		if !last.open {
			x.hi = engine.PrefixEnd(x.hi)
		}
	}
	return x
}

// track is how the order of a search and that of the entries in a range of an index agree.
type track struct {
	index *Index
	back  bool
	steps []trackStep
}

// trackStep is a field of the index, an order of the search, or both.
type trackStep struct {
	part  int // -1: none; len(parts): the id
	order int // -1: none
	by    query.Order
	pin   value.Value // the value that all records have, if they have one
}

// track returns how the order of the search agrees with that of the index, of which the first n fields have one value
// in each range; nil if it does not.
func (s *Search) track(x *Index, n int, b bounds) *track {
	t := &track{index: x}
	turned := false // back is known
	turn := func(desc, order bool) bool {
		if !turned {
			turned, t.back = true, desc != order
		}
		return t.back == (desc != order)
	}
	part := n
	for i, o := range s.Orders {
		// A field that has one value, in all records or in each range, is no order.
		pin, one := b.one(o.Name)
		if one || slices.ContainsFunc(x.Fields[:n], func(f schema.IndexField) bool { return f.Name == o.Name }) {
			t.steps = append(t.steps, trackStep{-1, i, o, pin})
			continue
		}
		for part < len(x.parts) && x.Fields[part].Name != o.Name {
			v, ok := b.one(x.Fields[part].Name)
			if !ok {
				return nil
			}
			t.steps = append(t.steps, trackStep{part, -1, query.Order{}, v})
			part++
		}
		desc := x.descending()
		if part < len(x.parts) {
			desc = x.parts[part].desc
		} else if o.Name != "id" {
			return nil
		}
		if !turn(desc, o.Desc) {
			return nil
		}
		t.steps = append(t.steps, trackStep{part, i, o, value.Value{}})
		part++
	}
	return t
}

// seek narrows the keys of a range, which begin as from, to those after the record with a key of the search's order.
func (t *track) seek(x span, from start, after []value.Value) span {
	key := slices.Clip(from.key)
	for _, s := range t.steps {
		switch {
		case s.part < 0:
			v, ok := from.row[s.by.Name]
			if !ok {
				v = s.pin
			}
			if c := value.Compare(v, after[s.order]); c != 0 {
				return t.cut(x, key, engine.PrefixEnd(key), c < 0 != s.by.Desc)
			}
		case s.part == len(t.index.parts):
			key = t.index.appendEntryID(key, after[s.order].String())
		case s.order < 0:
			key = appendPart(key, s.pin, t.index.parts[s.part].desc)
		default:
			key = appendPart(key, after[s.order], t.index.parts[s.part].desc)
		}
	}
	return t.cut(x, key, append(slices.Clip(key), 0), true)
}

// cut narrows x to what follows the keys from lo to hi, and to these if they are not past, in the order of the search.
func (t *track) cut(x span, lo, hi []byte, past bool) span {
	switch {
	case t.back && past:
		hi = lo
		fallthrough
	case t.back:
		if bytes.Compare(hi, x.hi) < 0 {
			x.hi = hi
		}
	default:
		if past {
			lo = hi
		}
		if bytes.Compare(lo, x.lo) > 0 {
			x.lo = lo
		}
	}
	return x
}
