package kv

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// maxStepBytes bounds the engine keys that one step of Run or Flush deletes,
// so that a step fits into the smallest transaction that an engine allows.
const maxStepBytes = 256 << 10

// Run deletes expired keys until ctx ends. It uses transactions of at most MaxExpirePerTx
// keys, between which other writers can run. It returns ctx's error, or the first permanent
// error (ErrClosed if the engine ended). Every node may call it. If the engine lacks
// something of Needs, Run only waits for ctx.
func (s *Store) Run(ctx context.Context) error {
	if s.plain.lacks != nil { // there is no index
		<-ctx.Done()
		return ctx.Err()
	}
	timer := time.NewTimer(s.every)
	defer timer.Stop()
	for {
		more, err := s.expireStep(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !engine.Passes(err) {
			return err
		}
		if more && err == nil {
			continue
		}
		timer.Reset(s.every)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// expireStep deletes keys that are due, up to the limits of one transaction. It reports
// whether there may be more. It looks in the transaction: a view would make an engine keep
// the state of that moment, which can cost as much as all writes until the next step. And
// nodes that do not lead need not look.
func (s *Store) expireStep(ctx context.Context) (more bool, err error) {
	expired := int64(0)
	_, err = s.Update(ctx, 0, func(t *Tx) error {
		var b batch
		var err error
		expired = 0
		if more, err = t.collectDue(&b, MaxExpirePerTx); err != nil {
			return err
		}
		for idx := range b.keys {
			gone, err := t.expire(idx)
			if err != nil {
				return err
			}
			if gone {
				expired++
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	s.expired.Add(expired)
	return more, nil
}

// Expired returns the number of expired keys that this Store has deleted since it was
// created.
func (s *Store) Expired() int64 { return s.expired.Load() }

// collectDue adds up to n due index keys to b. It reports whether it stopped at a limit.
func (t *Tx) collectDue(b *batch, n int) (full bool, err error) {
	for _, prefix := range [...]byte{expiryIndex, graveIndex} {
		end := binary.BigEndian.AppendUint64([]byte{prefix}, uint64(t.nowMS())+1)
		for p, err := range t.tx.Scan([]byte{prefix}, end) {
			if err != nil {
				return false, err
			}
			if !b.add(p.Key, n) {
				return true, nil
			}
		}
	}
	return false, nil
}

// expire deletes the record of a due index key. It reports whether that record was an
// expired key.
func (t *Tx) expire(idx []byte) (key bool, err error) {
	ms, space, name, ok := parseIndexKey(idx)
	if !ok {
		return false, t.tx.Delete(idx)
	}
	t.key = appendDataKey(t.key[:0], space, name)
	var rec record
	if _, err := t.loadKey(&rec); err != nil {
		return false, err
	}
	in, due := rec.due()
	if in != idx[0] || due != ms {
		// Our own writes never leave an entry without its record, and such an entry only
		// costs time.
		return false, t.tx.Delete(idx)
	}
	return in == expiryIndex, t.remove(&rec)
}

// Flush deletes the keys of space that exist when its first transaction commits, including
// expired ones. Keys written later stay. If the engine lets transactions share a time, a
// key written while Flush runs, at the time of its first transaction, may be deleted too; a
// key written after Flush has returned never is.
//
// Flush uses transactions of at most MaxFlushPerTx keys, so others can see it half done. It
// returns the position of the last transaction. If ctx or the engine ends it early, some
// keys are left.
func (s *Store) Flush(ctx context.Context, space uint8) (engine.Position, error) {
	var f flush
	for {
		var next flush
		pos, err := s.Update(ctx, space, func(t *Tx) (err error) {
			next = f
			return next.step(t)
		})
		if err != nil {
			return 0, err
		}
		if f = next; f.done {
			return pos, nil
		}
	}
}

// flush is the progress of a Flush.
type flush struct {
	from  []byte // engine key to continue from; nil: the beginning
	until uint64 // records of later transactions stay; 0: nothing deleted yet
	done  bool
}

func (f *flush) step(t *Tx) error {
	from, to := t.bounds(nil, nil)
	if f.from != nil {
		from = f.from
	}
	var b batch
	seen := 0
	f.done = true
	for rec, err := range t.records(from, to, false) {
		if err != nil {
			return err
		}
		t.key = appendDataKey(t.key[:0], t.space, rec.key)
		stays := rec.tomb || f.until != 0 && rec.at > f.until
		if seen == MaxFlushPerTx || !stays && !b.add(t.key, MaxFlushPerTx) {
			f.from, f.done = append([]byte(nil), t.key...), false
			break
		}
		seen++
	}
	for key := range b.keys {
		t.key = append(t.key[:0], key...)
		var rec record
		if _, err := t.loadKey(&rec); err != nil {
			return err
		}
		if err := t.remove(&rec); err != nil {
			return err
		}
	}
	if f.until == 0 && len(b.ends) > 0 {
		// Existing records have this time or an earlier one; future records have this time
		// or a later one.
		f.until = t.now()
	}
	return nil
}

// batch is a list of copied keys: a transaction must not write while it scans.
type batch struct {
	buf  []byte
	ends []int
}

// add appends key unless the batch already has n keys or maxStepBytes bytes.
func (b *batch) add(key []byte, n int) bool {
	if len(b.ends) >= n || len(b.ends) > 0 && len(b.buf)+len(key) > maxStepBytes {
		return false
	}
	b.buf = append(b.buf, key...)
	b.ends = append(b.ends, len(b.buf))
	return true
}

// keys yields the keys.
func (b *batch) keys(yield func(key []byte) bool) {
	start := 0
	for _, end := range b.ends {
		if !yield(b.buf[start:end:end]) {
			return
		}
		start = end
	}
}
