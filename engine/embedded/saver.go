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
	save func() error // writes one snapshot
	fail func(error)

	plan    recoveryPlan
	wanted  chan struct{}
	closing chan struct{} // closed by close
	ended   chan struct{}

	mono      func() time.Time
	began     atomic.Pointer[time.Time] // when the snapshot being written was begun; nil: none
	lastNanos atomic.Int64              // how long the last one took
	failing   atomic.Bool               // the last one failed
	hurried   atomic.Int32              // how many wait for the one being written
	once      sync.Once
}

func (s *saver) start(save func() error, fail func(error)) {
	s.save, s.fail = save, fail
	s.wanted, s.closing, s.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go s.loop()
	s.logged(0, 0)
}

// logged counts n more bytes of log with writes.
func (s *saver) logged(n, writes int) {
	if !s.plan.logged(n, writes) {
		return
	}
	select {
	case s.wanted <- struct{}{}:
	default: // one is waiting or being written
	}
}

func (s *saver) loop() {
	defer close(s.ended)
	last := s.mono()
	for {
		select {
		case <-s.wanted:
		case <-s.closing:
			return
		}
		begin := s.mono()
		if !s.plan.due(begin.Sub(last), time.Duration(s.lastNanos.Load())) {
			continue
		}
		s.run(begin)
		last = begin
	}
}

// run writes one snapshot.
func (s *saver) run(begin time.Time) {
	log, writes := s.plan.begin()
	s.began.Store(&begin)
	err := s.save()
	s.began.Store(nil)
	s.lastNanos.Store(int64(s.mono().Sub(begin)))
	if errors.Is(err, engine.ErrClosed) {
		return
	}
	if errors.Is(err, errUnsettled) {
		s.plan.failed()
		return
	}
	s.failing.Store(err != nil)
	if err != nil {
		s.fail(err) // the log still has everything
		s.plan.failed()
		return
	}
	s.plan.saved(log, writes)
}

// close stops the background and waits for a snapshot being written.
func (s *saver) close() {
	s.once.Do(func() { close(s.closing) })
	<-s.ended
}

// snapshotName returns the file of the snapshot that ends with a log index.
func snapshotName(dir string, index uint64) string {
	return filepath.Join(dir, snapshotDir, fmt.Sprintf("%020d.snap", index))
}

// saveSnapshot writes a snapshot as fast as it can, and returns its size.
func (db *DB) saveSnapshot() (int64, error) {
	return db.writeSnapshot(unpaced)
}

// unpaced returns w: a snapshot is written as fast as possible.
func unpaced(w io.Writer) io.Writer { return w }

// savePaced writes a snapshot beside the writes of db.
func (db *DB) savePaced() error {
	if db.isFuzzy() {
		_, err := db.saveFuzzy(db.resting())
		return err
	}
	_, err := db.writeSnapshot(db.paced)
	return err
}

// writeSnapshot writes the newest published state through what wrap returns, then
// removes what it replaces.
func (db *DB) writeSnapshot(wrap func(io.Writer) io.Writer) (int64, error) {
	snap, err := db.snapshotAt(context.Background(), 0)
	if err != nil {
		return 0, err
	}
	if g := db.group; g != nil {
		g.lockSaves()
		defer g.saveMu.Unlock()
		snap = g.newest(snap)
		if g.fuzzy == 0 && snap.index <= g.store.Base().Index {
			return 0, nil // nothing new, or another node's snapshot was installed in between
		}
		if snap.index < g.fuzzy {
			return 0, errOvertaken
		}
	}
	h := &holder{kind: holdSave, snap: snap}
	db.begin(h)
	defer db.holds.remove(h)
	size, uses, err := snap.save(db.opts.FS, snapshotName(db.dir, snap.index), wrap)
	if err != nil {
		return 0, err
	}
	if g := db.group; g != nil {
		g.fuzzy = 0
	}
	if err := db.replaced(snap, int64(snap.tree.Len()), size); err != nil {
		return size, err
	}
	return size, db.spill.saved(snap.vals.files(), uses)
}

// errOvertaken is returned if a newer snapshot was written in the meantime.
var errOvertaken = errors.New("a newer snapshot has been written")

// newest returns s after the newest record that has changed nothing since.
func (g *group) newest(s *snapshot) *snapshot {
	x := g.db.exec
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.atPos != s.pos {
		return s
	}
	now := *s
	now.applied = x.at
	return &now
}

// replaced records that there is a snapshot file, after whose state s the log is applied
// to it. It removes older snapshots and the part of the log that neither recovery nor the
// kept history needs.
func (db *DB) replaced(s *snapshot, pairs, size int64) error {
	db.saver.plan.holds(pairs, size)
	db.counts.snapshots.Add(1)
	db.counts.snapshotAt.Store(time.Now().Unix())
	db.counts.snapshotPos.Store(uint64(s.pos))
	keep := s.index + 1
	if first, ok := db.history.firstIndex(); ok {
		keep = min(keep, first)
	}
	if err := db.log.TruncateBefore(keep); err != nil {
		return fmt.Errorf("truncate the log: %w", err)
	}
	if db.group != nil {
		db.group.store.Compacted(s.base())
	}
	return db.removeSnapshotsBefore(s.index)
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
