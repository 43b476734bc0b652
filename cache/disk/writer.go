package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/journal"
)

// The stages of a record:
//
//  1. Put, Delete and Mark append it to the open batch and change the index, under mu.
//  2. The writer seals the batch, under mu: it becomes s.writing, and the next one begins
//     where it ends.
//  3. The writer removes what has to go (doomed segments, then the oldest ones until there
//     is room), writes the batch and syncs it, without mu.
//  4. It clears s.writing, under mu. Only then does it seal the next batch.
//
// Only the writer touches files, except that Get reads them.

// segment is one file. The writer alone opens, extends and closes it.
type segment struct {
	number uint32
	start  chain // before its first record
	path   string
	file   journal.File // nil: not created yet
	size   int64        // guarded by Store.mu once the segment is in Store.segments
}

const flags = os.O_RDWR | os.O_CREATE

// run is the writer.
func (s *Store) run() {
	defer close(s.done)
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	armed, due := false, false
	for {
		s.mu.Lock()
		r := s.round
		s.round = nil
		overrun := s.overrun
		s.overrun = false
		pending := s.off == nil && s.open.pending()
		work := s.off == nil && (len(s.doomed) > 0 || s.crowded || pending && (due || s.full()))
		s.mu.Unlock()
		if overrun {
			s.log.Warn("disk cache: dropped everything, because the disk is too slow for the deletions", "dir", s.o.Dir)
		}
		switch {
		case r != nil || work:
			s.write()
			if r != nil {
				s.write() // the mark that came after the first deletion of the batch
				s.mu.Lock()
				r.err = s.off
				s.mu.Unlock()
				close(r.done)
			}
			timer.Stop()
			armed, due = false, false
			continue
		case pending && !armed:
			timer.Reset(s.o.BatchAge)
			armed = true
		}
		select {
		case <-s.wake:
		case <-timer.C:
			due = true
		case <-s.stop:
			return
		}
	}
}

// write writes the open batch, if there is anything to write, and does what else is due.
// An error switches the store off.
func (s *Store) write() {
	err := s.removeDoomed()
	s.mu.Lock()
	if s.off != nil || err == nil && !s.open.pending() && !s.crowded {
		s.mu.Unlock()
		return
	}
	var b *batch
	if s.open.pending() {
		b = s.seal()
	}
	s.mu.Unlock()
	if err == nil && b != nil {
		err = s.writeBatch(b)
	}
	if err == nil {
		err = s.thin()
	}
	if err != nil {
		s.fail(err)
	}
}

// seal ends the open batch and begins the next one. The caller holds mu.
func (s *Store) seal() *batch {
	b := s.open
	if b.mark != "" {
		s.mark = b.mark
	}
	// All deletions before nextMark are in b or earlier.
	mark := s.nextMark
	s.nextMark = ""
	fresh := mark != "" && mark != s.mark
	seg, base := b.segment, b.base+b.size
	if base >= s.segmentBytes || s.crowded {
		seg, base = &segment{number: b.segment.number + 1, start: b.next}, headerBytes
		if mark == "" {
			mark = s.mark // so that the oldest segment always has one
		}
	}
	s.writing, s.open = b, newBatch(s.c, b.gen, seg, base, b.next, mark, fresh)
	return b
}

// writeBatch makes a sealed batch durable.
func (s *Store) writeBatch(b *batch) error {
	if err := s.makeRoom(b); err != nil {
		return err
	}
	if s.outdated(b) {
		return nil
	}
	seg := b.segment
	if seg.file == nil {
		if err := s.create(seg); err != nil {
			return err
		}
		s.mu.Lock()
		if s.gen == b.gen {
			s.segments = append(s.segments, seg)
		} else {
			s.doomed = append(s.doomed, seg)
		}
		s.mu.Unlock()
	}
	b.finish(s.oldest(seg.number))
	for _, c := range b.chunks {
		if _, err := seg.file.WriteAt(c.b, c.offset); err != nil {
			return fmt.Errorf("write %s: %w", seg.path, err)
		}
	}
	if err := seg.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = nil
	seg.size = b.base + b.size
	s.counts.Batches++
	s.counts.Written += uint64(b.records)
	if s.gen == b.gen && b.mark != "" {
		s.durable = b.mark
	}
	return nil
}

// outdated drops a sealed batch from before a flush.
func (s *Store) outdated(b *batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == b.gen {
		return false
	}
	s.writing = nil
	return true
}

// oldest returns the number of the oldest segment; own is that of the batch.
func (s *Store) oldest(own uint32) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) > 0 {
		return min(own, s.segments[0].number)
	}
	return own
}

// create makes the file of a segment, durably.
func (s *Store) create(seg *segment) error {
	seg.path = filepath.Join(s.o.Dir, fileName(seg.number))
	f, err := s.fs.OpenFile(seg.path, flags|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("create segment: %w", err)
	}
	seg.file, seg.size = f, headerBytes
	h := header{id: s.c.id, owner: s.owner, number: uint64(seg.number), start: seg.start}
	_, err = f.WriteAt(h.encode(), 0)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = s.fs.SyncDir(s.o.Dir)
	}
	if err != nil { // fail does not know this segment
		return errors.Join(fmt.Errorf("create segment %s: %w", seg.path, err), s.discard(seg))
	}
	return nil
}

// discard removes the file of a segment. If that fails it empties the file, because an
// empty segment is never served.
func (s *Store) discard(seg *segment) error {
	err := s.fs.Remove(seg.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil && seg.file.Truncate(0) == nil {
		err = seg.file.Sync()
	}
	seg.file.Close() // nothing in it is needed
	return err
}

// removeDoomed removes the segments from before a flush, durably.
func (s *Store) removeDoomed() error {
	s.mu.Lock()
	doomed := s.doomed
	s.mu.Unlock()
	if len(doomed) == 0 {
		return nil
	}
	var err error
	for _, seg := range doomed {
		err = errors.Join(err, s.discard(seg))
	}
	if err = errors.Join(err, s.fs.SyncDir(s.o.Dir)); err != nil {
		return fmt.Errorf("remove segments: %w", err)
	}
	s.mu.Lock()
	s.doomed = s.doomed[len(doomed):] // a flush may have added some
	s.mu.Unlock()
	return nil
}

// fail switches the store off and removes its files, so that no restart comes back with a
// mark from before what the cache has seen since.
func (s *Store) fail(err error) {
	s.mu.Lock()
	s.off = err
	segments := append(s.doomed, s.segments...)
	s.segments, s.doomed, s.index = nil, nil, map[uint64]location{}
	s.writing, s.durable, s.mark = nil, "", ""
	s.open = s.fresh(s.open.segment.number)
	s.mu.Unlock()
	var left error
	for i := len(segments) - 1; i >= 0; i-- { // newest first: what remains is always a beginning
		left = errors.Join(left, s.discard(segments[i]))
	}
	left = errors.Join(left, s.fs.SyncDir(s.o.Dir))
	s.log.Error("disk cache: switched off until the next start", "dir", s.o.Dir, "error", err)
	if left != nil {
		s.log.Error("disk cache: could not remove its files", "dir", s.o.Dir, "error", left)
	}
}
