package disk

import (
	"encoding/binary"
	"slices"
)

// Get appends the value of key to dst. The result is the caller's. It never waits for a
// write to the disk. A value that cannot be read back as it was written is dropped.
func (s *Store) Get(dst []byte, key string) ([]byte, bool) {
	h := s.c.hash(key)
	s.mu.Lock()
	l, ok := s.index[h]
	if !ok {
		s.mu.Unlock()
		return dst, false
	}
	if !l.wasRead() {
		s.index[h] = l.read()
	}
	rec := s.writing.find(l)
	if rec == nil {
		rec = s.open.find(l)
	}
	seg := s.segment(l.segment)
	s.mu.Unlock()
	if rec != nil {
		r, ok := s.c.parse(rec, l.number)
		if !ok || string(r.key) != key {
			return dst, false
		}
		return append(dst, r.value...), true
	}
	return s.read(dst, key, h, seg, l)
}

// read is Get from a file.
func (s *Store) read(dst []byte, key string, h uint64, seg *segment, l location) ([]byte, bool) {
	if seg == nil {
		return dst, false
	}
	n := len(dst)
	b := slices.Grow(dst, int(l.bytes()))[:n+int(l.bytes())]
	_, err := seg.file.ReadAt(b[n:], int64(l.offset))
	r, ok := s.c.parse(b[n:], l.number)
	if err != nil || !ok {
		s.lost(h, l, seg)
		return dst, false
	}
	if string(r.key) != key { // another key with this hash
		return dst, false
	}
	return b[:n+copy(b[n:], r.value)], true
}

// lost drops the entry at l, which could not be read. The deletion is recorded, because
// after a restart reading may succeed.
func (s *Store) lost(h uint64, l location, seg *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.index[h]; !ok || !now.is(l) || s.segment(l.segment) != seg {
		return // deleted, replaced, or the segment was dropped
	}
	s.counts.Corrupt++
	s.remove(h)
}

// segment returns the file with that number, or nil. The caller holds mu.
func (s *Store) segment(number uint32) *segment {
	if len(s.segments) == 0 {
		return nil
	}
	if i := int64(number) - int64(s.segments[0].number); i >= 0 && i < int64(len(s.segments)) {
		return s.segments[i]
	}
	return nil
}

// Put copies a value and queues it; Get finds it at once. It returns false if the value is
// not kept: the queue is full, key or value are too long, or the store is switched off. An
// older value of key is gone in any case.
func (s *Store) Put(key string, value []byte) bool {
	h := s.c.hash(key)
	n := int64(recordBytes + len(key) + len(value))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off != nil || s.closed {
		s.counts.Refused++
		return false
	}
	_, known := s.index[h]
	if !known && len(s.index) >= s.maxEntries {
		s.crowded = true
		s.nudge()
	}
	if len(key) > MaxKeyBytes || len(value) > MaxValueBytes || n > s.o.MaxBytes/16 ||
		s.open.size+s.writing.waiting()+n > s.queueBytes || !known && s.crowded {
		s.counts.Refused++
		s.remove(h)
		return false
	}
	s.index[h] = s.open.add(kindPut, key, value)
	s.queued()
	return true
}

// waiting returns the memory of a batch; b may be nil.
func (b *batch) waiting() int64 {
	if b == nil {
		return 0
	}
	return b.size
}

// queued tells the writer about the first record of a batch, and that it is full. The
// caller holds mu.
func (s *Store) queued() {
	if s.open.records == 1 || s.full() {
		s.nudge()
	}
}

// full reports whether the open batch is to be written at once. The caller holds mu.
func (s *Store) full() bool {
	return s.open.records >= s.o.BatchEntries || s.open.queued() >= s.o.BatchBytes
}

// Delete removes key for every Get that begins after Delete has returned. The deletion is
// in the log before every later mark.
func (s *Store) Delete(key string) {
	h := s.c.hash(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(h)
}

// remove deletes an entry and queues the deletion. What is not in the index is not in the
// log either, so it needs no record (DESIGN.md, I2). The caller holds mu.
func (s *Store) remove(h uint64) {
	if _, ok := s.index[h]; !ok || s.off != nil || s.closed {
		return
	}
	delete(s.index, h)
	if s.open.size+s.writing.waiting() > 2*s.queueBytes {
		s.overrun = true
		s.flush()
		return
	}
	s.open.add(kindDelete, string(binary.LittleEndian.AppendUint64(make([]byte, 0, 8), h)), nil)
	s.queued()
}

// Mark states that all deletions so far belong to changes up to position. It becomes
// durable with a later batch, after all these deletions. A position that is "" or longer
// than MaxPositionBytes is ignored, which leaves the older mark.
func (s *Store) Mark(position string) {
	if position == "" || len(position) > MaxPositionBytes {
		s.log.Warn("disk cache: ignored a position that is empty or too long", "bytes", len(position))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off != nil || s.closed {
		return
	}
	b := s.open
	if b.records > 0 { // these become durable with this batch, so the mark comes with the next
		s.nextMark = position
		return
	}
	s.open = newBatch(b.c, b.gen, b.segment, b.base, b.start, position, position != s.mark)
	s.nudge()
}

// Flush drops everything and the mark. It takes effect at once for Get; the files are gone
// when a later Sync returns. After a crash before that, the store comes back with the
// durable mark from before Flush, and what belongs to it.
func (s *Store) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off != nil || s.closed {
		return
	}
	s.flush()
}

// flush is Flush; the caller holds mu.
func (s *Store) flush() {
	s.gen++
	s.counts.Flushes++
	s.index = map[uint64]location{}
	s.doomed = append(s.doomed, s.segments...)
	s.segments = nil
	s.mark, s.durable, s.nextMark, s.crowded = "", "", "", false
	s.open = s.fresh(s.open.segment.number + 1)
	s.nudge()
}

// fresh returns the first batch of a log that begins with segment number. Its chain is
// random, so that segments from before a flush do not fit. The caller holds mu.
func (s *Store) fresh(number uint32) *batch {
	id := randomID()
	start := chain{number: 1, sum: binary.LittleEndian.Uint32(id[:])}
	return newBatch(s.c, s.gen, &segment{number: number, start: start}, headerBytes, start, "", false)
}
