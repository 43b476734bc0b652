// Package archive implements online backup: it stores base snapshots of an engine and
// every change after them in one folder, so that each position in between can be
// restored.
//
// It knows bases, positions and the log of shipped changes; it must not know
// which engine runs, what a snapshot holds or what keys mean. DESIGN.md has the
// format and the invariants.
package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Source is the part of an engine that an archiver needs.
type Source interface {
	View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error)
	Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error]
	engine.Backuper
}

// Summary describes the contents of a base.
type Summary struct {
	Position engine.Position `json:"position"`
	Time     time.Time       `json:"time"` // of the last transaction in it
	Keys     int             `json:"keys"`
	Bytes    int64           `json:"bytes"` // of keys and values
}

// Defaults of Options.
const (
	DefaultSyncEvery = time.Second
	DefaultSyncBytes = 4 << 20
	DefaultBaseBytes = 64 << 20
	DefaultRetry     = 30 * time.Second
	DefaultDrain     = 5 * time.Second
)

// MaxPendingBytes bounds the changes that wait to be made durable; over it, the
// archiver reads no more of them until they are.
const MaxPendingBytes = 32 << 20

// MaxRecordBytes bounds one archived change. Twice what the embedded engine's
// largest transaction can need.
const MaxRecordBytes = 256 << 20

// Options of an archiver. Verify must be set; the rest may be zero.
type Options struct {
	// Verify reads a whole base and describes its contents, or returns why it cannot be
	// restored.
	Verify func(io.Reader) (Summary, error)

	// Keep is how far back each state can be restored. Data that only older states
	// need is removed. 0 removes nothing.
	Keep time.Duration

	// SyncEvery and SyncBytes bound the changes that a crash of this machine can lose
	// from the archive: changes are durable there after at most that time or that
	// many bytes, and one fsync.
	SyncEvery time.Duration
	SyncBytes int64

	// BaseBytes is how many bytes of archived changes start a new base, or the size of
	// the last base if that is larger. So a restore never has to read much more than
	// twice the data.
	BaseBytes int64

	// Retry is the longest pause between two attempts after a failure.
	Retry time.Duration

	// Drain is how long Run continues after its context has ended, to archive the
	// changes that were committed before.
	Drain time.Duration

	Now    func() time.Time // the clock; default time.Now
	FS     journal.FS       // of the folder; default the operating system's
	Logger *slog.Logger     // logs messages for operators; default slog.Default

	segmentBytes int64 // of log in one file; 0: the journal's default
	inline       bool  // see journal.Options.Inline
}

func (o Options) withDefaults() (Options, error) {
	if o.Verify == nil {
		return o, engine.Errorf(engine.CodeInvalid, "archive: option Verify is not set")
	}
	for _, n := range []struct {
		name string
		v    int64
	}{
		{"Keep", int64(o.Keep)}, {"SyncEvery", int64(o.SyncEvery)}, {"SyncBytes", o.SyncBytes},
		{"BaseBytes", o.BaseBytes}, {"Retry", int64(o.Retry)}, {"Drain", int64(o.Drain)},
	} {
		if n.v < 0 {
			return o, engine.Errorf(engine.CodeInvalid, "archive: option %s is negative: %d", n.name, n.v)
		}
	}
	o.SyncEvery = cmp.Or(o.SyncEvery, DefaultSyncEvery)
	o.SyncBytes = min(cmp.Or(o.SyncBytes, DefaultSyncBytes), MaxPendingBytes)
	o.BaseBytes = cmp.Or(o.BaseBytes, DefaultBaseBytes)
	o.Retry = cmp.Or(o.Retry, DefaultRetry)
	o.Drain = cmp.Or(o.Drain, DefaultDrain)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FS == nil {
		o.FS = journal.OS()
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

// Archiver owns one archive folder.
type Archiver struct {
	dir    string
	o      Options
	unlock func() error
	status status
}

// status is the state that Status reads.
type status struct {
	pos, time, base atomic.Int64
	bases, lost     atomic.Int64
	failure         atomic.Pointer[error]
}

// Status is the progress of an archiver.
type Status struct {
	Position engine.Position // everything up to it can be restored, or will be once Base is set
	Time     time.Time       // of that transaction
	Base     engine.Position // of the newest base; see Bases
	Bases    int             // taken by this Archiver
	Lost     int             // how often the server's history did not reach back, so that changes are missing
	Err      error           // why it makes no progress now; nil: it does
}

// Open opens the archive in dir, and creates it if dir is missing or empty. It locks dir
// until Close. It returns an error for a folder that is something else, has a newer
// version (engine.ErrFormatNewer) or is in use (engine.ErrLocked).
func Open(dir string, o Options) (*Archiver, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	unlock, err := journal.LockDir(o.FS, dir)
	if err != nil {
		return nil, fileError("lock archive "+dir, err)
	}
	a := &Archiver{dir: dir, o: o, unlock: unlock}
	if err := a.prepare(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return a, nil
}

// Close unlocks the folder. Run must have returned.
func (a *Archiver) Close() error { return a.unlock() }

// Status returns the current status. It may be called at any time.
func (a *Archiver) Status() Status {
	s := &a.status
	st := Status{
		Position: engine.Position(s.pos.Load()), Time: time.UnixMicro(s.time.Load()), Base: engine.Position(s.base.Load()),
		Bases: int(s.bases.Load()), Lost: int(s.lost.Load()),
	}
	if err := s.failure.Load(); err != nil {
		st.Err = *err
	}
	return st
}

// Run archives src until ctx ends. Then it continues for at most Options.Drain with the
// changes that were committed before. It archives each change exactly once, even across
// restarts. It logs failures and retries without limit. It returns nil after ctx has
// ended, or engine.ErrClosed of src.
func (a *Archiver) Run(ctx context.Context, src Source) error {
	const first = 100 * time.Millisecond
	pause := first
	for ctx.Err() == nil {
		s := &session{a: a, src: src, wake: make(chan struct{}, 1), wantBase: make(chan struct{}, 1)}
		before := a.status.pos.Load()
		err := s.run(ctx)
		switch {
		case errors.Is(err, engine.ErrClosed):
			return err
		case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
			return nil
		case err == nil:
			err = errors.New("the change feed ended without a reason")
		}
		if a.status.pos.Load() > before {
			pause = first
		}
		a.failed("archiving failed and will be retried; the server is not affected", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, a.o.Retry)
	}
	return nil
}

// failed logs a failure, once for each kind and pause.
func (a *Archiver) failed(msg string, err error, more ...any) {
	a.status.failure.Store(&err)
	a.o.Logger.Error(msg, append([]any{"archive", a.dir, "err", err}, more...)...)
}

// works records that changes were made durable again.
func (a *Archiver) works() {
	if a.status.failure.Swap(nil) != nil {
		a.o.Logger.Info("archiving works again", "archive", a.dir, "position", a.status.pos.Load())
	}
}

// fileError gives an error of the journal one of the catalog's codes.
func fileError(doing string, err error) error {
	var (
		locked  *journal.LockedError
		corrupt *journal.CorruptError
		newer   *journal.NewerError
		coded   *engine.Error
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.As(err, &locked):
		return engine.Errorf(engine.CodeLocked, "%s: %w", doing, err)
	case errors.As(err, &newer):
		return engine.Errorf(engine.CodeFormatNewer, "%s: %w", doing, err)
	case errors.As(err, &corrupt):
		return engine.Errorf(engine.CodeCorrupt, "%s: %w", doing, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return engine.Errorf(engine.CodeDiskFull, "%s: %w", doing, err)
	case journal.NoFiles(err):
		return engine.Errorf(engine.CodeFilesFull, "%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
