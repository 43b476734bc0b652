package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// saver writes snapshots in the background, so that the log does not grow without limit
// and a restart is quick.
type saver struct {
	save func() (int64, error) // writes one snapshot; returns its bytes
	fail func(error)

	since  atomic.Int64 // bytes of log since the last snapshot began, including before a restart
	due    atomic.Int64 // value of since at which the next one begins
	floor  int64        // least value of due
	wanted chan struct{}
	ended  chan struct{}

	mono      func() time.Time
	began     atomic.Pointer[time.Time] // when the snapshot being written was begun; nil: none
	lastNanos atomic.Int64              // how long the last one took
	failing   atomic.Bool               // the last one failed
	once      sync.Once
}

func (s *saver) start(floor int64, save func() (int64, error), fail func(error)) {
	s.save, s.fail, s.floor = save, fail, floor
	s.due.Store(floor)
	s.wanted, s.ended = make(chan struct{}, 1), make(chan struct{})
	go s.loop()
	s.logged(0)
}

// logged counts n more bytes of log.
func (s *saver) logged(n int) {
	if s.since.Add(int64(n)) < s.due.Load() {
		return
	}
	select {
	case s.wanted <- struct{}{}:
	default: // one is waiting or being written
	}
}

func (s *saver) loop() {
	defer close(s.ended)
	for range s.wanted {
		if s.since.Load() < s.due.Load() {
			continue
		}
		s.since.Store(0)
		begin := s.mono()
		s.began.Store(&begin)
		size, err := s.save()
		s.began.Store(nil)
		s.lastNanos.Store(int64(s.mono().Sub(begin)))
		if errors.Is(err, engine.ErrClosed) {
			continue
		}
		s.failing.Store(err != nil)
		if err != nil {
			s.fail(err) // the log still has everything; the next attempt is after the same amount of log
		}
		s.due.Store(max(s.floor, size))
	}
}

// close stops the background and waits for a snapshot being written.
func (s *saver) close() {
	s.once.Do(func() { close(s.wanted) })
	<-s.ended
}

// snapshotName returns the file of the snapshot that ends with a log index.
func snapshotName(dir string, index uint64) string {
	return filepath.Join(dir, snapshotDir, fmt.Sprintf("%020d.snap", index))
}

// saveSnapshot writes the newest published state, then removes older snapshots and the
// part of the log that neither recovery nor the kept history needs.
func (db *DB) saveSnapshot() (int64, error) {
	snap, err := db.snapshotAt(context.Background(), 0)
	if err != nil {
		return 0, err
	}
	if g := db.group; g != nil {
		g.saveMu.Lock()
		defer g.saveMu.Unlock()
		if snap.index <= g.store.Base().Index {
			return 0, nil // nothing new, or another node's snapshot was installed in between
		}
	}
	h := &holder{kind: holdSave, snap: snap}
	db.begin(h)
	defer db.holds.remove(h)
	name := snapshotName(db.dir, snap.index)
	size, uses, err := snap.save(db.opts.FS, name)
	if err != nil {
		return 0, fmt.Errorf("write snapshot %s: %w", name, err)
	}
	db.counts.snapshots.Add(1)
	db.counts.snapshotAt.Store(time.Now().Unix())
	db.counts.snapshotPos.Store(uint64(snap.pos))
	keep := snap.index + 1
	if first, ok := db.history.firstIndex(); ok {
		keep = min(keep, first)
	}
	if err := db.log.TruncateBefore(keep); err != nil {
		return 0, fmt.Errorf("truncate the log: %w", err)
	}
	if db.group != nil {
		db.group.store.Compacted(snap.base())
	}
	if err := db.removeSnapshotsBefore(snap.index); err != nil {
		return size, err
	}
	return size, db.spill.saved(snap.vals.files(), uses)
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
