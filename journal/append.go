package journal

import (
	"encoding/binary"
	"fmt"
)

// keepBuffer is the size of the largest frame buffer that is reused.
const keepBuffer = 4 << 20

// Append adds a record to those that the next Sync writes. It copies data. index
// must be Last()+1; a log that never had a record accepts any first index but 0. If
// it returns an error, which is *IndexError, *LimitError, *FailedError or ErrClosed,
// it has changed nothing.
func (l *Log) Append(index uint64, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case index != l.next && l.next != 0, index == 0:
		return &IndexError{Got: index, Want: max(l.next, 1)}
	case len(data) > l.o.MaxRecordBytes:
		return &LimitError{"record", int64(len(data)), int64(l.o.MaxRecordBytes)}
	}
	if n := len(l.buf) - frameHead + recordHead + len(data); l.bufCount > 0 && n > l.o.MaxFrameBytes {
		return &LimitError{"frame", int64(n), int64(l.o.MaxFrameBytes)}
	}
	if l.bufCount == 0 {
		l.bufFirst = index
		l.buf = append(l.buf[:0], make([]byte, frameHead)...)
	}
	l.buf = binary.LittleEndian.AppendUint32(l.buf, uint32(len(data)))
	l.buf = append(l.buf, data...)
	l.bufCount++
	l.next = index + 1
	return nil
}

// Sync makes every record appended before it durable: it writes them as one
// frame and waits for the disk. Without such records it does nothing.
//
// An error that is Passing means that nothing of the frame remains and that all
// records that are not durable have been dropped, including those appended in the
// meantime: the next index is Durable()+1, and the log can still be used. Any other
// error is a *FailedError, which is permanent, or ErrClosed.
func (l *Log) Sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	return l.flush()
}

// flush is Sync under syncMu.
func (l *Log) flush() error {
	l.mu.Lock()
	if l.err != nil || l.bufCount == 0 {
		defer l.mu.Unlock()
		return l.err
	}
	b, first, count := l.buf, l.bufFirst, l.bufCount
	l.buf, l.idle, l.bufCount = l.idle, nil, 0
	l.mu.Unlock()

	b, err := l.writeFrame(b, first, count)

	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(b) <= keepBuffer {
		l.idle = b
	}
	if err != nil {
		l.dropBuffered()
	}
	return err
}

// dropBuffered drops the records that are not durable. The caller holds mu.
func (l *Log) dropBuffered() {
	l.bufCount = 0
	l.next = l.durable
}

// writeFrame writes b as a frame of count records from first on, and makes it
// durable. b begins with space for the frame's header. It returns b, which it may
// have reallocated. The caller holds syncMu.
func (l *Log) writeFrame(b []byte, first uint64, count uint32) ([]byte, error) {
	n := len(b) - frameHead
	for len(b)%frameAlign != 0 {
		b = append(b, 0)
	}
	size := int64(len(b))
	full := l.pos > headerBytes && l.pos+size > l.o.SegmentBytes
	if l.file == nil || full && count > 0 { // a seal belongs to what it seals

		if err := l.roll(segHead{first: first}, nil, 0); err != nil {
			return b, err
		}
	}
	if err := l.reserve(l.pos + size); err != nil {
		return b, err
	}
	seg := l.segs[len(l.segs)-1]
	putFrameHead(b, seg.seed, l.pos, n, first, count, &l.scratch)
	if _, err := l.file.WriteAt(b, l.pos); err != nil {
		return b, l.undoWrite(seg.path, err)
	}
	if err := l.file.Sync(); err != nil {
		return b, l.fail("sync", seg.path, err)
	}
	l.mu.Lock()
	seg.addMark(first, l.pos)
	l.pos += size
	l.durable = first + uint64(count)
	l.unsealed = count > 0
	l.stats.Fsyncs++
	l.stats.Frames++
	l.stats.Records += uint64(count)
	l.stats.Bytes += uint64(size)
	low := l.needsFill()
	l.mu.Unlock()
	if low {
		l.wake()
	}
	return b, nil
}

// undoWrite durably removes what a failed write may have left, and returns the error
// for the caller. Otherwise a frame that lacks only its padding would come back at
// the next start.
func (l *Log) undoWrite(path string, cause error) error {
	short := shortage(cause)
	if short == nil {
		return l.fail("write", path, cause)
	}
	l.fillMu.Lock()
	defer l.fillMu.Unlock()
	if err := l.file.Truncate(l.pos); err != nil {
		return l.fail("truncate", path, err)
	}
	if err := l.file.Sync(); err != nil {
		return l.fail("sync", path, err)
	}
	l.countFsync()
	l.mu.Lock()
	l.reserved = l.pos
	l.mu.Unlock()
	return fmt.Errorf("append to journal: %w", short)
}

// Close closes the log. Records that no Sync made durable are lost. After a Close
// without errors a seal follows the last frame, which distinguishes damage to that
// frame from an interrupted write.
func (l *Log) Close() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	if l.kick == nil {
		l.mu.Unlock()
		return nil // closed before
	}
	kick := l.kick
	l.kick = nil
	failed := l.err
	l.mu.Unlock()
	close(kick)
	if l.done != nil {
		<-l.done
	}
	if failed == nil && l.unsealed {
		_, failed = l.writeFrame(make([]byte, frameHead), l.durable, 0)
		if shortage(failed) != nil {
			failed = nil // the seal is optional
		}
	}
	l.dropSpare()
	l.folder.Close() // nothing is written through it
	if l.file != nil {
		if err := l.file.Close(); err != nil && failed == nil {
			failed = fmt.Errorf("close journal: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = ErrClosed
	}
	return failed
}
