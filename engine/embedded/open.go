package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Folders inside the data folder, do not change.
const (
	logDir      = "log"
	snapshotDir = "snap"
)

// Open opens the data folder, creating it if it is missing, and recovers the last
// acknowledged state. It locks the folder until Close. If another process has the
// folder open, the error is engine.ErrLocked and names that process. For damaged files
// the error is engine.ErrCorrupt with file and offset, for files of a newer version
// engine.ErrFormatNewer. Open then leaves the folder unchanged.
func Open(dir string, o Options) (*DB, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := makeFolders(o.FS, dir); err != nil {
		return nil, err
	}
	unlock, err := journal.LockDir(o.FS, dir)
	if err != nil {
		return nil, lockError(err)
	}
	id, err := identity(dir, o)
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	if o.FS == journal.OS() {
		o.FS, unlock = reserve(unlock)
	}
	db := &DB{
		id: id, opts: o, dir: dir, began: o.mono(), unlock: unlock, history: newHistory(o.HistoryBytes),
		stop: make(chan struct{}), ending: make(chan struct{}), tidied: make(chan struct{}),
	}
	db.saver.plan.floor, db.saver.plan.target = o.SnapshotBytes, o.RecoveryTarget
	if err := db.recover(); err != nil {
		if db.log != nil {
			err = errors.Join(err, db.log.Close())
		}
		return nil, errors.Join(err, db.closeValues(), unlock())
	}
	db.newExecutor()
	if o.sim != nil {
		return db, db.group.begin() // it does the background work itself
	}
	db.saver.mono = o.mono
	db.saver.start(db.savePaced, func(err error) { // before the group, which logs at once
		o.Logger.Error("a background snapshot failed and will be retried; the log keeps everything", "err", err)
	})
	if db.group != nil {
		if err := db.group.begin(); err != nil {
			db.exec.close(engine.ErrClosed)
			db.saver.close()
			return nil, errors.Join(err, db.closeValues(), db.log.Close(), unlock())
		}
	}
	if db.group != nil {
		db.spill.fetch = db.group.fetchValue
	}
	db.spill.start(db.exec)
	go db.tidy()
	return db, nil
}

// newExecutor creates the executor with this node's committer.
func (db *DB) newExecutor() {
	var log committer = journalCommitter{db.log}
	if db.group != nil {
		log = db.group.log
	}
	state := db.snap.Load()
	db.exec = newExecutor(db.opts, log, state)
	db.snap.Store(state.emptied())
	db.exec.visible, db.exec.show = db.snap.Load, db.show
	db.exec.overtake, db.exec.record, db.exec.fail = db.overtake, db.record, db.fail
	db.exec.unmoved = db.spill.lookAtAll
	if db.group != nil {
		db.group.log.x = db.exec
	}
}

// reserve returns the real file system with reserved descriptors, and an unlock that
// also releases them.
func reserve(unlock func() error) (journal.FS, func() error) {
	r := journal.NewReserve(reservedFiles)
	return r, func() error {
		r.Close()
		return unlock()
	}
}

// reservedFiles is how many descriptors are reserved for the files of a data folder, in
// case the process runs out of them. It is more than the log, a snapshot being written
// and those being sent need at once.
const reservedFiles = 16

func makeFolders(fs journal.FS, dir string) error {
	for _, d := range []string{dir, filepath.Join(dir, snapshotDir)} {
		if err := fs.MkdirAll(d); err != nil {
			return diskError(fmt.Errorf("make data folder: %w", err))
		}
	}
	return nil
}

// recover loads the newest snapshot and applies the log after it.
func (db *DB) recover() error {
	progress := newProgress(db.opts, db.dir)
	if err := journal.RemoveTemp(db.opts.FS, filepath.Join(db.dir, snapshotDir)); err != nil {
		return diskError(err)
	}
	// After a process was killed, a snapshot's name may not be durable yet, although
	// the log continues from it.
	if err := db.opts.FS.SyncDir(filepath.Join(db.dir, snapshotDir)); err != nil {
		return diskError(err)
	}
	state := &snapshot{tree: btree.NewPairs()}
	name, err := newestSnapshot(db.opts.FS, db.dir)
	if err != nil {
		return fileError("list snapshots", err)
	}
	if name != "" {
		if state, err = readSnapshotFile(db.opts.FS, name, progress); err != nil {
			return fileError("read snapshot "+name, err)
		}
	}
	loaded := db.loaded(state, progress.part())
	if err := db.openValues(state); err != nil {
		return fileError("open value files", err)
	}
	state.vals = db.spill.values()
	db.log, err = journal.Open(filepath.Join(db.dir, logDir), db.opts.journal())
	if err != nil {
		return fileError("open log", err)
	}
	db.counts.snapshotPos.Store(uint64(state.pos))
	fromLog, err := db.catchUp(state, progress)
	if err != nil {
		return fileError("replay log", err)
	}
	took := loaded + db.replayed(progress.part())
	if err := db.cleanValues(name); err != nil {
		return diskError(err)
	}
	db.snap.Store(state)
	db.durable.Store(uint64(state.pos))
	from := "none"
	if name != "" {
		from = filepath.Base(name)
	}
	db.opts.Logger.Info("data folder opened", "dir", db.dir, "position", state.pos, "keys", state.tree.Len(),
		"snapshot", from, "batches_from_log", fromLog, "took", took.Round(time.Millisecond))
	return nil
}

// loaded records that the snapshot is in memory.
func (db *DB) loaded(s *snapshot, took time.Duration) time.Duration {
	db.saver.plan.holds(s.contents())
	db.saver.plan.load.measure(took, loadCost(s.contents()))
	db.counts.loadNanos.Store(int64(took))
	return took
}

// replayed records that the log is applied.
func (db *DB) replayed(took time.Duration) time.Duration {
	plan := &db.saver.plan
	plan.replay.measure(took, replayCost(plan.log.Load(), plan.writes.Load()))
	db.counts.replayNanos.Store(int64(took))
	return took
}

// maxRecordBytes bounds a log record: a full batch and one transaction more,
// with room for the lengths.
const maxRecordBytes = batchBytes + 2*MaxTxBytes

// joinLog makes sure that the log continues from state, and returns its first index. A
// log that ends before the state has lost its last frame to damage that looks like an
// interrupted write. The snapshot has the lost data, so the log is reset, and with it
// the history.
func (db *DB) joinLog(state *snapshot) (first uint64, err error) {
	if err := db.joins(state); err != nil {
		return 0, err
	}
	first, last := db.log.First(), db.log.Last()
	if last != 0 && last < state.index {
		db.opts.Logger.Warn("the log ends before the newest snapshot, which includes all of it; starting a new log",
			"dir", db.dir, "log_ends", last, "snapshot_ends", state.index)
		first = state.index + 1
		return first, db.log.Reset(first)
	}
	return first, nil
}

// joins returns an error if the log lacks records that lead on from state.
func (db *DB) joins(state *snapshot) error {
	first, last := db.log.First(), db.log.Last()
	switch {
	case state.settled > state.index && last < state.settled:
		return engine.Errorf(engine.CodeCorrupt, "the log ends at record %d but the newest snapshot needs it up to record %d: the end of the log is missing", last, state.settled)
	case last != 0 && first > state.index+1:
		return engine.Errorf(engine.CodeCorrupt, "the log begins at record %d but the newest snapshot ends at %d: a snapshot file is missing", first, state.index)
	}
	return nil
}

// newestSnapshot returns the file of the newest snapshot, or "".
func newestSnapshot(fs journal.FS, dir string) (string, error) {
	names, err := snapshots(fs, dir)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return names[len(names)-1], nil
}

// snapshots returns the snapshot files, oldest first.
func snapshots(fs journal.FS, dir string) ([]string, error) {
	entries, err := fs.List(filepath.Join(dir, snapshotDir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries { // sorted by name, which is by index
		if strings.HasSuffix(e, ".snap") {
			names = append(names, filepath.Join(dir, snapshotDir, e))
		}
	}
	return names, nil
}

func (db *DB) removeSnapshotsBefore(index uint64) error {
	names, err := snapshots(db.opts.FS, db.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name < snapshotName(db.dir, index) {
			if err := db.opts.FS.Remove(name); err != nil {
				return fmt.Errorf("remove old snapshot: %w", err)
			}
		}
	}
	return nil
}

func readSnapshotFile(fs journal.FS, name string, progress *progress) (*snapshot, error) {
	r, err := journal.ReadSnapshot(fs, name)
	if err != nil {
		return nil, err
	}
	s, err := loadSnapshot(r.Meta, r, nil, progress)
	return s, errors.Join(err, r.Close())
}

// lockError returns the error of a data folder that could not be locked. It names the
// process that has the lock.
func lockError(err error) error {
	locked, ok := errors.AsType[*journal.LockedError](err)
	if !ok {
		return fileError("lock data folder", err)
	}
	who := "another process"
	if locked.Pid != 0 {
		who = fmt.Sprintf("process %d", locked.Pid)
	}
	return &engine.Error{Code: engine.CodeLocked, Msg: fmt.Sprintf("data folder %s is in use by %s", locked.Dir, who), Err: locked}
}

// fileError gives an error of the journal one of the catalog's codes.
func fileError(doing string, err error) error {
	var (
		locked  *journal.LockedError
		corrupt *journal.CorruptError
		newer   *journal.NewerError
		coded   *engine.Error
	)
	var code engine.Code
	switch {
	case errors.As(err, &coded):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.As(err, &locked):
		code = engine.CodeLocked
	case errors.As(err, &newer):
		code = engine.CodeFormatNewer
	case errors.As(err, &corrupt), errors.Is(err, errBatch), errors.Is(err, errSnapshot):
		code = engine.CodeCorrupt
	default:
		return diskError(fmt.Errorf("%s: %w", doing, err))
	}
	return engine.Errorf(code, "%s: %w", doing, err)
}

// diskError gives an error of the file system one of the catalog's codes.
func diskError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return engine.Errorf(engine.CodeDiskFull, "the disk is full; nothing was written: %w", err)
	case journal.NoFiles(err):
		return engine.Errorf(engine.CodeFilesFull, "too many files are open in this process or on this machine; nothing was written: %w", err)
	}
	return err
}
