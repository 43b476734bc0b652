// Package series stores time series: float64 values by time, each under a name and labels.
//
// It knows collections, labels, chunks, retention and aggregates; it must not know faces or which engine runs.
// DESIGN.md describes the layout, and how a read joins what is sealed with what is not.
package series

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/keyspace"
)

// Options of New.
type Options struct {
	Feed   *feed.Feed       // of the engine; nil: one of its own, if it needs one
	Now    func() time.Time // the clock that bounds the times of new samples; nil: time.Now
	Logger *slog.Logger     // nil: slog.Default

	generation int           // samples after which a generation is full; 0: generationSamples
	age        time.Duration // likewise; 0: generationAge
	lease      time.Duration // of the node that seals; 0: leaseFor
	fanIn      int           // parts of one level that are merged; 0: mergeFanIn
	pause      time.Duration // between looks for work, and after an error; 0: workPause
	sweep      int           // bytes that one view of a sweep reads; 0: sweepBytes
}

// DB is all series of one engine. Its methods are safe for concurrent use. Apart from Use they work only while
// Run does.
type DB struct {
	eng engine.Engine
	own engine.SampleStore // eng, if it has tables of its own; nil: series are on keys
	o   Options

	feed *feed.Feed    // that Run runs; nil: none
	wake chan struct{} // to look for work

	mu      sync.RWMutex // guards the fields below
	byName  map[string]*Store
	byNo    map[uint32]*Store
	loaded  bool            // once; then the stores have what the engine has up to pos
	pos     engine.Position // up to which the stores have all changes
	moved   chan struct{}   // closed when pos moves or the following ends
	ended   error           // why nothing follows the changes any longer
	running bool            // Run has begun
}

// Needs returns what New asks of an engine.
func Needs() engine.Promises {
	return engine.Promises{
		Atomic: engine.AllKeys, Serializable: true, Ordered: true, Feed: true, Snapshot: true, Positions: true,
		MaxValBytes: maxBatchBytes, MaxTxBytes: maxTxBytes,
	}
}

// New returns the series of eng, which is an engine.SampleStore or meets Needs. Another one is ErrUnsupported, by the name
// of the promise that it lacks.
func New(eng engine.Engine, o Options) (*DB, error) {
	own, _ := eng.(engine.SampleStore)
	if own == nil {
		if err := eng.Promises().Meets("series", Needs()); err != nil {
			return nil, err
		}
	}
	var follow *feed.Feed
	if o.Feed == nil && own == nil {
		var err error
		if follow, err = feed.New(eng, feed.Options{}); err != nil {
			return nil, err
		}
		o.Feed = follow
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.generation = cmp.Or(o.generation, generationSamples)
	o.age = cmp.Or(o.age, generationAge)
	o.lease = cmp.Or(o.lease, leaseFor)
	o.fanIn = cmp.Or(o.fanIn, mergeFanIn)
	o.pause = cmp.Or(o.pause, workPause)
	o.sweep = cmp.Or(o.sweep, sweepBytes)
	return &DB{eng: eng, own: own, o: o, feed: follow, byName: map[string]*Store{}, byNo: map[uint32]*Store{}, moved: make(chan struct{}), wake: make(chan struct{}, 1)}, nil
}

// Unavailable returns a DB whose calls all fail with err.
func Unavailable(err error) *DB { return &DB{ended: err, moved: make(chan struct{})} }

// Collection configures a set of series that are kept equally long. Only Name is required.
type Collection struct {
	// Name has 1 to 64 letters, digits, - and _. A database or bucket of InfluxDB's protocol is the collection of
	// that name.
	Name string

	// Retention is how long samples are kept; 0 keeps them forever. Older ones are not returned, and their space
	// is freed for whole buckets.
	Retention time.Duration

	// Window is how old a new sample may be, so how late or out of order it may arrive; 0 is Retention, or
	// without it any age. Older ones are CodeTooOld.
	Window time.Duration

	// Ahead is how far in the future a sample may be, for clocks that differ; 0 is 10 minutes. Later ones are
	// CodeTooNew.
	Ahead time.Duration

	// MaxSeries bounds how many series there are; 0 is 1,000,000. Beyond it samples of new series are
	// CodeTooManySeries.
	MaxSeries int

	// Rollup, if it is not nil, fills the collection with summaries of another one. It takes no other samples.
	Rollup *Rollup
}

func (c Collection) withDefaults() (Collection, error) {
	if !validName(c.Name) {
		return c, engine.Errorf(engine.CodeInvalid, "series: the collection name %q is not 1 to %d letters, digits, - and _", c.Name, maxCollectionName)
	}
	if c.Retention < 0 || c.Window < 0 || c.Ahead < 0 || c.MaxSeries < 0 {
		return c, engine.Errorf(engine.CodeInvalid, "series: collection %s has a negative option", c.Name)
	}
	if c.MaxSeries > MaxSeries {
		return c, engine.Errorf(engine.CodeInvalid, "series: collection %s has MaxSeries %d, over the limit of %d", c.Name, c.MaxSeries, MaxSeries)
	}
	c.Window = cmp.Or(c.Window, c.Retention)
	c.Ahead = cmp.Or(c.Ahead, defaultAhead)
	c.MaxSeries = cmp.Or(c.MaxSeries, defaultMaxSeries)
	return c, nil
}

func validName(name string) bool {
	if name == "" || len(name) > maxCollectionName {
		return false
	}
	for _, r := range []byte(name) {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return false
		}
	}
	return true
}

// Use returns the store of a collection. A program uses each collection that it has once, before requests are
// served. The options may differ from those of the last time: they are not stored. Samples that are already there
// are kept by the new Retention.
func (db *DB) Use(c Collection) (*Store, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.byName == nil {
		return nil, db.ended
	}
	if db.running {
		return nil, engine.Errorf(engine.CodeInvalid, "series: the collection %s is used after the server has started", c.Name)
	}
	if db.byName[c.Name] != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "series: the collection %s is used twice", c.Name)
	}
	if len(db.byName) >= MaxCollections {
		return nil, engine.Errorf(engine.CodeLimit, "series: more than %d collections", MaxCollections)
	}
	if c.Rollup != nil {
		if db.own != nil {
			return nil, engine.Errorf(engine.CodeUnsupported, "series: collection %s is a summary, which needs %s", c.Name, "transactions over all keys; this engine has none")
		}
		r := *c.Rollup
		if err := r.check(db, c.Name); err != nil {
			return nil, err
		}
		c.Rollup = &r
	}
	s := &Store{db: db, c: c, head: newHead()}
	db.byName[c.Name] = s
	return s, nil
}

// Collection returns the store of a collection that is in use, or CodeNoCollection with the names of those that are.
func (db *DB) Collection(name string) (*Store, error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	if s := db.byName[name]; s != nil {
		return s, nil
	}
	if db.byName == nil {
		return nil, db.ended
	}
	return nil, engine.Errorf(CodeNoCollection, "there is no collection of series %q; there are: %v", name, db.names())
}

// Names returns the names of the collections that are in use, sorted.
func (db *DB) Names() []string {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.names()
}

// names is Names. The caller holds db.mu.
func (db *DB) names() []string {
	names := make([]string, 0, len(db.byName))
	for name := range db.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Store is one collection. Its methods are safe for concurrent use.
type Store struct {
	db *DB
	c  Collection

	// DB.mu guards these. The number is 0 until the collection is stored. A head that is reloaded is a new one.
	no     uint32
	head   *head
	tables engine.SampleTables // nil: not open, or the series are on keys

	defining sync.Mutex // held while series are defined in tables, so that there are no more than MaxSeries
}

// Name returns the name of the collection.
func (s *Store) Name() string { return s.c.Name }

// state returns the collection's number and what is in memory of it.
func (s *Store) state() (uint32, *head) {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	return s.no, s.head
}

// number returns the number of the collection, and stores the collection under a new one if it has none.
func (s *Store) number(ctx context.Context) (uint32, error) {
	if no, _ := s.state(); no != 0 {
		return no, nil
	}
	var no uint32
	pos, err := s.db.eng.Update(ctx, func(tx engine.Tx) error {
		var err error
		if no, err = collectionNo(tx, s.c.Name); err != nil || no != 0 {
			return err
		}
		last := uint32(0)
		for p, err := range tx.ScanBack(key(keyCollection), engine.PrefixEnd(key(keyCollection))) {
			if err != nil {
				return err
			}
			if n := collectionOf(p.Val); n > last {
				last = n
			}
		}
		no = last + 1
		return tx.Put(append(key(keyCollection), s.c.Name...), appendNo(nil, no))
	})
	if err != nil {
		return 0, err
	}
	return no, s.db.wait(ctx, pos)
}

// prefixes selects all keys of series.
func prefixes() [][]byte { return [][]byte{{keyspace.Series}} }
