package disk

import "fmt"

// sweepStep is how many entries of the index are visited before readers get a turn.
const sweepStep = 4096

// makeRoom drops the oldest segments until b fits.
func (s *Store) makeRoom(b *batch) error {
	for {
		s.mu.Lock()
		var oldest *segment
		files := len(s.segments)
		need := b.size
		if b.segment.file == nil {
			need += headerBytes
			files++
		}
		if (s.bytes()+need > s.o.MaxBytes || files > MaxSegments) && len(s.segments) > 0 && s.segments[0] != b.segment {
			oldest = s.segments[0]
		}
		s.mu.Unlock()
		if oldest == nil {
			return nil
		}
		if err := s.drop(oldest); err != nil {
			return err
		}
	}
}

// thin drops the oldest segment if the index is full.
func (s *Store) thin() error {
	s.mu.Lock()
	if !s.crowded || len(s.segments) == 0 {
		s.crowded = false
		s.mu.Unlock()
		return nil
	}
	oldest := s.segments[0]
	if oldest == s.open.segment {
		if s.open.pending() { // the next batch begins another segment
			s.mu.Unlock()
			return nil
		}
		s.roll()
	}
	s.crowded = false
	s.mu.Unlock()
	return s.drop(oldest)
}

// roll moves the open batch, which must be empty, to a new segment. The caller holds mu.
func (s *Store) roll() {
	b := s.open
	seg := &segment{number: b.segment.number + 1, start: b.start}
	s.open = newBatch(s.c, s.gen, seg, headerBytes, b.start, s.mark, false)
}

// candidate is an entry that is worth a second chance.
type candidate struct {
	h uint64
	l location
}

// drop removes the oldest segment: its entries from the index, and then the file,
// durably. Entries that were read since they were written are queued again, up to half a
// segment and half the queue. Deletions that find no entry any more are not recorded, so
// nothing may be written until drop has returned.
func (s *Store) drop(seg *segment) error {
	again, gen, ok := s.sweep(seg)
	if !ok {
		return nil
	}
	for _, c := range again {
		s.keep(seg, c, gen)
	}
	s.mu.Lock()
	if s.gen != gen { // a flush: the segment is doomed anyway
		s.mu.Unlock()
		return nil
	}
	s.segments = s.segments[1:]
	s.counts.DroppedSegments++
	s.mu.Unlock()
	err := s.fs.Remove(seg.path)
	if err == nil {
		err = s.fs.SyncDir(s.o.Dir)
	}
	if err != nil {
		s.mu.Lock()
		s.doomed = append(s.doomed, seg) // for fail
		s.mu.Unlock()
		return fmt.Errorf("remove segment %s: %w", seg.path, err)
	}
	return seg.file.Close()
}

// sweep removes the entries of seg from the index, except for those that it returns. It
// returns false if a flush came in between, or since seg was chosen.
func (s *Store) sweep(seg *segment) (again []candidate, gen uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gen = s.gen; len(s.segments) == 0 || s.segments[0] != seg {
		return nil, gen, false
	}
	budget := min(s.segmentBytes, s.queueBytes) / 2
	visited := 0
	for h, l := range s.index { // others may change it in the pauses: new entries are in newer segments
		if l.segment == seg.number {
			if l.wasRead() && budget >= l.bytes() {
				again = append(again, candidate{h, l})
				budget -= l.bytes()
			} else {
				delete(s.index, h)
			}
		}
		if visited++; visited%sweepStep == 0 {
			s.mu.Unlock()
			s.mu.Lock()
			if s.gen != gen {
				return nil, gen, false
			}
		}
	}
	return again, gen, true
}

// keep queues the entry c of seg again, if it is still current, and removes it otherwise.
func (s *Store) keep(seg *segment, c candidate, gen uint64) {
	b := make([]byte, c.l.bytes())
	_, err := seg.file.ReadAt(b, int64(c.l.offset))
	r, good := s.c.parse(b, c.l.number)
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.index[c.h]
	if s.gen != gen || !ok || !now.is(c.l) {
		return
	}
	delete(s.index, c.h)
	switch {
	case err != nil || !good:
		s.counts.Corrupt++
	case s.open.size+s.writing.waiting()+int64(len(b)) <= s.queueBytes:
		s.index[c.h] = s.open.add(kindPut, string(r.key), r.value)
		s.counts.Kept++
		s.queued()
	}
}
