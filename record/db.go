package record

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
)

// Options configure a DB. The zero value works, except for fields of type password.
type Options struct {
	// Passwords hashes and checks the passwords of records; auth has an implementation. If nil, records with passwords
	// are refused.
	Passwords Passwords

	// Feed delivers changes of the engine to subscriptions. If nil, Subscribe is not supported.
	Feed *feed.Feed

	// Logger logs errors of After functions. If nil, they are discarded.
	Logger *slog.Logger
}

// Passwords hashes and checks passwords. Its methods must be safe for concurrent use. They are never called within a
// transaction.
type Passwords interface {
	Hash(ctx context.Context, password string) (hash string, err error)
	Matches(ctx context.Context, password, hash string) (bool, error)
}

// DB has the records on one engine. It is safe for concurrent use. It does not need to be closed and does not close the
// engine.
type DB struct {
	eng     engine.Engine
	parted  *keys.Parted // eng, if it keeps each record in a partition of its own; nil: it does not
	stored  atomic.Int64 // how many of the collections that were defined are known to be stored; only with parted
	lacks   error        // what Define returns; nil: the engine can have records
	o       Options
	catalog atomic.Pointer[catalog] // the last one that was used
	wake    chan struct{}           // of Run
	hub     *hub                    // nil without Options.Feed
	slow    slowLog

	strangersHashing chan struct{} // has an element for each of their transactions whose passwords are hashed

	mu      sync.Mutex
	defined []*schema.Compiled
	hooks   hooks
}

// Open returns the records on eng. If eng lacks a promise that records need, the error matches engine.ErrUnsupported
// and names the promise. An engine.PathStore needs to promise less: each record is in a partition of its own then, and a
// transaction changes one record.
func Open(eng engine.Engine, o Options) (*DB, error) {
	err := eng.Promises().Meets("records", keys.Needs())
	if err == nil {
		return newDB(eng, o), nil
	}
	store, ok := eng.(engine.PathStore)
	if !ok {
		return nil, err
	}
	if err := eng.Promises().Meets("records", keys.NeedsParted()); err != nil {
		return nil, err
	}
	o.Feed = nil
	parted := keys.NewParted(store)
	db := newDB(parted, o)
	db.parted = parted
	return db, nil
}

// Unavailable returns a DB on an engine that cannot have records: all its calls fail with err.
func Unavailable(err error) *DB {
	db := newDB(engine.Unavailable(err), Options{})
	db.lacks = err
	return db
}

func newDB(eng engine.Engine, o Options) *DB {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	db := &DB{eng: eng, o: o, wake: make(chan struct{}, 1), strangersHashing: make(chan struct{}, MaxStrangersHashing), slow: slowLog{reads: SlowReads, time: SlowTime}}
	if o.Feed != nil {
		db.hub = newHub(db)
	}
	return db
}

// Views returns how many views the engine can have open at once, or 0 if any number. Whoever keeps views open for as long as
// its clients like must leave some for others, who wait until one ends.
func (db *DB) Views() int {
	if e, ok := db.eng.(interface{ Views() int }); ok {
		return e.Views()
	}
	return 0
}

// Define declares collections that the program uses. The first transaction that writes creates those that are not
// stored yet. The error covers all collections of the call and wraps schema.Problems. Do not call Define after the
// first transaction.
func (db *DB) Define(collections ...schema.Collection) error {
	if db.lacks != nil {
		return db.lacks
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	var bad error
	for _, c := range collections {
		k, err := c.Compile()
		var refused error
		if err == nil && db.parted != nil {
			refused = keys.Refusals(k)
		}
		switch {
		case refused != nil:
			bad = errors.Join(bad, refused)
		case err != nil:
			bad = errors.Join(bad, engine.Errorf(engine.CodeInvalid, "collection %s: %w", c.Name, err))
		case slices.ContainsFunc(db.defined, func(x *schema.Compiled) bool { return x.Name == c.Name }):
			bad = errors.Join(bad, engine.Errorf(engine.CodeInvalid, "collection %s is defined twice", c.Name))
		default:
			db.defined = append(db.defined, k)
		}
	}
	return bad
}

func (db *DB) definitions() []*schema.Compiled {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.defined
}

// Update runs fn in a transaction on behalf of a; see engine.Engine.Update. fn may run more than once. The Tx is valid
// until fn returns.
func (db *DB) Update(ctx context.Context, a Actor, fn func(*Tx) error) (engine.Position, error) {
	return db.updateHashed(ctx, a, fn)
}

// View runs fn on a consistent snapshot; see engine.Engine.View. Changes fail with engine.ErrReadOnly. fn may run more
// than once. The Tx is valid until fn returns.
func (db *DB) View(ctx context.Context, r engine.Read, a Actor, fn func(*Tx) error) (engine.Position, error) {
	v := view{db: db, guess: db.catalog.Load(), fn: func(tx engine.Tx, c *catalog) error { return fn(db.newTx(tx, c, a)) }}
	pos, err := db.eng.View(ctx, r, v.run)
	if code := engine.CodeOf(err); v.guessed && (code == engine.CodeCorrupt || code == engine.CodeInternal) {
		v.guess, v.guessed = nil, false // a table may have gone together with a collection
		pos, err = db.eng.View(ctx, r, v.run)
	}
	return pos, err
}

// view is a View under way. Where each read is a round trip, it assumes that the collections are those that were used
// last, and looks after fn has run, when the engine has read the epoch together with something else.
type view struct {
	db      *DB
	fn      func(engine.Tx, *catalog) error
	guess   *catalog // nil: read them first
	guessed bool     // fn has used guess, and nothing is known of that
}

func (v *view) run(tx engine.Tx) error {
	if v.guessed = v.guess != nil && keys.ExpectEpoch(tx); v.guessed {
		err := v.fn(tx, v.guess)
		c, lerr := v.db.load(tx)
		if lerr != nil {
			return cmp.Or(err, lerr)
		}
		if v.guessed = false; c.epoch == v.guess.epoch {
			return err
		}
		return v.fn(tx, c)
	}
	c, err := v.db.load(tx)
	if err != nil {
		return err
	}
	return v.fn(tx, c)
}

// In returns the records within tx, a transaction of the engine, such as that of a procedure. Changes of records and of
// other keys then commit together. Passwords cannot be set; see Options.Passwords. If tx is read-only, collections that
// are not stored yet are not created.
func (db *DB) In(tx engine.Tx, a Actor) (*Tx, error) {
	if db.lacks != nil {
		return nil, db.lacks
	}
	c, err := db.settle(tx)
	if err == nil {
		err = db.begin(tx, c)
	}
	if errors.Is(err, engine.ErrReadOnly) {
		c, err = db.load(tx)
	}
	if err != nil {
		return nil, err
	}
	return db.newTx(tx, c, a), nil
}

// Key is the key under which a server's transactions provide the DB; see From.
type Key struct{}

// From returns the records within the transaction of a procedure (*proc.Tx); see DB.In.
func From(tx interface {
	Engine() engine.Tx
	Value(key any) any
}, a Actor) (*Tx, error) {
	db, ok := tx.Value(Key{}).(*DB)
	if !ok {
		return nil, engine.Errorf(engine.CodeUnsupported, "the procedure has no records: proc.Options.Value returns no *record.DB for record.Key{}")
	}
	return db.In(tx.Engine(), a)
}

func (db *DB) newTx(tx engine.Tx, c *catalog, a Actor) *Tx {
	t := &Tx{db: db, tx: tx, catalog: c, actor: a, depth: new(int)}
	t.env = query.Env{Now: tx.Now, Auth: a.auth(), Follow: t.follow}
	t.seen = query.Env{Now: t.env.Now, Auth: a.auth(), Follow: t.followSeen}
	return t
}
