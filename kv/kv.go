// Package kv keeps plain keys with values: set and get, expiry, counters,
// compare-and-set, scans and watches, in 256 separate key spaces.
//
// It knows the layout of plain keys in an engine, what a revision is and when
// a key expires; it must not know faces (HTTP, the Redis protocol) or which
// engine runs. DESIGN.md has the layout and the invariants.
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
	// MaxValBytes is the longest value; a longer one is CodeValueTooLarge. The
	// engine may allow less and then says so itself.
	MaxValBytes = 16 << 20
	// MaxPage is the most items in one page of List; more is CodeLimit.
	MaxPage = 10_000
	// MaxBatch is the most keys in one MGet or MSet; more is CodeLimit.
	MaxBatch = 10_000
	// MaxReplyBytes bounds the keys and values that one MGet or List copies
	// out: MGet answers CodeLimit, List ends the page early.
	MaxReplyBytes = 64 << 20
	// MaxExpirePerTx is how many expired keys one transaction deletes at most.
	MaxExpirePerTx = 256
	// MaxFlushPerTx is how many keys one transaction of Flush visits at most.
	MaxFlushPerTx = 512
	// MaxMark is the greatest mark of a value; a greater one is CodeInvalid.
	MaxMark = 2
)

// MaxExpires is the last moment that an expiry can name, the end of the year
// 9999, so that every face can print it. A later one is CodeLimit.
func MaxExpires() time.Time { return time.UnixMilli(maxExpiresMS).UTC() }

const maxExpiresMS = 253_402_300_799_999

// Revision numbers the changes of one key. It is greater at every change of
// that key, also over its deletion and when clocks go back: the transaction's
// time in microseconds since 1970, but at least one more than the revision
// before. Zero is never given to a key.
type Revision uint64

// Entry is the value of a key with what is known about it. Val belongs to the
// transaction: it must not be modified and is valid until the transaction's
// next write or its end. The conveniences of Store return copies instead.
type Entry struct {
	Val     []byte
	Rev     Revision
	Expires time.Time // whole milliseconds; zero: never
	Mark    uint8     // what SetOptions.Mark said of Val
}

// Item is one key with its entry. Key is as valid as Entry.Val.
type Item struct {
	Key []byte
	Entry
}

// SetOptions are the conditions and the expiry of a Set. The zero value writes
// always and lets the key live for ever.
type SetOptions struct {
	OnlyNew      bool     // write only if there is no such key
	OnlyExisting bool     // write only if there is one
	IfRev        Revision // write only if the key is at this revision; 0: any

	// At most one of these three; none means that the key never expires.
	TTL     time.Duration // lives this long, rounded up to milliseconds; > 0
	Expires time.Time     // absolute; in the past: the key is deleted at once
	KeepTTL bool          // keep the expiry of the key that is replaced

	// Mark is a note on the value, at most MaxMark, whose meaning is up to those
	// who share the space. It stays until the value is written again; a change of
	// the expiry keeps it. Any but 0 costs 8 bytes, and versions of Skerry that do
	// not know marks read the value as if it had none.
	Mark uint8

	SkipOld bool // leave SetResult.Old.Val nil, which saves copying it
}

// SetResult is what a Set did.
type SetResult struct {
	Written bool     // false if OnlyNew or OnlyExisting was not met
	Rev     Revision // the new revision, if written
	Old     Entry    // what was there before; Val is valid until the Tx's next call
	HadOld  bool
}

// Event is what one committed change means to one key.
type Event struct {
	Pos     engine.Position // of the transaction
	Time    time.Time       // of the transaction
	Space   uint8
	Key     []byte
	Entry        // the new entry, if not deleted
	Deleted bool // deleted, or expired and then deleted
	More    bool // further events of the same position follow; set by Watch
}
