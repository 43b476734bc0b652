package graph

import (
	"bytes"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// Bound is one end of a range of values.
type Bound struct {
	Val  any
	Open bool // Val itself is outside; it may be found all the same
}

// Lookup calls yield with the elements of an index whose first properties have the
// values equal, and whose next one is between lo and hi, which may be nil, until
// yield returns an error, which it returns. With one bound only values of its type
// are found, and with two of different types none. It may find more than that: see
// AppendIndexKey. It finds each element once. It returns false, having found nothing,
// if one of the values is in no index, or if the index is Filling.
//
// yield may write. Elements that it adds are not found; one that it changes, so that
// it gets into the range, may be.
func (t *Tx) Lookup(ix *Index, equal []any, lo, hi *Bound, yield func(value.Stored) error) (bool, error) {
	if given := len(equal); given > len(ix.keys) || given == len(ix.keys) && (lo != nil || hi != nil) {
		return false, engine.Errorf(engine.CodeInvalid, "an index of %d keys cannot be asked for more", len(ix.keys))
	}
	from, to, ok := ix.bounds(t, equal, lo, hi)
	if !ok || ix.Filling {
		return false, nil
	}
	if from == nil {
		return true, nil
	}
	start, err := t.now()
	if err != nil {
		return true, err
	}
	if _, err := t.leavers(); err != nil {
		return true, err
	}
	l := &lookup{t: t, ix: ix, from: from, start: start, once: len(equal) == len(ix.keys)}
	if !l.once && t.writes {
		l.seen = map[uint64]bool{}
	}
	return true, t.pages(from, to, l.take, func() error { return l.flush(yield) })
}

// bounds returns the range of the entries that are asked for; nil: there are none. It
// reports false if one of the values is in no index.
func (ix *Index) bounds(t *Tx, equal []any, lo, hi *Bound) (from, to []byte, ok bool) {
	prefix := t.key(roomEntries, ix.num)
	for _, v := range equal {
		if prefix, ok = AppendIndexKey(prefix, v); !ok {
			return nil, nil, false
		}
	}
	from, to = within(prefix)
	at := len(prefix)
	if lo != nil {
		if from, ok = AppendIndexKey(slices.Clone(prefix), lo.Val); !ok {
			return nil, nil, false
		}
		to = append(slices.Clone(prefix), from[at]+1) // only values of the same type can be compared
	}
	if hi != nil {
		key, ok := AppendIndexKey(slices.Clone(prefix), hi.Val)
		if !ok {
			return nil, nil, false
		}
		if lo != nil && from[at] != key[at] {
			return nil, nil, true
		}
		if to = engine.PrefixEnd(key); lo == nil {
			from = append(slices.Clone(prefix), key[at])
		}
	}
	if bytes.Compare(from, to) >= 0 {
		return nil, nil, true
	}
	return from, to, true
}

// lookup is a call of Lookup.
type lookup struct {
	t     *Tx
	ix    *Index
	from  []byte
	start moment
	once  bool            // an element has only one entry in the range
	seen  map[uint64]bool // in an Update; nil: not needed
	page  []entry
}

func (l *lookup) take(p engine.Pair) error {
	e, err := l.t.entry(l.ix, p.Key)
	if err != nil {
		return err
	}
	if e.hidden(l.t, l.ix) {
		return nil
	}
	if l.once || l.t.writes || l.ix.On == value.KindEdge { // an edge has one value of each key
		e.key = nil
	} else {
		e.key = slices.Clone(e.key)
	}
	l.page = append(l.page, e)
	return nil
}

func (l *lookup) flush(yield func(value.Stored) error) error {
	page := l.page
	l.page = nil
	before := l.t.version
	for i := range page {
		e := &page[i]
		s := e.element(l.t, l.ix)
		ok, err := l.isNew(e, s)
		if ok && err == nil && l.t.version != before {
			ok, err = s.(interface{ Exists() (bool, error) }).Exists()
		}
		if err == nil && ok {
			err = yield(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isNew reports whether the element was there at the start and was not found before.
func (l *lookup) isNew(e *entry, s value.Stored) (bool, error) {
	num := e.at[0]
	if l.ix.On == value.KindEdge {
		num = e.at[3]
		if !l.start.hasEdge(num) {
			return false, nil
		}
	} else if !l.t.hasVertex(l.start, num) {
		return false, nil
	}
	if l.seen != nil {
		was := l.seen[num]
		l.seen[num] = true
		return !was, nil
	}
	if e.key == nil {
		return true, nil
	}
	v := s.(*Vertex)
	rec, err := v.decode() // reads what the caller probably asks for next
	if err != nil {
		return false, err
	}
	keys, err := l.ix.entries(l.t, rec.labels, rec.values)
	if err != nil || len(keys) == 1 {
		return err == nil, err
	}
	i, _ := slices.BinarySearchFunc(keys, l.from, bytes.Compare)
	return i < len(keys) && bytes.Equal(keys[i], e.key), nil
}
