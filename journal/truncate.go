package journal

import (
	"fmt"
)

// TruncateBefore allows the log to drop the records before index: it deletes the
// segments that contain only such records, but never the last segment.
func (l *Log) TruncateBefore(index uint64) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	l.syncMu.Lock()
	l.mu.Lock()
	if l.err != nil {
		defer l.syncMu.Unlock()
		defer l.mu.Unlock()
		return l.err
	}
	n := 0
	for n+1 < len(l.segs) && l.segs[n+1].first <= index {
		n++
	}
	old := append([]*segment(nil), l.segs[:n]...)
	l.segs = append(l.segs[:0], l.segs[n:]...)
	l.mu.Unlock()
	l.syncMu.Unlock()
	return l.removeOrFail(old)
}

// removeOrFail deletes segments that no longer count. If that fails, the state of the
// folder is unknown and the log stops.
func (l *Log) removeOrFail(old []*segment) error {
	if err := l.removeSegments(old); err != nil {
		return l.fail("remove segments in", l.dir, err)
	}
	return nil
}

// TruncateAfter durably removes the records after index, including those that are not
// durable yet. A crash leaves either all of them or none, and brings none back after
// it has returned. The next index is then index+1. It returns *IndexError if index is
// before First()-1. After an error that is Passing, the durable records are unchanged.
func (l *Log) TruncateAfter(index uint64) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	first, durable, err := l.first(), l.durable, l.err
	if err == nil && index+1 >= first && index+1 >= durable {
		l.cutBuffer(index)
	}
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case index+1 < first:
		return &IndexError{Got: index, Want: first - 1}
	case index+1 >= durable:
		return nil
	}
	h, body, count, err := l.keptOf(index)
	if err != nil {
		return err
	}
	return l.supersede(h, body, count)
}

// Reset durably and atomically removes all records. The next index is then next, which
// must not be 0.
func (l *Log) Reset(next uint64) error {
	if next == 0 {
		return &IndexError{Got: 0, Want: 1}
	}
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	return l.supersede(segHead{first: next, reset: true}, nil, 0)
}

// cutBuffer drops the buffered records after index. No durable record is after index.
// The caller holds mu.
func (l *Log) cutBuffer(index uint64) {
	if l.bufCount == 0 || index+1 >= l.next {
		return
	}
	if index < l.bufFirst {
		l.dropBuffered()
		return
	}
	keep := uint32(index - l.bufFirst + 1)
	rest := l.buf[frameHead:]
	for range keep {
		_, rest = splitRecord(rest)
	}
	l.buf = l.buf[:len(l.buf)-len(rest)]
	l.bufCount, l.next = keep, index+1
}

// keptOf returns how a new segment must begin so that the log ends with index: with
// the part up to index of the frame that contains both index and its successor, or
// with nothing if a frame ends at index. The caller holds syncMu.
func (l *Log) keptOf(index uint64) (h segHead, body []byte, count uint32, err error) {
	i := len(l.segs) - 1
	for l.segs[i].first > index+1 {
		i--
	}
	seg := l.segs[i]
	h.first = index + 1
	if seg.first == index+1 {
		return h, nil, 0, nil
	}
	err = withScanner(l.fs, seg.path, func(sc *scanner) error {
		return sc.walk(l.start(seg, index), index+1, func(f *frame) bool {
			if f.next() > index+1 {
				h.first, count = f.first, uint32(index+1-f.first)
				rest := f.payload
				for range count {
					_, rest = splitRecord(rest)
				}
				body = append(make([]byte, frameHead), f.payload[:len(f.payload)-len(rest)]...)
			}
			return true
		})
	})
	if err != nil {
		return h, nil, 0, fmt.Errorf("truncate journal: %w", err)
	}
	return h, body, count, nil
}

// supersede begins a segment that replaces all records from its first index on, and
// then deletes the segments that this leaves empty. The caller holds trimMu and
// syncMu.
func (l *Log) supersede(h segHead, body []byte, count uint32) error {
	if err := l.roll(h, body, count); err != nil {
		return err
	}
	l.mu.Lock()
	last := len(l.segs) - 1
	var old []*segment
	l.segs, old = l.segs[last].place(l.segs[:last])
	l.gen++
	l.next, l.bufCount = l.durable, 0
	l.unsealed = count > 0
	l.mu.Unlock()
	return l.removeOrFail(old)
}
