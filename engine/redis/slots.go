package redis

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/engine"
)

// slots is the engine on a Redis Cluster: each transaction is on the keys of one partition,
// which are in one hash slot. A value in Redis begins with the stamp of the commit that wrote
// it, so that a script can check what a transaction has read.
type slots struct {
	o        Options
	prefix   string
	c        rueidis.Client
	promises engine.Promises
	closed   atomic.Bool
	ctx      context.Context // until Close
	stop     context.CancelFunc
	bg       sync.WaitGroup

	mu    sync.Mutex       // guards the fields below
	unfit map[string]error // by node: why it must take no writes
	asked map[string]bool  // nodes whose answer is awaited
	gone  error            // why nothing can be read any more; nil: it can

	commits, conflicts, retries atomic.Int64
}

const (
	// MaxTxKeys bounds the keys that one transaction in a cluster reads or writes.
	MaxTxKeys = 8 << 10
	// stampBytes is the length of a stamp. It is stored: do not change it.
	stampBytes = 16
	// expiryGrace is how much later than asked Redis removes a key: its clock may be ahead.
	expiryGrace = 10 * time.Minute
)

func openSlots(ctx context.Context, t target, o Options) (engine.Engine, error) {
	if err := anyNode(ctx, t); err != nil {
		return nil, err
	}
	c, err := rueidis.NewClient(t.client)
	if err != nil {
		return nil, fault(ctx, err)
	}
	e := &slots{o: o, prefix: t.prefix, c: c, unfit: map[string]error{}, asked: map[string]bool{}}
	volatile, err := e.survey(ctx)
	if err == nil {
		err = e.checkFormat(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	if volatile != "" {
		o.Logger.Warn("redis: commits are not durable", "reason", volatile)
	}
	e.promises = engine.Promises{
		Atomic: engine.OnePartition, Serializable: true, Durable: volatile == "",
		MaxKeyBytes: MaxKeyBytes, MaxValBytes: MaxValBytes, MaxTxBytes: MaxTxBytes,
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.bg.Go(e.keep)
	return e, nil
}

func (e *slots) checkFormat(ctx context.Context) error {
	key := e.prefix + "format"
	err := e.c.Do(ctx, e.c.B().Set().Key(key).Value(formatVersion).Nx().Build()).Error()
	if err != nil && !rueidis.IsRedisNil(err) {
		return fault(ctx, err)
	}
	got, err := e.c.Do(ctx, e.c.B().Get().Key(key).Build()).ToString()
	if err == nil && got != formatVersion {
		return errNewer(got)
	}
	return fault(ctx, err)
}

// name returns the key in Redis. The prefix has no braces, so that the key's hash tag is
// its partition.
func (e *slots) name(key string) string { return e.prefix + "k:" + key }

// Promises implements engine.Engine.
func (e *slots) Promises() engine.Promises { return e.promises }

// Close implements engine.Engine.
func (e *slots) Close() error {
	if !e.closed.Swap(true) {
		e.stop()
		e.bg.Wait()
		e.c.Close()
	}
	return nil
}

// Changes implements engine.Engine.
func (e *slots) Changes(context.Context, engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		if e.closed.Load() {
			yield(engine.Change{}, engine.ErrClosed)
			return
		}
		yield(engine.Change{}, lacks("feed of changes"))
	}
}

func lacks(what string) error {
	return engine.Errorf(engine.CodeUnsupported, "redis: a cluster has no %s", what)
}

// View implements engine.Engine.
func (e *slots) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	if r.AtLeast != 0 {
		return 0, lacks("positions")
	}
	return 0, e.transact(ctx, false, fn)
}

// Update implements engine.Engine.
func (e *slots) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	return 0, e.transact(ctx, true, fn)
}

// errSlotConflict: what a transaction read has changed.
var errSlotConflict = errors.New("a key that was read has changed")

// transact runs fn until what it read was one state of each partition, and commits.
func (e *slots) transact(ctx context.Context, writes bool, fn func(engine.Tx) error) error {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.closed.Load() {
			return engine.ErrClosed
		}
		if err := e.refusal(writes); err != nil {
			return err
		}
		tx := &slotTx{e: e, ctx: ctx, writes: writes, now: e.o.Now().Truncate(time.Microsecond), keys: map[string]*used{}}
		err := e.once(ctx, tx, fn)
		if err != errSlotConflict {
			return err
		}
		e.conflicts.Add(1)
		if try == maxConflicts {
			return engine.Errorf(engine.CodeConflict, "redis: the transaction lost to others %d times", try)
		}
		wait := time.Duration(min(try+1, 20)) * 200 * time.Microsecond
		time.Sleep(rand.N(wait))
	}
}

func (e *slots) once(ctx context.Context, tx *slotTx, fn func(engine.Tx) error) error {
	defer func() { tx.ended = true }()
	own := fn(tx)
	switch {
	case tx.crossed != nil:
		return tx.crossed
	case tx.fail != nil:
		return e.orClosed(tx.fail)
	case own == nil && tx.wrote > 0:
		return e.commit(ctx, tx)
	}
	for part, n := range tx.reads() {
		if n < 2 {
			continue // one read is one state
		}
		if err := e.commitPart(ctx, tx, part, false); err != nil {
			return err
		}
	}
	return own
}

func (e *slots) orClosed(err error) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return err
}

func (e *slots) commit(ctx context.Context, tx *slotTx) error {
	if err := e.commitPart(ctx, tx, string(tx.part), true); err != nil {
		return err
	}
	e.commits.Add(1)
	return nil
}

// commitPart checks what was read in a partition, and applies the writes if apply is set.
//
// After a lost connection it sends the commit again only if that cannot be applied twice:
// if every write also checks what its key held.
func (e *slots) commitPart(ctx context.Context, tx *slotTx, part string, apply bool) error {
	script, keys, args, checked := tx.request(part, apply)
	unknown, cut := false, false
	until := time.Now().Add(e.o.patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		got, err := script.Exec(ctx, e.c, keys, args).ToArray()
		word := ""
		if err == nil {
			word, err = got[0].ToString()
		}
		if err != nil && !isServers(err) && !cut {
			cut, until = true, time.Now().Add(e.o.patience) // silence may have taken all of it
		}
		over := time.Now().After(until) || e.closed.Load() || ctx.Err() != nil
		switch {
		case word == "ok":
			return nil
		case word == "conflict" && !unknown:
			return errSlotConflict
		case word == "conflict":
			return cutOff(errSlotConflict)
		case isServers(err) && !unknown && (over || !passing(err)):
			return e.orClosed(fault(ctx, err))
		case isServers(err) && (over || !passing(err)):
			return cutOff(err)
		case !isServers(err) && apply && !unsent(err):
			if unknown = true; over || !checked {
				return cutOff(err)
			}
		case over && unknown:
			return cutOff(err)
		case over:
			return e.orClosed(fault(ctx, err))
		}
		e.retries.Add(1)
		time.Sleep(wait + rand.N(wait))
	}
}

func cutOff(err error) error {
	return engine.Errorf(engine.CodeOutcomeUnknown, "redis: the commit was cut off: %w", err)
}

// Metrics implements engine.Meter.
func (e *slots) Metrics() iter.Seq[engine.Metric] {
	return counters([]counter{
		{"engine_redis_transactions_total", "Transactions committed by this process.", e.commits.Load()},
		{"engine_redis_conflicts_total", "Transactions run again because of concurrent ones.", e.conflicts.Load()},
		{"engine_redis_retries_total", "Requests sent again, after a lost connection or a server that was not ready.", e.retries.Load()},
	})
}
