package archive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// errLost reports that the source no longer has the changes after the archive's end.
var errLost = errors.New("the server's history no longer reaches back to the archive's end")

// session is Run up to the first failure. It has three goroutines: follow appends
// changes, syncing makes them durable, and basing takes bases and prunes.
type session struct {
	a   *Archiver
	src Source

	mu      sync.Mutex   // one Sync or change of part at a time; held across disk
	log     *journal.Log // of the newest part; nil before attach
	durable engine.Position

	last    mark // newest change appended; only used by follow
	encoded []byte

	lastPos, lastTime atomic.Int64 // of last, for others
	runStart          atomic.Int64 // position before the run's first change
	target            atomic.Int64 // position at which follow ends; 0: none
	enough            func()       // ends follow

	pending  atomic.Int64 // bytes appended and not yet durable
	since    atomic.Int64 // bytes shipped since the last base
	due      atomic.Int64 // value of since at which the next base is taken
	based    atomic.Bool  // a base is wanted or being taken
	wake     chan struct{}
	wantBase chan struct{}
}

func (s *session) run(ctx context.Context) error {
	if err := s.attach(ctx); err != nil {
		return errors.Join(err, s.closeLog())
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.enough = stop
	var others sync.WaitGroup
	var unsynced error
	others.Go(func() {
		if unsynced = s.syncing(work); unsynced != nil {
			stop()
		}
	})
	others.Go(func() {
		select {
		case <-ctx.Done():
			s.drain(work)
		case <-work.Done():
		}
	})
	bases, noMoreBases := context.WithCancel(ctx) // do not wait for a base at the end: it can take long
	others.Go(func() { s.basing(bases) })
	err := s.follow(work)
	stop()
	noMoreBases()
	others.Wait()
	switch {
	case unsynced != nil: // the cause of follow's error, if any
		err = unsynced
	case err == nil, errors.Is(err, context.Canceled):
		err = s.flush()
	}
	return errors.Join(err, s.closeLog())
}

// drain lets follow continue, for a limited time, until it has everything committed now.
func (s *session) drain(work context.Context) {
	defer s.enough()
	ctx, cancel := context.WithTimeout(work, s.a.o.Drain)
	defer cancel()
	pos, err := s.src.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
	if err != nil {
		return // the changes are archived after the next start
	}
	s.target.Store(max(1, int64(pos)))
	if s.lastPos.Load() < int64(pos) {
		<-ctx.Done()
	}
}

func (s *session) closeLog() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		return nil
	}
	err := s.log.Close()
	s.log = nil
	return fileError("close archive", err)
}

// position returns a position that the source has reached.
func (s *session) position(ctx context.Context) (engine.Position, error) {
	pos, err := s.src.View(ctx, engine.Read{Level: engine.Local}, func(engine.Tx) error { return nil })
	if err != nil {
		return 0, fmt.Errorf("ask the server for its position: %w", err)
	}
	return pos, nil
}

// attach finds the archive's end and opens the part to continue.
func (s *session) attach(ctx context.Context) error {
	o := s.a.o
	pos, err := s.position(ctx)
	if err != nil {
		return err
	}
	f, err := scan(o.FS, s.a.dir, func(error) {}) // Open has logged it
	if err != nil {
		return err
	}
	if len(f.parts) == 0 {
		return s.begin(pos, "the archive is new")
	}
	p := f.parts[len(f.parts)-1]
	log, err := s.open(p)
	if err == nil {
		s.log = log
		s.runStart.Store(int64(f.runStart()))
		s.last, err = lastOf(log, p)
	}
	if corrupt := (*journal.CorruptError)(nil); errors.As(err, &corrupt) {
		if err := s.closeLog(); err != nil {
			return err
		}
		return s.begin(pos, "the end of the archive is damaged: "+corrupt.Error())
	}
	if err != nil {
		return fileError("open archive", err)
	}
	if pos < s.last.pos {
		return engine.Errorf(engine.CodeConflict, "the server is at position %d, before the archive's end at %d: it is behind, or it has another history and needs its own archive folder", pos, s.last.pos)
	}
	s.note(s.last)
	s.durable = s.last.pos
	return s.resumeBases(f)
}

// lastOf returns the newest change in the log of p.
func lastOf(log *journal.Log, p part) (mark, error) {
	if log.Last() < log.First() || log.Last() == 0 {
		return p.mark(), nil
	}
	for rec, err := range log.Read(log.Last()) {
		if err != nil {
			return mark{}, err
		}
		c, err := parseRecord(engine.Position(rec.Index), rec.Data)
		if err != nil {
			return mark{}, engine.Errorf(engine.CodeCorrupt, "%s: record %d: %w", p.dir, rec.Index, err)
		}
		return mark{c.Pos, c.Time.UnixMicro(), sumOf(rec.Data)}, nil
	}
	return mark{}, engine.Errorf(engine.CodeCorrupt, "%s: record %d cannot be read", p.dir, log.Last())
}

// resumeBases finds when the next base is due.
func (s *session) resumeBases(f folder) error {
	var newest *baseFile
	if n := len(f.bases); n > 0 && f.bases[n-1].pos >= s.startOfRun() {
		newest = &f.bases[n-1]
		size, err := fileSize(f.fs, newest.path)
		if err != nil {
			return err
		}
		s.due.Store(max(s.a.o.BaseBytes, size))
		s.a.status.base.Store(int64(newest.pos))
	} else {
		s.needBase()
		return nil
	}
	for _, p := range f.parts[max(0, f.holding(newest.pos)):] {
		n, err := f.logBytes(p)
		if err != nil {
			return err
		}
		s.since.Add(n)
	}
	return nil
}

func (s *session) needBase() {
	s.based.Store(true)
	select {
	case s.wantBase <- struct{}{}:
	default:
	}
}

// reserveBytes is how far ahead of its end a log's file is filled with zeros. It is
// small, because no caller waits for an archive's fsync.
const reserveBytes = 256 << 10

func (s *session) open(p part) (*journal.Log, error) {
	o := s.a.o
	return journal.Open(p.dir, journal.Options{
		FS: o.FS, SegmentBytes: o.segmentBytes, ReserveBytes: reserveBytes, MaxRecordBytes: MaxRecordBytes, Inline: o.inline,
		OnCut: func(c journal.Cut) {
			o.Logger.Info("removed an interrupted write at the archive's end; it will be archived again", "file", c.File, "offset", c.Offset, "bytes", c.Bytes)
		},
	})
}

// begin starts a run of changes after pos that does not continue the existing parts, and
// requests a base for it.
func (s *session) begin(pos engine.Position, why string) error {
	p := partAt(s.a.dir, pos)
	p.Begins, p.Why = true, why
	if err := s.start(p); err != nil {
		return err
	}
	s.runStart.Store(int64(pos))
	s.note(mark{pos: pos})
	s.a.o.Logger.Info("the archive starts a new run of changes; writing a base", "archive", s.a.dir, "after", pos, "why", why)
	s.needBase()
	return nil
}

// start makes p the part that is written to.
func (s *session) start(p part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		if err := s.sync(); err != nil {
			return err
		}
		if err := s.log.Close(); err != nil {
			return fileError("end part", err)
		}
		s.log = nil
	}
	if f, err := s.a.o.FS.OpenFile(p.head, 0); err == nil {
		f.Close() // nothing was written through it
		return engine.Errorf(engine.CodeCorrupt, "%s already exists: move it and %s to another folder", p.head, p.dir)
	}
	if err := writeHead(s.a.o.FS, p.head, p.partHead); err != nil {
		return fileError("begin part", err)
	}
	log, err := s.open(p)
	if err != nil {
		return fileError("begin part", err)
	}
	s.log, s.durable = log, p.after()
	return nil
}

// follow appends changes until ctx ends.
func (s *session) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		at := s.last.pos
		from := at
		if s.last.sum != 0 {
			from-- // to check that it is the same history
		}
		err := s.tail(ctx, from)
		if from < at && s.last.pos == at && errors.Is(err, engine.ErrTruncated) {
			err = s.tail(ctx, at)
		}
		if !errors.Is(err, engine.ErrTruncated) {
			return err
		}
		if err := s.lost(ctx, err); err != nil {
			return err
		}
		s.reached()
	}
	return nil
}

// lost begins a new run where the source's history begins now.
func (s *session) lost(ctx context.Context, why error) error {
	pos, err := s.position(ctx)
	if err != nil {
		return err
	}
	if pos <= s.last.pos {
		return fmt.Errorf("%w: %w", errLost, why) // Run retries
	}
	s.a.status.lost.Add(1)
	s.a.o.Logger.Error("CHANGES ARE MISSING IN THE ARCHIVE: the server's history no longer reached back to its end; the positions between cannot be restored; writing a new base",
		"archive", s.a.dir, "archived_to", s.last.pos, "goes_on_after", pos, "err", why)
	return s.begin(pos, errLost.Error())
}

// tail appends the changes after pos.
func (s *session) tail(ctx context.Context, pos engine.Position) error {
	for c, err := range s.src.Changes(ctx, pos) {
		if err != nil {
			return err
		}
		if err := s.take(c); err != nil {
			return err
		}
		s.reached()
	}
	return nil
}

// reached ends follow if it has reached the target.
func (s *session) reached() {
	if t := s.target.Load(); t > 0 && s.lastPos.Load() >= t {
		s.enough()
	}
}

// take appends one change.
func (s *session) take(c engine.Change) error {
	if len(c.Writes) == 0 && c.Pos <= s.last.pos {
		return nil // a heartbeat
	}
	s.encoded = appendRecord(s.encoded[:0], c)
	if c.Pos == s.last.pos {
		if s.last.sum != 0 && s.last.sum != sumOf(s.encoded) {
			return engine.Errorf(engine.CodeConflict, "position %d of the server is a different transaction in the archive: it has another history and needs its own archive folder", c.Pos)
		}
		return nil
	}
	switch {
	case c.Pos != s.last.pos+1, len(c.Writes) == 0:
		return engine.Errorf(engine.CodeInternal, "the server went from position %d to %d: changes are missing", s.last.pos, c.Pos)
	case s.last.sum != 0 && c.Time.UnixMicro() < s.last.time:
		return engine.Errorf(engine.CodeConflict, "position %d of the server has an earlier time than the one before it in the archive: it has another history and needs its own archive folder", c.Pos)
	}
	if err := s.log.Append(uint64(c.Pos), s.encoded); err != nil {
		return fileError("archive a change", err)
	}
	s.note(mark{c.Pos, c.Time.UnixMicro(), sumOf(s.encoded)})
	n := int64(len(s.encoded))
	since := s.since.Add(n)
	switch waiting := s.pending.Add(n); {
	case waiting >= MaxPendingBytes:
		if err := s.flush(); err != nil {
			return err
		}
	case waiting >= s.a.o.SyncBytes:
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	if since >= s.due.Load() && !s.based.Load() {
		return s.roll()
	}
	return nil
}

// roll continues in a new part and requests a base, which will be in it.
func (s *session) roll() error {
	p := partAt(s.a.dir, s.last.pos)
	p.Time, p.Sum = s.last.time, s.last.sum
	if err := s.start(p); err != nil {
		return err
	}
	s.since.Store(0)
	s.needBase()
	return nil
}

func (s *session) startOfRun() engine.Position { return engine.Position(s.runStart.Load()) }

func (s *session) note(m mark) {
	s.last = m
	s.lastPos.Store(int64(m.pos))
	s.lastTime.Store(m.time)
}

// syncing makes appended changes durable.
func (s *session) syncing(ctx context.Context) error {
	tick := time.NewTicker(s.a.o.SyncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.wake:
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
}

func (s *session) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sync()
}

// sync makes appended changes durable. The caller holds mu.
func (s *session) sync() error {
	n, at := s.pending.Load(), s.lastTime.Load()
	if s.log == nil {
		return nil
	}
	if err := s.log.Sync(); err != nil {
		return fileError("sync archive", err)
	}
	s.pending.Add(-n)
	if d := engine.Position(s.log.Durable()); d > s.durable {
		s.durable = d
	}
	st := &s.a.status
	st.pos.Store(int64(s.durable))
	st.time.Store(at)
	if !s.based.Load() {
		s.a.works()
	}
	return nil
}
