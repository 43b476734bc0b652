package journal

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// fillChunk is how many zeros the background writes and makes durable at a time. A
// concurrent Sync waits for no more than that.
const fillChunk = 256 << 10

// spare is a file that will become the next segment: zeros, but no header yet.
type spare struct {
	file     File
	path     string
	reserved int64
}

// zeros is the data that reserves space.
var zeros [fillChunk]byte

// needsFill reports whether the background has work to do. The caller holds mu.
func (l *Log) needsFill() bool {
	if l.pos < l.retryAt {
		return false
	}
	return l.file != nil && l.fillTarget() > l.reserved || l.wantsSpare()
}

// fillTarget returns how far the last segment should be reserved: one to two steps
// ahead of the writer, in whole steps. The caller holds mu.
func (l *Log) fillTarget() int64 {
	if l.reserved-l.pos >= l.o.ReserveBytes {
		return l.reserved
	}
	return min(roundUp(l.pos+l.o.ReserveBytes, l.o.ReserveBytes), roundUp(l.o.SegmentBytes, headerBytes))
}

// wantsSpare reports whether the next segment should be prepared: there is no segment
// yet, or the last one is nearly full. The caller holds mu.
func (l *Log) wantsSpare() bool {
	return l.spare == nil && (l.file == nil || l.o.SegmentBytes-l.pos < 2*l.o.ReserveBytes)
}

func (l *Log) wake() {
	if l.done == nil {
		return
	}
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// reserve fills the last segment with zeros up to end, so that writing there changes
// no metadata and cannot run out of space. Usually the background has already done
// it. The caller holds syncMu.
func (l *Log) reserve(end int64) error {
	l.mu.Lock()
	enough := l.reserved >= end
	l.mu.Unlock()
	if enough {
		return nil
	}
	l.fillMu.Lock()
	defer l.fillMu.Unlock()
	l.mu.Lock()
	l.stats.Waits++
	from, path := l.reserved, l.segs[len(l.segs)-1].path
	l.mu.Unlock()
	end = roundUp(end, headerBytes)
	if step := min(from+l.o.ReserveBytes, l.o.SegmentBytes); step > end && l.done == nil {
		end = step // there is no background to do the rest
	}
	if err := writeZeros(l.file, from, end); err != nil {
		if short := shortage(err); short != nil {
			return fmt.Errorf("reserve space in %s: %w", path, short)
		}
		return l.fail("reserve space in", path, err)
	}
	l.mu.Lock()
	l.reserved = max(l.reserved, end)
	l.mu.Unlock()
	return nil
}

func writeZeros(f io.WriterAt, from, to int64) error {
	for from < to {
		n := min(to-from, fillChunk)
		if _, err := f.WriteAt(zeros[:n], from); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// background reserves space ahead of the writer until Close.
func (l *Log) background(kick <-chan struct{}) {
	defer close(l.done)
	f := &filler{l: l}
	defer f.forget()
	for range kick {
		for {
			more, err := f.step()
			if err != nil {
				l.pauseFill(shortage(err) != nil && !NoFiles(err))
			}
			if err != nil || !more {
				break
			}
			select {
			case _, ok := <-kick:
				if !ok {
					return
				}
			default:
			}
		}
	}
}

// pauseFill keeps the background from retrying at every Sync while the disk is full.
// A Sync that needs the space tries to reserve it and reports the error.
func (l *Log) pauseFill(short bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.short = short
	l.retryAt = l.pos + max(l.o.ReserveBytes/4, 1)
}

// Short reports whether the last attempt to reserve space ahead of the writer found
// the disk full. Up to ReserveBytes may then be left. It makes the background try
// again.
func (l *Log) Short() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.short {
		return false
	}
	l.retryAt = 0
	if l.short = l.needsFill(); l.short {
		l.wake()
	}
	return l.short
}

// filler is the background's state. It has a separate handle on the last segment: the
// kernel reports a failed write-back once to each handle, and the background must not
// consume the report that the writer needs.
type filler struct {
	l    *Log
	seg  *segment
	file File
}

func (f *filler) forget() {
	if f.file != nil {
		f.file.Close() // all was synced
	}
	f.file, f.seg = nil, nil
}

// step fills one chunk, or prepares the spare, and reports whether there is more.
func (f *filler) step() (more bool, err error) {
	l := f.l
	l.fillMu.Lock()
	defer l.fillMu.Unlock()
	l.mu.Lock()
	if l.err != nil || !l.needsFill() {
		l.mu.Unlock()
		return false, nil
	}
	from, target := l.reserved, l.fillTarget()
	if l.file == nil || from >= target {
		l.mu.Unlock()
		return true, l.makeSpare()
	}
	seg := l.segs[len(l.segs)-1]
	l.mu.Unlock()
	if f.seg != seg {
		f.forget()
		if f.file, err = l.fs.OpenFile(seg.path, os.O_RDWR); err != nil {
			return false, err
		}
		f.seg = seg
	}
	to := min(target, from+fillChunk)
	if err := writeZeros(f.file, from, to); err != nil {
		return false, err
	}
	if err := f.file.Sync(); err != nil {
		return false, l.fail("sync", seg.path, err)
	}
	l.mu.Lock()
	l.stats.Fsyncs++
	l.reserved = to
	l.short = false
	l.mu.Unlock()
	return true, nil
}

// makeSpare prepares the next segment. The caller holds fillMu.
func (l *Log) makeSpare() error {
	path := filepath.Join(l.dir, "next.log"+tmpSuffix)
	f, err := l.fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return l.softOrFail("prepare segment", path, err)
	}
	end := min(headerBytes+l.o.ReserveBytes, roundUp(l.o.SegmentBytes, headerBytes))
	for from := int64(0); from < end && err == nil; from += fillChunk {
		if err = writeZeros(f, from, min(end, from+fillChunk)); err == nil {
			err = syncFile(f)
			l.countFsync()
		}
	}
	if err != nil {
		f.Close()
		l.fs.Remove(path) // Open removes it otherwise
		return l.softOrFail("prepare segment", path, err)
	}
	l.mu.Lock()
	l.spare = &spare{f, path, end}
	l.short = false
	l.mu.Unlock()
	return nil
}

// dropSpare removes the prepared segment, if any. The caller holds syncMu.
func (l *Log) dropSpare() {
	l.fillMu.Lock()
	defer l.fillMu.Unlock()
	l.mu.Lock()
	s := l.spare
	l.spare = nil
	l.mu.Unlock()
	if s != nil {
		s.file.Close()
		l.fs.Remove(s.path) // if this fails, Open removes it
	}
}

// roll begins a new segment with header h, in which it sets id and salt. If body is
// given, it becomes a frame with count records from h.first on. The segment counts
// once it is renamed, after its header and frame are durable, so a segment without a
// valid header never exists. The rename is durable when roll returns. The caller
// holds syncMu.
func (l *Log) roll(h segHead, body []byte, count uint32) error {
	l.fillMu.Lock()
	defer l.fillMu.Unlock()
	if l.spare == nil {
		if err := l.makeSpare(); err != nil {
			return err
		}
	}
	s := l.spare
	h.id = l.maxID + 1
	var salt [8]byte
	if _, err := io.ReadFull(l.o.Random, salt[:]); err != nil {
		return l.softOrFail("choose salt for", l.dir, err)
	}
	h.salt = binary.LittleEndian.Uint64(salt[:])
	h.setSeed()
	b := h.encode()
	if body != nil {
		n := len(body) - frameHead
		body = append(body, make([]byte, roundUp(int64(len(body)), frameAlign)-int64(len(body)))...)
		putFrameHead(body, h.seed, headerBytes, n, h.first, count, &l.scratch)
		b = append(b, body...)
	}
	path := filepath.Join(l.dir, segName(h.id))
	err := writeSynced(s.file, b)
	if err == nil {
		err = l.fs.Rename(s.path, path)
	}
	if err != nil {
		l.mu.Lock()
		l.spare = nil
		l.mu.Unlock()
		s.file.Close()
		l.fs.Remove(s.path) // Open removes it otherwise
		return l.softOrFail("begin segment", path, err)
	}
	if err := l.folder.Sync(); err != nil {
		return l.fail("sync folder", l.dir, err)
	}
	l.begin(&segment{segHead: h, path: path}, s, int64(len(b)), count)
	return nil
}

// begin makes seg the segment that is written to. Its file is in s and has end bytes.
func (l *Log) begin(seg *segment, s *spare, end int64, count uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close() // every frame in it was synced
	}
	seg.marks = make([]mark, 0, l.o.SegmentBytes/markEvery+2)
	seg.addMark(seg.first, headerBytes)
	l.segs = append(l.segs, seg)
	l.file, l.pos, l.reserved, l.spare = s.file, end, max(end, s.reserved), nil
	l.retryAt = 0
	l.maxID = seg.id
	l.durable = seg.first + uint64(count)
	l.stats.Fsyncs += 2
}

// softOrFail returns err if it is Passing, and otherwise stops the log.
func (l *Log) softOrFail(op, path string, err error) error {
	if short := shortage(err); short != nil {
		return fmt.Errorf("%s %s: %w", op, path, short)
	}
	return l.fail(op, path, err)
}

func writeSynced(f File, b []byte) error {
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return syncFile(f)
}

// syncFile is f.Sync with an error that is never Passing: after a failed fsync it is
// unknown what is on the disk, whatever the reason.
func syncFile(f File) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync: %v", err)
	}
	return nil
}

// segName returns the name of a segment's file: its id in hexadecimal.
func segName(id uint64) string { return fmt.Sprintf("%016x.log", id) }

func segID(name string) (uint64, bool) {
	hex, ok := strings.CutSuffix(name, ".log")
	if !ok || len(hex) != 16 {
		return 0, false
	}
	var id uint64
	if _, err := fmt.Sscanf(hex, "%016x", &id); err != nil || segName(id) != name {
		return 0, false
	}
	return id, true
}
