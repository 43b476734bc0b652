package redis

import (
	"bytes"
	"iter"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/overlay"
)

// writeTx is one transaction of a batch: its writes over those of the batch over Redis.
type writeTx struct {
	b     *batch
	mine  *btree.Pairs // marked: deleted
	now   int64
	size  int // bytes written
	n     int // writes
	seq   int // changes with every write, and goes back with a rollback
	last  int // the newest seq that was given
	scans int
	saved []mark
	ended bool

	broken   error
	brokenAt int
}

type mark struct {
	mine *btree.Pairs
	seq  int
}

// Get implements engine.Tx.
func (t *writeTx) Get(key []byte) ([]byte, bool, error) {
	vals, err := t.GetMany([][]byte{key})
	if err != nil || vals[0] == nil {
		return nil, false, err
	}
	return vals[0], true, nil
}

// GetMany implements engine.ManyGetter.
func (t *writeTx) GetMany(keys [][]byte) ([][]byte, error) {
	if t.ended {
		return nil, errEnded
	}
	vals := make([][]byte, len(keys))
	var below [][]byte
	var at []int
	for i, k := range keys {
		if v, ok := t.mine.Get(k); !ok {
			below, at = append(below, k), append(at, i)
		} else if !v.Marked {
			vals[i] = v.Bytes[:len(v.Bytes):len(v.Bytes)]
			if v.Bytes == nil {
				vals[i] = []byte{}
			}
		}
	}
	if len(below) == 0 {
		return vals, nil
	}
	got, err := t.b.get(below)
	if err != nil {
		return nil, err
	}
	for j, e := range got {
		if !e.none {
			vals[at[j]] = e.val
			if e.val == nil {
				vals[at[j]] = []byte{}
			}
		}
	}
	return vals, nil
}

// Put implements engine.Tx.
func (t *writeTx) Put(key, val []byte) error {
	if t.ended {
		return errEnded
	}
	if err := checkPut(key, val); err != nil {
		return err
	}
	return t.write(key, btree.Value{Bytes: val})
}

// checkPut checks the limits of one key and its value.
func checkPut(key, val []byte) error {
	switch {
	case len(key) == 0:
		return engine.ErrKeyEmpty
	case len(key) > MaxKeyBytes:
		return engine.Errorf(engine.CodeKeyTooLarge, "the key has %d bytes, at most %d are possible", len(key), MaxKeyBytes)
	case len(val) > MaxValBytes:
		return engine.Errorf(engine.CodeValueTooLarge, "the value has %d bytes, at most %d are possible", len(val), MaxValBytes)
	}
	return nil
}

// Delete implements engine.Tx.
func (t *writeTx) Delete(key []byte) error {
	switch {
	case t.ended:
		return errEnded
	case len(key) == 0 || len(key) > MaxKeyBytes:
		return nil
	}
	return t.write(key, btree.Value{Marked: true})
}

func (t *writeTx) write(key []byte, v btree.Value) error {
	if err := t.fenced(key); err != nil {
		return err
	}
	size := len(key) + len(v.Bytes)
	switch {
	case t.size+size > MaxTxBytes:
		return engine.Errorf(engine.CodeTxTooLarge, "redis: a transaction writes at most %d bytes (MaxTxBytes); use several", MaxTxBytes)
	case t.n == MaxTxWrites:
		return engine.Errorf(engine.CodeTxTooLarge, "redis: a transaction writes at most %d times (MaxTxWrites); use several", MaxTxWrites)
	}
	t.size += size
	t.n++
	t.last++
	t.seq = t.last
	t.mine.Set(key, v)
	return nil
}

// fenced returns ErrFenced if key must not be written. The fence is known with base, so that another process's
// is never overlooked.
func (t *writeTx) fenced(key []byte) error {
	if string(key) == engine.FenceKey {
		return nil
	}
	if _, ok := t.mine.Get(fence); ok {
		return nil
	}
	up, err := t.b.get([][]byte{fence})
	if err == nil && !up[0].none {
		err = engine.ErrFenced
	}
	return err
}

// Scan implements engine.Tx.
func (t *writeTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.scan(lo, hi, false) }

// ScanBack implements engine.Tx.
func (t *writeTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.scan(lo, hi, true) }

func (t *writeTx) scan(lo, hi []byte, back bool) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		if t.ended {
			yield(engine.Pair{}, errEnded)
			return
		}
		if hi != nil && bytes.Compare(lo, hi) >= 0 {
			return
		}
		t.scans++
		defer func() { t.scans-- }()
		d := t.b.d
		stored := pages(bounds{lo: lo, hi: hi, back: back}, func(b bounds, n int) (page, error) {
			p, got, err := d.page(d.ctx, "", b, n)
			return got, t.b.is(p, err)
		})
		batched := overlay.Merge(t.b.over, lo, hi, back, stored)
		for p, err := range overlay.Merge(t.mine, lo, hi, back, batched) {
			if !yield(p, err) {
				return
			}
		}
	}
}

// Now implements engine.Tx.
func (t *writeTx) Now() time.Time { return time.UnixMicro(t.now) }

// AsOf implements engine.Tx.
func (t *writeTx) AsOf() time.Time { return t.Now() }

// Savepoint implements engine.Savepointer.
func (t *writeTx) Savepoint() int {
	if n := len(t.saved); n == 0 || t.saved[n-1].seq != t.seq {
		t.saved = append(t.saved, mark{t.mine.Clone(), t.seq})
	} else {
		t.saved = append(t.saved, t.saved[n-1])
	}
	return len(t.saved) - 1
}

// RollbackTo implements engine.Savepointer.
func (t *writeTx) RollbackTo(to int) error {
	if t.ended || to < 0 || to >= len(t.saved) {
		return engine.Errorf(engine.CodeInvalid, "there is no savepoint %d", to)
	}
	s := t.saved[to]
	if s.seq != t.seq {
		if t.scans > 0 {
			return engine.Errorf(engine.CodeInvalid, "a rollback during a scan")
		}
		t.mine, t.seq = s.mine.Clone(), s.seq
		if t.brokenAt > t.seq {
			t.broken = nil
		}
	}
	t.saved = t.saved[:to+1]
	return nil
}

// Break implements engine.Breaker.
func (t *writeTx) Break(err error) {
	if t.broken == nil && !t.ended {
		t.broken, t.brokenAt = err, t.seq
	}
}

// Expects implements engine.Expecter.
func (t *writeTx) Expects() bool { return !t.ended }

// Expect implements engine.Expecter: the next read of Redis brings these keys too.
func (t *writeTx) Expect(keys [][]byte) {
	if t.ended {
		return
	}
	for _, k := range keys {
		if len(k) > 0 && len(k) <= MaxKeyBytes && len(t.b.want) < 4*maxMany {
			t.b.want = append(t.b.want, bytes.Clone(k))
		}
	}
}
