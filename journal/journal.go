// Package journal stores numbered records in an append-only log, and whole states in
// atomic snapshot files, so that acknowledged data survives power loss.
//
// It knows files, fsync and checksums; it must not know keys, transactions or raft: a
// record is bytes with a number. DESIGN.md has the formats and the invariants.
package journal

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"sync"
)

// Limits and defaults.
const (
	DefaultSegmentBytes   = 64 << 20 // size at which the log goes on in a new file
	DefaultReserveBytes   = 4 << 20  // zeros kept ahead of the writer
	DefaultMaxRecordBytes = 64 << 20 // largest record
	MaxFrameBytes         = 1 << 30  // default and most of Options.MaxFrameBytes
	minSegmentBytes       = 2 * headerBytes
)

// Options of a Log. The zero value works.
type Options struct {
	FS             FS    // nil: OS()
	SegmentBytes   int64 // 0: DefaultSegmentBytes; at least 8 KiB
	ReserveBytes   int64 // 0: DefaultReserveBytes; rounded up to 4 KiB
	MaxRecordBytes int   // 0: DefaultMaxRecordBytes; at most MaxFrameBytes
	MaxFrameBytes  int   // 0: MaxFrameBytes; limit of the records that one Sync writes, plus 4 bytes each. One record always fits.

	// OnCut, if not nil, is called by Open when it removes a torn tail.
	OnCut func(Cut)

	// Inline does all work in the caller's goroutine. That is slower, but every run of
	// a test sees the same file operations.
	Inline bool

	// Random provides the salt of each segment. nil: crypto/rand. It need not be
	// secure; the salt keeps bytes inside a record from looking like a frame.
	Random io.Reader
}

// Cut is a torn tail that Open removed: the rest of a frame whose Sync never
// returned.
type Cut struct {
	File   string
	Offset int64 // where the frame began
	Bytes  int64 // how much of the file after Offset was not zero
}

// Record is one numbered record.
type Record struct {
	Index uint64
	Data  []byte
}

// Stats are metrics since Open, except Segments and Disk, which are current.
type Stats struct {
	Fsyncs   uint64 // fdatasync and folder fsync calls, reservations included
	Frames   uint64 // Syncs that wrote
	Records  uint64 // records made durable
	Bytes    uint64 // bytes of frames written
	Waits    uint64 // Syncs that had to reserve space themselves
	CutBytes int64  // torn tail removed by Open
	Segments int    // files
}

// Log is an append-only log. All methods are safe for concurrent use. A record
// appended during a Sync is part of the next one.
//
// Lock order: trimMu, syncMu, fillMu, mu.
type Log struct {
	fs     FS
	dir    string
	folder Dir // dir, kept open so that syncing a segment's name needs no free descriptor
	o      Options

	trimMu sync.Mutex // one of TruncateBefore, TruncateAfter, Reset at a time
	syncMu sync.Mutex // one of Sync, TruncateAfter, Reset, Close at a time
	fillMu sync.Mutex // reserving space: the background, or a Sync that needs it

	mu       sync.Mutex
	segs     []*segment // ascending; the last is written to
	file     File       // of the last segment; nil before the first frame
	pos      int64      // end of the last frame in file
	reserved int64      // file is zeros from pos to here
	spare    *spare     // the next segment, prepared; nil: none
	retryAt  int64      // offset in file where the background tries again after the disk was full
	short    bool       // the background's last attempt found the disk full
	maxID    uint64     // largest segment id seen
	buf      []byte     // the frame being built, after space for its header
	idle     []byte     // the other buffer, while no Sync is using it
	bufFirst uint64     // index of the first record in buf
	bufCount uint32
	next     uint64 // index that Append accepts next; 0: any
	durable  uint64 // index after the last durable record; 0: no segment yet
	unsealed bool   // frames were written since the last seal
	gen      uint64 // grows when records are removed from the end
	err      error  // permanent, once the disk failed or Close was called
	stats    Stats

	scratch [frameHead]byte // of the writer, under syncMu
	kick    chan struct{}   // wakes the background; closed by Close
	done    chan struct{}   // closed when the background has ended; nil: none
}

// segment is one file of the log. Only marks changes, under Log.mu.
type segment struct {
	segHead
	path  string
	marks []mark
}

// mark is the known start of a frame. It makes an index reachable without reading the
// file from its beginning.
type mark struct {
	first uint64
	off   int64
}

// markEvery is the least distance between marks, in bytes.
const markEvery = 64 << 10

func (s *segment) addMark(first uint64, off int64) {
	if n := len(s.marks); n == 0 || off >= s.marks[n-1].off+markEvery {
		s.marks = append(s.marks, mark{first, off})
	}
}

func (o Options) withDefaults() (Options, error) {
	if o.FS == nil {
		o.FS = OS()
	}
	o.SegmentBytes = cmp.Or(o.SegmentBytes, DefaultSegmentBytes)
	o.ReserveBytes = cmp.Or(o.ReserveBytes, DefaultReserveBytes)
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, DefaultMaxRecordBytes)
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.SegmentBytes < minSegmentBytes {
		return o, &LimitError{What: "segment size, at least", Bytes: o.SegmentBytes, Limit: minSegmentBytes}
	}
	if o.MaxRecordBytes < 0 || o.MaxRecordBytes > MaxFrameBytes {
		return o, &LimitError{What: "record limit", Bytes: int64(o.MaxRecordBytes), Limit: MaxFrameBytes}
	}
	if o.MaxFrameBytes == 0 {
		o.MaxFrameBytes = MaxFrameBytes
	}
	if o.MaxFrameBytes < 0 || o.MaxFrameBytes > MaxFrameBytes {
		return o, &LimitError{What: "frame limit", Bytes: int64(o.MaxFrameBytes), Limit: MaxFrameBytes}
	}
	if o.ReserveBytes < 0 {
		return o, fmt.Errorf("journal: reserve of %d bytes", o.ReserveBytes)
	}
	o.ReserveBytes = roundUp(o.ReserveBytes, headerBytes)
	return o, nil
}

// First returns the index of the oldest record kept, or Last()+1 if there is none.
func (l *Log) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first()
}

func (l *Log) first() uint64 {
	switch {
	case len(l.segs) > 0:
		return l.segs[0].first
	case l.bufCount > 0:
		return l.bufFirst
	}
	return max(l.next, 1)
}

// Last returns the index of the newest appended record, durable or not, or 0 if there
// never was one.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.next, 1) - 1
}

// Durable returns the index of the newest durable record, or 0 if there never was
// one.
func (l *Log) Durable() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.durable, 1) - 1
}

// Stats returns the current metrics.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Segments = len(l.segs)
	return s
}

// Err returns the permanent error of the log, or nil while it works.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// fail stops the log permanently: after a failed fsync it is unknown what is on the
// disk, and a second fsync would report success without writing anything.
// Source: the PostgreSQL wiki, "Fsync Errors".
func (l *Log) fail(op, file string, cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = &FailedError{Op: op, File: file, Cause: cause}
	}
	return l.err
}

func (l *Log) countFsync() {
	l.mu.Lock()
	l.stats.Fsyncs++
	l.mu.Unlock()
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
