package series

import (
	"context"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// output writes blocks in transactions of the worker.
type output struct {
	w     *worker
	ctx   context.Context
	keys  [][]byte
	vals  [][]byte
	bytes int
}

// put takes a block, which it keeps.
func (o *output) put(key, val []byte) error {
	o.keys, o.vals = append(o.keys, key), append(o.vals, val)
	if o.bytes += len(val); o.bytes < sealTxBytes {
		return nil
	}
	return o.flush()
}

func (o *output) flush() error {
	if len(o.keys) == 0 {
		return nil
	}
	err := o.w.update(o.ctx, func(tx engine.Tx) error {
		for i, k := range o.keys {
			if err := tx.Put(k, o.vals[i]); err != nil {
				return err
			}
		}
		return nil
	})
	o.keys, o.vals, o.bytes = o.keys[:0], o.vals[:0], 0
	return err
}

// sealStep is how many series seal takes from the head at once.
const sealStep = 1000

// seal makes parts of the samples of a full generation.
func (w *worker) seal(ctx context.Context, h *head, gen uint64, ids []uint32, first uint64) error {
	out := &output{w: w, ctx: ctx}
	writers := map[uint64]*partWriter{} // by bucket
	var sort sorter
	var cols columns
	for step := range slices.Chunk(ids, sealStep) {
		for i, samples := range h.take(gen, step) {
			sort.add(samples...)
			sort.columns(&cols)
			for rest := cols; len(rest.times) > 0; {
				bucket := bucketOf(rest.times[0])
				_, last := bucketSpan(bucket)
				n, _ := slices.BinarySearch(rest.times, last)
				if n < len(rest.times) && rest.times[n] == last {
					n++
				}
				pw := writers[bucket]
				if pw == nil {
					pw = &partWriter{part: part{bucket: bucket, no: first, order: gen}, out: out.put, coll: w.no}
					writers[bucket] = pw
					first++
				}
				if err := pw.add(step[i], &columns{rest.times[:n], rest.values[:n]}); err != nil {
					return err
				}
				rest = columns{rest.times[n:], rest.values[n:]}
			}
		}
	}
	for _, pw := range writers {
		if err := pw.flush(); err != nil {
			return err
		}
	}
	if err := out.flush(); err != nil {
		return err
	}
	return w.update(ctx, func(tx engine.Tx) error { return w.sealed(tx, gen, writers) })
}

// sealed makes the parts of a generation visible in place of its batches.
func (w *worker) sealed(tx engine.Tx, gen uint64, writers map[uint64]*partWriter) error {
	m, err := readMeta(tx, w.no)
	if err != nil {
		return err
	}
	if m.sealed >= gen || m.generation <= gen {
		return errHeld // another one has done it
	}
	for _, pw := range writers {
		if err := tx.Put(pw.key(w.no), pw.encode()); err != nil {
			return err
		}
	}
	batches, _, err := keysOf(tx, keyOf(keyBatch, w.no, gen), generationBatches+1)
	if err != nil {
		return err
	}
	if err := remove(tx, batches); err != nil {
		return err
	}
	m.sealed = gen
	return m.put(tx, w.no)
}

// expired returns the parts that only have samples before the retention.
func (w *worker) expired(parts []part) (old []part) {
	if w.s.c.Retention == 0 {
		return nil
	}
	oldest := w.s.c.oldest(w.s.db.o.Now(), w.s.c.Retention)
	for _, p := range parts {
		if p.to < oldest {
			old = append(old, p)
		}
	}
	return old
}

// replace makes next, if it is not nil, visible in place of some parts, and then removes their blocks.
func (w *worker) replace(ctx context.Context, old []part, next *part) error {
	err := w.update(ctx, func(tx engine.Tx) error {
		for _, p := range old {
			if _, ok, err := tx.Get(p.key(w.no)); err != nil || !ok {
				if err == nil {
					err = errHeld // another one has done it
				}
				return err
			}
			if err := tx.Delete(p.key(w.no)); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		return tx.Put(next.key(w.no), next.encode())
	})
	if err != nil {
		return err
	}
	for _, p := range old {
		for more := true; more; {
			err := w.update(ctx, func(tx engine.Tx) error {
				var err error
				more, err = removePart(tx, w.no, p.no)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeable returns parts to be merged: the oldest of one level of a bucket, if there are enough, or all of a bucket
// that nothing has been written to for so long that it is probably complete.
func (w *worker) mergeable(parts []part) []part {
	newest := uint64(0)
	for _, p := range parts {
		newest = max(newest, p.bucket)
	}
	for lo := 0; lo < len(parts); {
		hi := lo + 1
		for hi < len(parts) && parts[hi].bucket == parts[lo].bucket {
			hi++
		}
		bucket := parts[lo:hi]
		if len(bucket) > 1 && bucket[0].bucket+1 < newest && !slices.ContainsFunc(bucket, func(p part) bool { return p.level > maxLevel }) {
			return bucket
		}
		if some := sameLevel(bucket, w.s.db.o.fanIn); some != nil {
			return some
		}
		lo = hi
	}
	return nil
}

// maxLevel is the level up to which the parts of an old bucket are merged even if there are few.
const maxLevel = 6

// sameLevel returns the first n neighbors of the same level, nil if there are none. Only neighbors may be merged, so
// that of two samples with one time the newer one stays.
func sameLevel(parts []part, n int) []part {
	for lo := 0; lo < len(parts); {
		hi := lo + 1
		for hi < len(parts) && parts[hi].level == parts[lo].level {
			hi++
		}
		if hi-lo >= n {
			return parts[lo : lo+n]
		}
		lo = hi
	}
	return nil
}

// merge makes one part of several of the same bucket, without the series that were removed.
func (w *worker) merge(ctx context.Context, h *head, parts []part, first uint64) error {
	out := &output{w: w, ctx: ctx}
	last := parts[len(parts)-1]
	pw := &partWriter{part: part{bucket: last.bucket, no: first, order: last.order}, out: out.put, coll: w.no}
	cursors := make([]*cursor, len(parts))
	for i, p := range parts {
		pw.level = max(pw.level, p.level+1)
		cursors[i] = &cursor{w: w, part: p.no}
	}
	var sort sorter
	var cols columns
	for {
		id := uint32(0)
		for _, c := range cursors {
			if err := c.fill(ctx); err != nil {
				return err
			}
			if len(c.entries) > 0 && (id == 0 || c.entries[0].id < id) {
				id = c.entries[0].id
			}
		}
		if id == 0 {
			break
		}
		for _, c := range cursors {
			if err := c.take(ctx, id, &sort, &cols); err != nil {
				return err
			}
		}
		sort.columns(&cols)
		if h.removed(id) {
			continue
		}
		if err := pw.add(id, &cols); err != nil {
			return err
		}
	}
	if err := pw.flush(); err != nil {
		return err
	}
	if err := out.flush(); err != nil {
		return err
	}
	if pw.samples == 0 { // all series were removed
		return w.replace(ctx, parts, nil)
	}
	return w.replace(ctx, parts, &pw.part)
}

// cursor reads the chunks of a part in order.
type cursor struct {
	w       *worker
	part    uint64
	entries []entry // read and not taken
	after   []byte  // the key of the last block that was read
	end     bool
}

// cursorBytes is how much of a part is read at once.
const cursorBytes = 512 << 10

// fill reads more if nothing is left.
func (c *cursor) fill(ctx context.Context) error {
	if len(c.entries) > 0 || c.end {
		return nil
	}
	prefix := keyOf(keyBlock, c.w.no, c.part)
	lo := prefix
	if c.after != nil {
		lo = append(slices.Clone(c.after), 0)
	}
	var entries []entry
	var after []byte
	_, err := c.w.s.db.eng.View(ctx, engine.Read{Level: engine.Local, AtLeast: c.w.s.db.position()}, func(tx engine.Tx) error {
		entries, after = nil, nil
		size := 0
		for p, err := range tx.Scan(lo, engine.PrefixEnd(prefix)) {
			if err != nil {
				return err
			}
			some, ok := readBlock(slices.Clone(p.Val))
			if !ok {
				return corrupt("a block of part %d", c.part)
			}
			entries, after = append(entries, some...), slices.Clone(p.Key)
			if size += len(p.Val); size >= cursorBytes {
				break
			}
		}
		return nil
	})
	c.entries, c.after, c.end = entries, after, after == nil
	return err
}

// take adds the samples of a series.
func (c *cursor) take(ctx context.Context, id uint32, to *sorter, scratch *columns) error {
	for {
		if err := c.fill(ctx); err != nil {
			return err
		}
		if len(c.entries) == 0 || c.entries[0].id != id {
			return nil
		}
		scratch.reset()
		if err := scratch.decode(c.entries[0].data); err != nil {
			return corrupt("a chunk of series %d", id)
		}
		to.addColumns(scratch)
		c.entries = c.entries[1:]
	}
}
