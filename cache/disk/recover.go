package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const suffix = ".seg"

// fileName returns the name of a segment's file.
func fileName(number uint32) string { return fmt.Sprintf("%08x%s", number, suffix) }

// damage is why a log is not used. Everything is dropped then.
type damage struct{ why string }

func (d *damage) Error() string { return d.why }

func damagef(format string, args ...any) error { return &damage{fmt.Sprintf(format, args...)} }

// recover reads the folder into the index and prepares the open batch.
func (s *Store) recover() error {
	numbers, err := s.list()
	if err != nil {
		return err
	}
	end, err := s.replay(numbers)
	if err == nil && len(numbers) > 0 && s.mark == "" {
		err = damagef("it ends before its first mark")
	}
	if d, ok := errors.AsType[*damage](err); ok {
		s.log.Warn("disk cache: dropped everything", "dir", s.o.Dir, "reason", d.why)
		return s.startOver(numbers)
	}
	if err != nil {
		return err
	}
	if len(s.segments) == 0 {
		return s.startOver(nil)
	}
	last := s.segments[len(s.segments)-1]
	if err := last.file.Sync(); err != nil { // the process may have been killed before it did
		return fmt.Errorf("sync %s: %w", last.path, err)
	}
	if err := s.fs.SyncDir(s.o.Dir); err != nil {
		return fmt.Errorf("sync the folder of %s: %w", last.path, err)
	}
	s.found, s.durable = s.mark, s.mark
	s.open = newBatch(s.c, 0, last, last.size, end, "", false)
	if last.size >= s.segmentBytes {
		s.roll()
	}
	return s.shrink()
}

// list returns the numbers of the segments in the folder, in order.
func (s *Store) list() ([]uint32, error) {
	names, err := s.fs.List(s.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var numbers []uint32
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, suffix)
		if n, err := strconv.ParseUint(digits, 16, 32); ok && err == nil && fileName(uint32(n)) == name {
			numbers = append(numbers, uint32(n))
		}
	}
	return numbers, nil
}

// replay reads the segments in order and returns the chain at their end.
func (s *Store) replay(numbers []uint32) (end chain, err error) {
	oldest := uint32(0)
	for i, n := range numbers {
		seg := &segment{number: n, path: filepath.Join(s.o.Dir, fileName(n))}
		if seg.file, err = s.fs.OpenFile(seg.path, os.O_RDWR); err != nil {
			return end, fmt.Errorf("open segment: %w", err)
		}
		s.segments = append(s.segments, seg)
		if seg.size, err = seg.file.Size(); err != nil {
			return end, fmt.Errorf("size of segment: %w", err)
		}
		last := i == len(numbers)-1
		ok, err := s.begin(seg, i, last, end)
		if err != nil {
			return end, err
		}
		if !ok { // never used
			s.segments = s.segments[:i]
			return end, s.removeFile(seg)
		}
		p := &parser{c: s.c, segment: seg.number, r: seg.file, size: seg.size, at: headerBytes, next: seg.start}
		if err := p.run(s.apply); err != nil {
			return end, damagef("cannot read %s: %v", seg.path, err)
		}
		oldest, end = max(oldest, p.oldest), p.next
		if p.at < seg.size {
			if err := s.cut(seg, p, last); err != nil {
				return end, err
			}
		}
	}
	if len(s.segments) > 0 && oldest > s.segments[0].number {
		return end, damagef("segment %d has come back after it was dropped", s.segments[0].number)
	}
	return end, nil
}

// begin reads the header of the segment that follows end. It returns false if the segment
// was being created when the power failed.
func (s *Store) begin(seg *segment, i int, last bool, end chain) (ok bool, err error) {
	b := make([]byte, min(seg.size, headerBytes))
	if _, err := seg.file.ReadAt(b, 0); err != nil && err != io.EOF {
		return false, damagef("cannot read %s: %v", seg.path, err)
	}
	h, ok := parseHeader(b)
	switch {
	case !ok && last && i > 0:
		later, err := laterFrame(s.c, seg.file, 0, seg.size, 0)
		if later || err != nil {
			return false, damagef("the header of %s is damaged (%v)", seg.path, err)
		}
		return false, nil
	case !ok:
		return false, damagef("the header of %s is damaged", seg.path)
	case h.owner != s.owner:
		return false, damagef("it belongs to another source or format")
	case h.number != uint64(seg.number):
		return false, damagef("%s is segment %d", seg.path, h.number)
	case i == 0:
		s.c = newCodec(h.id)
	case h.id != s.c.id:
		return false, damagef("%s belongs to another store", seg.path)
	case seg.number != s.segments[i-1].number+1:
		return false, damagef("there is no segment %d", s.segments[i-1].number+1)
	case h.start != end:
		return false, damagef("%s does not continue the segment before it", seg.path)
	}
	seg.start = h.start
	return true, nil
}

// cut removes the end of the last segment, which p could not read. A valid frame after it
// shows that this is no torn write, because a frame is written only when all before it are
// durable.
func (s *Store) cut(seg *segment, p *parser, last bool) error {
	if !last {
		return damagef("%s is damaged at byte %d", seg.path, p.at)
	}
	later, err := laterFrame(s.c, seg.file, p.at, seg.size, p.next.number)
	if later || err != nil {
		return damagef("%s is damaged at byte %d (%v)", seg.path, p.at, err)
	}
	if err := seg.file.Truncate(p.at); err != nil {
		return fmt.Errorf("cut %s: %w", seg.path, err)
	}
	if err := seg.file.Sync(); err != nil {
		return fmt.Errorf("cut %s: %w", seg.path, err)
	}
	s.log.Info("disk cache: cut off an unfinished write", "file", seg.path, "bytes", seg.size-p.at)
	seg.size = p.at
	return nil
}

// apply replays a frame.
func (s *Store) apply(ops []op) {
	for _, o := range ops {
		switch o.kind {
		case kindPut:
			s.index[o.hash] = o.at
		case kindDelete:
			delete(s.index, o.hash)
		case kindMark:
			s.mark = o.position
		}
	}
}

// startOver removes the segments with these numbers and begins a new log.
func (s *Store) startOver(numbers []uint32) error {
	for _, seg := range s.segments {
		seg.file.Close() // nothing is kept of it
	}
	s.segments, s.index, s.mark = nil, map[uint64]location{}, ""
	next := uint32(1)
	for _, n := range numbers {
		if err := s.fs.Remove(filepath.Join(s.o.Dir, fileName(n))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove segment: %w", err)
		}
		next = n + 1
	}
	if len(numbers) > 0 {
		if err := s.fs.SyncDir(s.o.Dir); err != nil {
			return fmt.Errorf("remove segments: %w", err)
		}
	}
	s.c = newCodec(randomID())
	s.open = s.fresh(max(next, 1))
	return nil
}

// removeFile removes a segment that has never been used, durably.
func (s *Store) removeFile(seg *segment) error {
	seg.file.Close() // nothing is in it
	if err := s.fs.Remove(seg.path); err != nil {
		return fmt.Errorf("remove segment: %w", err)
	}
	if err := s.fs.SyncDir(s.o.Dir); err != nil {
		return fmt.Errorf("remove segment: %w", err)
	}
	return nil
}

// shrink drops the oldest segments until the store is within its limits, which may have
// been larger when it was written.
func (s *Store) shrink() error {
	for len(s.segments) > 0 && (s.bytes() > s.o.MaxBytes || len(s.index) > s.maxEntries || len(s.segments) > MaxSegments) {
		if s.segments[0] == s.open.segment {
			s.roll()
		}
		if err := s.drop(s.segments[0]); err != nil {
			return err
		}
	}
	return nil
}
