package record

import (
	"cmp"
	"context"
	"crypto/sha256"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
)

// What slow queries are, and how much is kept of them. A query is slow if it reads many records that it does not use, takes long,
// or is refused because it would read too many.
const (
	SlowReads      = 1_000                  // records that a slow query reads besides those that it returns, skips, counts or aggregates
	SlowTime       = 100 * time.Millisecond // that a slow query takes, its expansions included
	MaxSlowShapes  = 256                    // shapes of slow queries that are kept
	MaxShapeBytes  = 2 << 10                // text of a shape; a condition with more has no advice
	MinReadPerUsed = 5                      // how many records a query reads for each that it uses, if an index is advised for it
)

// The reasons of SlowQuery.Advice why no index is advised.
const (
	OtherEngine = keys.OtherEngine       // the engine plans the query itself
	InPast      = keys.InPast            // it is about the past, of which indexes have nothing
	Unbounded   = keys.Unbounded         // it compares no column or field with a value in a way that an index serves
	Exists      = keys.Exists            // an index that was added since serves it
	Building    = keys.Building          // an index that is being built will serve it
	NoGain      = keys.NoGain            // the planner would not use an index, or read about as many records with it
	Enough      = keys.Reason("enough")  // it uses most of the records that it reads
	TooLong     = keys.Reason("long")    // its condition is longer than MaxShapeBytes
	Changed     = keys.Reason("changed") // its collection has other fields by now
)

// SlowQuery is what is known of the slow queries of one shape: those of a collection that differ only in their values. No values
// are kept.
type SlowQuery struct {
	Collection string
	Filter     string // with ? for each value; "" for every record
	Rule       string // what the rules asked besides, in the same way; "" nothing
	Sort       string // "" by id
	Expand     string
	Aggregate  string // what was computed instead of a page: count, sum(total) by status
	Deleted    query.Deleted
	Past       bool

	Access string // the kind of the plan, as keys.Plan has it
	Index  string // of the plan
	Sorted bool   // in memory

	Runs, Failed uint64 // Failed are those that were refused because they would read too much
	Read         uint64 // records, by all runs
	Used         uint64 // of them, those that were returned, skipped, counted or aggregated
	Time, Most   time.Duration
	Last         time.Time

	Advice keys.Advice
	Fixed  bool // the engine cannot add indexes to a collection that is stored
}

// shapeKey tells shapes apart.
type shapeKey struct {
	collection string
	form       uint64 // of its description
	where      [sha256.Size]byte
	rule       [sha256.Size]byte
	rest       string // what else is in the query, and the plan
}

// shape is a SlowQuery with what advice needs.
type shape struct {
	SlowQuery
	form   uint64       // of its description
	usable uint64       // what the planner could use at the last run
	search *keys.Search // nil: the condition is too long
	all    bool         // every record was wanted
	weight time.Duration

	read, met, expected float64 // of the part of the query that has read most, by all runs
}

// slowLog keeps the shapes of the slow queries of a DB.
type slowLog struct {
	reads int
	time  time.Duration
	total atomic.Uint64

	mu     sync.Mutex // guards shapes
	shapes map[shapeKey]*shape
}

// work is what a query has cost.
type work struct {
	plan keys.Plan // of the part that has read most
	all  bool      // that part wanted every record
	read int
	used int
}

// add adds a part of the query, which has used some of the records that it has read.
func (w *work) add(p keys.Plan, all bool, used int) {
	if w.plan.Access == "" || p.Read > w.plan.Read {
		w.plan, w.all = p, all
	}
	w.read += p.Read
	w.used += used
}

// note records a query if it was slow.
func (t *Tx) note(c *collection, s *keys.Search, p *Page, took time.Duration, err error) {
	l, w, refused := &t.db.slow, &p.work, false
	if err != nil {
		code := engine.CodeOf(err)
		if refused = code == CodeScan || code == CodeNoPath; !refused {
			return
		}
	}
	if !refused && took < l.time && w.read-w.used < l.reads {
		return
	}
	l.total.Add(1)
	x, key := newShape(t, c, p.query, s, w)
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.shapes[key]
	if known == nil {
		if len(l.shapes) >= MaxSlowShapes {
			x.weight = l.forget()
		}
		if l.shapes == nil {
			l.shapes = map[shapeKey]*shape{}
		}
		known = x
		l.shapes[key] = x
	}
	known.add(c, w, took, refused)
}

// add counts a run.
func (x *shape) add(c *collection, w *work, took time.Duration, refused bool) {
	x.Runs++
	if refused {
		x.Failed++
	}
	x.Read += uint64(w.read)
	x.Used += uint64(max(0, min(w.used, w.read)))
	x.Time += took
	x.weight += took
	x.Most = max(x.Most, took)
	x.Last = time.Now()
	x.usable = c.Usable()
	x.read += float64(w.plan.Read)
	x.met += float64(w.plan.Met)
	x.expected += float64(w.plan.Expected)
}

// forget removes the shape that has cost least time, and returns how much. The next shape inherits that: otherwise new shapes
// would replace one another for ever, and none could become one of those that are kept.
func (l *slowLog) forget() time.Duration {
	var least shapeKey
	var of *shape
	for key, x := range l.shapes {
		if of == nil || x.weight < of.weight || x.weight == of.weight && x.Last.Before(of.Last) {
			least, of = key, x
		}
	}
	delete(l.shapes, least)
	return of.weight
}

// newShape returns the shape of a query, without runs.
func newShape(t *Tx, c *collection, q *query.Query, s *keys.Search, w *work) (*shape, shapeKey) {
	x := &shape{form: c.Form(), all: w.all, search: &keys.Search{Deleted: s.Deleted, Orders: s.Orders, Offset: s.Offset, Limit: s.Limit}}
	x.Collection, x.Deleted, x.Past = c.Name, s.Deleted, s.Past != nil
	x.Access, x.Index, x.Sorted = w.plan.Access, w.plan.Index, w.plan.Sorted
	if sort := s.Orders.String(); sort != "id" {
		x.Sort = sort
	}
	x.Expand, x.Aggregate = expandText(q.Expand), aggregateText(q)
	key := shapeKey{collection: c.Name, form: x.form}
	scope := query.Scope{Collection: c.Compiled, Other: t.catalog.compiled}
	size := 0
	for _, test := range s.Tests {
		cond := test.Cond.Shape()
		text := ""
		if !cond.Always() {
			text = cond.Template(scope)
		}
		size += len(text)
		into, sum := &x.Filter, &key.where
		if test.Cond != q.Where {
			into, sum = &x.Rule, &key.rule
		}
		*into, *sum = shortened(text), cond.Fingerprint()
		x.search.Tests = append(x.search.Tests, keys.Test{Cond: cond, Env: query.SampleEnv()})
	}
	x.Sort, x.Expand, x.Aggregate = shortened(x.Sort), shortened(x.Expand), shortened(x.Aggregate)
	if size > MaxShapeBytes {
		x.search = nil
	}
	key.rest = strings.Join([]string{x.Sort, x.Expand, x.Aggregate, x.Deleted.String(), x.Access, x.Index}, "\x00")
	for _, is := range []bool{x.Past, x.Sorted, x.all} {
		key.rest += map[bool]string{false: "0", true: "1"}[is]
	}
	return x, key
}

// shortened returns a text of at most MaxShapeBytes that has a memory of its own.
func shortened(text string) string {
	if len(text) > MaxShapeBytes {
		return strings.ToValidUTF8(text[:MaxShapeBytes], "") + "…"
	}
	return strings.Clone(text)
}

func expandText(all []*query.Expand) string {
	var parts []string
	for _, e := range all {
		if len(e.Next) == 0 {
			parts = append(parts, e.Name)
		}
		for _, next := range e.Next {
			parts = append(parts, e.Name+"."+expandText([]*query.Expand{next}))
		}
	}
	return strings.Join(parts, ",")
}

func aggregateText(q *query.Query) string {
	var parts, by []string
	for _, a := range q.Aggregates {
		parts = append(parts, a.Name)
	}
	for _, g := range q.Group {
		by = append(by, g.Name)
	}
	text := strings.Join(parts, ", ")
	if len(by) > 0 {
		text += " by " + strings.Join(by, ", ")
	}
	if q.Count {
		text = string(query.CountOf)
	}
	return text
}

// SlowQueries returns the shapes of the slow queries on this node since its start, those that took most time first, at most
// MaxSlowShapes. For each it says which indexes would help, of which it asks the planner. It reads no records.
//
// An engine that plans queries itself does not say how many records it reads: where records are in tables, only the time and the
// rows that came from the tables are known, and no index is advised.
func (db *DB) SlowQueries(ctx context.Context) ([]SlowQuery, error) {
	db.slow.mu.Lock()
	var shapes []shape
	for _, x := range db.slow.shapes {
		shapes = append(shapes, *x)
	}
	db.slow.mu.Unlock()
	if len(shapes) == 0 {
		return nil, nil
	}
	var all []SlowQuery
	_, err := db.eng.View(ctx, engine.Read{Level: engine.Local}, func(tx engine.Tx) error {
		all = nil
		c, err := db.load(tx)
		if err != nil {
			return err
		}
		for i := range shapes {
			x, of := shapes[i].SlowQuery, c.byName[shapes[i].Collection]
			if of == nil {
				continue // it was dropped
			}
			if x.Advice, err = shapes[i].advice(tx, of); err != nil {
				return err
			}
			x.Fixed = db.parted != nil
			all = append(all, x)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b SlowQuery) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Filter, b.Filter))
	})
	return all, err
}

// advice asks the planner which indexes would help with the shape.
func (x *shape) advice(tx engine.Tx, c *collection) (keys.Advice, error) {
	switch {
	case c.Form() != x.form:
		return keys.Advice{Reason: Changed}, nil
	case x.search == nil:
		return keys.Advice{Reason: TooLong}, nil
	case x.Past:
		return keys.Advice{Reason: keys.InPast}, nil
	}
	n := float64(x.Runs)
	a, err := keys.Advise(tx, c.Collection, x.search, keys.Measured{
		Index: x.Index, Union: x.Access == "union", Read: x.read / n, Met: x.met / n, Expected: x.expected / n, Usable: x.usable, All: x.all,
	})
	if err == nil && a.Reason != keys.OtherEngine && x.Failed == 0 && x.Read < MinReadPerUsed*max(1, x.Used) {
		a = keys.Advice{Reason: Enough}
	}
	return a, err
}

// Metrics yields metrics about the queries of records since db was opened. It may be called at any time.
func (db *DB) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		yield(engine.Metric{Name: "records_slow_queries_total", Help: "Queries of records that read many records that they did not use, took long, or were refused because they would read too many.", Counter: true, Value: float64(db.slow.total.Load())})
	}
}
