package feed

import (
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// index finds the subscriptions whose filter matches a key. It needs one map lookup for
// each length of prefix in use, however many subscriptions there are.
type index struct {
	byPrefix map[string]map[*Sub]struct{}
	lens     []int       // lengths of prefixes in use, ascending
	uses     map[int]int // number of different prefixes of each length
}

func newIndex() index {
	return index{byPrefix: map[string]map[*Sub]struct{}{}, uses: map[int]int{}}
}

func (x *index) add(s *Sub) {
	for _, p := range s.prefixes {
		set := x.byPrefix[p]
		if set == nil {
			set = map[*Sub]struct{}{}
			x.byPrefix[p] = set
			if x.uses[len(p)]++; x.uses[len(p)] == 1 {
				i, _ := slices.BinarySearch(x.lens, len(p))
				x.lens = slices.Insert(x.lens, i, len(p))
			}
		}
		set[s] = struct{}{}
	}
}

func (x *index) remove(s *Sub) {
	for _, p := range s.prefixes {
		set := x.byPrefix[p]
		if _, ok := set[s]; !ok {
			continue
		}
		if delete(set, s); len(set) > 0 {
			continue
		}
		delete(x.byPrefix, p)
		if x.uses[len(p)]--; x.uses[len(p)] == 0 {
			delete(x.uses, len(p))
			i, _ := slices.BinarySearch(x.lens, len(p))
			x.lens = slices.Delete(x.lens, i, i+1)
		}
	}
}

// match appends each subscription whose filter c matches to subs, once, and stores the
// indices of the matching writes in its picked.
func (x *index) match(c engine.Change, subs []*Sub) []*Sub {
	for i, w := range c.Writes {
		for _, n := range x.lens {
			if n > len(w.Key) {
				break
			}
			for s := range x.byPrefix[string(w.Key[:n])] {
				if len(s.picked) == 0 {
					subs = append(subs, s)
				}
				s.picked = append(s.picked, i) // once: no two prefixes of s match one key
			}
		}
	}
	return subs
}
