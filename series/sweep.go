package series

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// A sweep removes the definitions of series that have no samples any longer. It has these stages:
//
//  1. choose: all series that were there at the sweep before, so that a new series has time to get its first sample.
//  2. look: those that have no unsealed samples are looked for in all parts, beginning with the newest, where most are.
//     No part becomes visible meanwhile, since only the process that has the lease makes parts.
//  3. remove: each transaction removes some of those that are left. A batch may have come since, so series are left out
//     that have unsealed samples in memory, or are in a batch that memory does not have yet. The transaction reads the
//     state that each batch writes, so none comes in between; those that come later see the new epoch.
//  4. done: the time of the sweep is stored. After a crash before that, the next one looks again.

// sweepDue reports whether series without samples are to be looked for, and the oldest time that the retention keeps.
func (w *worker) sweepDue(h *head) (oldest int64, due bool) {
	keep := w.s.c.Retention
	if keep == 0 {
		return 0, false
	}
	oldest = w.s.c.oldest(w.s.db.o.Now(), keep)
	h.mu.RLock()
	defer h.mu.RUnlock()
	every := max(min(keep, time.Duration(bucketLen)), sweepAtLeast)
	return oldest, h.meta.series > 0 && (h.gone.swept == minTime || oldest-int64(every) >= h.gone.swept)
}

// sweep removes the series that have no samples.
func (w *worker) sweep(ctx context.Context, h *head, oldest int64) error {
	h.mu.RLock()
	ids := slices.DeleteFunc(h.members.ids(), func(id uint32) bool {
		return uint64(id) > h.gone.newest || h.members.get(id).now.gen != 0
	})
	newest := h.meta.series
	h.mu.RUnlock()
	parts := h.allParts()
	slices.SortFunc(parts, func(a, b part) int { return cmpUint(b.bucket, a.bucket) })
	for _, p := range parts {
		var err error
		if ids, err = w.absent(ctx, p.no, ids); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(ids, MaxDefine) {
		if err := w.removeUnused(ctx, h, some); err != nil {
			return err
		}
	}
	return w.update(ctx, func(tx engine.Tx) error {
		g, err := readGone(tx, w.no)
		if err != nil {
			return err
		}
		g.swept, g.newest = oldest, newest
		return g.put(tx, w.no)
	})
}

// absent returns those of some ids, ascending, that a part does not have.
func (w *worker) absent(ctx context.Context, no uint64, ids []uint32) (out []uint32, err error) {
	r := &partReader{part: part{no: no}, coll: w.no}
	for len(ids) > 0 {
		n, found := 0, []uint32(nil)
		read := engine.Read{Level: engine.Local, AtLeast: w.s.db.position()}
		_, err := w.s.db.eng.View(ctx, read, func(tx engine.Tx) (err error) {
			n, found, err = r.absent(tx, ids, w.s.db.o.sweep)
			return err
		})
		if err != nil {
			return nil, err
		}
		out, ids = append(out, found...), ids[n:]
		if err := w.update(ctx, func(engine.Tx) error { return nil }); err != nil { // extends the lease
			return nil, err
		}
	}
	return out, nil
}

// absent looks for some of the first ids, until it has read about so many bytes, and returns for how many and those that
// the part does not have.
func (r *partReader) absent(tx engine.Tx, ids []uint32, most int) (n int, out []uint32, err error) {
	for read := 0; n < len(ids) && read < most; {
		first := ids[n]
		found, err := r.seek(tx, first)
		if err != nil {
			return 0, nil, err
		}
		last := uint32(0)
		if found {
			last = r.blocks[len(r.blocks)-1].id
		}
		for ; n < len(ids) && ids[n] <= last; n++ {
			i, has := slices.BinarySearchFunc(r.blocks, ids[n], func(e entry, id uint32) int { return int(int64(e.id) - int64(id)) })
			if has {
				read += len(r.blocks[i].data)
			} else {
				out = append(out, ids[n])
			}
		}
		if n == len(ids) || ids[n] <= last {
			break
		}
		next, err := r.firstAfter(tx, first) // that seek has not read
		if err != nil {
			return 0, nil, err
		}
		for ; n < len(ids) && ids[n] < next; n++ {
			out = append(out, ids[n])
		}
		read += blockBytes
	}
	return n, out, nil
}

// firstAfter returns with which series the first block begins that begins after a series; maxID+1 if there is none.
func (r *partReader) firstAfter(tx engine.Tx, id uint32) (uint32, error) {
	prefix := keyOf(keyBlock, r.coll, r.no)
	for p, err := range tx.Scan(blockKey(r.coll, r.no, id+1, 0), engine.PrefixEnd(prefix)) {
		if err != nil || len(p.Key) < len(prefix)+4 {
			return 0, err
		}
		return binary.BigEndian.Uint32(p.Key[len(prefix):]), nil
	}
	return maxID + 1, nil
}

// removeUnused removes those of some series that have still no unsealed samples.
func (w *worker) removeUnused(ctx context.Context, h *head, ids []uint32) error {
	if _, now := w.s.state(); now != h {
		return errHeld // the node has read everything again: what is known of the parts may be too old
	}
	h.mu.RLock()
	list := h.definitions(ids, func(m *member) bool { return m.now.gen == 0 })
	seq, generation := h.seq, h.meta.generation
	h.mu.RUnlock()
	if len(list) == 0 {
		return nil
	}
	return w.update(ctx, func(tx engine.Tx) error {
		if _, err := readMeta(tx, w.no); err != nil { // which each batch writes
			return err
		}
		used, err := usedSince(tx, w.no, generation, seq)
		if err != nil {
			return err
		}
		unused := slices.DeleteFunc(slices.Clone(list), func(d definition) bool { return used[d.id] })
		_, err = removeSeries(tx, w.no, unused)
		return err
	})
}

// usedSince returns the series of the batches after one, which are in the generation of that or later.
func usedSince(tx engine.Tx, no uint32, generation, seq uint64) (map[uint32]bool, error) {
	used := map[uint32]bool{}
	for p, err := range tx.Scan(keyOf(keyBatch, no, generation, seq+1), engine.PrefixEnd(keyOf(keyBatch, no))) {
		if err != nil {
			return nil, err
		}
		r, ok := readBatch(p.Val)
		if !ok {
			return nil, corrupt("batch %d", numbersOf(p.Key)[1])
		}
		for r.next() {
			used[r.id] = true
		}
	}
	return used, nil
}
