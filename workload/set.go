package workload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/skerrydb/skerry/engine"
)

// Defaults of Set.
const (
	DefaultElementBytes = 100 // value of one element
	setBatch            = 4   // elements of a step that goes through UpdateEach
	setChunk            = 10000
)

// Set adds elements, each under a separate key, one by one and through UpdateEach. Its
// invariant is durability: at the end every acknowledged element is there with its whole
// value, and none that was refused or never tried. The changes contain each element once,
// at its position.
type Set struct {
	ElementBytes int     // 0: DefaultElementBytes
	Ledger       *Ledger // records elements; nil: a new one

	once   sync.Once
	start  engine.Position
	mu     sync.Mutex // guards recent
	recent [256]uint64
	acked  int
}

const (
	setPrefix = "w/set/"
	setKind   = 's'
)

// Name implements Workload.
func (s *Set) Name() string { return "set" }

// Needs implements Workload.
func (s *Set) Needs() engine.Promises { return engine.Promises{Ordered: true} }

func (s *Set) init() {
	s.once.Do(func() {
		if s.ElementBytes <= 0 {
			s.ElementBytes = DefaultElementBytes
		}
		if s.Ledger == nil {
			s.Ledger = NewLedger(0, nil)
		}
	})
}

// Setup implements Workload.
func (s *Set) Setup(ctx context.Context, eng engine.Engine) (err error) {
	s.init()
	s.acked = 0
	if s.start, err = wipe(ctx, eng, []byte(setPrefix)); err != nil {
		return err
	}
	return s.Ledger.wipe(setKind)
}

// Step implements Workload: of eight steps one reads, one adds a batch and six add one
// element.
func (s *Set) Step(ctx context.Context, eng engine.Engine, rng *rand.Rand) error {
	s.init()
	switch rng.IntN(8) {
	case 0:
		return s.readBack(ctx, eng, rng)
	case 1:
		return s.addBatch(ctx, eng)
	}
	it, err := s.next()
	if err != nil {
		return err
	}
	pos, err := eng.Update(ctx, func(tx engine.Tx) error {
		return tx.Put(elementKey(it.Writer), s.element(it.Writer))
	})
	return s.done(it, pos, err)
}

// addBatch adds setBatch elements, each in a separate transaction.
func (s *Set) addBatch(ctx context.Context, eng engine.Engine) error {
	var items [setBatch]Item
	for i := range items {
		var err error
		if items[i], err = s.next(); err != nil {
			return err
		}
	}
	var failed [setBatch]error
	last, err := engine.UpdateEach(ctx, eng, setBatch, func(tx engine.Tx, i int) error {
		failed[i] = tx.Put(elementKey(items[i].Writer), s.element(items[i].Writer))
		return failed[i]
	})
	var first error
	for i, it := range items {
		result, pos := failed[i], engine.Position(0)
		if err != nil {
			result = err
		}
		if i == setBatch-1 {
			pos = last
		}
		if derr := s.done(it, pos, result); first == nil {
			first = derr
		}
	}
	return first
}

func (s *Set) next() (Item, error) {
	it := Item{Kind: setKind, Writer: s.Ledger.nextID()}
	return it, s.Ledger.begin(it)
}

// done records the outcome of one element and returns the error of its call.
func (s *Set) done(it Item, pos engine.Position, result error) error {
	if err := s.Ledger.end(it, pos, result); err != nil {
		return err
	}
	if result == nil {
		s.mu.Lock()
		s.recent[s.acked%len(s.recent)] = it.Writer
		s.acked++
		s.mu.Unlock()
	}
	return result
}

// readBack checks that a recently acknowledged element is there.
func (s *Set) readBack(ctx context.Context, eng engine.Engine, rng *rand.Rand) error {
	s.mu.Lock()
	n := min(s.acked, len(s.recent))
	if n == 0 {
		s.mu.Unlock()
		return nil
	}
	id := s.recent[rng.IntN(n)]
	s.mu.Unlock()
	var bad error
	_, err := eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		v, ok, err := tx.Get(elementKey(id))
		bad = nil
		if err == nil && (!ok || !bytes.Equal(v, s.element(id))) {
			bad = violation(s.Name(), "element %d was acknowledged; a view has it: %t, value %q", id, ok, v)
		}
		return err
	})
	if err != nil {
		return err
	}
	return bad
}

// Check implements Workload.
func (s *Set) Check(ctx context.Context, eng engine.Engine) error {
	s.init()
	known := s.Ledger.of(setKind)
	found := map[Item]bool{}
	for lo := []byte(setPrefix); lo != nil; {
		var err error
		if lo, err = s.checkChunk(ctx, eng, lo, known, found); err != nil {
			return err
		}
	}
	for it, r := range known {
		if r.outcome == Acked && !found[it] {
			return violation(s.Name(), "element %d was acknowledged at position %d (0: unknown) and is missing", it.Writer, r.pos)
		}
	}
	if err := positionsInOrder(s.Name(), known); err != nil || !eng.Promises().Feed {
		return err
	}
	return s.checkFeed(ctx, eng, known, found)
}

// checkChunk checks up to setChunk elements from lo on and returns the key at which to
// continue, or nil at the end.
func (s *Set) checkChunk(ctx context.Context, eng engine.Engine, lo []byte, known map[Item]record, found map[Item]bool) (next []byte, err error) {
	_, err = eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		next = nil
		n := 0
		for p, err := range tx.Scan(lo, engine.PrefixEnd([]byte(setPrefix))) {
			if err != nil {
				return err
			}
			if n++; n > setChunk {
				next = bytes.Clone(p.Key)
				return nil
			}
			it, ok := elementItem(p.Key)
			r, tried := known[it]
			switch {
			case !ok || !tried:
				return violation(s.Name(), "element %q is there, but was never tried", p.Key)
			case r.outcome == Failed:
				return violation(s.Name(), "element %d is there, but was refused", it.Writer)
			case !bytes.Equal(p.Val, s.element(it.Writer)):
				return violation(s.Name(), "element %d has value %q", it.Writer, p.Val)
			}
			found[it] = true
		}
		return nil
	})
	return next, err
}

// checkFeed checks that the changes since Setup contain the elements that were found.
func (s *Set) checkFeed(ctx context.Context, eng engine.Engine, known map[Item]record, found map[Item]bool) error {
	at := map[Item]engine.Position{}
	err := history(ctx, eng, s.Name(), []byte("w/mark/set"), s.start, func(c engine.Change) error {
		for _, w := range c.Writes {
			it, ok := elementItem(w.Key)
			if !ok || w.Deleted {
				continue
			}
			if at[it] != 0 {
				return violation(s.Name(), "element %d is in changes %d and %d", it.Writer, at[it], c.Pos)
			}
			if !bytes.Equal(w.Val, s.element(it.Writer)) {
				return violation(s.Name(), "change %d sets element %d to %q", c.Pos, it.Writer, w.Val)
			}
			at[it] = c.Pos
		}
		return nil
	})
	if errors.Is(err, engine.ErrTruncated) {
		return nil // the elements themselves were checked
	}
	if err != nil {
		return err
	}
	for it, r := range known {
		switch {
		case r.pos != 0 && r.pos <= s.start: // from before the history that was read
		case r.pos != 0 && at[it] != r.pos:
			return violation(s.Name(), "element %d was acknowledged at position %d; the changes have it at %d (0: missing)", it.Writer, r.pos, at[it])
		case found[it] && at[it] == 0:
			return violation(s.Name(), "element %d is there, but in no change", it.Writer)
		case r.outcome == Failed && at[it] != 0:
			return violation(s.Name(), "element %d was refused, but is in change %d", it.Writer, at[it])
		}
	}
	return nil
}

// element returns the value of an element: its number, repeated.
func (s *Set) element(id uint64) []byte {
	one := binary.BigEndian.AppendUint64(nil, id)
	return bytes.Repeat(one, s.ElementBytes/8+1)[:s.ElementBytes]
}

func elementKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(setPrefix), id)
}

func elementItem(key []byte) (Item, bool) {
	id, ok := bytes.CutPrefix(key, []byte(setPrefix))
	if !ok || len(id) != 8 {
		return Item{}, false
	}
	return Item{Kind: setKind, Writer: binary.BigEndian.Uint64(id)}, true
}
