package embedded

import (
	"cmp"
	"context"
	"iter"
	"math"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/spill"
)

// snapshot is one committed state. Its tree never changes, so any number of goroutines
// may read it without a lock.
type snapshot struct {
	tree    *btree.Pairs
	pos     engine.Position
	time    int64      // of the last transaction, in microseconds
	bytes   int64      // of keys and values
	vals    *values    // of the tree that are in files
	uses    spill.Uses // of a snapshot file that was just read: its references
	settled uint64     // of a fuzzy snapshot that was just read: the log record that completes it
	next    int64      // time of the first transaction after it, atomic; 0: none is durable. Not set in a cluster
	shown   time.Time  // when it became visible: it has everything that was durable then
	applied            // the log record that led here
}

// hollow reports whether s has no tree. The visible state is hollow while nobody reads: a
// tree would keep everything in memory that is overwritten.
func (s *snapshot) hollow() bool { return s.tree == nil }

// emptied returns s without its tree.
func (s *snapshot) emptied() *snapshot {
	return &snapshot{pos: s.pos, time: s.time, applied: s.applied}
}

// covers reports whether s can be read and includes pos.
func (s *snapshot) covers(pos engine.Position) bool { return !s.hollow() && s.pos >= pos }

// viewTx is the Tx of View's functions. It has ended once snap is nil.
type viewTx struct {
	db    *DB
	snap  *snapshot
	level engine.Level
	stamp int64 // the leader's time of a linearizable read in a cluster; 0: unknown
	now   time.Time
	hold  holder
}

// localStale is how stale a View below linearizable may be if Read.MaxStale is 0.
const localStale = time.Second

// View implements engine.Engine. The levels below linearizable use the visible state if
// it is not too old, so they do not make writers clone the tree.
func (db *DB) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	snap, stamp, err := db.snapshotFor(ctx, r)
	if err != nil {
		return 0, err
	}
	tx := &viewTx{db: db, snap: snap, level: r.Level, stamp: stamp, hold: holder{kind: holdView, snap: snap, fn: fn}}
	db.begin(&tx.hold)
	defer func() {
		tx.snap = nil
		db.holds.remove(&tx.hold)
	}()
	return snap.pos, fn(tx)
}

// snapshotFor returns a snapshot that is as new as r asks, and the leader's time of a
// linearizable read, or 0.
func (db *DB) snapshotFor(ctx context.Context, r engine.Read) (snap *snapshot, stamp int64, err error) {
	fresh := db.group == nil
	if r.Level != engine.Linearizable && ctx.Err() == nil && !db.closed.Load() {
		snap, oldest := db.snap.Load(), db.opts.mono().Add(-cmp.Or(r.MaxStale, localStale))
		var known engine.Position
		if db.group != nil {
			known, fresh = db.group.freshSince(oldest)
		} else if snap.shown.Before(oldest) {
			known = math.MaxUint64 // it may lack later commits
		}
		if fresh && snap.covers(known) && (snap.pos >= r.AtLeast || failpoint("session-position")) {
			return snap, 0, nil
		}
	}
	if !fresh {
		if stamp, err = db.group.read(ctx); err != nil {
			return nil, 0, err
		}
	}
	snap, err = db.snapshotAt(ctx, r.AtLeast)
	return snap, stamp, err
}

// snapshotAt returns a snapshot that includes pos and everything that was durable when
// it was called.
func (db *DB) snapshotAt(ctx context.Context, pos engine.Position) (*snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if db.closed.Load() {
		return nil, engine.ErrClosed
	}
	if !db.exec.wanted.Load() {
		db.exec.wanted.Store(true)
	}
	pos = max(pos, engine.Position(db.durable.Load()))
	if snap := db.snap.Load(); snap.covers(pos) {
		return snap, nil
	}
	db.exec.freshen()
	return db.awaitSnapshot(ctx, pos)
}

// awaitSnapshot waits until the visible state includes pos, for at most PositionWait.
func (db *DB) awaitSnapshot(ctx context.Context, pos engine.Position) (*snapshot, error) {
	late := time.NewTimer(db.opts.PositionWait)
	defer late.Stop()
	for {
		moved := db.shown.next()
		snap := db.snap.Load()
		if snap.covers(pos) {
			return snap, nil
		}
		if db.closed.Load() {
			return nil, engine.ErrClosed
		}
		db.exec.wanted.Store(true)
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, engine.Errorf(engine.CodePositionTimeout, "this node is at position %d, not yet at %d: %w", snap.pos, pos, ctx.Err())
		case <-late.C:
			return nil, engine.Errorf(engine.CodePositionTimeout, "this node is at position %d and did not reach %d within %v", snap.pos, pos, db.opts.PositionWait)
		}
	}
}

// Get implements engine.Tx.
func (v *viewTx) Get(key []byte) ([]byte, bool, error) {
	if v.snap == nil {
		return nil, false, errEnded()
	}
	if err := v.hold.over(); err != nil {
		return nil, false, err
	}
	val, ok := v.snap.tree.Get(key)
	return v.snap.vals.found(key, val, ok)
}

// Put implements engine.Tx.
func (v *viewTx) Put(_, _ []byte) error { return engine.ErrReadOnly }

// Delete implements engine.Tx.
func (v *viewTx) Delete(_ []byte) error { return engine.ErrReadOnly }

// Scan implements engine.Tx.
func (v *viewTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] { return v.scan(lo, hi, ascend) }

// ScanBack implements engine.Tx.
func (v *viewTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return v.scan(lo, hi, descend)
}

func (v *viewTx) scan(lo, hi []byte, dir direction) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		if v.snap == nil {
			yield(engine.Pair{}, errEnded())
			return
		}
		for key, val := range dir(v.snap.tree, lo, hi) {
			p, err := v.snap.vals.pair(key, val)
			if over := v.hold.over(); over != nil {
				p, err = engine.Pair{}, over
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Now implements engine.Tx.
func (v *viewTx) Now() time.Time {
	if v.now.IsZero() && v.snap != nil {
		v.now = time.UnixMicro(max(v.micros(), v.snap.time))
	}
	return v.now
}

// AsOf implements engine.Tx. In a cluster the time of a read below linearizable depends
// only on the log, so that other nodes show the same at the same position.
func (v *viewTx) AsOf() time.Time {
	if v.snap == nil || v.level == engine.Linearizable || failpoint("weak-now") {
		return v.Now()
	}
	if v.db.group == nil {
		return time.UnixMicro(v.beforeNext(v.Now().UnixMicro()))
	}
	return time.UnixMicro(v.snap.time)
}

// beforeNext returns now, or the time of the first transaction after the snapshot if that
// is durable.
func (v *viewTx) beforeNext(now int64) int64 {
	if next := atomic.LoadInt64(&v.snap.next); next != 0 {
		return min(now, next)
	}
	return now
}

// micros returns the time of the view without regard to the time of its snapshot.
func (v *viewTx) micros() int64 {
	x, g, strict := v.db.exec, v.db.group, v.level == engine.Linearizable
	switch {
	case g == nil && strict:
		return v.beforeNext(x.flight.bound(&x.wall)) // in this order
	case g == nil:
		return x.flight.bound(&x.wall)
	case strict && v.stamp != 0 && !failpoint("own-clock"):
		return v.stamp
	case failpoint("own-clock"):
		return v.db.opts.Now().UnixMicro()
	case g.view.Load().serves || !x.wall.known.Load():
		return x.wall.estimate()
	}
	return x.wall.last.Load()
}

// Count implements engine.Ranker.
func (v *viewTx) Count(lo, hi []byte) (int, error) {
	if v.snap == nil {
		return 0, errEnded()
	}
	return count(v.snap.tree, lo, hi), nil
}

// At implements engine.Ranker.
func (v *viewTx) At(lo, hi []byte, i int) (engine.Pair, bool, error) {
	if v.snap == nil {
		return engine.Pair{}, false, errEnded()
	}
	return v.snap.vals.at(v.snap.tree, lo, hi, i)
}
