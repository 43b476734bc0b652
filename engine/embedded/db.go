// Package embedded implements the engine that runs inside the program. It keeps all
// state in one ordered map in memory and makes it durable with a log and snapshots on
// disk.
//
// It knows transactions, batches of effects, snapshots and recovery; it must not know
// the meaning of keys or the callers. It combines btree (the state), journal (the files),
// and raft and peer (the other nodes). DESIGN.md describes how a call flows.
package embedded

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/peer"
)

// DB is an open embedded engine. It satisfies engine.Engine, engine.Eacher, engine.Meter
// and engine.Positioner, and its transactions satisfy engine.Ranker and
// engine.Expecter. All methods are safe for concurrent use.
type DB struct {
	opts    Options
	dir     string
	unlock  func() error
	log     *journal.Log
	exec    *executor
	history *history
	spill   *spiller
	id      *peer.Identity           // nil: this node is alone
	group   *group                   // nil: this node is alone
	offline bool                     // opened to be converted or copied, without starting anything
	began   time.Time                // by the monotonic clock
	snap    atomic.Pointer[snapshot] // what readers see, once they have checked durable
	shown   signal                   // fires when snap moves
	durable atomic.Uint64            // position of the newest committed transaction
	closed  atomic.Bool
	ending  chan struct{} // closed by Close
	tidied  chan struct{} // closed when tidy has ended

	holds    holds                     // reads in progress
	held     atomic.Pointer[heldReads] // what sweep has found; nil: nothing yet
	counts   counters
	saver    saver
	endOnce  sync.Once
	stopOnce sync.Once
	stop     chan struct{} // closed by the first fatal disk error
	stopErr  error         // set before stop is closed
}

// Promises implements engine.Engine.
func (db *DB) Promises() engine.Promises {
	return engine.Promises{
		Atomic: engine.AllKeys, Serializable: true, Ordered: true, Feed: true, Durable: true,
		Snapshot: true, Clock: true, Positions: true, ExactPositions: true, DistinctTimes: true, Fence: true,
		MaxKeyBytes: MaxKeyBytes, MaxValBytes: MaxValBytes, MaxTxBytes: MaxTxBytes,
	}
}

// Update implements engine.Engine. A panic of fn undoes its writes and is repeated in
// the caller's goroutine.
func (db *DB) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	c := db.exec.take()
	c.one = fn
	if err := db.exec.do(ctx, c); err != nil {
		return 0, err
	}
	pos, err := c.pos, c.err
	db.exec.give(c)
	return pos, err
}

// UpdateEach implements engine.Eacher.
func (db *DB) UpdateEach(ctx context.Context, n int, fn func(tx engine.Tx, i int) error) (engine.Position, error) {
	c := db.exec.take()
	c.n, c.fn = n, fn
	if err := db.exec.do(ctx, c); err != nil {
		return 0, err
	}
	pos := c.pos
	db.exec.give(c)
	return pos, nil
}

// Position implements engine.Positioner.
func (db *DB) Position() engine.Position {
	return max(engine.Position(db.durable.Load()), db.snap.Load().pos) // a batch is visible before it is published
}

// Changes implements engine.Engine.
func (db *DB) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return db.changes(ctx, after, func() bool { return true }, changes)
}

// SkimChanges is Changes, except that while wanted returns false it may yield one change
// without writes in place of many, with the position and the time of the last of them:
// package feed calls it, and decodes nothing while it has no subscription. The slice of a
// change's writes is valid until the next change; their keys and values stay.
func (db *DB) SkimChanges(ctx context.Context, after engine.Position, wanted func() bool) iter.Seq2[engine.Change, error] {
	var writes []engine.Write
	return db.changes(ctx, after, wanted, func(data []byte) iter.Seq2[engine.Change, error] {
		if cap(writes) > keepWrites {
			writes = nil
		}
		return changesIn(data, &writes)
	})
}

// changes is SkimChanges with a function that decodes a batch.
func (db *DB) changes(ctx context.Context, after engine.Position, wanted func() bool, decode func([]byte) iter.Seq2[engine.Change, error]) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		// A view can be ahead of the history by the batch that is being published.
		if last := max(db.snap.Load().pos, engine.Position(db.durable.Load())); after > last && !db.closed.Load() {
			yield(engine.Change{}, engine.Errorf(engine.CodeTruncated, "position %d is not of this history, which is at %d", after, last))
			return
		}
		pos := after
		for ctx.Err() == nil {
			batches, moved, err := db.history.after(pos)
			if err != nil {
				yield(engine.Change{}, err)
				return
			}
			for _, b := range batches {
				if b.time != 0 && !wanted() {
					if pos = b.last; !yield(engine.Change{Pos: pos, Time: time.UnixMicro(b.time)}, nil) {
						return
					}
				} else if !changesAfter(decode(b.data), &pos, yield) {
					return
				}
			}
			if len(batches) > 0 {
				continue
			}
			select {
			case <-moved:
			case <-ctx.Done():
			}
		}
	}
}

// changesAfter yields the changes of a batch that are after pos, and advances pos. It
// reports whether there may be more.
func changesAfter(batch iter.Seq2[engine.Change, error], pos *engine.Position, yield func(engine.Change, error) bool) bool {
	for c, err := range batch {
		if err != nil {
			yield(engine.Change{}, engine.Errorf(engine.CodeInternal, "decode a committed batch: %w", err))
			return false
		}
		if c.Pos <= *pos {
			continue
		}
		if *pos = c.Pos; !yield(c, nil) {
			return false
		}
	}
	return true
}

// Stopped returns a channel that is closed when the node has stopped because its disk
// failed during a commit, or because it cannot be a member of its cluster. Err then
// returns the reason. Acknowledged data is safe. The program must be restarted.
func (db *DB) Stopped() <-chan struct{} { return db.stop }

// Err returns why the node has stopped, or nil.
func (db *DB) Err() error {
	select {
	case <-db.stop:
		return db.stopErr
	default:
		return nil
	}
}

// Close implements engine.Engine. Calls that have run still return their outcome.
func (db *DB) Close() error {
	var err error
	db.endOnce.Do(func() {
		if db.group != nil {
			err = db.group.close()
		}
		db.spill.close()
		db.exec.close(engine.ErrClosed)
		db.closed.Store(true)
		db.shown.fire()
		close(db.ending)
		<-db.tidied
		db.history.close(engine.ErrClosed)
		db.saver.close()
		err = errors.Join(err, db.spill.store.Close(), db.log.Close(), db.unlock())
	})
	return err
}

// fail stops the node. A failed fsync may have lost written data, and another fsync
// could succeed without writing it, so there is no retry.
func (db *DB) fail(err error) { db.end("the disk failed while committing", err) }

// end stops the node, because it can no longer keep its promises.
func (db *DB) end(why string, err error) {
	db.stopOnce.Do(func() {
		db.opts.Logger.Error(why+"; the node stops", "dir", db.dir, "err", err)
		db.stopErr = engine.Errorf(engine.CodeStopped, "%s: %w", why, err)
		close(db.stop)
	})
}

// signal wakes all goroutines that wait for something to change.
type signal struct {
	mu sync.Mutex    // guards ch
	ch chan struct{} // nil: no goroutine waits
}

// next returns a channel that the next fire closes.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
