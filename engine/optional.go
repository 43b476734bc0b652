package engine

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// This file has everything optional: interfaces that an Engine, or the Tx of one,
// may satisfy. A capability that looks for one works without it, or refuses what
// needs it with CodeUnsupported. Each has a case in engine/enginetest, which an
// engine without it skips by name.
//
//	Engine  Eacher Positioner Meter Backuper Stopper Clustered Advertiser HandOverer
//	Tx      Ranker Savepointer Breaker Expirer ManyGetter

// Eacher is satisfied by engines to which many small transactions can be handed
// at once, as a pipeline of client commands is.
type Eacher interface {
	// UpdateEach runs fn(tx, 0) … fn(tx, n-1) in that order, each as a
	// transaction of its own; an error of fn undoes that transaction alone and
	// is fn's to remember. It returns once all of them are durable, with the
	// position of the last. An error of UpdateEach itself means that none of
	// the results may be used: it is ErrOutcomeUnknown once any fn has run,
	// unless the engine knows that nothing was written.
	UpdateEach(ctx context.Context, n int, fn func(tx Tx, i int) error) (Position, error)
}

// UpdateEach runs n transactions in order on e, in one hand-over where e is an
// Eacher. See Eacher for what fn may do and what the results mean.
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

// Positioner is satisfied by engines that know at any time, without a View, how
// far they are.
type Positioner interface {
	// Position returns the position of the newest transaction that is committed
	// on this node. No call was answered by this engine with a later one.
	Position() Position
}

// Backuper is satisfied by engines that can write all their data while they run.
type Backuper interface {
	// Backup writes one consistent committed state to w and returns its position.
	// The state is not older than the last acknowledged write. When ctx ends first,
	// or w fails, the error is ctx's or w's and what was written is of no use.
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

// Clustered is satisfied by engines that can run as one node of several.
type Clustered interface {
	// Cluster returns the node's view of its cluster, or nil if the engine runs
	// alone. It is the same as long as the engine is open.
	Cluster() Cluster
}

// Advertiser is satisfied by a Clustered engine that tells other nodes where the
// faces of this one are.
type Advertiser interface {
	// Advertise sets Node.HTTP and Node.RESP of this node; "" is off. It returns
	// before the other nodes know. It does nothing if the engine runs alone.
	Advertise(http, resp string)
}

// HandOverer is satisfied by a Clustered engine that can give the leadership away
// before it is closed.
type HandOverer interface {
	// HandOver has another node lead, if this one does and another can. It waits
	// until that is so, for a bounded time.
	HandOver()
}

// Ranker is satisfied by a Tx that can count keys without reading them. Once the
// transaction has ended its methods return CodeInvalid.
type Ranker interface {
	// Count returns the number of keys with lo <= key < hi; nil hi: no bound.
	Count(lo, hi []byte) (int, error)
	// At returns the pair with exactly i keys before it in lo <= key < hi, and
	// whether there is one.
	At(lo, hi []byte, i int) (Pair, bool, error)
}

// Savepointer is satisfied by a Tx of Update that can undo a part of itself.
type Savepointer interface {
	// Savepoint marks the transaction's state. It costs nothing until something
	// is written after it, and need not be released.
	Savepoint() int

	// RollbackTo undoes all writes since Savepoint returned mark, which stays
	// valid; later marks must not be used again. What was undone is in no change,
	// but still counts against the transaction's limits. It is CodeInvalid, and
	// changes nothing, if there is no such mark, if writes would have to be undone
	// while a scan runs, or when the transaction has ended.
	RollbackTo(mark int) error
}

// Breaker is satisfied by a Tx that can be marked as not to be committed, for
// capabilities whose caller may ignore their errors.
type Breaker interface {
	// Break reports that a capability has left something half written because of
	// err: Update fails with err unless what was written is undone by a RollbackTo.
	Break(err error)
}

// Expirer is satisfied by a Tx of Update whose engine removes keys by itself. It is for
// freeing room: whoever needs to know when a key ends stores that in the value.
type Expirer interface {
	// PutUntil is Put of a key that the engine may remove at until or later, never
	// before; the next write of the key decides anew. The removal need not be in any
	// change.
	PutUntil(key, val []byte, until time.Time) error
}

// ManyGetter is satisfied by a Tx that reads many keys in one round trip.
type ManyGetter interface {
	// GetMany returns what Get returns for each of keys, in their order: nil where
	// there is no value. An empty value is not nil.
	GetMany(keys [][]byte) (vals [][]byte, err error)
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

	// Labels tell metrics of one name apart; all of that name have the same ones in
	// the same order, and the same Help. An engine's own have none.
	Labels []Label

	// Histogram, if not nil, replaces Value.
	Histogram *Histogram
}

// Label is one name, in Prometheus's form, with its value.
type Label struct{ Name, Value string }

// Histogram counts what was observed by how large it was.
type Histogram struct {
	Bounds []float64 // upper bounds, ascending; what is larger than all is in Count only
	Counts []uint64  // how many were at most as large as that bound and larger than the one before
	Count  uint64    // how many in all
	Sum    float64   // of them
}
