package journal

import (
	"errors"
	"fmt"
	"iter"
	"os"
)

// Read yields the durable records with Index >= from, in order, as they are when
// it begins. Record.Data is valid until the next one is asked for. An error is
// the last value: ErrGone if from is before First, *CorruptError for damage,
// ErrChanged if records were removed meanwhile by TruncateAfter or Reset.
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
	done bool   // the consumer wants no more
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
	at := r.l.start(seg, r.next)
	for at.first < limit {
		f, why, err := sc.frame(at.off)
		if err != nil {
			return err
		}
		if why == "" && f.first != at.first {
			why = fmt.Sprintf("record %d stands where %d must", f.first, at.first)
		}
		if gen := r.l.passed(seg, at); gen != r.gen {
			return ErrChanged
		}
		if why != "" {
			return &CorruptError{sc.file, at.off, why}
		}
		if b := f.payload; f.next() > r.next {
			for index := f.first; index < min(f.next(), limit); index++ {
				var data []byte
				data, b = splitRecord(b)
				if index < r.next {
					continue
				}
				if r.next++; !yield(Record{index, data}, nil) {
					r.done = true
					return nil
				}
			}
		}
		at = mark{f.next(), f.end}
	}
	return nil
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

// passed remembers that a frame of seg begins at m, if it is new and was
// reached without gaps, and returns the log's generation.
func (l *Log) passed(seg *segment, m mark) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seg.addMark(m.first, m.off)
	return l.gen
}
