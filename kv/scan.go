package kv

import (
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// Scan yields the live items with lo <= key < hi in ascending byte order. A nil hi means up
// to the end of the space. The transaction must not write during the scan. If there is an
// error, it is the last value. In a transaction of a Store, a scan ends with the error of the
// call's context soon after that is done.
func (t *Tx) Scan(lo, hi []byte) iter.Seq2[Item, error] {
	from, to := t.bounds(lo, hi)
	return t.scan(t.records(from, to, false))
}

// ScanBack yields the items that Scan yields, in descending byte order.
func (t *Tx) ScanBack(lo, hi []byte) iter.Seq2[Item, error] {
	from, to := t.bounds(lo, hi)
	return t.scan(t.records(from, to, true))
}

// ScanPrefix yields the live items whose keys begin with p, as Scan does.
func (t *Tx) ScanPrefix(p []byte) iter.Seq2[Item, error] {
	from, to := t.prefixBounds(p)
	return t.scan(t.records(from, to, false))
}

// ScanPrefixBack yields the items that ScanPrefix yields, in descending byte order.
func (t *Tx) ScanPrefixBack(p []byte) iter.Seq2[Item, error] {
	from, to := t.prefixBounds(p)
	return t.scan(t.records(from, to, true))
}

// scan yields the live items of records.
func (t *Tx) scan(records iter.Seq2[stored, error]) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for rec, err := range records {
			if err != nil {
				yield(Item{}, err)
				return
			}
			if t.live(&rec.record) && !yield(Item{Key: rec.key, Entry: rec.entry()}, nil) {
				return
			}
		}
	}
}

// stored is a record with its key; key aliases the engine's memory.
type stored struct {
	key []byte
	record
}

// scanChecks is after how many records a scan looks whether the call that it is for has been given up.
const scanChecks = 256

// records yields all records between two data keys, live or not, in ascending order or, if
// back is set, in descending order.
func (t *Tx) records(from, to []byte, back bool) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		if err := t.scannable(); err != nil {
			yield(stored{}, err)
			return
		}
		scan := engine.Tx.Scan
		if back {
			scan = engine.Tx.ScanBack
		}
		n := 0
		for p, err := range scan(t.tx, from, to) {
			if n++; err == nil && n%scanChecks == 0 && t.ctx != nil {
				err = t.ctx.Err()
			}
			if err != nil {
				yield(stored{}, err)
				return
			}
			it := stored{key: p.Key[2:]}
			if err = it.parse(p.Val); !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// scannable returns the reason why t cannot scan, or nil.
func (t *Tx) scannable() error {
	if t.broken != nil {
		return t.broken
	}
	return t.plain.lacks
}

// Count returns the number of keys in the space. It may include expired keys that have not
// been deleted yet.
func (t *Tx) Count() (int, error) {
	from, to := t.bounds(nil, nil)
	if r, ok := t.tx.(engine.Ranker); ok && t.scannable() == nil {
		return r.Count(from, to)
	}
	n := 0
	for _, err := range t.records(from, to, false) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// At returns the item at index i among the keys that Count counts. It returns false if
// there is none or if it has expired; a caller that wants any key then tries another i.
func (t *Tx) At(i int) (Item, bool, error) {
	from, to := t.bounds(nil, nil)
	if i < 0 {
		return Item{}, false, nil
	}
	if r, ok := t.tx.(engine.Ranker); ok && t.scannable() == nil {
		p, ok, err := r.At(from, to, i)
		if err != nil || !ok {
			return Item{}, false, err
		}
		var rec record
		if err := rec.parse(p.Val); err != nil || !t.live(&rec) {
			return Item{}, false, err
		}
		return Item{Key: p.Key[2:], Entry: rec.entry()}, true, nil
	}
	for rec, err := range t.records(from, to, false) {
		if err != nil {
			return Item{}, false, err
		}
		if i > 0 {
			i--
			continue
		}
		if !t.live(&rec.record) {
			return Item{}, false, nil
		}
		return Item{Key: rec.key, Entry: rec.entry()}, true, nil
	}
	return Item{}, false, nil
}

// bounds returns the engine keys for a range of t's space. They are freshly allocated, so
// the scan may keep them while the transaction's buffers are reused.
func (t *Tx) bounds(lo, hi []byte) (from, to []byte) {
	from = appendDataKey(nil, t.space, lo)
	if hi == nil {
		return from, spaceEnd(t.space)
	}
	return from, appendDataKey(nil, t.space, hi)
}

func (t *Tx) prefixBounds(p []byte) (from, to []byte) {
	return t.bounds(p, engine.PrefixEnd(p))
}
