package history

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// partition is a set of keys that no operation connects with others, and the operations on
// them. It is one object in the sense of the theory: a history is strictly serialisable
// if that of every partition is.
type partition struct {
	keys []string // ascending
	ops  []*Op
}

// forest is a union-find structure of keys.
type forest struct {
	number map[string]int
	keys   []string
	up     []int
}

func (f *forest) key(k string) int {
	n, ok := f.number[k]
	if !ok {
		n = len(f.keys)
		f.number[k] = n
		f.keys = append(f.keys, k)
		f.up = append(f.up, n)
	}
	return n
}

func (f *forest) root(n int) int {
	for f.up[n] != n {
		f.up[n] = f.up[f.up[n]]
		n = f.up[n]
	}
	return n
}

func (f *forest) join(a, b int) { f.up[f.root(a)] = f.root(b) }

// counts reports whether an operation matters: failed operations and reads without a
// result do not.
func (o *Op) counts() bool {
	return o.Outcome == OK || o.Outcome == Unknown && !o.readOnly()
}

// partitions splits a history into partitions, the smallest first.
func partitions(ops []Op) []*partition {
	f := &forest{number: map[string]int{}}
	for i := range ops {
		if ops[i].counts() {
			f.joinNamed(&ops[i])
		}
	}
	f.joinScans(ops)
	byRoot := map[int]*partition{}
	var all []*partition
	for i := range ops {
		o := &ops[i]
		if !o.counts() {
			continue
		}
		k, ok := f.first(o)
		if !ok {
			continue
		}
		p := byRoot[f.root(k)]
		if p == nil {
			p = &partition{}
			byRoot[f.root(k)] = p
			all = append(all, p)
		}
		p.ops = append(p.ops, o)
	}
	for n, k := range f.keys {
		if p := byRoot[f.root(n)]; p != nil {
			p.keys = append(p.keys, k)
		}
	}
	for _, p := range all {
		slices.Sort(p.keys)
	}
	slices.SortStableFunc(all, func(a, b *partition) int { return cmp.Compare(len(a.ops), len(b.ops)) })
	return all
}

// named calls fn with every key that a step names, or found.
func (s *Step) named(fn func(key string)) {
	switch s.Kind {
	case MGet:
		for _, k := range s.Keys {
			fn(k)
		}
	case MSet, Scan:
		for _, p := range s.Pairs {
			fn(p.Key)
		}
	case Transfer:
		fn(s.Key)
		fn(s.To)
	default:
		fn(s.Key)
	}
}

func (f *forest) joinNamed(o *Op) {
	first := -1
	add := func(key string) {
		n := f.key(key)
		if first < 0 {
			first = n
		}
		f.join(n, first)
	}
	if o.Kind != Txn {
		o.Step.named(add)
		return
	}
	for i := range o.Steps {
		o.Steps[i].named(add)
	}
}

// joinScans joins all keys that a scan could see, because it shows that those it did not
// find were absent.
func (f *forest) joinScans(ops []Op) {
	var sorted []int // of forest's numbers, by key
	seen := map[string]bool{}
	for i := range ops {
		if !ops[i].counts() {
			continue
		}
		for _, s := range ops[i].all() {
			if s.Kind != Scan {
				continue
			}
			if sorted == nil {
				for n := range f.keys {
					sorted = append(sorted, n)
				}
				slices.SortFunc(sorted, func(a, b int) int { return cmp.Compare(f.keys[a], f.keys[b]) })
			}
			first, ok := f.underPrefix(sorted, s.Prefix, !seen[s.Prefix])
			seen[s.Prefix] = true
			if other, named := f.firstNamed(&ops[i]); ok && named {
				f.join(first, other)
			}
			// The scans of one transaction join what they see.
			for _, t := range ops[i].all() {
				if t.Kind != Scan || !ok {
					continue
				}
				if n, ok := f.underPrefix(sorted, t.Prefix, false); ok {
					f.join(first, n)
				}
			}
		}
	}
}

// underPrefix returns the first key with a prefix. If all is set, it joins all keys with
// that prefix.
func (f *forest) underPrefix(sorted []int, prefix string, all bool) (int, bool) {
	i := sort.Search(len(sorted), func(i int) bool { return f.keys[sorted[i]] >= prefix })
	if i == len(sorted) || !strings.HasPrefix(f.keys[sorted[i]], prefix) {
		return 0, false
	}
	for j := i + 1; all && j < len(sorted) && strings.HasPrefix(f.keys[sorted[j]], prefix); j++ {
		f.join(sorted[i], sorted[j])
	}
	return sorted[i], true
}

func (f *forest) firstNamed(o *Op) (n int, ok bool) {
	for _, s := range o.all() {
		s.named(func(key string) {
			if !ok {
				n, ok = f.number[key], true
			}
		})
	}
	return n, ok
}

// first returns a key of the operation's partition, if the operation has any key.
func (f *forest) first(o *Op) (int, bool) {
	if n, ok := f.firstNamed(o); ok {
		return n, true
	}
	for _, s := range o.all() {
		if s.Kind != Scan {
			continue
		}
		for n, k := range f.keys {
			if strings.HasPrefix(k, s.Prefix) {
				return n, true
			}
		}
	}
	return 0, false
}
