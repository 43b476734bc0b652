package kv

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
)

// NeedsPlain returns the minimum that a Store requires of an engine: enough to get, set,
// compare-and-set, count in and delete one key in a transaction, with expiry.
func NeedsPlain() engine.Promises {
	return engine.Promises{Serializable: true, MaxKeyBytes: MaxKeyBytes + 2}
}

// Needs returns what the rest of kv requires: transactions over several keys, scans,
// counts, Flush, and the index by which Run deletes expired keys.
func Needs() engine.Promises {
	return engine.Promises{
		Atomic:       engine.AllKeys, // a key and its index entry change together
		Serializable: true,           // compare-and-set, counters, revisions
		Ordered:      true,           // scans, the expiry index
		Snapshot:     true,           // lists
		Clock:        true,           // revisions of keys that were deleted and forgotten
		MaxKeyBytes:  MaxKeyBytes + keyOverhead,
	}
}

// Options configure a Store. The zero value works.
type Options struct {
	// ExpireEvery is how often Run looks for expired keys; 0 means 100 ms. Reads treat
	// expired keys as absent at once, regardless of this setting. It determines only how
	// long they use memory, when watchers receive their events and, in a cluster, how late
	// reads at levels Session and Local see the expiry while nobody writes.
	ExpireEvery time.Duration

	// Feed provides the changes of the engine for Watch. If it is nil, Watch fails.
	Feed *feed.Feed
}

// Store provides plain keys on one engine. It is safe for concurrent use and does not have
// to be closed. It does not close the engine.
type Store struct {
	eng   engine.Engine
	prep  engine.Preparer // nil: the engine is none
	feed  *feed.Feed      // nil: Watch is unsupported
	every time.Duration
	txs   sync.Pool // of *Tx, unbound
	plain plain     // what the engine lacks

	expired atomic.Int64 // keys deleted by Run
}

// plain says how a Tx works on an engine that promises less than Needs.
type plain struct {
	lacks   error // error of calls that need more; nil: the engine has it all
	noIndex bool  // lacks is not nil: there is no index of expiries
	graves  bool  // every deletion leaves a tombstone, because the clock may go back
}

// New returns a Store on eng. If eng lacks something of NeedsPlain, the error matches
// ErrUnsupported and names it. If eng lacks something else of Needs, the calls that need it
// return ErrUnsupported (see Lacks), and a transaction that uses several keys gets the
// engine's ErrCrossPartition. The store then has no index of expiries: an expired key is
// absent at once, but uses space until it is written again or, if transactions implement
// engine.Expirer, until the engine removes it.
func New(eng engine.Engine, o Options) (*Store, error) {
	p := eng.Promises()
	if err := p.Meets("kv", NeedsPlain()); err != nil {
		return nil, err
	}
	if o.ExpireEvery < 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "kv: ExpireEvery is %v, must not be negative", o.ExpireEvery)
	}
	if o.ExpireEvery == 0 {
		o.ExpireEvery = 100 * time.Millisecond
	}
	s := &Store{eng: eng, feed: o.Feed, every: o.ExpireEvery}
	lacks := p.Meets("listing, counting and flushing keys", Needs())
	s.plain = plain{lacks: lacks, noIndex: lacks != nil, graves: !p.Clock}
	s.prep, _ = eng.(engine.Preparer)
	s.txs.New = func() any { return &Tx{plain: s.plain} }
	return s, nil
}

// Lacks returns the ErrUnsupported error of scans, counts and Flush if the engine does not
// support them, or nil.
func (s *Store) Lacks() error { return s.plain.lacks }

// In wraps tx, a transaction of s's engine, as a Tx on space.
func (s *Store) In(tx engine.Tx, space uint8) *Tx {
	t := &Tx{plain: s.plain}
	t.Bind(tx, space)
	return t
}

// Promises returns the engine's promises.
func (s *Store) Promises() engine.Promises { return s.eng.Promises() }

// View runs fn on a read-only snapshot of space; see engine.Engine.View. t is valid until
// fn returns.
func (s *Store) View(ctx context.Context, r engine.Read, space uint8, fn func(t *Tx) error) (engine.Position, error) {
	t := s.txs.Get().(*Tx)
	pos, err := s.eng.View(ctx, r, func(tx engine.Tx) error {
		t.Bind(tx, space)
		t.ctx = ctx
		return fn(t)
	})
	s.release(t, err)
	return pos, err
}

// Update runs fn as one transaction that begins in space; see engine.Engine.Update. fn may
// run more than once. t is valid until fn returns.
func (s *Store) Update(ctx context.Context, space uint8, fn func(t *Tx) error) (engine.Position, error) {
	return s.UpdateOf(ctx, space, nil, fn)
}

// UpdateOf is Update for an fn that will probably use key of space, which saves engines on other
// servers a round trip. No result depends on key; nil is none.
func (s *Store) UpdateOf(ctx context.Context, space uint8, key []byte, fn func(t *Tx) error) (pos engine.Position, err error) {
	t := s.txs.Get().(*Tx)
	run := func(tx engine.Tx) error {
		t.Bind(tx, space)
		t.ctx = ctx
		if err := fn(t); err != nil {
			return err
		}
		return t.broken
	}
	if s.prep == nil || key == nil {
		pos, err = s.eng.Update(ctx, run)
	} else {
		pos, err = s.prep.UpdateOf(ctx, [][]byte{appendDataKey(nil, space, key)}, run)
	}
	s.release(t, err)
	return pos, err
}

// UpdateEach runs fn(t, 0) … fn(t, n-1), each as its own transaction; see
// engine.UpdateEach. An error of fn undoes only that transaction, and fn must record the
// error itself. Every transaction begins in space 0; see Tx.Select.
func (s *Store) UpdateEach(ctx context.Context, n int, fn func(t *Tx, i int) error) (engine.Position, error) {
	t := s.txs.Get().(*Tx)
	var broken error // of a transaction that fn believes committed
	pos, err := engine.UpdateEach(ctx, s.eng, n, func(tx engine.Tx, i int) error {
		t.Bind(tx, 0)
		if err := fn(t, i); err != nil {
			return err
		}
		if t.broken != nil {
			broken = t.broken
		}
		return t.broken
	})
	s.release(t, err)
	if err == nil && broken != nil {
		return 0, engine.Errorf(engine.CodeOutcomeUnknown, "one of %d transactions was undone: %w", n, broken)
	}
	return pos, err
}

// release recycles t, unless the engine returned early and may still be running the
// function that uses it.
func (s *Store) release(t *Tx, err error) {
	if err == nil {
		t.Bind(nil, 0)
		s.txs.Put(t)
	}
}

// Get returns a copy of key's entry, whether it exists, and the position of the snapshot
// that was read.
func (s *Store) Get(ctx context.Context, r engine.Read, space uint8, key []byte) (Entry, bool, engine.Position, error) {
	var e Entry
	var ok bool
	pos, err := s.View(ctx, r, space, func(t *Tx) (err error) {
		e, ok, err = t.Get(key)
		e.Val = bytes.Clone(e.Val)
		return err
	})
	if err != nil {
		return Entry{}, false, 0, err
	}
	return e, ok, pos, nil
}

// Set runs Tx.Set in one transaction. Old.Val is a copy.
func (s *Store) Set(ctx context.Context, space uint8, key, val []byte, o SetOptions) (SetResult, engine.Position, error) {
	var res SetResult
	pos, err := s.UpdateOf(ctx, space, key, func(t *Tx) (err error) {
		res, err = t.Set(key, val, o)
		res.Old.Val = bytes.Clone(res.Old.Val)
		return err
	})
	if err != nil {
		return SetResult{}, 0, err
	}
	return res, pos, nil
}

// Delete runs Tx.DeleteIf in one transaction. rev 0 deletes any revision.
func (s *Store) Delete(ctx context.Context, space uint8, key []byte, rev Revision) (bool, engine.Position, error) {
	var ok bool
	pos, err := s.UpdateOf(ctx, space, key, func(t *Tx) (err error) {
		ok, err = t.DeleteIf(key, rev)
		return err
	})
	if err != nil {
		return false, 0, err
	}
	return ok, pos, nil
}

// MGet returns copies of the entries of keys, in the same order, from one snapshot. For a
// missing key, Rev is 0. More than MaxBatch keys or MaxReplyBytes of values are CodeLimit.
func (s *Store) MGet(ctx context.Context, r engine.Read, space uint8, keys [][]byte) ([]Entry, engine.Position, error) {
	if err := checkBatch(len(keys)); err != nil {
		return nil, 0, err
	}
	var es []Entry
	pos, err := s.View(ctx, r, space, func(t *Tx) error {
		es = make([]Entry, len(keys))
		total := 0
		return t.getMany(keys, func(i int, e Entry) error {
			if total += len(e.Val); total > MaxReplyBytes {
				return engine.Errorf(engine.CodeLimit, "the values of these keys are over the limit of %d bytes", MaxReplyBytes)
			}
			e.Val = bytes.Clone(e.Val)
			es[i] = e
			return nil
		})
	})
	if err != nil {
		return nil, 0, err
	}
	return es, pos, nil
}

// MSet sets all pairs in order in one transaction, without expiry. More than MaxBatch pairs
// are CodeLimit.
func (s *Store) MSet(ctx context.Context, space uint8, pairs []engine.Pair) (engine.Position, error) {
	if err := checkBatch(len(pairs)); err != nil {
		return 0, err
	}
	return s.Update(ctx, space, func(t *Tx) error {
		for _, p := range pairs {
			if _, err := t.Set(p.Key, p.Val, SetOptions{SkipOld: true}); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkBatch(n int) error {
	if n > MaxBatch {
		return engine.Errorf(engine.CodeLimit, "%d keys in one call are over the limit of %d", n, MaxBatch)
	}
	return nil
}

// ListOptions select the page that List returns.
type ListOptions struct {
	Prefix []byte // only keys with this prefix
	After  []byte // only keys greater than it: the last key of the previous page
	Limit  int    // most items; 0 means 100, over MaxPage is CodeLimit
}

// Page is a part of a listing, in ascending order of keys.
type Page struct {
	Items []Item // copies
	More  bool   // more items follow
}

// List returns one page of the live items of space.
func (s *Store) List(ctx context.Context, r engine.Read, space uint8, o ListOptions) (Page, engine.Position, error) {
	switch {
	case o.Limit < 0:
		return Page{}, 0, engine.Errorf(engine.CodeInvalid, "page limit of %d is negative", o.Limit)
	case o.Limit > MaxPage:
		return Page{}, 0, engine.Errorf(engine.CodeLimit, "page limit of %d is over the limit of %d", o.Limit, MaxPage)
	case o.Limit == 0:
		o.Limit = 100
	}
	lo := o.Prefix
	if o.After != nil && bytes.Compare(o.After, lo) >= 0 {
		lo = append(bytes.Clone(o.After), 0)
	}
	hi := engine.PrefixEnd(o.Prefix)
	if hi != nil && bytes.Compare(lo, hi) > 0 {
		lo = hi
	}
	var page Page
	pos, err := s.View(ctx, r, space, func(t *Tx) error {
		page = Page{}
		total := 0
		for it, err := range t.Scan(lo, hi) {
			if err != nil {
				return err
			}
			total += len(it.Key) + len(it.Val)
			if n := len(page.Items); n == o.Limit || n > 0 && total > MaxReplyBytes {
				page.More = true
				return nil
			}
			it.Key, it.Val = bytes.Clone(it.Key), bytes.Clone(it.Val)
			page.Items = append(page.Items, it)
		}
		return nil
	})
	if err != nil {
		return Page{}, 0, err
	}
	return page, pos, nil
}
