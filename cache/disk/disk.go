// Package disk keeps cached values in files, in a bounded log that survives crashes
// together with the position up to which it is known to be current.
//
// It knows records, segments, checksums and what power loss leaves behind. It must not
// know what keys, values and positions mean, or who changes them. DESIGN.md has the
// formats, the invariants and their proof.
package disk

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/skerrydb/skerry/journal"
)

// Limits.
const (
	// MaxKeyBytes is the length of the longest key in bytes.
	MaxKeyBytes = 1 << 10
	// MaxValueBytes is the length of the longest value in bytes. A store of less than
	// 256 MiB keeps only values of up to 1/16 of Options.MaxBytes.
	MaxValueBytes = 16 << 20
	// MaxPositionBytes is the length of the longest position that Mark takes, in bytes.
	MaxPositionBytes = 1 << 10
	// MaxBytes bounds Options.MaxBytes.
	MaxBytes = 64 << 30
	// MaxQueuedBytes bounds the records that wait for the disk; above it, or above 1/8 of
	// Options.MaxBytes, Put refuses more. Deletions may use as much again; one more drops
	// everything.
	MaxQueuedBytes = 64 << 20
	// MaxSegments bounds the files of a store, all of which are open.
	MaxSegments = 64
	// MaxEntries bounds the index. An entry takes 45 to 60 bytes of memory.
	MaxEntries = 32 << 20

	minBytes = 64 << 10 // of Options.MaxBytes: smaller ones leave no room for values
)

// ErrClosed is returned by Sync after Close.
var ErrClosed = errors.New("disk: closed")

// Options configure a Store. Dir, MaxBytes and Identity are required.
type Options struct {
	Dir      string // created if missing, and locked against other processes
	MaxBytes int64  // bound of all files together, 64 KiB to 64 GiB; the oldest are removed first
	Identity string // what the entries belong to: their source and format. With another one Open drops everything

	BatchEntries int           // a batch is written when it has this many records; 0: 10,000
	BatchBytes   int64         // or this many bytes; 0: 8 MiB. At most 1/16 of MaxBytes
	BatchAge     time.Duration // or when its first record is this old; 0: 1 s

	Logger *slog.Logger // nil: slog.Default
	FS     journal.FS   // nil: the machine's
}

// Store is the open log. Its methods are safe for concurrent use.
type Store struct {
	o     Options
	fs    journal.FS
	log   *slog.Logger
	c     codec
	owner [sha256.Size]byte // hash of the identity

	segmentBytes int64 // a segment this long gets no more batches
	queueBytes   int64 // bound of records in memory
	maxEntries   int

	found  string // the mark that Open found
	unlock func() error
	wake   chan struct{} // has a value when the writer should look
	stop   chan struct{} // closed to end the writer
	done   chan struct{} // closed when it has ended

	mu       sync.Mutex // guards the fields below
	index    map[uint64]location
	open     *batch     // takes new records
	writing  *batch     // on its way to the disk; nil: none
	segments []*segment // with consecutive numbers, oldest first
	doomed   []*segment // to be removed before anything else is written
	mark     string     // newest mark in the log, including writing
	durable  string     // newest mark on the disk
	nextMark string     // for the batch after open; "": none
	gen      uint64     // number of flushes
	crowded  bool       // the index is full
	overrun  bool       // to be logged: deletions have flushed the store
	round    *round     // of Sync, not yet taken by the writer
	off      error      // why the store does not work any more
	closed   bool
	counts   Stats // only the counters
}

// round is the work for calls of Sync that wait together.
type round struct {
	done chan struct{} // closed when err is set
	err  error
}

// Stats are metrics of a Store.
type Stats struct {
	Entries     int
	Bytes       int64 // of all files
	Max         int64 // bound of Bytes
	Segments    int
	Queued      int // records not yet on the disk
	QueuedBytes int64
	Mark        string // newest durable mark; "": none. A feed may be told to forget changes up to here
	Failed      error  // why the store is switched off; nil: it works

	// Counters since Open.
	Written         uint64 // records
	Batches         uint64
	DroppedSegments uint64
	Kept            uint64 // entries copied because they had been read when their segment went
	Corrupt         uint64 // entries dropped because they could not be read back
	Refused         uint64 // calls of Put that returned false
	Flushes         uint64
}

// Open opens the store in o.Dir and reads all of it. What cannot be trusted is removed,
// and the reason logged. The error is *journal.LockedError if another process has it open.
func Open(o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

// start locks the folder, reads it and starts the writer.
func (s *Store) start() (err error) {
	if s.unlock, err = journal.LockDir(s.fs, s.o.Dir); err != nil {
		return fmt.Errorf("open disk cache: %w", err)
	}
	if err := s.recover(); err != nil {
		for _, seg := range s.segments {
			seg.file.Close() // nothing is kept of it
		}
		return errors.Join(fmt.Errorf("open disk cache %s: %w", s.o.Dir, err), s.unlock())
	}
	go s.run()
	return nil
}

// newStore checks the options and derives the limits.
func newStore(o Options) (*Store, error) {
	switch {
	case o.Dir == "":
		return nil, errors.New("open disk cache: no folder given")
	case o.MaxBytes < minBytes || o.MaxBytes > MaxBytes:
		return nil, fmt.Errorf("open disk cache: MaxBytes is %d; it must be from %d to %d", o.MaxBytes, minBytes, int64(MaxBytes))
	case o.BatchEntries < 0 || o.BatchBytes < 0 || o.BatchAge < 0:
		return nil, fmt.Errorf("open disk cache: a batch limit is negative: %d entries, %d bytes, %v", o.BatchEntries, o.BatchBytes, o.BatchAge)
	}
	if o.BatchEntries == 0 {
		o.BatchEntries = 10_000
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = 8 << 20
	}
	if o.BatchAge == 0 {
		o.BatchAge = time.Second
	}
	o.BatchBytes = min(o.BatchBytes, o.MaxBytes/16)
	s := &Store{
		o: o, fs: o.FS, log: o.Logger, owner: sha256.Sum256([]byte(o.Identity)),
		segmentBytes: o.MaxBytes / 32, queueBytes: min(MaxQueuedBytes, o.MaxBytes/8), maxEntries: MaxEntries,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		index: map[uint64]location{},
	}
	if s.fs == nil {
		s.fs = journal.OS()
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s, nil
}

// Marked returns the durable mark that Open found. If it is "", the store was empty.
func (s *Store) Marked() string { return s.found }

// Stats returns the metrics. It is cheap.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.counts
	st.Entries, st.Bytes, st.Max, st.Segments = len(s.index), s.bytes(), s.o.MaxBytes, len(s.segments)
	st.Mark, st.Failed = s.durable, s.off
	for _, b := range []*batch{s.writing, s.open} {
		if b != nil {
			st.Queued += b.records
			st.QueuedBytes += b.queued()
		}
	}
	return st
}

// bytes returns the size of all files. The caller holds mu.
func (s *Store) bytes() (n int64) {
	for _, seg := range s.segments {
		n += seg.size
	}
	for _, seg := range s.doomed {
		n += seg.size
	}
	return n
}

// Sync writes what is queued, including the newest mark, and returns once it is durable.
// The error is why the store is switched off, or ErrClosed.
func (s *Store) Sync() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	r := s.join()
	s.mu.Unlock()
	s.nudge()
	<-r.done
	return r.err
}

// join returns the round that the writer takes next. The caller holds mu.
func (s *Store) join() *round {
	if s.round == nil {
		s.round = &round{done: make(chan struct{})}
	}
	return s.round
}

// Close writes what is queued, as Sync does, and unlocks the folder. Afterwards Get finds
// nothing and Put keeps nothing. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	r := s.join()
	s.mu.Unlock()
	s.nudge()
	<-r.done
	close(s.stop)
	<-s.done
	s.mu.Lock()
	segments := s.segments
	s.segments, s.index = nil, nil
	s.open, s.writing = nil, nil
	s.mu.Unlock()
	err := r.err
	for _, seg := range segments {
		err = errors.Join(err, seg.file.Close())
	}
	return errors.Join(err, s.unlock())
}

// nudge makes the writer look for work.
func (s *Store) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
