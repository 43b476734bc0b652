package series

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
)

// Run follows the changes of the engine, and seals and merges what has been written. It returns when ctx ends.
func (db *DB) Run(ctx context.Context) error {
	if db.byName == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	db.mu.Lock()
	db.running = true
	db.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	if db.feed != nil {
		work.Go(func() { _ = db.feed.Run(ctx) }) // what reads it reports its end
	}
	follow := db.follow
	if db.own != nil {
		follow = db.followTables
	} else {
		work.Go(func() { db.maintain(ctx) })
	}
	for {
		err := follow(ctx)
		if ctx.Err() != nil {
			db.end(engine.ErrClosed)
			return ctx.Err()
		}
		if errors.Is(err, engine.ErrClosed) {
			db.end(err)
			return err
		}
		if !errors.Is(err, engine.ErrTruncated) {
			db.o.Logger.Error("series are read again from the engine", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(db.o.pause):
			}
		}
	}
}

// end fails the calls that wait, and all later ones that would.
func (db *DB) end(err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.ended = err
	close(db.moved)
	db.moved = make(chan struct{})
}

// follow reads everything into memory and then applies the changes, until it fails.
func (db *DB) follow(ctx context.Context) error {
	heads, pos, err := db.load(ctx)
	if err != nil {
		return err
	}
	sub, err := db.o.Feed.Subscribe(feed.Filter{Prefixes: prefixes()}, pos)
	if err != nil {
		return err
	}
	defer sub.Close()
	db.replace(heads, pos)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c, ok := <-sub.C:
			if !ok {
				return cmp.Or(sub.Err(), error(engine.ErrClosed))
			}
			if err := db.change(c); err != nil {
				return err
			}
		}
	}
}

// load reads all that is in memory of all collections, by their names.
func (db *DB) load(ctx context.Context) (map[string]*loaded, engine.Position, error) {
	var heads map[string]*loaded
	pos, err := db.eng.View(ctx, engine.Read{}, func(tx engine.Tx) error {
		heads = map[string]*loaded{}
		for p, err := range tx.Scan(key(keyCollection), engine.PrefixEnd(key(keyCollection))) {
			if err != nil {
				return err
			}
			heads[string(p.Key[2:])] = &loaded{no: collectionOf(p.Val), head: newHead()}
		}
		for _, l := range heads {
			if err := l.read(tx); err != nil {
				return err
			}
		}
		return nil
	})
	return heads, pos, err
}

// loaded is what load has read of one collection.
type loaded struct {
	no   uint32
	head *head
}

func (l *loaded) read(tx engine.Tx) (err error) {
	if l.head.meta, err = readMeta(tx, l.no); err != nil {
		return err
	}
	for _, kind := range []byte{keySeries, keyBatch, keyPart, keyRolled, keyGone} {
		prefix := keyOf(kind, l.no)
		for p, err := range tx.Scan(prefix, engine.PrefixEnd(prefix)) {
			if err != nil {
				return err
			}
			if kind == keyBatch && numbersOf(p.Key)[0] <= l.head.meta.sealed {
				continue
			}
			if err := l.head.write(engine.Write{Key: p.Key, Val: p.Val}); err != nil {
				return err
			}
		}
	}
	l.head.seq = l.head.meta.seq
	l.head.index.sortIDs()
	return nil
}

// replace makes heads what the stores read. Those who watch a store are told that they may have missed samples.
func (db *DB) replace(heads map[string]*loaded, pos engine.Position) {
	db.mu.Lock()
	defer db.mu.Unlock()
	clear(db.byNo)
	for name, s := range db.byName {
		old := s.head
		if l := heads[name]; l != nil {
			s.no, s.head = l.no, l.head
			s.head.pos = pos
			db.byNo[l.no] = s
		} else {
			s.no, s.head = 0, newHead()
		}
		old.endWatches(engine.ErrTruncated)
	}
	db.loaded = true
	db.reach(pos)
}

// change applies one change.
func (db *DB) change(c engine.Change) error {
	for i := 0; i < len(c.Writes); {
		kind, no := kindOf(c.Writes[i].Key)
		if kind == keyCollection {
			db.named(c.Writes[i])
			i++
			continue
		}
		n := i + 1
		for n < len(c.Writes) {
			if k, other := kindOf(c.Writes[n].Key); k == keyCollection || other != no {
				break
			}
			n++
		}
		if err := db.changeOf(no, c.Pos, c.Writes[i:n]); err != nil {
			return err
		}
		i = n
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.reach(c.Pos)
	return nil
}

// inOrder returns writes in the order in which they are applied: definitions by id, since the lists of the index are
// ascending, then the batches that use them, and the state that seals batches last. Engines have them in any order.
func inOrder(writes []engine.Write) []engine.Write {
	if len(writes) < 2 {
		return writes
	}
	const kinds = string(keySeries) + string(keyBatch) + string(keyPart) + string(keyRolled) + string(keyGone) + string(keyMeta)
	rank := func(w engine.Write) (kind int, id uint64) {
		k, _ := kindOf(w.Key)
		if k == keySeries {
			id, _, _ = uvarint(w.Val)
		}
		return strings.IndexByte(kinds, k), id
	}
	return slices.SortedStableFunc(slices.Values(writes), func(a, b engine.Write) int {
		ka, ia := rank(a)
		kb, ib := rank(b)
		return cmp.Or(cmp.Compare(ka, kb), cmp.Compare(ia, ib))
	})
}

// changeOf applies writes to one collection.
func (db *DB) changeOf(no uint32, pos engine.Position, writes []engine.Write) error {
	db.mu.RLock()
	s := db.byNo[no]
	db.mu.RUnlock()
	if s == nil {
		return nil // this program does not use the collection
	}
	_, h := s.state()
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.meta.generation
	h.pos = pos
	h.undefine(undefined(writes))
	for _, w := range inOrder(writes) {
		if err := h.write(w); err != nil {
			return err
		}
	}
	if h.meta.generation != before {
		select {
		case db.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// undefined returns the hashes of the series whose definitions are removed.
func undefined(writes []engine.Write) (hashes []hash) {
	for _, w := range writes {
		if kind, _ := kindOf(w.Key); kind == keySeries && w.Deleted && len(w.Key) == 22 {
			hashes = append(hashes, hash(w.Key[6:]))
		}
	}
	return hashes
}

// named gives a collection its number.
func (db *DB) named(w engine.Write) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if s := db.byName[string(w.Key[2:])]; s != nil && !w.Deleted {
		s.no = collectionOf(w.Val)
		db.byNo[s.no] = s
	}
}

// position returns the position up to which all changes are applied.
func (db *DB) position() engine.Position {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.pos
}

// reach says that all changes up to pos are applied. The caller holds db.mu.
func (db *DB) reach(pos engine.Position) {
	db.pos = max(db.pos, pos)
	close(db.moved)
	db.moved = make(chan struct{})
}

// wait waits until the stores have been loaded and all changes up to pos are applied.
func (db *DB) wait(ctx context.Context, pos engine.Position) error {
	for {
		db.mu.RLock()
		reached, ended, moved := db.loaded && db.pos >= pos, db.ended, db.moved
		db.mu.RUnlock()
		switch {
		case reached:
			return nil
		case ended != nil:
			return ended
		}
		select {
		case <-moved:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return engine.Errorf(engine.CodePositionTimeout, "series: this node has not reached position %d: %w", pos, ctx.Err())
			}
			return ctx.Err()
		}
	}
}
