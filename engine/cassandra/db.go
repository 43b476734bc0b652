package cassandra

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// db is the engine.
type db struct {
	o        Options
	target   target
	level    level
	keyspace string
	c        *gocql.Session
	promises engine.Promises
	turns    turns
	scylla   bool // the servers are ScyllaDB
	closed   atomic.Bool
	ctx      context.Context // until Close
	stop     context.CancelFunc
	bg       sync.WaitGroup

	mu    sync.Mutex     // guards the fields below
	unfit error          // why no writes are taken; nil: they are
	bulk  *gocql.Session // for samples; nil: none yet

	commits, conflicts, retries, settled atomic.Int64
}

// Promises implements engine.Engine.
func (e *db) Promises() engine.Promises { return e.promises }

// Close implements engine.Engine.
func (e *db) Close() error {
	if !e.closed.Swap(true) {
		e.stop()
		e.bg.Wait()
		e.c.Close()
		e.mu.Lock()
		bulk := e.bulk
		e.mu.Unlock()
		if bulk != nil {
			bulk.Close()
		}
	}
	return nil
}

// bulkSession returns the session for many requests at once.
func (e *db) bulkSession(ctx context.Context) (*gocql.Session, error) {
	e.mu.Lock()
	c := e.bulk
	e.mu.Unlock()
	if c != nil {
		return c, nil
	}
	t := e.target
	t.bulk = true
	c, err := connect(ctx, t, e.o, policy(t), t.keyspace)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	first := e.bulk == nil && !e.closed.Load()
	if first {
		e.bulk = c
	}
	bulk := e.bulk
	e.mu.Unlock()
	if first {
		return c, nil
	}
	c.Close() // another call was faster, or Close
	if bulk == nil {
		return nil, engine.ErrClosed
	}
	return bulk, nil
}

// Changes implements engine.Engine.
func (e *db) Changes(context.Context, engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		if e.closed.Load() {
			yield(engine.Change{}, engine.ErrClosed)
			return
		}
		yield(engine.Change{}, lacks("feed of changes"))
	}
}

func lacks(what string) error {
	return engine.Errorf(engine.CodeUnsupported, "cassandra: there is no %s", what)
}

// View implements engine.Engine. Serial reads of a partition are of one state if its stamp is the
// same in all. Other reads are not, so a view that reads two keys of a partition runs again with
// serial reads.
func (e *db) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if r.AtLeast != 0 {
		return 0, lacks("position")
	}
	at := e.level.serial
	switch {
	case r.Level == engine.Local && r.MaxStale == 0:
		at = gocql.LocalOne
	case r.Level != engine.Linearizable:
		at = e.level.get
	}
	return 0, e.transact(ctx, false, at, fn)
}

// Update implements engine.Engine.
func (e *db) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return 0, e.transact(ctx, true, e.level.serial, fn)
}

// transact runs fn until what it read was one state of each partition, and commits.
func (e *db) transact(ctx context.Context, writes bool, at gocql.Consistency, fn func(engine.Tx) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	for try := 0; ; try++ {
		if e.closed.Load() {
			return engine.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if writes {
			if err := e.refusal(); err != nil {
				return err
			}
		}
		err := e.once(&tx{
			e: e, ctx: ctx, writes: writes, at: at, now: e.o.Now().Truncate(time.Microsecond), began: time.Now(),
			keys: map[string]*used{}, parts: map[string]*seen{},
		}, fn)
		if err == errSerial {
			at = e.level.serial
			continue
		}
		if err != errConflict {
			return err
		}
		e.conflicts.Add(1)
		if try == maxConflicts {
			return engine.Errorf(engine.CodeConflict, "cassandra: the transaction lost to others %d times", try)
		}
		pause(ctx, rand.N(time.Duration(min(try+1, 20))*time.Millisecond))
	}
}

// once runs fn once and commits. It runs in the caller's goroutine, which fn may end.
func (e *db) once(t *tx, fn func(engine.Tx) error) error {
	defer t.end()
	own := fn(t)
	switch {
	case t.crossed != nil:
		return t.crossed
	case t.fail != nil:
		return t.fail
	case own != nil || t.wrote == 0:
		return own
	}
	return e.commit(t)
}

// refusal returns why no writes are taken; nil: they are.
func (e *db) refusal() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unfit
}
