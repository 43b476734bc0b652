package kv

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Bounds of Load and Compare.
const (
	loadAtOnce  = 64      // transactions that run together
	loadTxKeys  = 64      // of one transaction
	loadTxBytes = 1 << 20 // likewise, besides one key that is longer
)

// Load stores records of another engine, which are pairs of its layout: with their revisions, expiries and marks. It
// leaves out what has expired, tombstones, and keys that s has at that revision or a later one. So it may be repeated, and one that is
// late changes nothing. It returns how many it has not left out as expired. If it fails, some may be stored. It is for engines without
// an index of expiries; on others it is ErrUnsupported.
func (s *Store) Load(ctx context.Context, pairs []engine.Pair) (n int, err error) {
	if !s.plain.noIndex {
		return 0, engine.Errorf(engine.CodeUnsupported, "kv: records are loaded only where there is no index of expiries")
	}
	return s.eachGroup(ctx, pairs, func(ctx context.Context, group []loaded) error {
		_, err := s.eng.Update(ctx, func(tx engine.Tx) error {
			t := s.In(tx, 0)
			has, err := t.rawMany(group)
			if err != nil {
				return err
			}
			for i, l := range group {
				if err := t.loadOne(l, has[i]); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
}

// Compare returns an error of CodeCorrupt if s lacks a record that Load was given, or has another one. What has expired
// may be missing. It returns how many records it has compared.
func (s *Store) Compare(ctx context.Context, pairs []engine.Pair) (n int, err error) {
	return s.eachGroup(ctx, pairs, func(ctx context.Context, group []loaded) error {
		var has [][]byte
		_, err := s.eng.View(ctx, engine.Read{Level: engine.Session}, func(tx engine.Tx) (err error) {
			has, err = s.In(tx, 0).rawMany(group)
			return err
		})
		if err != nil {
			return err
		}
		for i, l := range group {
			if !bytes.Equal(has[i], l.Val) && (has[i] != nil || l.rec.ms == 0 || l.rec.ms > time.Now().UnixMilli()) {
				return engine.Errorf(engine.CodeCorrupt, "the key %q of space %d is not as it was loaded: its record has %d bytes, want %d", l.Key[2:], l.Key[1], len(has[i]), len(l.Val))
			}
		}
		return nil
	})
}

// loaded is a pair with its record.
type loaded struct {
	engine.Pair
	rec record
}

// rawMany returns the stored records of a group; nil where there is none.
func (t *Tx) rawMany(group []loaded) ([][]byte, error) {
	keys := make([][]byte, len(group))
	for i, l := range group {
		keys[i] = l.Key
	}
	return engine.GetMany(t.tx, keys)
}

// loadOne stores a record over has, unless that is as new.
func (t *Tx) loadOne(l loaded, has []byte) error {
	if has != nil {
		var old record
		if err := old.parse(has); err != nil {
			return err
		}
		if old.rev >= l.rec.rev {
			return nil
		}
	}
	t.key, t.val = append(t.key[:0], l.Key...), append(t.val[:0], l.Val...)
	return t.storePlain(&l.rec)
}

// eachGroup calls fn with groups of records that one transaction may use, loadAtOnce at a time, and returns how
// many records there are, or the first error.
func (s *Store) eachGroup(ctx context.Context, pairs []engine.Pair, fn func(ctx context.Context, group []loaded) error) (n int, err error) {
	groups, err := s.groups(pairs)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	next := make(chan []loaded)
	for range min(len(groups), loadAtOnce) {
		work.Go(func() {
			for group := range next {
				if err := fn(ctx, group); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, group := range groups {
		n += len(group)
		select {
		case next <- group:
		case <-ctx.Done():
		}
	}
	close(next)
	work.Wait()
	return n, context.Cause(ctx)
}

// groups parses pairs and groups the records that live by partition.
func (s *Store) groups(pairs []engine.Pair) (groups [][]loaded, err error) {
	most := loadTxKeys
	if s.Promises().Atomic < engine.OnePartition {
		most = 1
	}
	type open struct{ at, size int }
	by := map[string]*open{} // the last group of each partition
	now := time.Now().UnixMilli()
	for _, p := range pairs {
		if len(p.Key) < 3 || p.Key[0] != dataPrefix {
			return nil, engine.Errorf(engine.CodeInvalid, "kv: the key %q is not of kv", p.Key)
		}
		l := loaded{Pair: p}
		if err := l.rec.parse(p.Val); err != nil {
			return nil, err
		}
		if l.rec.tomb || l.rec.ms != 0 && l.rec.ms <= now {
			continue
		}
		part := string(engine.Partition(p.Key))
		size := len(p.Key) + len(p.Val)
		g := by[part]
		if g == nil || len(groups[g.at]) >= most || g.size+size > loadTxBytes {
			g = &open{at: len(groups)}
			by[part] = g
			groups = append(groups, nil)
		}
		groups[g.at] = append(groups[g.at], l)
		g.size += size
	}
	return groups, nil
}
