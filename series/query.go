package series

import (
	"context"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Query selects samples. The zero value selects everything, which is usually over a limit.
type Query struct {
	Match    []Matcher // a series has to match all of them
	From, To time.Time // of the samples, both included; zero: no bound
	Read     engine.Read

	// Step, if it is not 0, returns one value for each Step instead of samples, for each of Aggregates. The windows
	// begin at multiples of Step since 1970, and have the time at which they begin. Those without samples are left out.
	Step       time.Duration
	Aggregates []Aggregate // at least one if there is a Step
}

// Series is what a query returns of one series.
type Series struct {
	ID      ID
	Labels  Labels
	Times   []int64     // Unix nanoseconds, ascending
	Values  []float64   // the samples; nil if Query.Step is set
	Columns [][]float64 // with Query.Step: the values of each of Query.Aggregates
}

// Select returns the series that have samples, in the order of their ids. The limits are MaxQuerySeries,
// MaxQuerySamples, MaxReadSamples and MaxWindows; beyond them the error is CodeQueryLimit.
func (s *Store) Select(ctx context.Context, q Query) ([]Series, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	sel, err := s.prepare(ctx, q)
	if err != nil || len(sel.ids) == 0 {
		return nil, err
	}
	if s.db.own != nil {
		return sel.runTables(ctx, s)
	}
	var out []Series
	_, err = s.db.eng.View(ctx, sel.read, func(tx engine.Tx) error {
		var err error
		out, err = sel.run(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (q *Query) check() error {
	switch {
	case len(q.Match) > MaxMatchers:
		return engine.Errorf(engine.CodeLimit, "%d matchers are over the limit of %d", len(q.Match), MaxMatchers)
	case q.Step < 0:
		return engine.Errorf(engine.CodeInvalid, "the step %s is negative", q.Step)
	case q.Step == 0 && len(q.Aggregates) > 0:
		return engine.Errorf(engine.CodeInvalid, "aggregates need a step")
	case q.Step > 0 && len(q.Aggregates) == 0:
		return engine.Errorf(engine.CodeInvalid, "a step needs at least one aggregate")
	case q.Step > 0 && len(q.Aggregates) > MaxAggregates:
		return engine.Errorf(engine.CodeLimit, "%d aggregates are over the limit of %d", len(q.Aggregates), MaxAggregates)
	case !q.To.IsZero() && q.To.Before(q.From):
		return engine.Errorf(engine.CodeInvalid, "the query ends at %s, before it begins", q.To.UTC().Format(time.RFC3339))
	}
	for _, a := range q.Aggregates {
		if err := a.check(); err != nil {
			return err
		}
	}
	return nil
}

// selection is a query for series that are known, with their samples that are not sealed.
type selection struct {
	q        Query
	read     engine.Read // at least as new as head
	no       uint32
	from, to int64
	ids      []uint32
	labels   []Labels
	heads    [][]buffer // of each series

	samples, returned int // so far
}

// prepare finds the series, and takes their unsealed samples at a position that is as new as the query asks for. The
// view that follows is at least as new: what has been sealed since is in its parts, and its state says so.
func (s *Store) prepare(ctx context.Context, q Query) (*selection, error) {
	if err := s.reach(ctx, q.Read); err != nil {
		return nil, err
	}
	sel := &selection{q: q, from: minTime, to: maxTime}
	if !q.From.IsZero() {
		sel.from = nanos(q.From)
	}
	if !q.To.IsZero() {
		sel.to = nanos(q.To)
	}
	sel.from = max(sel.from, s.c.oldest(s.db.o.Now(), s.c.Retention))
	no, h := s.state()
	sel.no = no
	h.mu.RLock()
	defer h.mu.RUnlock()
	sel.ids = h.find(q.Match)
	if len(sel.ids) > MaxQuerySeries {
		return nil, engine.Errorf(CodeQueryLimit, "%d series match, over the limit of %d", len(sel.ids), MaxQuerySeries)
	}
	sel.take(h)
	return sel, nil
}

// take takes the labels and unsealed samples of the series. The caller holds h.mu.
func (sel *selection) take(h *head) {
	sel.labels = make([]Labels, len(sel.ids))
	sel.heads = make([][]buffer, len(sel.ids))
	for i, id := range sel.ids {
		sel.labels[i] = h.labelsOf(id)
		sel.heads[i] = h.members.get(id).buffers()
	}
	sel.read = engine.Read{Level: engine.Session, AtLeast: h.pos}
}

// reach waits until this node has applied what a read asks for.
func (s *Store) reach(ctx context.Context, r engine.Read) error {
	if s.db.own != nil {
		return s.reachTables(ctx, r)
	}
	pos := r.AtLeast
	if r.Level == engine.Linearizable {
		var err error
		if pos, err = s.db.eng.View(ctx, r, func(engine.Tx) error { return nil }); err != nil {
			return err
		}
	}
	return s.db.wait(ctx, pos)
}

// run reads the samples.
func (sel *selection) run(ctx context.Context, tx engine.Tx) ([]Series, error) {
	r, err := sel.reader(tx)
	if err != nil {
		return nil, err
	}
	var out []Series
	for i, id := range sel.ids {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c, err := r.read(i, id)
		if err != nil {
			return nil, err
		}
		if out, err = sel.add(out, i, c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// add appends what is returned of the ith series.
func (sel *selection) add(out []Series, i int, c columns) ([]Series, error) {
	if len(c.times) == 0 {
		return out, nil
	}
	if sel.samples += len(c.times); sel.samples > MaxReadSamples {
		return nil, engine.Errorf(CodeQueryLimit, "the query reads more than %d samples", int64(MaxReadSamples))
	}
	x := Series{ID: ID(sel.ids[i]), Labels: sel.labels[i]}
	if err := sel.fill(&x, c); err != nil {
		return nil, err
	}
	if sel.returned += len(x.Times); sel.returned > MaxQuerySamples {
		return nil, engine.Errorf(CodeQueryLimit, "the query returns more than %d samples; a step makes it fewer", MaxQuerySamples)
	}
	return append(out, x), nil
}

// fill sets what is returned of one series.
func (sel *selection) fill(x *Series, c columns) error {
	if sel.q.Step > 0 {
		var err error
		x.Times, x.Columns, err = aggregate(c, int64(sel.q.Step), sel.q.Aggregates)
		return err
	}
	x.Times = append([]int64(nil), c.times...)
	x.Values = append([]float64(nil), c.values...)
	return nil
}

func (sel *selection) reader(tx engine.Tx) (*reader, error) {
	m, err := readMeta(tx, sel.no)
	if err != nil {
		return nil, err
	}
	parts, err := partsBetween(tx, sel.no, sel.from, sel.to)
	if err != nil {
		return nil, err
	}
	readers := make([]*partReader, len(parts))
	for i, p := range parts {
		readers[i] = &partReader{part: p, coll: sel.no}
	}
	return &reader{sel: sel, tx: tx, parts: readers, sealed: m.sealed}, nil
}

// reader reads the samples of one series after the other.
type reader struct {
	sel    *selection
	tx     engine.Tx
	parts  []*partReader
	sealed uint64

	sort sorter
	cols columns // of the last series
}

// read returns the samples of the ith series. They are valid until the next call.
func (r *reader) read(i int, id uint32) (columns, error) {
	r.cols.reset()
	sorted := true
	add := func(data []byte) error {
		n, first, last, err := chunkInfo(data)
		if err != nil {
			return corrupt("a chunk of series %d", id)
		}
		if first > r.sel.to || last < r.sel.from {
			return nil
		}
		if n := len(r.cols.times); n > 0 && r.cols.times[n-1] >= first {
			sorted = false
		}
		if len(r.cols.times)+n > MaxQuerySamples {
			return engine.Errorf(CodeQueryLimit, "the query reads more than %d samples of series %d", MaxQuerySamples, id)
		}
		if err := r.cols.decode(data); err != nil {
			return corrupt("a chunk of series %d", id)
		}
		return nil
	}
	for _, p := range r.parts {
		if err := p.chunks(r.tx, id, add); err != nil {
			return columns{}, err
		}
	}
	for _, b := range r.sel.heads[i] {
		if b.gen <= r.sealed {
			continue
		}
		for _, s := range b.samples {
			if s.Time < r.sel.from || s.Time > r.sel.to {
				continue
			}
			if n := len(r.cols.times); n > 0 && r.cols.times[n-1] >= s.Time {
				sorted = false
			}
			r.cols.add(s)
		}
	}
	if !sorted {
		r.sort.addColumns(&r.cols)
		r.sort.columns(&r.cols)
	}
	return r.cols.cut(r.sel.from, r.sel.to), nil
}
