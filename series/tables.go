package series

import (
	"context"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// On an engine.SampleStore the samples are in its tables. In memory is the index of the series, which has ids of this
// process alone; in the tables a series has the hash of its labels. Each process learns from the tables what the others define.

const (
	definedPause   = 5 * time.Second // between looks for series that others have defined
	definedOverlap = time.Minute     // that clocks of processes may differ
	tableReads     = 16              // of one query that run together
)

// followTables opens the tables and learns what series there are, until ctx ends or that fails.
func (db *DB) followTables(ctx context.Context) error {
	stores := db.stores()
	for _, s := range stores {
		t, err := db.own.Samples(ctx, s.c.Name, s.c.Retention)
		if err != nil {
			return err
		}
		db.mu.Lock()
		s.tables = t
		db.mu.Unlock()
	}
	timer := time.NewTicker(definedPause)
	defer timer.Stop()
	for {
		for _, s := range stores {
			if err := s.learn(ctx); err != nil {
				return err
			}
		}
		db.mu.Lock()
		db.loaded = true
		db.reach(0)
		db.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// stores returns the stores of all collections.
func (db *DB) stores() (list []*Store) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	for _, name := range db.names() {
		list = append(list, db.byName[name])
	}
	return list
}

// learn adds the series that other processes have defined.
func (s *Store) learn(ctx context.Context) error {
	_, h := s.state()
	h.mu.RLock()
	since := h.learned
	h.mu.RUnlock()
	now := s.db.o.Now()
	for d, err := range s.tables.Defined(ctx, since) {
		if err != nil {
			return err
		}
		if err := h.learn(d); err != nil {
			s.db.o.Logger.Warn("a series in the tables is ignored", "collection", s.c.Name, "err", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.learned = now.Add(-definedOverlap)
	return nil
}

// learn adds a series.
func (h *head) learn(d engine.SampleSeries) error {
	h.mu.RLock()
	_, known := h.index.ids[hash(d.ID)]
	h.mu.RUnlock()
	if known {
		return nil
	}
	list := make([]Label, 0, len(d.Labels))
	for name, value := range d.Labels {
		list = append(list, Label{name, value})
	}
	l := Labels(list)
	if err := l.normalize(); err != nil {
		return err
	}
	encoded := l.encode()
	if hashOf(encoded) != hash(d.ID) {
		return corrupt("the definition of series %s, whose id is not that of its labels", l)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.assign(hash(d.ID), encoded)
	return err
}

// assign returns the id of a series, and gives it one if it has none. The caller holds h.mu.
func (h *head) assign(k hash, encoded []byte) (uint32, error) {
	if id, ok := h.index.ids[k]; ok {
		return id, nil
	}
	id := uint32(h.members.n + 1)
	if err := h.define(k, append(appendUvarint(nil, uint64(id)), encoded...)); err != nil {
		return 0, err
	}
	h.hashes = append(h.hashes, k)
	h.meta.series = uint64(id)
	return id, nil
}

// reachTables waits until the series are known. For a linearizable read they are asked for again.
func (s *Store) reachTables(ctx context.Context, r engine.Read) error {
	if r.AtLeast != 0 {
		return engine.Errorf(engine.CodeUnsupported, "series: this engine has no positions")
	}
	if err := s.db.wait(ctx, 0); err != nil {
		return err
	}
	if r.Level != engine.Linearizable {
		return nil
	}
	return s.learn(ctx)
}

// defineInTables is define. Other processes define series at the same time, so that all together may define more than MaxSeries.
func (s *Store) defineInTables(ctx context.Context, labels []Labels) ([]ID, error) {
	if err := s.db.wait(ctx, 0); err != nil {
		return nil, err
	}
	if w := s.wanted(labels); len(w.missing) == 0 {
		return w.ids, nil
	}
	s.defining.Lock()
	defer s.defining.Unlock()
	w := s.wanted(labels)
	_, h := s.state()
	h.mu.RLock()
	room := s.c.MaxSeries - h.members.n
	h.mu.RUnlock()
	var full error
	missing := w.missing
	if len(missing) > room {
		missing, full = missing[:max(0, room)], s.full(uint64(s.c.MaxSeries))
	}
	list := make([]engine.SampleSeries, len(missing))
	for i, n := range missing {
		list[i] = engine.SampleSeries{ID: w.hashes[n], Labels: map[string]string{}}
		for _, l := range labels[n] {
			list[i].Labels[l.Name] = l.Value
		}
	}
	if err := s.tables.Define(ctx, list); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range missing {
		id, err := h.assign(w.hashes[n], w.encoded[n])
		if err != nil {
			return nil, err
		}
		w.ids[n] = ID(id)
	}
	return w.ids, full
}

// appendToTables is store.
func (s *Store) appendToTables(ctx context.Context, b *Batch) error {
	if err := s.db.wait(ctx, 0); err != nil {
		return err
	}
	_, h := s.state()
	runs, err := s.runs(h, b)
	if err != nil {
		return err
	}
	if err := s.tables.Append(ctx, runs); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watches) > 0 {
		h.notify(append(b.encodeHeader(), b.data...))
	}
	return nil
}

// runs returns the samples of a batch by series.
func (s *Store) runs(h *head, b *Batch) ([]engine.SampleRun, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if err := s.known(b, h.meta.series); err != nil {
		return nil, err
	}
	var runs []engine.SampleRun
	place := map[uint32]int{}
	r := batchReader{data: b.data, left: b.samples}
	for r.next() {
		i, ok := place[r.id]
		if !ok {
			i = len(runs)
			place[r.id] = i
			runs = append(runs, engine.SampleRun{ID: h.hashes[r.id-1]})
		}
		runs[i].Times, runs[i].Values = append(runs[i].Times, r.s.Time), append(runs[i].Values, r.s.Value)
	}
	return runs, nil
}

// hashes returns what the tables have in place of the ids.
func (sel *selection) hashes(s *Store) []hash {
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	ids := make([]hash, len(sel.ids))
	for i, id := range sel.ids {
		ids[i] = h.hashes[id-1]
	}
	return ids
}

// runTables is run.
func (sel *selection) runTables(ctx context.Context, s *Store) (out []Series, err error) {
	read := func(id hash) (engine.SampleRun, error) {
		return s.tables.Read(ctx, id, sel.from, sel.to, MaxQuerySamples, sel.q.Read)
	}
	err = sel.readTables(s, read, func(i int, run engine.SampleRun) (err error) {
		if len(run.Times) > MaxQuerySamples {
			return engine.Errorf(CodeQueryLimit, "the query reads more than %d samples of series %d", MaxQuerySamples, sel.ids[i])
		}
		out, err = sel.add(out, i, columns{run.Times, run.Values})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// latestInTables is Latest.
func (sel *selection) latestInTables(ctx context.Context, s *Store) (out []Series, err error) {
	read := func(id hash) (engine.SampleRun, error) { return s.tables.Last(ctx, id, sel.from, sel.to, sel.q.Read) }
	err = sel.readTables(s, read, func(i int, run engine.SampleRun) error {
		if len(run.Times) > 0 {
			out = append(out, sel.one(i, Sample{run.Times[0], run.Values[0]}))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readTables calls read for all series, tableReads at a time, and add with the results, in order.
func (sel *selection) readTables(s *Store, read func(id hash) (engine.SampleRun, error), add func(i int, run engine.SampleRun) error) error {
	ids := sel.hashes(s)
	for first := 0; first < len(ids); first += tableReads {
		some := ids[first:min(len(ids), first+tableReads)]
		runs, errs := make([]engine.SampleRun, len(some)), make([]error, len(some))
		var reads sync.WaitGroup
		for i, id := range some {
			reads.Go(func() { runs[i], errs[i] = read(id) })
		}
		reads.Wait()
		for i, run := range runs {
			if errs[i] != nil {
				return errs[i]
			}
			if err := add(first+i, run); err != nil {
				return err
			}
		}
	}
	return nil
}
