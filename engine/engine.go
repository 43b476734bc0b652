// Package engine is the contract between the capabilities (kv, proc, record, …)
// and the places where data lives (embedded, postgres, cassandra, redis).
//
// It knows Engine, Tx, Change, Position, Promises and the error catalog; it
// must not know any implementation. It does no I/O and has no state:
// capabilities call it, engines satisfy it, and only cli names one.
package engine

import (
	"context"
	"iter"
	"net/url"
	"time"
)

// Opener opens the engine that a URL names, e.g. embedded:///var/lib/skerry.
type Opener func(ctx context.Context, u *url.URL) (Engine, error)

// Engine stores ordered byte keys. All methods are safe for concurrent use. A
// function passed to View, Update or UpdateEach never runs after the call has
// returned, even with an error: the caller may then reuse what the function uses.
type Engine interface {
	// Promises reports what this engine guarantees. The value never changes.
	// The suite in engine/enginetest proves every promise that is made.
	Promises() Promises

	// View runs fn on one consistent read-only snapshot, within Promises.Snapshot,
	// at least as new as r asks. It returns a position that is not newer than the
	// snapshot, not older than r.AtLeast, and not older than any acknowledged write
	// that fn saw. With Promises.ExactPositions it is the position of the snapshot.
	// A write inside fn returns ErrReadOnly. An error of fn is returned unchanged.
	// fn may run more than once.
	View(ctx context.Context, r Read, fn func(Tx) error) (Position, error)

	// Update runs fn, commits its writes atomically, within Promises.Atomic, and
	// returns once they are as durable as Promises says. fn may run more than once,
	// so its effects outside tx must be safe to repeat. If fn returns an error,
	// nothing is written and that error is returned unchanged. If fn panics or ends
	// its goroutine, nothing is written either and the engine keeps working. The
	// position is that of the commit. If fn wrote nothing, it is a position at which
	// everything that fn read was committed.
	//
	// If Promises.Atomic is below AllKeys, all keys that fn reads or writes must be
	// of one Partition, or be one key. The Tx call that breaks this returns
	// ErrCrossPartition, and so does Update, with nothing written, even if fn
	// returns nil.
	//
	// If ctx ends before fn has run, nothing is written and the error is
	// ctx's. If it ends later, the error is ErrOutcomeUnknown, which wraps ctx's.
	Update(ctx context.Context, fn func(Tx) error) (Position, error)

	// Changes yields each committed change with Pos > after exactly once, in commit
	// order, and waits for more until ctx ends. A change without writes is a
	// heartbeat: nothing else happened up to its Pos. An error is the last value.
	// It is ErrTruncated if the history after that position is no longer kept.
	// Changes and everything they point to may be kept but not modified.
	Changes(ctx context.Context, after Position) iter.Seq2[Change, error]

	// Close fails the calls in flight with ErrClosed and releases all resources.
	Close() error
}

// Tx is one transaction. It is valid only until the function that received it
// returns, and only in that goroutine. Byte slices passed in are copied if they
// are kept. Byte slices returned must not be modified and are valid until the
// transaction's next write or its end, whichever comes first.
type Tx interface {
	// Get returns the value of key, and whether there is one.
	Get(key []byte) (val []byte, ok bool, err error)

	// Put sets key to val. If it fails, it changes nothing and returns ErrKeyEmpty,
	// ErrKeyTooLarge, ErrValueTooLarge, ErrTxTooLarge, ErrMemoryFull or ErrReadOnly.
	Put(key, val []byte) error

	// Delete removes key. A missing key is not an error.
	Delete(key []byte) error

	// Scan yields the pairs with lo <= key < hi in ascending byte order. A nil hi
	// means no upper bound. The transaction must not write during the scan.
	Scan(lo, hi []byte) iter.Seq2[Pair, error]

	// ScanBack yields the same pairs in descending order.
	ScanBack(lo, hi []byte) iter.Seq2[Pair, error]

	// Now returns the time of the transaction. In Update it does not change within
	// one run and, with Promises.Clock, never goes back from one committed
	// transaction to the next. Several transactions may have the same time, so only
	// a position identifies one. In View it is not before the time of any
	// transaction in the snapshot. Its resolution is one microsecond.
	Now() time.Time

	// AsOf returns the time that decides what has expired: anything that ends at
	// AsOf or before is gone. It is not after Now. In Update and in a View at level
	// Linearizable it equals Now. It does not go back from one transaction to the
	// next one of the same or a later position, on any node, unless the next one
	// has a weaker level.
	AsOf() time.Time
}

// Pair is one key and its value.
type Pair struct{ Key, Val []byte }

// Position is a point in one engine's history: the number of the last committed
// transaction that it includes. Zero is before the first.
type Position uint64

// Change is one committed transaction.
type Change struct {
	Pos    Position
	Time   time.Time // Tx.Now of the transaction
	Writes []Write   // each key at most once
}

// Write is the new value of one key. If the key was removed, Deleted is set and
// Val is nil.
type Write struct {
	Key, Val []byte
	Deleted  bool
}

// Level says how new a read must be.
type Level uint8

const (
	// Linearizable sees every write that any node acknowledged before the read
	// began. It is the default.
	Linearizable Level = iota
	// Session sees at least Read.AtLeast: a client's own writes, on any node. On an
	// engine without positions it sees all that this process has written.
	Session
	// Local sees a committed state that is not older than Read.MaxStale.
	Local
)

// Read asks for the freshness of one View. The zero value is linearizable.
type Read struct {
	Level    Level
	AtLeast  Position      // the view includes this position, at every level
	MaxStale time.Duration // at level Local; 0 means the engine's default
}

// Scope is the largest set of keys that one Update changes atomically.
type Scope uint8

// Scopes, from weakest to strongest.
const (
	OneKey Scope = iota
	OnePartition
	AllKeys
)

// String names the scope as docs/guarantees.md does.
func (s Scope) String() string {
	return [...]string{"one key", "one partition", "all keys"}[s]
}
