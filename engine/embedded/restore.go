package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Restore creates a data folder from a backup. The folder must be missing or empty.
// Restore verifies the backup before it writes anything, and reads the whole backup
// into memory, as the engine will do anyway. With Options.SpillBytes it writes long values
// to files while it reads. After an error, or when ctx ends, it removes what it made. A new
// history of changes begins after the backup's position.
func Restore(ctx context.Context, r io.Reader, dir string, o Options) (Summary, error) {
	return RestoreChanges(ctx, r, func(func(engine.Change, error) bool) {}, dir, o)
}

// RestoreChanges is Restore of a backup and the changes after it. There must be no gap
// in their positions. It reads the changes after the backup, and all of them before it
// writes anything but long values. It returns an error of after.
func RestoreChanges(ctx context.Context, r io.Reader, after iter.Seq2[engine.Change, error], dir string, o Options) (Summary, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Summary{}, err
	}
	if err := requireEmpty(o.FS, dir); err != nil {
		return Summary{}, err
	}
	r = &ctxReader{ctx, r}
	if o.SpillBytes > 0 {
		return restoreSpilled(ctx, r, after, dir, o)
	}
	s, err := readChanges(ctx, r, after, nil)
	if err != nil {
		return Summary{}, err
	}
	return writeFolder(ctx, s, dir, o)
}

// ctxReader stops reading when ctx ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// readChanges builds the state of a backup and the changes after it. v may be nil.
func readChanges(ctx context.Context, r io.Reader, after iter.Seq2[engine.Change, error], v *restoredValues) (*snapshot, error) {
	s, err := readBackup(r, v)
	if err != nil {
		return nil, fileError("read backup", err)
	}
	for c, err := range after {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		if c.Pos != s.pos+1 {
			return nil, engine.Errorf(engine.CodeCorrupt, "the change at position %d comes after position %d", c.Pos, s.pos)
		}
		s.apply(c)
		if err := v.changed(s, c); err != nil {
			return nil, fileError("restore", err)
		}
	}
	return s, nil
}

// writeFolder creates a data folder with the state s.
func writeFolder(ctx context.Context, s *snapshot, dir string, o Options) (sum Summary, err error) {
	f, err := makeFolder(dir, o)
	if err != nil {
		return Summary{}, err
	}
	if err := f.end(f.save(ctx, s)); err != nil {
		return Summary{}, err
	}
	return s.summary(), nil
}

// newFolder is a data folder that is being filled, locked.
type newFolder struct {
	fs     journal.FS
	dir    string
	made   []string // folders that were missing, each after those inside it
	kept   []string // files that were there: a lock at most
	unlock func() error
}

// folders returns the folders of a data folder.
func folders(dir string) []string {
	return []string{dir, filepath.Join(dir, snapshotDir), filepath.Join(dir, logDir), filepath.Join(dir, valueDir)}
}

// requireEmpty returns an error if a data folder has files other than its lock and unfinished
// snapshots, which stay when a process is killed.
func requireEmpty(fsys journal.FS, dir string) error {
	for _, d := range folders(dir) {
		names, err := fsys.List(d)
		isLeft := func(name string) bool {
			switch d {
			case dir:
				return name == journal.LockName
			case filepath.Join(dir, snapshotDir):
				return journal.IsTemp(name) // the next Open removes it
			}
			return false
		}
		if err == nil && len(slices.DeleteFunc(names, isLeft)) > 0 {
			return engine.Errorf(engine.CodeInvalid, "%s is not empty: restore makes a new data folder", dir)
		}
	}
	return nil
}

// makeFolder creates and locks a data folder. Its end must be called.
func makeFolder(dir string, o Options) (*newFolder, error) {
	f := &newFolder{fs: o.FS, dir: dir}
	for d := filepath.Clean(dir); filepath.Dir(d) != d && f.missing(d); d = filepath.Dir(d) {
		f.made = append(f.made, d)
	}
	f.kept, _ = f.fs.List(dir)
	var err error
	if f.unlock, err = journal.LockDir(f.fs, dir); err != nil {
		f.removeFolders()
		return nil, lockError(err)
	}
	if err = requireEmpty(f.fs, dir); err != nil { // nobody else fills it now
		return nil, errors.Join(err, f.unlock())
	}
	for _, d := range folders(dir)[1:] {
		if f.missing(d) {
			f.made = slices.Insert(f.made, 0, d)
		}
	}
	for _, d := range []string{snapshotDir, logDir} { // Check wants the latter
		if err := f.fs.MkdirAll(filepath.Join(dir, d)); err != nil {
			return nil, f.end(diskError(fmt.Errorf("make data folder: %w", err)))
		}
	}
	return f, nil
}

func (f *newFolder) missing(dir string) bool {
	_, err := f.fs.List(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// save writes the snapshot file of s.
func (f *newFolder) save(ctx context.Context, s *snapshot) error {
	_, _, err := s.save(f.fs, snapshotName(f.dir, s.index), func(w io.Writer) io.Writer { return &ctxWriter{ctx, w, nil} })
	if err != nil {
		return fileError("restore", err)
	}
	return nil
}

// end ends the filling, which returned err. After an error it removes what was made: the
// next attempt finds the folder as this one did.
func (f *newFolder) end(err error) error {
	if err == nil {
		if err = f.unlock(); err != nil {
			return fileError("restore", err)
		}
		return nil
	}
	errs := []error{err}
	for _, d := range folders(f.dir) { // all files there are new
		names, err := f.fs.List(d)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, name := range names {
			if d == f.dir && slices.Contains(f.kept, name) {
				continue
			}
			if err := f.fs.Remove(filepath.Join(d, name)); err != nil {
				errs = append(errs, err)
			}
		}
	}
	errs = append(errs, f.unlock())
	f.removeFolders()
	return errors.Join(errs...)
}

// removeFolders removes the folders that were missing, except those in which somebody
// else has put something by now.
func (f *newFolder) removeFolders() {
	for _, d := range f.made {
		_ = f.fs.Remove(d)
	}
}
