package workload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/skerrydb/skerry/engine"
)

// DefaultLists is how many lists Append writes to.
const DefaultLists = 4

// segmentEntries is how many entries a list stores under one key before it continues
// under the next, so that values stay small however long the load is.
const segmentEntries = 64

// Append appends entries to lists. Its invariant is order: every acknowledged entry is
// there once and entries of unknown outcome at most once, each writer's entries are in
// the order in which it wrote them, and no entry is before one that was acknowledged
// before it began. The changes show the same, one entry per change.
type Append struct {
	Lists  int     // 0: DefaultLists
	Ledger *Ledger // records entries; nil: a new one

	once  sync.Once
	mu    sync.Mutex // guards idle
	idle  []writer   // writers that no step uses
	start engine.Position
}

// writer numbers its entries. After an unknown outcome it is not used again: that entry
// may still be committed, after later ones.
type writer struct{ id, seq uint64 }

const (
	appendPrefix = "w/append/"
	appendKind   = 'a'
	entryBytes   = 16 // writer, seq; both big-endian
)

// Name implements Workload.
func (a *Append) Name() string { return "append" }

// Needs implements Workload.
func (a *Append) Needs() engine.Promises {
	return engine.Promises{Atomic: engine.AllKeys, Serializable: true, Ordered: true}
}

func (a *Append) init() {
	a.once.Do(func() {
		if a.Lists <= 0 {
			a.Lists = DefaultLists
		}
		if a.Ledger == nil {
			a.Ledger = NewLedger(0, nil)
		}
	})
}

// Setup implements Workload.
func (a *Append) Setup(ctx context.Context, eng engine.Engine) (err error) {
	a.init()
	a.idle = nil
	if a.start, err = wipe(ctx, eng, []byte(appendPrefix)); err != nil {
		return err
	}
	return a.Ledger.wipe(appendKind)
}

// Step implements Workload.
func (a *Append) Step(ctx context.Context, eng engine.Engine, rng *rand.Rand) error {
	a.init()
	w := a.take()
	it := Item{Kind: appendKind, Key: uint64(rng.IntN(a.Lists)), Writer: w.id, Seq: w.seq}
	if err := a.Ledger.begin(it); err != nil {
		return err
	}
	pos, err := eng.Update(ctx, func(tx engine.Tx) error { return appendEntry(tx, it) })
	if lerr := a.Ledger.end(it, pos, err); lerr != nil {
		return lerr
	}
	if outcomeOf(err) != Maybe {
		a.mu.Lock()
		a.idle = append(a.idle, w)
		a.mu.Unlock()
	}
	return judged(a.Name(), err)
}

// take returns an idle writer with its next number.
func (a *Append) take() writer {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := writer{}
	if n := len(a.idle); n > 0 {
		w, a.idle = a.idle[n-1], a.idle[:n-1]
	} else {
		w.id = a.Ledger.nextID()
	}
	w.seq++
	return w
}

// appendEntry appends the entry to the list's last segment.
func appendEntry(tx engine.Tx, it Item) error {
	n, err := readNumber(tx, headKey(it.Key))
	if err != nil {
		return err
	}
	seg, _, err := tx.Get(segmentKey(it.Key, n))
	if err != nil {
		return err
	}
	if len(seg) == segmentEntries*entryBytes {
		n++
		seg = nil
		if err := tx.Put(headKey(it.Key), fmt.Append(nil, n)); err != nil {
			return err
		}
	}
	val := bytes.Clone(seg)
	val = binary.BigEndian.AppendUint64(val, it.Writer)
	val = binary.BigEndian.AppendUint64(val, it.Seq)
	return tx.Put(segmentKey(it.Key, n), val)
}

// Check implements Workload. It checks every list that the ledger names.
func (a *Append) Check(ctx context.Context, eng engine.Engine) error {
	a.init()
	known := a.Ledger.of(appendKind)
	lists := map[uint64]bool{}
	for it := range known {
		lists[it.Key] = true
	}
	found := map[Item]bool{}
	for list := range lists {
		items, err := a.readList(ctx, eng, list)
		if err != nil {
			return err
		}
		if err := checkEntries(a.Name(), fmt.Sprintf("list %d", list), items, known, found); err != nil {
			return err
		}
		if err := inOrder(a.Name(), items, known); err != nil {
			return err
		}
	}
	for it, r := range known {
		if r.outcome == Acked && !found[it] {
			return violation(a.Name(), "[%v] was acknowledged at position %d and is missing", it, r.pos)
		}
	}
	if err := positionsInOrder(a.Name(), known); err != nil || !eng.Promises().Feed {
		return err
	}
	return a.checkFeed(ctx, eng, known)
}

// readList returns the entries of one list, from one view.
func (a *Append) readList(ctx context.Context, eng engine.Engine, list uint64) (items []Item, err error) {
	_, err = eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		items = nil
		head, err := readNumber(tx, headKey(list))
		if err != nil {
			return err
		}
		for n := range head + 1 {
			seg, _, err := tx.Get(segmentKey(list, n))
			if err != nil {
				return err
			}
			if len(seg)%entryBytes != 0 || (n < head && len(seg) != segmentEntries*entryBytes) {
				return violation(a.Name(), "segment %d of list %d, of %d, has %d bytes", n, list, head, len(seg))
			}
			for e := range bytesOf(seg) {
				items = append(items, entryItem(list, e))
			}
		}
		return nil
	})
	return items, judged(a.Name(), err)
}

// checkFeed checks that the changes since Setup append the same entries.
func (a *Append) checkFeed(ctx context.Context, eng engine.Engine, known map[Item]record) error {
	var items []Item
	at := map[Item]engine.Position{}
	err := history(ctx, eng, a.Name(), []byte("w/mark/append"), a.start, func(c engine.Change) error {
		for _, w := range c.Writes {
			var list, n uint64
			if c, _ := fmt.Sscanf(string(w.Key), appendPrefix+"%06d/s/%06d", &list, &n); c != 2 || w.Deleted {
				continue
			}
			if len(w.Val) < entryBytes || len(w.Val)%entryBytes != 0 {
				return violation(a.Name(), "change %d sets %s to %d bytes", c.Pos, w.Key, len(w.Val))
			}
			it := entryItem(list, w.Val[len(w.Val)-entryBytes:])
			items, at[it] = append(items, it), c.Pos
		}
		return nil
	})
	if errors.Is(err, engine.ErrTruncated) {
		return nil // the lists themselves were checked
	}
	if err != nil {
		return err
	}
	found := map[Item]bool{}
	if err := checkEntries(a.Name(), "the changes", items, known, found); err != nil {
		return err
	}
	for it, r := range known {
		if r.outcome == Acked && r.pos != at[it] && r.pos > a.start {
			return violation(a.Name(), "[%v] was acknowledged at position %d; the changes have it at %d (0: missing)", it, r.pos, at[it])
		}
	}
	return nil
}

// checkEntries checks that the items found in where were all tried, are unique and keep
// each writer's order. It adds them to found.
func checkEntries(name, where string, items []Item, known map[Item]record, found map[Item]bool) error {
	last := map[uint64]Item{}
	for _, it := range items {
		r, tried := known[it]
		switch {
		case !tried:
			return violation(name, "[%v] is in %s, but was never tried", it, where)
		case r.outcome == Failed:
			return violation(name, "[%v] is in %s, but was refused", it, where)
		case found[it]:
			return violation(name, "[%v] is in %s twice", it, where)
		case last[it.Writer].Seq >= it.Seq:
			return violation(name, "[%v] is in %s after [%v]", it, where, last[it.Writer])
		}
		found[it], last[it.Writer] = true, it
	}
	return nil
}

func entryItem(list uint64, e []byte) Item {
	return Item{Kind: appendKind, Key: list, Writer: binary.BigEndian.Uint64(e), Seq: binary.BigEndian.Uint64(e[8:])}
}

// bytesOf yields the entries of a segment.
func bytesOf(seg []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for ; len(seg) >= entryBytes; seg = seg[entryBytes:] {
			if !yield(seg[:entryBytes]) {
				return
			}
		}
	}
}

func headKey(list uint64) []byte { return fmt.Appendf(nil, appendPrefix+"%06d/h", list) }

func segmentKey(list uint64, n int64) []byte {
	return fmt.Appendf(nil, appendPrefix+"%06d/s/%06d", list, n)
}
