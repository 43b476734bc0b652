// Package kv stores plain keys and values: set and get, expiry, counters, compare-and-set,
// scans and watches, in 256 separate key spaces.
//
// It knows the layout of plain keys in an engine, what a revision is and when a key
// expires; it must not know faces (HTTP, the Redis protocol) or which engine is used.
// DESIGN.md describes the layout and the invariants.
package kv

import (
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Limits. Going over one is an error of the stated code.
const (
	// MaxKeyBytes is the longest key; a longer one is CodeKeyTooLarge. With
	// its index prefix such a key still fits into one B-tree entry of every
	// engine (PostgreSQL's limit, the smallest, is about 2,700 bytes).
	MaxKeyBytes = 2048
	// MaxValBytes is the longest value; a longer one is CodeValueTooLarge. The engine may
	// allow less and then returns its own error.
	MaxValBytes = 16 << 20
	// MaxPage is the most items in one page of List; more is CodeLimit.
	MaxPage = 10_000
	// MaxBatch is the most keys in one MGet or MSet; more is CodeLimit.
	MaxBatch = 10_000
	// MaxReplyBytes bounds the keys and values that one MGet or List copies: beyond it,
	// MGet returns CodeLimit and List ends the page early.
	MaxReplyBytes = 64 << 20
	// MaxExpirePerTx is the maximum number of expired keys that one transaction
	// deletes.
	MaxExpirePerTx = 256
	// MaxFlushPerTx is the maximum number of keys that one transaction of Flush
	// visits.
	MaxFlushPerTx = 512
	// MaxMark is the greatest mark of a value; a greater one is CodeInvalid.
	MaxMark = 2
)

// MaxExpires is the latest possible expiry, the end of the year 9999, which every face can
// print. A later one is CodeLimit.
func MaxExpires() time.Time { return time.UnixMilli(maxExpiresMS).UTC() }

const maxExpiresMS = 253_402_300_799_999

// Revision numbers the changes of one key. Every change of the key has a greater revision
// than the one before, even across its deletion and when clocks go back: it is the
// transaction's time in microseconds since 1970, but at least the previous revision plus
// one. No change has revision zero.
type Revision uint64

// Entry is the value of a key with its metadata. Val belongs to the transaction: it must
// not be modified, and is valid until the transaction's next write or its end. The methods
// of Store return copies instead.
type Entry struct {
	Val     []byte
	Rev     Revision
	Expires time.Time // whole milliseconds; zero: never
	Mark    uint8     // SetOptions.Mark of the last write of Val
}

// Item is one key with its entry. Key is valid as long as Entry.Val.
type Item struct {
	Key []byte
	Entry
}

// SetOptions are the conditions and the expiry of a Set. The zero value always writes, and
// the key never expires.
type SetOptions struct {
	OnlyNew      bool     // write only if the key does not exist
	OnlyExisting bool     // write only if the key exists
	IfRev        Revision // write only if the key is at this revision; 0: any

	// At most one of these three may be set; without any, the key never expires.
	TTL     time.Duration // time to live, rounded up to milliseconds; > 0
	Expires time.Time     // absolute; in the past: the key is deleted at once
	KeepTTL bool          // keep the expiry of the key that is replaced

	// Mark is a tag on the value, at most MaxMark. The users of the space define its
	// meaning. It stays until the value is written again, even when the expiry changes. Any
	// mark but 0 costs 8 bytes. Versions of Skerry that do not know marks read the value as
	// if it had none.
	Mark uint8

	SkipOld bool // leave SetResult.Old.Val nil, which saves copying it
}

// SetResult is the result of a Set.
type SetResult struct {
	Written bool     // false if the condition OnlyNew or OnlyExisting failed
	Rev     Revision // the new revision, if written
	Old     Entry    // the entry before; Val is valid until the Tx's next call
	HadOld  bool
}

// Event is the effect of one committed change on one key.
type Event struct {
	Pos     engine.Position // of the transaction
	Time    time.Time       // of the transaction
	Space   uint8
	Key     []byte
	Entry        // the new entry, if not deleted
	Deleted bool // deleted, or expired and then deleted
	More    bool // more events of the same position follow; set by Watch
}
