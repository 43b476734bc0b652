// Package backups keeps the backups of a running server in a folder: it takes, verifies, lists, removes and restores them, and takes
// one regularly.
//
// It knows names of files, times and which file was verified when; it must not know which engine runs, what a backup holds or
// who asks for it.
package backups

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// DefaultKeep is Options.Keep if that is 0.
const DefaultKeep = 7

// MaxKeep bounds Options.Keep.
const MaxKeep = 10_000

// MinEvery is the shortest Options.Every.
const MinEvery = time.Minute

// Summary describes the contents of a backup.
type Summary struct {
	Position engine.Position `json:"position"`
	Time     time.Time       `json:"time"` // of the last transaction in it
	Keys     int             `json:"keys"`
	Bytes    int64           `json:"bytes"` // of keys and values
}

// Options of a Folder. Backup, Verify and Restore must be set; the rest may be zero.
type Options struct {
	// Backup writes all data to w.
	Backup func(ctx context.Context, w io.Writer) (engine.Position, error)

	// Verify reads a whole backup and describes its contents, or returns why it cannot be restored.
	Verify func(r io.Reader) (Summary, error)

	// Restore makes a data folder from a backup. It verifies the whole backup before it writes anything.
	Restore func(ctx context.Context, r io.Reader, dir string) (Summary, error)

	// Room returns an error if a backup of so many bytes cannot be restored beside the running server; nil: any can.
	Room func(bytes int64) error

	// Every is how long after the newest good backup the next one is taken. 0: only when somebody asks.
	Every time.Duration

	// Keep is how many backups of the schedule stay; 0: DefaultKeep.
	Keep int

	Now    func() time.Time // the clock; default time.Now
	FS     journal.FS       // of the folder; default the operating system's
	Logger *slog.Logger     // default slog.Default
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Backup == nil, o.Verify == nil, o.Restore == nil:
		return o, engine.Errorf(engine.CodeInvalid, "backups: Backup, Verify and Restore must be set")
	case o.Every != 0 && o.Every < MinEvery:
		return o, engine.Errorf(engine.CodeInvalid, "backups: option Every is %v, less than %v", o.Every, MinEvery)
	case o.Keep < 0 || o.Keep > MaxKeep:
		return o, engine.Errorf(engine.CodeInvalid, "backups: option Keep is %d, not from 1 to %d", o.Keep, MaxKeep)
	}
	o.Keep = cmp.Or(o.Keep, DefaultKeep)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FS == nil {
		o.FS = journal.OS()
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

// Folder is a folder of backups. Its methods may be called at any time.
type Folder struct {
	dir    string
	o      Options
	unlock func() error
	busy   chan struct{} // has one place: for the operation that writes files or reads a whole one
	woken  chan struct{} // wakes the schedule: the files have changed

	mu     sync.Mutex       // guards the fields below
	checks map[string]check // by the name of the file
	status Status
}

// Status is the state of a Folder's schedule.
type Status struct {
	Every  time.Duration // 0: there is no schedule
	Keep   int
	Next   time.Time // of the next backup; zero: there is none, or it is not known yet
	Taking *Progress // of the backup that the schedule takes now; nil: it takes none

	Taken, Failed int       // by the schedule, since the start
	Last          time.Time // of its last attempt; zero: there was none since the start
	Err           error     // why that failed; nil: it did not

	Files  int       // backups in the folder at the last look
	Bytes  int64     // of all of them
	Newest time.Time // when the newest good one was taken
}

// Open opens a folder of backups, and creates it if it is missing. It locks the folder until Close, and removes what a crash has
// left half-written. It writes nothing else.
func Open(dir string, o Options) (*Folder, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fileError("open the folder of backups", err)
	}
	unlock, err := journal.LockDir(o.FS, dir)
	if err != nil {
		return nil, fileError("lock the folder of backups "+dir, err)
	}
	f := &Folder{dir: dir, o: o, unlock: unlock, busy: make(chan struct{}, 1), woken: make(chan struct{}, 1), checks: map[string]check{}, status: Status{Every: o.Every, Keep: o.Keep}}
	err = f.removeUnfinished()
	if err == nil {
		f.loadChecks()
		_, err = f.Files()
	}
	if err != nil {
		_ = unlock() // the other error is the cause
		return nil, err
	}
	return f, nil
}

// Close unlocks the folder. Run and all operations must have returned.
func (f *Folder) Close() error { return fileError("unlock the folder of backups", f.unlock()) }

// Dir returns the folder's absolute path.
func (f *Folder) Dir() string { return f.dir }

// Status returns the current status.
func (f *Folder) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// update changes the status.
func (f *Folder) update(change func(s *Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

// begin reserves the folder for one operation, which calls end.
func (f *Folder) begin() (end func(), err error) {
	select {
	case f.busy <- struct{}{}:
		return func() { <-f.busy }, nil
	default:
		return nil, engine.Errorf(engine.CodeQueueFull, "another backup is being taken, verified or deleted; try again when that has ended")
	}
}

// wait is begin that waits until the folder is free.
func (f *Folder) wait(ctx context.Context) (end func(), err error) {
	select {
	case f.busy <- struct{}{}:
		return func() { <-f.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// changed tells the schedule that files have changed.
func (f *Folder) changed() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// known returns a copy of what is known of files.
func (f *Folder) known() map[string]check {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.checks)
}
