package series

import (
	"context"
	"errors"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Define returns the ids of series, in their order, and adds those that do not exist. If the collection has no room
// for all, it adds as many as fit, the ids of the others are 0, and the error is CodeTooManySeries. Labels come from
// NewLabels.
//
// A series whose samples have all expired is removed, and so is one that never gets a sample. Its id is then CodeGone
// in Append, and Define returns another one.
func (s *Store) Define(ctx context.Context, labels []Labels) ([]ID, error) {
	if err := s.takesSamples(); err != nil {
		return nil, err
	}
	return s.define(ctx, labels)
}

// define is Define for any collection.
func (s *Store) define(ctx context.Context, labels []Labels) ([]ID, error) {
	if s.db.own != nil {
		return s.defineInTables(ctx, labels)
	}
	no, err := s.number(ctx)
	if err != nil {
		return nil, err
	}
	w := s.wanted(labels)
	var full error
	for missing := w.missing; len(missing) > 0; {
		n := min(len(missing), MaxDefine)
		var pos engine.Position
		pos, err = s.db.eng.Update(ctx, func(tx engine.Tx) error {
			full = nil
			return s.addSeries(tx, no, missing[:n], w, &full)
		})
		if err != nil {
			return nil, err
		}
		if err := s.db.wait(ctx, pos); err != nil {
			return nil, err
		}
		missing = missing[n:]
	}
	return w.ids, full
}

// wanted are series to be looked up or added.
type wanted struct {
	ids     []ID // 0: missing
	encoded [][]byte
	hashes  []hash
	missing []int
}

// wanted looks up series in memory.
func (s *Store) wanted(labels []Labels) *wanted {
	w := &wanted{ids: make([]ID, len(labels)), encoded: make([][]byte, len(labels)), hashes: make([]hash, len(labels))}
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	for i, l := range labels {
		w.encoded[i] = l.encode()
		w.hashes[i] = hashOf(w.encoded[i])
		if w.ids[i] = ID(h.index.ids[w.hashes[i]]); w.ids[i] == 0 {
			w.missing = append(w.missing, i)
		}
	}
	return w
}

// addSeries looks up or adds the series of some labels in a transaction.
func (s *Store) addSeries(tx engine.Tx, no uint32, which []int, w *wanted, full *error) error {
	m, err := readMeta(tx, no)
	if err != nil {
		return err
	}
	g, err := readGone(tx, no)
	if err != nil {
		return err
	}
	before := m.series
	for _, i := range which {
		k := seriesKey(no, w.hashes[i])
		val, ok, err := tx.Get(k)
		if err != nil {
			return err
		}
		if ok {
			id, _, ok := uvarint(val)
			if !ok {
				return corrupt("the definition of a series")
			}
			w.ids[i] = ID(id)
			continue
		}
		w.ids[i] = 0
		if n := m.series - g.removed; n >= uint64(s.c.MaxSeries) || m.series >= maxID {
			*full = s.full(n)
			continue
		}
		m.series++
		if err := tx.Put(k, append(appendUvarint(nil, m.series), w.encoded[i]...)); err != nil {
			return err
		}
		w.ids[i] = ID(m.series)
	}
	if m.series == before {
		return nil
	}
	return m.put(tx, no)
}

func (s *Store) full(series uint64) error {
	return engine.Errorf(CodeTooManySeries, "collection %s has %d series, as many as it may have", s.c.Name, series)
}

// Lookup returns the id of a series, 0 if it does not exist. It sees what this node has applied.
func (s *Store) Lookup(l Labels) ID {
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	return ID(h.index.ids[hashOf(l.encode())])
}

// Check returns CodeTooOld or CodeTooNew if the collection does not accept samples of that time, in Unix nanoseconds.
func (s *Store) Check(t int64) error {
	oldest, newest := s.Bounds()
	return s.check(t, oldest, newest)
}

// Bounds returns the oldest and the newest time that the collection accepts now, in Unix nanoseconds.
func (s *Store) Bounds() (oldest, newest int64) {
	now := s.db.o.Now()
	return s.c.oldest(now, s.c.Window), nanos(now.Add(s.c.Ahead))
}

// oldest returns the time that lies before now by an age, where 0 is any.
func (c Collection) oldest(now time.Time, age time.Duration) int64 {
	if age == 0 {
		return minTime
	}
	return nanos(now.Add(-age))
}

// nanos returns a time in Unix nanoseconds, or the nearest that there is.
func nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < minTime/int64(time.Second):
		return minTime
	case s >= maxTime/int64(time.Second):
		return maxTime
	}
	return t.UnixNano()
}

func (s *Store) check(t, oldest, newest int64) error {
	switch {
	case t < oldest:
		return engine.Errorf(CodeTooOld, "the time %s is before %s, the oldest that collection %s accepts", stamp(t), stamp(oldest), s.c.Name)
	case t > newest:
		return engine.Errorf(CodeTooNew, "the time %s is more than %s ahead of the clock of this server", stamp(t), s.c.Ahead)
	}
	return nil
}

func stamp(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }

// Append stores a batch, all of it or nothing. When it returns, the samples are as durable as the engine promises,
// and reads on this node see them. It does not change b. The error is engine.CodeInvalid if Define has not returned
// the series of a sample, CodeGone if a series has expired or was deleted since, and CodeTooOld or CodeTooNew if a sample is outside of Bounds, so callers check first; what
// was accepted then may be a minute older now. If the series of this node are too far behind with compressing, the
// error is CodeBusy.
func (s *Store) Append(ctx context.Context, b *Batch) (engine.Position, error) {
	if err := s.takesSamples(); err != nil {
		return 0, err
	}
	oldest, newest := s.Bounds()
	if oldest != minTime {
		oldest -= int64(checkedWithin)
	}
	if b.samples > 0 {
		for _, t := range []int64{b.from, b.to} {
			if err := s.check(t, oldest, newest); err != nil {
				return 0, err
			}
		}
	}
	return s.store(ctx, b)
}

// store is Append for samples of any time.
func (s *Store) store(ctx context.Context, b *Batch) (engine.Position, error) {
	switch {
	case b.samples == 0:
		return 0, nil
	case b.samples > MaxBatchSamples || len(b.data) > maxBatchBytes:
		return 0, engine.Errorf(CodeBatchTooLarge, "a batch of %d samples and %d bytes is over the limit of %d samples and %d bytes",
			b.samples, len(b.data), MaxBatchSamples, maxBatchBytes)
	}
	if s.db.own != nil {
		return 0, s.appendToTables(ctx, b)
	}
	no, err := s.number(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.room(); err != nil {
		return 0, err
	}
	pos, err := s.commit(ctx, no, b)
	if err != nil {
		return 0, err
	}
	// The batch is stored, whatever becomes of the wait.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyWait)
	defer cancel()
	if err := s.db.wait(ctx, pos); err != nil && !errors.Is(err, engine.ErrPositionTimeout) {
		s.db.o.Logger.Warn("series are stored, but reads on this node do not see them yet", "collection", s.c.Name, "err", err)
	}
	return pos, nil
}

// put stores an encoded batch in the newest generation, or in a new one if that is full. It returns errEpoch if series were
// removed after epoch.
func (s *Store) put(tx engine.Tx, no uint32, val []byte, b *Batch, epoch uint64) error {
	m, err := readMeta(tx, no)
	if err != nil {
		return err
	}
	g, err := readGone(tx, no)
	if err != nil {
		return err
	}
	if g.epoch != epoch {
		return errEpoch
	}
	if err := s.known(b, m.series); err != nil { // no node could apply it
		return err
	}
	if m.samples >= uint64(s.db.o.generation) || m.batches >= generationBatches {
		m.begin()
	}
	m.seq++
	m.batches++
	m.samples += uint64(b.samples)
	if err := tx.Put(keyOf(keyBatch, no, m.generation, m.seq), val); err != nil {
		return err
	}
	return m.put(tx, no)
}

// known returns an error if a batch has ids that are not among those of so many series.
func (s *Store) known(b *Batch, series uint64) error {
	id := b.lowest
	if id != 0 {
		if id = b.highest; uint64(id) <= series {
			return nil
		}
	}
	return engine.Errorf(engine.CodeInvalid, "the batch has a sample of series %d, which collection %s does not have: Define returns the ids", id, s.c.Name)
}

// room returns CodeBusy if too many samples are in memory and not sealed.
func (s *Store) room() error {
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.pending > MaxHeadSamples {
		return engine.Errorf(CodeBusy, "collection %s has %d samples that are not compressed yet, over the limit of %d; try again later", s.c.Name, h.pending, MaxHeadSamples)
	}
	return nil
}
