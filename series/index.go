package series

import (
	"cmp"
	"maps"
	"slices"
)

// hash is what the key of a series has of its labels.
type hash [16]byte

// index finds series by labels. Its memory is for each series one entry in the list of each of its labels, and
// its labels as numbers of texts. The head's mutex guards it.
type index struct {
	texts  []string                       // by number
	uses   []int32                        // of each text, by labels of series
	unused []uint32                       // numbers of texts that no series has any longer
	number map[string]uint32              // of a text
	ids    map[hash]uint32                // by labels
	values map[uint32]map[uint32][]uint32 // name → value → ids, ascending
}

func newIndex() index {
	return index{number: map[string]uint32{}, ids: map[hash]uint32{}, values: map[uint32]map[uint32][]uint32{}}
}

// intern returns the number of a text.
func (x *index) intern(b []byte) uint32 {
	if n, ok := x.number[string(b)]; ok {
		return n
	}
	s, n := string(b), uint32(len(x.texts))
	if last := len(x.unused) - 1; last >= 0 {
		n, x.unused = x.unused[last], x.unused[:last]
		x.texts[n] = s
	} else {
		x.texts, x.uses = append(x.texts, s), append(x.uses, 0)
	}
	x.number[s] = n
	return n
}

// release undoes one use of a text.
func (x *index) release(n uint32) {
	if x.uses[n]--; x.uses[n] > 0 {
		return
	}
	delete(x.number, x.texts[n])
	x.texts[n] = ""
	x.unused = append(x.unused, n)
}

// add adds a series, whose id is above all others, and returns its labels as numbers of texts: name, value, ….
func (x *index) add(id uint32, h hash, labels []byte) ([]uint32, bool) {
	var pairs []uint32
	ok := decodeLabels(labels, func(name, value []byte) {
		pairs = append(pairs, x.intern(name), x.intern(value))
	})
	if !ok {
		return nil, false
	}
	x.ids[h] = id
	for i := 0; i < len(pairs); i += 2 {
		values := x.values[pairs[i]]
		if values == nil {
			values = map[uint32][]uint32{}
			x.values[pairs[i]] = values
		}
		values[pairs[i+1]] = append(values[pairs[i+1]], id)
		x.uses[pairs[i]]++
		x.uses[pairs[i+1]]++
	}
	return slices.Clip(pairs), true
}

// remove removes series, ascending, from the lists of their labels, and the texts that no other series has. It makes new
// lists, since callers of find may still read the old ones.
func (x *index) remove(ids []uint32, pairs func(id uint32) []uint32) {
	lists := map[[2]uint32]struct{}{} // name, value
	for _, id := range ids {
		for p := pairs(id); len(p) > 0; p = p[2:] {
			lists[[2]uint32(p)] = struct{}{}
		}
	}
	for l := range lists {
		values := x.values[l[0]]
		if left := except(values[l[1]], ids); len(left) > 0 {
			values[l[1]] = left
		} else if delete(values, l[1]); len(values) == 0 {
			delete(x.values, l[0])
		}
	}
	for _, id := range ids {
		for _, n := range pairs(id) {
			x.release(n)
		}
	}
}

// sortIDs makes the ids ascending after series were added in any order.
func (x *index) sortIDs() {
	for _, values := range x.values {
		for _, ids := range values {
			slices.Sort(ids)
		}
	}
}

// labels returns the labels that add has returned as numbers.
func (x *index) labels(pairs []uint32) Labels {
	l := make(Labels, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		l = append(l, Label{x.texts[pairs[i]], x.texts[pairs[i+1]]})
	}
	return l
}

// find returns the ids of the series that match, ascending. All returns those of all series, and pairs what add returned
// for one. The result must not be modified.
func (x *index) find(match []Matcher, all func() []uint32, pairs func(id uint32) []uint32) []uint32 {
	var some [][]uint32 // to be in all of them
	var none [][]uint32 // to be in none of them
	var slow []Matcher  // for which list looks at every value
	add := func(m Matcher) {
		ids, without := x.list(m)
		if without {
			none = append(none, ids)
		} else {
			some = append(some, ids)
		}
	}
	for _, m := range match {
		if _, few := m.only(); few {
			add(m)
		} else {
			slow = append(slow, m)
		}
	}
	shorter := func(a, b []uint32) int { return cmp.Compare(len(a), len(b)) }
	var each []Matcher // of slow, those that are tried on the series that are left, since they are few
	for _, m := range slow {
		if len(some) > 0 && len(slices.MinFunc(some, shorter)) < 4*len(x.values[x.number[m.Name]]) {
			each = append(each, m)
		} else {
			add(m)
		}
	}
	slices.SortFunc(some, shorter)
	var result []uint32
	if len(some) == 0 {
		result = all()
	} else {
		result = some[0]
		for _, ids := range some[1:] {
			result = both(result, ids)
		}
	}
	for _, ids := range none {
		result = except(result, ids)
	}
	for _, m := range each {
		result = x.among(result, m, pairs)
	}
	return result
}

// among returns the ids whose series match.
func (x *index) among(ids []uint32, m Matcher, pairs func(id uint32) []uint32) []uint32 {
	name, known := x.number[m.Name]
	matched := map[string]bool{} // by value
	out := make([]uint32, 0, len(ids))
	for _, id := range ids {
		value := ""
		for p := pairs(id); known && len(p) > 0; p = p[2:] {
			if p[0] == name {
				value = x.texts[p[1]]
			}
		}
		is, seen := matched[value]
		if !seen {
			is = m.Matches(value)
			matched[value] = is
		}
		if is {
			out = append(out, id)
		}
	}
	return out
}

// list returns the ids of the series that m selects, or if without is set, those of all others.
func (x *index) list(m Matcher) (ids []uint32, without bool) {
	without = m.Matches("") // then those without the label match
	name, ok := x.number[m.Name]
	values := x.values[name]
	if !ok || len(values) == 0 {
		return nil, without
	}
	var lists [][]uint32
	if only, ok := m.only(); ok {
		for _, value := range only {
			if n, ok := x.number[value]; ok && len(values[n]) > 0 {
				lists = append(lists, values[n])
			}
		}
	} else {
		for n, ids := range values {
			if m.Matches(x.texts[n]) != without {
				lists = append(lists, ids)
			}
		}
	}
	return union(lists), without
}

// only returns the values that list has to look at, if they are few.
func (m Matcher) only() ([]string, bool) {
	switch {
	case m.Op == Equal && m.Value != "", m.Op == NotEqual && m.Value != "":
		return []string{m.Value}, true
	case m.set != nil && !slices.Contains(m.set, ""):
		return m.set, true
	}
	return nil, false
}

// union returns the ids that are in any of the lists, which have none in common.
func union(lists [][]uint32) []uint32 {
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	}
	n := 0
	for _, ids := range lists {
		n += len(ids)
	}
	all := make([]uint32, 0, n)
	for _, ids := range lists {
		all = append(all, ids...)
	}
	slices.Sort(all)
	return all
}

// both returns the ids that are in a and in b. a is the shorter one.
func both(a, b []uint32) []uint32 {
	out := make([]uint32, 0, len(a))
	if len(b) > 32*len(a) {
		for _, id := range a {
			i, found := slices.BinarySearch(b, id)
			if b = b[i:]; found {
				out = append(out, id)
			}
		}
		return out
	}
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			out = append(out, a[0])
			a, b = a[1:], b[1:]
		}
	}
	return out
}

// except returns the ids that are in a and not in b.
func except(a, b []uint32) []uint32 {
	if len(b) == 0 {
		return a
	}
	out := make([]uint32, 0, len(a))
	for _, id := range a {
		for len(b) > 0 && b[0] < id {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != id {
			out = append(out, id)
		}
	}
	return out
}

// names returns the names of labels, sorted.
func (x *index) names() []string {
	out := make([]string, 0, len(x.values))
	for n := range x.values {
		out = append(out, x.texts[n])
	}
	slices.Sort(out)
	return out
}

// valuesOf returns the values of a label, sorted.
func (x *index) valuesOf(name string) []string {
	n, ok := x.number[name]
	if !ok {
		return nil
	}
	out := make([]string, 0, len(x.values[n]))
	for v := range maps.Keys(x.values[n]) {
		out = append(out, x.texts[v])
	}
	slices.Sort(out)
	return out
}

// firstOf returns the first n of valuesOf, and whether there are more.
func (x *index) firstOf(name string, n int) (first []string, more bool) {
	at, ok := x.number[name]
	if !ok {
		return nil, false
	}
	for v := range x.values[at] {
		if first = append(first, x.texts[v]); len(first) == 2*n {
			slices.Sort(first)
			first = first[:n]
		}
	}
	slices.Sort(first)
	return first[:min(len(first), n)], len(x.values[at]) > n
}
