package enginetest

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// model is the expected data of an engine.
type model map[string]string

// pairs returns the model's pairs with lo <= key < hi in order. A nil hi means no bound.
func (m model) pairs(lo, hi []byte) []engine.Pair {
	var out []engine.Pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k >= string(lo) && (hi == nil || k < string(hi)) {
			out = append(out, engine.Pair{Key: []byte(k), Val: []byte(m[k])})
		}
	}
	return out
}

// checkScan compares both scans of one range with the model.
func (m model) checkScan(tx engine.Tx, lo, hi []byte) error {
	want := m.pairs(lo, hi)
	if err := samePairs(tx.Scan(lo, hi), want); err != nil {
		return fmt.Errorf("scan %s: %w", bounds(lo, hi), err)
	}
	slices.Reverse(want)
	if err := samePairs(tx.ScanBack(lo, hi), want); err != nil {
		return fmt.Errorf("scan back %s: %w", bounds(lo, hi), err)
	}
	return nil
}

// check compares everything that the transaction sees with the model.
func (m model) check(tx engine.Tx) error {
	for k, v := range m {
		if err := hasAll(tx, k, v); err != nil {
			return err
		}
	}
	return m.checkScan(tx, nil, nil)
}

func samePairs(got iter.Seq2[engine.Pair, error], want []engine.Pair) error {
	i := 0
	for p, err := range got {
		if err != nil {
			return err
		}
		if i == len(want) {
			return fmt.Errorf("yields %q after the last of %d pairs", short(string(p.Key)), i)
		}
		if !bytes.Equal(p.Key, want[i].Key) || !bytes.Equal(p.Val, want[i].Val) {
			return fmt.Errorf("pair %d is %q = %q; want %q = %q", i, short(string(p.Key)), short(string(p.Val)),
				short(string(want[i].Key)), short(string(want[i].Val)))
		}
		i++
	}
	if i != len(want) {
		return fmt.Errorf("yields %d pairs; want %d, the next is %q", i, len(want), short(string(want[i].Key)))
	}
	return nil
}

func bounds(lo, hi []byte) string {
	text := func(b []byte) string {
		if b == nil {
			return "nil"
		}
		return fmt.Sprintf("%q", short(string(b)))
	}
	return "[" + text(lo) + ", " + text(hi) + ")"
}

// randomKey returns one of a few keys that are prefixes and neighbours of each other.
func randomKey(rng *rand.Rand) string {
	const letters = "\x00a\x7f\x80\xff"
	key := make([]byte, 1+rng.IntN(3))
	for i := range key {
		key[i] = letters[rng.IntN(len(letters))]
	}
	return string(key)
}

// randomBound returns a bound of any kind: nil, empty, a key or after all keys.
func randomBound(rng *rand.Rand) []byte {
	switch rng.IntN(6) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return []byte("\xff\xff\xff\xff\xff")
	}
	return []byte(randomKey(rng))
}

// op is one step of a random transaction.
type op struct {
	kind     opKind
	key, val string
	lo, hi   []byte
}

type opKind int

const (
	opPut opKind = iota
	opDelete
	opGet
	opScan
)

// randomOps returns a transaction's steps: mostly writes.
func randomOps(rng *rand.Rand, n int) []op {
	ops := make([]op, n)
	for i := range ops {
		kind := []opKind{opPut, opPut, opPut, opPut, opDelete, opDelete, opGet, opScan}[rng.IntN(8)]
		ops[i] = op{
			kind: kind, key: randomKey(rng), val: fmt.Sprint(rng.IntN(1000)),
			lo: randomBound(rng), hi: randomBound(rng),
		}
	}
	return ops
}

// apply runs ops on tx and returns the expected model after them. It does not change m.
func (m model) apply(tx engine.Tx, ops []op) (model, error) {
	now := maps.Clone(m)
	for i, o := range ops {
		var err error
		switch o.kind {
		case opPut:
			now[o.key] = o.val
			err = tx.Put([]byte(o.key), []byte(o.val))
		case opDelete:
			delete(now, o.key)
			err = tx.Delete([]byte(o.key))
		case opGet:
			if v, ok := now[o.key]; ok {
				err = hasAll(tx, o.key, v)
			} else {
				err = lacksAll(tx, o.key)
			}
		case opScan:
			err = now.checkScan(tx, o.lo, o.hi)
		}
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return now, nil
}
