package engine

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// This file declares the optional interfaces: those that an Engine or its Tx may
// satisfy. A capability that uses one works without it, or fails calls that need
// it with CodeUnsupported. Each has a case in engine/enginetest, which an engine
// without it skips by name.
//
//	Engine  Eacher Preparer Positioner Raiser Meter Backuper Stopper Clustered Advertiser HandOverer NodeReporter
//	        MemberChanger Emptier
//	Tx      Ranker Savepointer Breaker Expirer ManyGetter Expecter Attacher
//
// NodeReporter and MemberChanger are in members.go. SampleStore and PathStore, which have files of their own, are tables of an engine that is too weak for the keys of a capability.
// Package engine/cassandra tests them.

// Eacher is satisfied by engines that accept many small transactions in one call,
// such as a pipeline of client commands.
type Eacher interface {
	// UpdateEach runs fn(tx, 0) … fn(tx, n-1) in that order, each in a separate
	// transaction. An error of fn undoes only that transaction; UpdateEach does not
	// return it, so fn must record it. UpdateEach returns once all transactions are
	// durable, with the position of the last. If UpdateEach itself returns an error,
	// none of the results may be used. That error is ErrOutcomeUnknown once any fn
	// has run, unless the engine knows that nothing was written.
	UpdateEach(ctx context.Context, n int, fn func(tx Tx, i int) error) (Position, error)
}

// UpdateEach runs n transactions in order on e, in one call if e is an Eacher.
// Eacher documents the rules for fn and the results.
func UpdateEach(ctx context.Context, e Engine, n int, fn func(tx Tx, i int) error) (Position, error) {
	if ee, ok := e.(Eacher); ok {
		return ee.UpdateEach(ctx, n, fn)
	}
	var last Position
	ran := false
	for i := range n {
		var failed error
		pos, err := e.Update(ctx, func(tx Tx) error {
			ran = true
			failed = fn(tx, i)
			return failed
		})
		switch {
		case err == nil:
			last = max(last, pos)
		case failed != nil: // of this transaction alone
		case ran && !errors.Is(err, ErrOutcomeUnknown):
			return last, Errorf(CodeOutcomeUnknown, "run transaction %d of %d: %w", i+1, n, err)
		default:
			return last, err
		}
	}
	return last, nil
}

// Preparer is satisfied by engines that read keys before transactions begin, those of all waiting
// calls together.
type Preparer interface {
	// UpdateOf is Update for an fn that will probably use keys. They are only a hint: no
	// result depends on them, and they may be missing, repeated, invalid or never used. They
	// are copied.
	UpdateOf(ctx context.Context, keys [][]byte, fn func(Tx) error) (Position, error)
}

// Positioner is satisfied by engines that know their position at any time, without
// a View.
type Positioner interface {
	// Position returns the position of the newest transaction that is committed
	// on this node. No earlier call to this engine has returned a later one.
	Position() Position
}

// Raiser is satisfied by engines whose positions can be raised, so that data from another engine
// can continue in them: no position that a client has from there gets a second meaning.
type Raiser interface {
	// Raise makes the engine's position at least p and returns it. The next commit has the
	// position after it. Clients of other engines may have the positions before, so a View may
	// ask for any of them, and Changes after any of them are ErrTruncated. Raise neither
	// changes data nor minds FenceKey. If the engine is at p or later already, Raise does
	// nothing. It may be repeated after an error, which may have come too late to prevent it. A
	// position that leaves no room for later ones is CodeInvalid.
	Raise(ctx context.Context, p Position) (Position, error)
}

// Backuper is satisfied by engines that can back up all their data while they run.
type Backuper interface {
	// Backup writes one consistent committed state to w and returns its position.
	// The state is not older than the last acknowledged write. If ctx ends first,
	// or w fails, the error is ctx's or w's and the output is not usable.
	Backup(ctx context.Context, w io.Writer) (Position, error)
}

// Stopper is satisfied by engines that stop by themselves when they can no longer
// keep their promises.
type Stopper interface {
	// Stopped returns a channel that is closed when the engine stops by itself;
	// Close does not close it.
	Stopped() <-chan struct{}
	// Err returns why the engine stopped by itself, or nil if it has not.
	Err() error
}

// Clustered is satisfied by engines that can run as one node of a cluster.
type Clustered interface {
	// Cluster returns the node's view of its cluster, or nil if the engine runs
	// alone. The result does not change while the engine is open.
	Cluster() Cluster
}

// Advertiser is satisfied by a Clustered engine that announces the addresses of its
// faces to other nodes.
type Advertiser interface {
	// Advertise sets Node.HTTP and Node.RESP of this node; "" means off. It returns
	// before the other nodes know. It does nothing if the engine runs alone.
	Advertise(http, resp string)
}

// HandOverer is satisfied by a Clustered engine that can transfer the leadership
// before it is closed.
type HandOverer interface {
	// HandOver transfers the leadership to another node, if this one is the leader
	// and another can be. It waits for the transfer for a bounded time.
	HandOver()
}

// Ranker is satisfied by a Tx that can count keys without reading them. Once the
// transaction has ended its methods return CodeInvalid.
type Ranker interface {
	// Count returns the number of keys with lo <= key < hi. A nil hi means no upper
	// bound.
	Count(lo, hi []byte) (int, error)
	// At returns the pair with exactly i keys before it in lo <= key < hi, and
	// whether there is one.
	At(lo, hi []byte, i int) (Pair, bool, error)
}

// Savepointer is satisfied by a Tx of Update that can undo some of its writes.
type Savepointer interface {
	// Savepoint marks the transaction's state. It costs nothing until something
	// is written after it, and need not be released.
	Savepoint() int

	// RollbackTo undoes all writes since Savepoint returned mark. That mark stays
	// valid; later marks must not be used again. Undone writes appear in no change
	// but still count against the transaction's limits. RollbackTo returns
	// CodeInvalid and changes nothing if there is no such mark, if writes would have
	// to be undone during a scan, or if the transaction has ended.
	RollbackTo(mark int) error
}

// Breaker is satisfied by a Tx that can be prevented from committing, for
// capabilities whose callers may ignore their errors.
type Breaker interface {
	// Break reports that a capability has left something half written because of
	// err. Update then fails with err unless a RollbackTo undoes those writes.
	Break(err error)
}

// Expirer is satisfied by a Tx of Update whose engine can remove expired keys. It
// only frees space: a capability that needs to know when a key ends stores that in
// the value.
type Expirer interface {
	// PutUntil is Put for a key that the engine may remove at until or later, never
	// before. The next write of the key replaces that deadline. The removal need not
	// appear in any change.
	PutUntil(key, val []byte, until time.Time) error
}

// ManyGetter is satisfied by a Tx that reads many keys in one round trip.
type ManyGetter interface {
	// GetMany returns what Get returns for each of keys, in their order: nil where
	// there is no value. An empty value is not nil.
	GetMany(keys [][]byte) (vals [][]byte, err error)
}

// GetMany returns what ManyGetter returns: in one round trip if tx is one, otherwise with a Get for each key.
func GetMany(tx Tx, keys [][]byte) (vals [][]byte, err error) {
	if many, ok := tx.(ManyGetter); ok {
		return many.GetMany(keys)
	}
	vals = make([][]byte, len(keys))
	for i, key := range keys {
		val, ok, err := tx.Get(key)
		if err != nil {
			return nil, err
		}
		if ok {
			vals[i] = append([]byte{}, val...) // the next Get may end it
		}
	}
	return vals, nil
}

// Expecter is satisfied by a Tx that can prepare for keys that are about to be used, such
// as those of a pipeline of client commands.
type Expecter interface {
	// Expects reports whether Expect is of use now, so that callers need not gather keys
	// in vain.
	Expects() bool
	// Expect says that its caller will use keys soon, in this transaction or in the next
	// ones of the same UpdateEach. It is only a hint: no result depends on it, an engine may
	// ignore it, and keys may be missing, repeated, invalid or never used. Expect waits
	// for no I/O and keeps none of keys. Once the transaction has ended it does nothing.
	Expect(keys [][]byte)
}

// Meter is satisfied by engines that report metrics about themselves.
type Meter interface {
	// Metrics yields the current values. It may be called at any time.
	Metrics() iter.Seq[Metric]
}

// Metric is one value that an engine reports. Name has Prometheus's form without the
// application's prefix, e.g. "engine_fsyncs_total".
type Metric struct {
	Name    string
	Help    string
	Counter bool // it only grows; otherwise a gauge
	Value   float64

	// Labels distinguish metrics with the same name. All of them have the same
	// labels in the same order, and the same Help. An engine's own metrics have none.
	Labels []Label

	// Histogram, if not nil, replaces Value.
	Histogram *Histogram
}

// Label is one name, in Prometheus's form, with its value.
type Label struct{ Name, Value string }

// Histogram counts observations by size.
type Histogram struct {
	Bounds []float64 // inclusive upper bounds, ascending; larger observations are in Count only
	Counts []uint64  // observations up to that bound and above the one before
	Count  uint64    // all observations
	Sum    float64   // of all observations
}

// Attacher is satisfied by the Tx of engines that carry something for a capability, such as the
// driver of records that stores them in tables. What it is was given when the engine was opened; the
// engine knows nothing about it.
type Attacher interface {
	// Attached returns it, nil if there is nothing.
	Attached() any
}

// Outside is satisfied by what is attached if it stores data that is in no key.
type Outside interface {
	// Outside names such data for an error message, "" if there is none.
	Outside(tx Tx) (what string, err error)
}

// Emptier is satisfied by engines without ordered scans that can tell whether they have data.
type Emptier interface {
	// Empty reports whether the engine has no data besides FenceKey. It may miss what is written meanwhile.
	Empty(ctx context.Context) (bool, error)
}
