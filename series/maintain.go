package series

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Maintenance has these stages, each in transactions that check a lease: one node at a time works on a collection.
//
//  0. end: a generation that fills slowly ends after a day, so that its samples are compressed and expire.
//  1. seal: the samples of a full generation become parts, one for each bucket, and its batches are removed.
//  2. merge: parts of the same bucket and level become one of the next level.
//  3. expire: the parts of buckets before the retention are removed.
//  4. sweep: the definitions of series without samples are removed.
//
// Blocks that no part names are invisible, so they can be written, and removed, in many transactions. What a crash
// leaves of them is removed by the next node that takes the lease, or by the same one when it starts again.

// errHeld: another node works on the collection, or this one no longer may.
var errHeld = errors.New("series: another node has the lease")

// partNumbers is how many numbers of parts one job reserves.
const partNumbers = 1 << 20

// worker works on one collection.
type worker struct {
	s     *Store
	no    uint32
	id    [16]byte // of this process
	clean bool     // since the lease was taken, what was left over was removed, and no job has failed

	looked time.Time // when age last looked; zero: never
	newest uint64    // the newest generation, when it had samples
	since  time.Time // about when it began
}

// maintain works until ctx ends.
func (db *DB) maintain(ctx context.Context) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	workers := map[string]*worker{}
	timer := time.NewTicker(db.o.pause)
	defer timer.Stop()
	for {
		for _, name := range db.Names() {
			s, err := db.Collection(name)
			if err != nil {
				continue
			}
			w := workers[name]
			if w == nil {
				w = &worker{s: s, id: id}
				workers[name] = w
			}
			if err := w.work(ctx); err != nil && ctx.Err() == nil && !passing(err) {
				db.o.Logger.Error("series cannot be compressed", "collection", name, "err", err)
			}
		}
		if db.rollUpAll(ctx, workers) && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			for _, w := range workers {
				w.release()
			}
			return
		case <-timer.C:
		case <-db.wake:
		}
	}
}

// passing reports whether a job that failed is simply tried again.
func passing(err error) bool {
	return errors.Is(err, errHeld) || errors.Is(err, engine.ErrOutcomeUnknown) || engine.Retryable(err) || engine.CodeOf(err) == CodeGone
}

// work does all that is to be done.
func (w *worker) work(ctx context.Context) error {
	for {
		no, h := w.s.state()
		if no == 0 {
			return nil
		}
		w.no = no
		job := w.next(h)
		if job == nil {
			return nil
		}
		first, err := w.take(ctx)
		if err != nil {
			return err
		}
		if err := job(ctx, first); err != nil {
			w.clean = false
			return err
		}
	}
}

// next returns what to do next, nil for nothing. It gets the first of the numbers that it may give to parts.
func (w *worker) next(h *head) func(ctx context.Context, first uint64) error {
	if gen, ids := h.full(); gen != 0 {
		return func(ctx context.Context, first uint64) error { return w.seal(ctx, h, gen, ids, first) }
	}
	if gen, age := w.age(h); age >= w.s.db.o.age {
		return func(ctx context.Context, _ uint64) error { return w.end(ctx, gen) }
	}
	parts := h.allParts()
	if old := w.expired(parts); len(old) > 0 {
		return func(ctx context.Context, _ uint64) error { return w.replace(ctx, old, nil) }
	}
	if some := w.mergeable(parts); len(some) > 0 {
		return func(ctx context.Context, first uint64) error { return w.merge(ctx, h, some, first) }
	}
	if oldest, due := w.sweepDue(h); due {
		return func(ctx context.Context, _ uint64) error { return w.sweep(ctx, h, oldest) }
	}
	return nil
}

// age returns the newest generation, if it has samples, and for how long it has had some. That is not stored: it is the
// time since w saw the generation begin, or the age of its first sample if w found it there. It looks every agePause.
func (w *worker) age(h *head) (gen uint64, age time.Duration) {
	if time.Since(w.looked) < agePause {
		return 0, 0
	}
	seen := !w.looked.IsZero()
	w.looked = time.Now()
	gen, first := h.newest()
	if gen == 0 {
		return 0, 0
	}
	now := w.s.db.o.Now()
	if gen != w.newest {
		w.newest, w.since = gen, now
		if !seen && first < now.UnixNano() {
			w.since = time.Unix(0, first)
		}
	}
	return gen, now.Sub(w.since)
}

// end makes new batches go to another generation than gen, as if that were full.
func (w *worker) end(ctx context.Context, gen uint64) error {
	return w.update(ctx, func(tx engine.Tx) error {
		m, err := readMeta(tx, w.no)
		if err != nil || m.generation != gen || m.batches == 0 {
			return err
		}
		m.begin()
		return m.put(tx, w.no)
	})
}

// update runs a transaction of a job, and waits until this node has applied it. If another node has had the lease since
// the job began, it may have removed what the job wrote, so the job fails.
func (w *worker) update(ctx context.Context, fn func(tx engine.Tx) error) error {
	return w.run(ctx, func(tx engine.Tx) error {
		mine, err := w.lease(tx)
		if err == nil && !mine {
			err = errHeld
		}
		if err != nil {
			return err
		}
		return fn(tx)
	})
}

func (w *worker) run(ctx context.Context, fn func(tx engine.Tx) error) error {
	pos, err := w.s.db.eng.Update(ctx, fn)
	if err != nil {
		return err
	}
	return w.s.db.wait(ctx, pos)
}

// lease takes or extends the lease. It reports whether this process was the last one that had it.
func (w *worker) lease(tx engine.Tx) (mine bool, err error) {
	k := keyOf(keyWorker, w.no)
	val, ok, err := tx.Get(k)
	if err != nil {
		return false, err
	}
	mine = ok && len(val) == 24 && [16]byte(val) == w.id
	now := tx.Now()
	if ok && len(val) == 24 && !mine && int64(binary.BigEndian.Uint64(val[16:])) > now.UnixNano() {
		return false, errHeld
	}
	until := now.Add(w.s.db.o.lease).UnixNano()
	return mine, tx.Put(k, binary.BigEndian.AppendUint64(slices.Clone(w.id[:]), uint64(until)))
}

// release gives the lease back, so that the next start need not wait for its end.
func (w *worker) release() {
	if w.no == 0 || !w.clean {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.update(ctx, func(tx engine.Tx) error { return tx.Delete(keyOf(keyWorker, w.no)) }) // otherwise it ends by itself
}

// take takes the lease and reserves numbers of parts. Before that it removes what others, or a job of its own that
// failed, may have left.
func (w *worker) take(ctx context.Context) (first uint64, err error) {
	for first == 0 {
		clean := w.clean
		err := w.run(ctx, func(tx engine.Tx) error {
			first = 0
			mine, err := w.lease(tx)
			if err != nil {
				return err
			}
			if !mine || !clean {
				more, err := removeOrphans(tx, w.no)
				w.clean = !more
				return err
			}
			m, err := readMeta(tx, w.no)
			if err != nil {
				return err
			}
			first = m.part + 1
			m.part += partNumbers
			return m.put(tx, w.no)
		})
		if err != nil {
			w.clean = false
			return 0, err
		}
	}
	return first, nil
}

// removals is how many keys one transaction removes.
const removals = 1000

// removeOrphans removes blocks that no part names, and reports whether there are more.
func removeOrphans(tx engine.Tx, no uint32) (more bool, err error) {
	named := map[uint64]bool{}
	prefix := keyOf(keyPart, no)
	for p, err := range tx.Scan(prefix, engine.PrefixEnd(prefix)) {
		if err != nil {
			return false, err
		}
		named[numbersOf(p.Key)[1]] = true
	}
	blocks := keyOf(keyBlock, no)
	for lo := blocks; ; {
		part, ok, err := firstPart(tx, lo, engine.PrefixEnd(blocks))
		if err != nil || !ok {
			return false, err
		}
		if !named[part] {
			if more, err := removePart(tx, no, part); err != nil || more {
				return more, err
			}
		}
		lo = keyOf(keyBlock, no, part+1)
	}
}

// firstPart returns the part of the first block from lo on.
func firstPart(tx engine.Tx, lo, hi []byte) (part uint64, ok bool, err error) {
	for p, err := range tx.Scan(lo, hi) {
		if err != nil {
			return 0, false, err
		}
		return numbersOf(p.Key)[0], true, nil
	}
	return 0, false, nil
}

// removePart removes blocks of a part, and reports whether there are more.
func removePart(tx engine.Tx, no uint32, part uint64) (more bool, err error) {
	keys, more, err := keysOf(tx, keyOf(keyBlock, no, part), removals)
	if err != nil {
		return false, err
	}
	return more, remove(tx, keys)
}

// keysOf returns up to most keys with a prefix, and whether there are more.
func keysOf(tx engine.Tx, prefix []byte, most int) (keys [][]byte, more bool, err error) {
	for p, err := range tx.Scan(prefix, engine.PrefixEnd(prefix)) {
		if err != nil {
			return nil, false, err
		}
		if len(keys) == most {
			return keys, true, nil
		}
		keys = append(keys, slices.Clone(p.Key))
	}
	return keys, false, nil
}

func remove(tx engine.Tx, keys [][]byte) error {
	for _, k := range keys {
		if err := tx.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
