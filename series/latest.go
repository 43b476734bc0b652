package series

import (
	"context"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Latest returns for each series that matches its newest sample that is not older than since; zero is a day. It reads
// what is in memory, and then parts from the newest back, of each series at most one chunk of those that may have a newer
// sample.
func (s *Store) Latest(ctx context.Context, match []Matcher, since time.Duration, r engine.Read) ([]Series, error) {
	if since == 0 {
		since = 24 * time.Hour
	}
	q := Query{Match: match, From: s.db.o.Now().Add(-since), Read: r}
	if err := q.check(); err != nil {
		return nil, err
	}
	sel, err := s.prepare(ctx, q)
	if err != nil || len(sel.ids) == 0 {
		return nil, err
	}
	if s.db.own != nil {
		return sel.latestInTables(ctx, s)
	}
	var out []Series
	_, err = s.db.eng.View(ctx, sel.read, func(tx engine.Tx) error {
		out = nil
		r, err := sel.reader(tx)
		if err != nil {
			return err
		}
		for i := range sel.ids {
			if i%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			x, ok, err := r.latest(i)
			if err != nil {
				return err
			}
			if ok {
				out = append(out, sel.one(i, x))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// one returns the ith series with one sample.
func (sel *selection) one(i int, x Sample) Series {
	return Series{ID: ID(sel.ids[i]), Labels: sel.labels[i], Times: []int64{x.Time}, Values: []float64{x.Value}}
}

// latest returns the newest sample of the ith series. Of samples with the same time the one that was written last counts:
// those of the head, and then those of the newest part.
func (r *reader) latest(i int) (best Sample, ok bool, err error) {
	for _, b := range r.sel.heads[i] {
		if b.gen <= r.sealed {
			continue
		}
		for _, x := range b.samples {
			if x.Time >= r.sel.from && (!ok || x.Time >= best.Time) {
				best, ok = x, true
			}
		}
	}
	id := r.sel.ids[i]
	for _, p := range slices.Backward(r.parts) {
		if ok && p.to <= best.Time {
			continue
		}
		data, err := p.last(r.tx, id)
		if err != nil {
			return best, false, err
		}
		if data == nil {
			continue
		}
		_, _, last, err := chunkInfo(data)
		if err != nil {
			return best, false, corrupt("a chunk of series %d", id)
		}
		if last < r.sel.from || ok && last <= best.Time {
			continue
		}
		r.cols.reset()
		if err := r.cols.decode(data); err != nil || len(r.cols.times) == 0 {
			return best, false, corrupt("a chunk of series %d", id)
		}
		n := len(r.cols.times) - 1
		best, ok = Sample{r.cols.times[n], r.cols.values[n]}, true
	}
	return best, ok, nil
}

// last returns the last chunk of a series, nil if it has none. It reads one block at most, and none for series that are
// within the one that was read last.
func (r *partReader) last(tx engine.Tx, id uint32) ([]byte, error) {
	if n := len(r.blocks); n == 0 || id < r.blocks[0].id || id >= r.blocks[n-1].id {
		r.blocks = nil
		for p, err := range tx.ScanBack(keyOf(keyBlock, r.coll, r.no), blockKey(r.coll, r.no, id+1, 0)) {
			if err != nil {
				return nil, err
			}
			entries, ok := readBlock(slices.Clone(p.Val))
			if !ok {
				return nil, corrupt("a block of part %d", r.no)
			}
			r.blocks = entries
			break
		}
	}
	i, _ := slices.BinarySearchFunc(r.blocks, id+1, func(e entry, id uint32) int { return int(int64(e.id) - int64(id)) })
	if i == 0 || r.blocks[i-1].id != id {
		return nil, nil
	}
	return r.blocks[i-1].data, nil
}
