package optimistic

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"iter"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/overlay"
)

// sum identifies the contents of a key or a range.
type sum [16]byte

// state is what a transaction has done so far.
type state struct {
	writes *btree.Pairs // marked: deleted
	keys   map[string]sum
	ranges []span
	bytes  int
	most   int
}

// span is a range that was read, with the sum of its pairs in that order.
type span struct {
	lo, hi []byte // hi is nil: no upper bound
	back   bool
	sum    sum
}

func newState(most int) *state {
	return &state{writes: btree.NewPairs(), keys: map[string]sum{}, most: most}
}

// absent is the sum of a key that is not there.
var absent = sum{}

func sumOf(val []byte, ok bool) sum {
	if !ok {
		return absent
	}
	s := sha256.Sum256(val)
	return sum(s[:16])
}

// keep counts n more bytes.
func (s *state) keep(n int) error {
	if s.bytes += n; s.bytes > s.most {
		return engine.Errorf(engine.CodeTxTooLarge, "the transaction keeps more than %d bytes of what it reads and writes (MaxBytes); use several", s.most)
	}
	return nil
}

// run runs fn over a snapshot. If it fails, panics or ends its goroutine, its writes
// are undone; what it read counts, and their bytes stay counted too.
func (s *state) run(snapshot engine.Tx, fn func(engine.Tx) error) (panicked any, err error) {
	before := s.writes.Clone()
	c := &call{s: s, below: snapshot}
	err = errGone
	defer func() {
		c.ended = true
		if panicked = recover(); panicked != nil || err != nil {
			s.writes = before
		}
	}()
	if err = fn(c); err == nil {
		err = c.broken
	}
	return nil, err
}

// errGone: the function has ended its goroutine.
var errGone = engine.Errorf(engine.CodeInternal, "the function of a transaction did not return")

// verify returns ErrConflict if what was read of the snapshot has changed.
func (s *state) verify(tx engine.Tx) error {
	for key, want := range s.keys {
		val, ok, err := tx.Get([]byte(key))
		if err != nil {
			return err
		}
		if sumOf(val, ok) != want {
			return lost()
		}
	}
	for _, r := range s.ranges {
		h := newSummer()
		pairs := tx.Scan(r.lo, r.hi)
		if r.back {
			pairs = tx.ScanBack(r.lo, r.hi)
		}
		for p, err := range pairs {
			if err != nil {
				return err
			}
			h.add(p)
		}
		if h.sum() != r.sum {
			return lost()
		}
	}
	return nil
}

func lost() error {
	return engine.Errorf(engine.CodeConflict, "what the transaction has read was changed by another one; begin it again")
}

// summer sums pairs.
type summer struct{ h hash.Hash }

func newSummer() *summer { return &summer{sha256.New()} }

func (s *summer) add(p engine.Pair) {
	var size [8]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(p.Key)))
	binary.BigEndian.PutUint32(size[4:], uint32(len(p.Val)))
	s.h.Write(size[:])
	s.h.Write(p.Key)
	s.h.Write(p.Val)
}

func (s *summer) sum() sum { return sum(s.h.Sum(nil)[:16]) }

// call is the engine.Tx of one Do.
type call struct {
	s      *state
	below  engine.Tx
	broken error // of a note that could not be kept
	ended  bool
}

var errEnded = engine.Errorf(engine.CodeInvalid, "the transaction is used after its function has returned")

func (c *call) usable() error {
	if c.ended {
		return errEnded
	}
	return c.broken
}

// note keeps what is read. A transaction that cannot is over its limit: nothing that
// it does from then on counts.
func (c *call) note(n int) error {
	if err := c.s.keep(n + noteBytes); err != nil {
		c.broken = err
	}
	return c.broken
}

// Get implements engine.Tx.
func (c *call) Get(key []byte) (val []byte, ok bool, err error) {
	if err := c.usable(); err != nil {
		return nil, false, err
	}
	if v, ok := c.s.writes.Get(key); ok {
		if v.Marked {
			return nil, false, nil
		}
		return overlay.Bytes(v), true, nil
	}
	val, ok, err = c.below.Get(key)
	if err != nil {
		return nil, false, err
	}
	if _, noted := c.s.keys[string(key)]; !noted {
		c.s.keys[string(key)] = sumOf(val, ok)
		if err := c.note(len(key)); err != nil {
			return nil, false, err
		}
	}
	return val, ok, nil
}

// Put implements engine.Tx.
func (c *call) Put(key, val []byte) error {
	if err := c.usable(); err != nil {
		return err
	}
	if len(key) == 0 {
		return engine.ErrKeyEmpty
	}
	return c.write(key, btree.Value{Bytes: bytes.Clone(val)})
}

// Delete implements engine.Tx.
func (c *call) Delete(key []byte) error {
	if err := c.usable(); err != nil || len(key) == 0 {
		return err
	}
	return c.write(key, btree.Value{Marked: true})
}

func (c *call) write(key []byte, v btree.Value) error {
	if err := c.s.keep(len(key) + len(v.Bytes) + noteBytes); err != nil {
		return err
	}
	c.s.writes.Set(key, v)
	return nil
}

// Scan implements engine.Tx.
func (c *call) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] { return c.scan(lo, hi, false) }

// ScanBack implements engine.Tx.
func (c *call) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return c.scan(lo, hi, true) }

func (c *call) scan(lo, hi []byte, back bool) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		if err := c.usable(); err != nil {
			yield(engine.Pair{}, err)
			return
		}
		if hi != nil && bytes.Compare(lo, hi) >= 0 {
			return
		}
		seen := &reading{c: c, lo: bytes.Clone(lo), hi: bytes.Clone(hi), back: back}
		for p, err := range overlay.Merge(c.s.writes, lo, hi, back, seen.pairs()) {
			if !yield(p, err) || err != nil {
				break
			}
		}
		if err := seen.note(); err != nil {
			yield(engine.Pair{}, err)
		}
	}
}

// reading notes the part of a range that a scan has read of the snapshot.
type reading struct {
	c      *call
	lo, hi []byte
	back   bool
	sum    *summer
	last   []byte // the key that was read last
	whole  bool   // nothing is left of the range
}

// pairs yields the pairs of the snapshot, and sums them.
func (r *reading) pairs() iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		r.sum = newSummer()
		below := r.c.below.Scan
		if r.back {
			below = r.c.below.ScanBack
		}
		for p, err := range below(r.lo, r.hi) {
			if err == nil {
				r.sum.add(p)
				r.last = append(r.last[:0], p.Key...)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
		r.whole = true
	}
}

func (r *reading) note() error {
	if r.sum == nil || !r.whole && r.last == nil {
		return nil // nothing was read
	}
	sp := span{lo: r.lo, hi: r.hi, back: r.back, sum: r.sum.sum()}
	switch {
	case r.whole:
	case r.back:
		sp.lo = r.last
	default:
		sp.hi = append(r.last, 0)
	}
	r.c.s.ranges = append(r.c.s.ranges, sp)
	return r.c.note(len(sp.lo) + len(sp.hi))
}

// Now implements engine.Tx: it is the time of the snapshot.
func (c *call) Now() time.Time { return c.below.Now() }

// AsOf implements engine.Tx.
func (c *call) AsOf() time.Time { return c.below.AsOf() }
