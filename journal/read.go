package journal

import (
	"errors"
	"iter"
	"os"
)

// Read yields, in order, the records with Index >= from that are durable when it
// begins. Record.Data is valid until the next record is read. An error is the last
// value: ErrGone if from is before First, *CorruptError for damage, ErrChanged if
// TruncateAfter or Reset removed records in the meantime.
func (l *Log) Read(from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		l.mu.Lock()
		r := &reader{l: l, gen: l.gen, from: from, next: from, end: l.durable}
		r.segs = append(r.segs, l.segs...)
		first, err := l.first(), l.err
		l.mu.Unlock()
		if err == nil && from < first {
			err = ErrGone
		}
		for i := range r.segs {
			if err != nil || r.done {
				break
			}
			if i+1 == len(r.segs) || r.segs[i+1].first > r.next {
				err = r.segment(i, yield)
			}
		}
		if err != nil && !r.done {
			yield(Record{}, err)
		}
	}
}

// reader is one Read.
type reader struct {
	l    *Log
	segs []*segment // at its beginning
	gen  uint64
	from uint64
	next uint64 // index of the record to yield next
	end  uint64 // index after the last
	done bool   // the consumer has stopped
}

// segment yields the records of one segment.
func (r *reader) segment(i int, yield func(Record, error) bool) error {
	seg, limit := r.segs[i], r.end
	if i+1 < len(r.segs) {
		limit = min(limit, r.segs[i+1].first)
	}
	if r.next >= limit {
		return nil
	}
	err := withScanner(r.l.fs, seg.path, func(sc *scanner) error {
		return r.frames(sc, seg, limit, yield)
	})
	if errors.Is(err, os.ErrNotExist) {
		return ErrGone
	}
	return err
}

func (r *reader) frames(sc *scanner, seg *segment, limit uint64, yield func(Record, error) bool) error {
	changed := false
	err := sc.walk(r.l.start(seg, r.next), limit, func(f *frame) bool {
		if changed = r.l.passed(seg, f) != r.gen; changed {
			return false
		}
		if f.next() <= r.next {
			return true
		}
		b := f.payload
		for index := f.first; index < min(f.next(), limit); index++ {
			var data []byte
			data, b = splitRecord(b)
			if index < r.next {
				continue
			}
			if r.next++; !yield(Record{index, data}, nil) {
				r.done = true
				return false
			}
		}
		return true
	})
	if changed {
		return ErrChanged
	}
	return err
}

// start returns the last known frame of seg that begins at or before index.
func (l *Log) start(seg *segment, index uint64) mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mark{seg.first, headerBytes}
	for lo, hi := 0, len(seg.marks); lo < hi; {
		mid := (lo + hi) / 2
		if seg.marks[mid].first <= index {
			m, lo = seg.marks[mid], mid+1
		} else {
			hi = mid
		}
	}
	return m
}

// passed records where f, a frame of seg, begins, and returns the log's generation.
func (l *Log) passed(seg *segment, f *frame) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seg.addMark(f.first, f.off)
	return l.gen
}
