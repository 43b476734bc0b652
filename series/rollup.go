package series

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Rollup makes a collection the summary of another one, so that summaries can be kept longer than samples. Each series
// of the other has one here for each aggregate, with the same labels and the name NAME:AGGREGATE, like temp:avg.
//
// A window is summarized once, Delay after its end. Samples that arrive later are not in it, unless Store.RollUp is
// called. Each sample has the time at which its window begins; windows without samples have none.
type Rollup struct {
	Of         string        // a collection that is already in use, and no summary
	Step       time.Duration // of the windows, at least a second; they begin at multiples of it since 1970
	Delay      time.Duration // 0: 10 minutes
	Aggregates []Aggregate   // 1 to MaxAggregates
}

const (
	minRollupStep      = time.Second
	defaultRollupDelay = 10 * time.Minute
	rollupSpan         = int64(4 * time.Hour) // that one pass summarizes, or one window
	rollupSeries       = 1000                 // of which one pass reads the samples at once
	rollupSamples      = 100_000              // after which a batch of summaries is stored
)

// check completes the options of a summary in db. The caller holds db.mu.
func (r *Rollup) check(db *DB, name string) error {
	of := db.byName[r.Of]
	switch {
	case of == nil:
		return engine.Errorf(engine.CodeInvalid, "series: collection %s summarizes %q, which is not in use; there are: %v", name, r.Of, db.names())
	case of.c.Rollup != nil:
		return engine.Errorf(engine.CodeInvalid, "series: collection %s summarizes %s, which is a summary itself", name, r.Of)
	case r.Step < minRollupStep:
		return engine.Errorf(engine.CodeInvalid, "series: collection %s has the step %s, below %s", name, r.Step, minRollupStep)
	case r.Delay < 0:
		return engine.Errorf(engine.CodeInvalid, "series: collection %s has a negative delay", name)
	case len(r.Aggregates) == 0 || len(r.Aggregates) > MaxAggregates:
		return engine.Errorf(engine.CodeInvalid, "series: collection %s has %d aggregates, not 1 to %d", name, len(r.Aggregates), MaxAggregates)
	}
	for _, a := range r.Aggregates {
		if err := a.check(); err != nil {
			return err
		}
	}
	if r.Delay == 0 {
		r.Delay = defaultRollupDelay
	}
	return nil
}

// takesSamples returns an error if only summaries are stored in the collection.
func (s *Store) takesSamples() error {
	if r := s.c.Rollup; r != nil {
		return engine.Errorf(engine.CodeInvalid, "collection %s is a summary of %s, and takes no other samples", s.c.Name, r.Of)
	}
	return nil
}

// source returns the collection that s summarizes.
func (s *Store) source() (*Store, error) {
	if s.c.Rollup == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "collection %s summarizes no other", s.c.Name)
	}
	return s.db.Collection(s.c.Rollup.Of)
}

// RollUp summarizes the windows that begin between two times again, both included, for samples that came late. The store
// must be one with a Rollup. Windows that are not complete yet are left to the next pass.
func (s *Store) RollUp(ctx context.Context, from, to time.Time) error {
	of, err := s.source()
	if err != nil {
		return err
	}
	step := int64(s.c.Rollup.Step)
	end := min(s.rolledUntil(), windowOf(nanos(to), step)+step)
	for at := windowOf(nanos(from), step); ; {
		first, ok := of.firstSince(at)
		if at = max(at, windowOf(first, step)); !ok || at >= end {
			return nil
		}
		next := min(end, at+s.span())
		if err := s.summarize(ctx, of, at, next); err != nil {
			return err
		}
		at = next
	}
}

// span returns how much time one pass summarizes: some windows.
func (s *Store) span() int64 {
	step := int64(s.c.Rollup.Step)
	return max(step, rollupSpan/step*step)
}

// rolledUntil returns the end of the last window that was summarized, minTime if there is none.
func (s *Store) rolledUntil() int64 {
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.rolled
}

// rollUp summarizes the next windows that are complete, and reports whether there may be more.
func (w *worker) rollUp(ctx context.Context) (more bool, err error) {
	of, err := w.s.source()
	if err != nil {
		return false, err
	}
	r := w.s.c.Rollup
	step := int64(r.Step)
	until := windowOf(nanos(w.s.db.o.Now().Add(-r.Delay)), step)
	rolled := w.s.rolledUntil()
	if rolled >= until {
		return false, nil
	}
	from := max(rolled, windowOf(of.c.oldest(w.s.db.o.Now(), of.c.Retention), step))
	first, ok := of.firstSince(from)
	if !ok && rolled == minTime {
		return false, nil // what comes first may be old
	}
	to := until
	if ok && first < until {
		from = max(from, windowOf(first, step))
		to = min(until, from+w.s.span())
	}
	if w.no, err = w.s.number(ctx); err != nil {
		return false, err
	}
	if _, err := w.take(ctx); err != nil {
		return false, err
	}
	if first < to {
		if err := w.s.summarize(ctx, of, from, to); err != nil {
			return false, err
		}
	}
	err = w.update(ctx, func(tx engine.Tx) error {
		return tx.Put(keyOf(keyRolled, w.no), binary.BigEndian.AppendUint64([]byte{formatVersion}, uint64(to)))
	})
	return err == nil && to < until, err
}

// firstSince returns the time of the first sample at or after a time, or an earlier one after it.
func (s *Store) firstSince(t int64) (first int64, ok bool) {
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	first = maxTime
	for _, p := range h.parts {
		if p.to >= t {
			first, ok = min(first, max(p.from, t)), true
		}
	}
	for _, m := range h.members.all() {
		for _, b := range m.buffers() {
			for _, x := range b.samples {
				if x.Time >= t && x.Time <= first {
					first, ok = x.Time, true
				}
			}
		}
	}
	return first, ok
}

// summarize stores the summaries of the windows from one time to another, which is not included. To do it twice changes
// nothing.
func (s *Store) summarize(ctx context.Context, of *Store, from, to int64) error {
	no, h := of.state()
	h.mu.RLock()
	live := h.members.ids()
	h.mu.RUnlock()
	var b Batch
	var full error
	for some := range slices.Chunk(live, rollupSeries) {
		sel := &selection{no: no, from: from, to: to - 1}
		h.mu.RLock()
		for _, id := range some {
			if h.members.get(id) != nil {
				sel.ids = append(sel.ids, id)
			}
		}
		sel.take(h)
		h.mu.RUnlock()
		all, err := s.windows(ctx, of, sel)
		if err != nil {
			return err
		}
		var named []Labels
		for _, x := range all {
			for _, a := range s.c.Rollup.Aggregates {
				named = append(named, x.Labels.summary(a))
			}
		}
		ids, err := s.define(ctx, named)
		if engine.CodeOf(err) == CodeTooManySeries {
			full, err = err, nil // those that there is room for are summarized
		}
		if err != nil {
			return err
		}
		if err := s.addSummaries(ctx, &b, all, ids); err != nil {
			return err
		}
	}
	if full != nil {
		s.db.o.Logger.Warn("some series are not summarized", "collection", s.c.Name, "err", full)
	}
	return s.flush(ctx, &b)
}

// windows returns the aggregates of some series that have samples. It leaves out a series that has too many.
func (s *Store) windows(ctx context.Context, of *Store, sel *selection) (all []Series, err error) {
	sel.q.Step, sel.q.Aggregates = s.c.Rollup.Step, s.c.Rollup.Aggregates
	_, err = of.db.eng.View(ctx, sel.read, func(tx engine.Tx) error {
		r, err := sel.reader(tx)
		if err != nil {
			return err
		}
		all = nil
		for i, id := range sel.ids {
			c, err := r.read(i, id)
			x := Series{ID: ID(id), Labels: sel.labels[i]}
			if err == nil {
				err = sel.fill(&x, c)
			}
			if engine.CodeOf(err) == CodeQueryLimit {
				s.db.o.Logger.Warn("a series is not summarized", "collection", s.c.Name, "series", x.Labels.String(), "err", err)
				continue
			}
			if err != nil {
				return err
			}
			if len(x.Times) > 0 {
				all = append(all, x)
			}
		}
		return nil
	})
	return all, err
}

// addSummaries adds what windows returned to a batch. ids has a series for each aggregate of each, or 0.
func (s *Store) addSummaries(ctx context.Context, b *Batch, all []Series, ids []ID) error {
	for i, x := range all {
		for k, column := range x.Columns {
			id := ids[i*len(x.Columns)+k]
			for n, v := range column {
				if id != 0 {
					b.Add(id, x.Times[n], v)
				}
			}
		}
		if b.Len() >= rollupSamples {
			if err := s.flush(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) flush(ctx context.Context, b *Batch) error {
	defer b.Reset()
	_, err := s.store(ctx, b)
	return err
}

// summary returns the labels of a summary. That of a series without a name gets one, as its aggregates would be one series
// otherwise.
func (l Labels) summary(a Aggregate) Labels {
	out := append(make(Labels, 0, len(l)+1), Label{NameLabel, l.Get(NameLabel) + ":" + a.String()})
	for _, x := range l {
		if x.Name != NameLabel {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// rollUpAll gives each summary a turn, and reports whether one of them has more to do.
func (db *DB) rollUpAll(ctx context.Context, workers map[string]*worker) (more bool) {
	for _, name := range db.Names() {
		w := workers[name]
		if w == nil || w.s.c.Rollup == nil {
			continue
		}
		again, err := w.rollUp(ctx)
		if err != nil && ctx.Err() == nil && !passing(err) {
			db.o.Logger.Error("series cannot be summarized", "collection", name, "err", err)
		}
		more = more || again
	}
	return more
}
