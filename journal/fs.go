package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FS is the file system that the journal needs. OS returns the real one. Package
// journal/memfs has one for tests that can simulate power loss.
type FS interface {
	// OpenFile opens a file with the given os.O_ flags. Only their owner can read new
	// files.
	OpenFile(path string, flag int) (File, error)
	// Rename renames from to to, replacing it atomically even if a crash follows.
	Rename(from, to string) error
	// Remove deletes a file.
	Remove(path string) error
	// List returns the names of the files in a folder, sorted.
	List(dir string) ([]string, error)
	// MkdirAll durably creates a folder and its missing parents.
	MkdirAll(dir string) error
	// OpenDir opens a folder for a later Sync that must not fail for lack of a file
	// descriptor.
	OpenDir(dir string) (Dir, error)
	// SyncDir is OpenDir, Sync and Close: an error that is Passing means that
	// nothing was done.
	SyncDir(dir string) error
	// Lock locks the file at path and writes this process's id into it. It returns
	// *LockedError if the file is already locked.
	Lock(path string) (unlock func() error, err error)
}

// File is an open file. ReadAt may run at any time. The other methods are not called
// concurrently, except that Sync may run during WriteAt.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate sets the length. A longer file is extended with zeros.
	Truncate(size int64) error
	// Sync makes the content and the length durable (fdatasync).
	Sync() error
}

// Dir is an open folder.
type Dir interface {
	io.Closer
	// Sync makes the creation, renaming and removal of the folder's files durable.
	Sync() error
}

// LockName is the name of the file in a locked folder that is locked, do not change.
const LockName = "LOCK"

// tmpSuffix ends the names of unfinished files.
const tmpSuffix = ".tmp"

// LockDir creates dir if it does not exist, and locks it, so that no second process
// opens it. The lock ends with unlock or with the process. If dir is in use, the
// error is *LockedError with the holder's process id.
func LockDir(fsys FS, dir string) (unlock func() error, err error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make folder %s: %w", dir, err)
	}
	return fsys.Lock(filepath.Join(dir, LockName))
}

// IsTemp reports whether a file is one of the unfinished ones, by its name.
func IsTemp(name string) bool { return strings.HasSuffix(name, tmpSuffix) }

// RemoveTemp deletes the unfinished files that a crash left in dir. Open does
// it for the log's own folder.
func RemoveTemp(fsys FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names {
		if IsTemp(name) {
			if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("remove unfinished file: %w", err)
			}
		}
	}
	return nil
}

// OS returns the real file system.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) OpenFile(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, fd: f.Fd()}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(path string) error     { return os.Remove(path) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func (o osFS) MkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a folder")}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

func (osFS) OpenDir(dir string) (Dir, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (o osFS) SyncDir(dir string) error {
	d, err := o.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close() // nothing is written through it
	return d.Sync()
}

type osFile struct {
	f  *os.File
	fd uintptr // of f; valid until Close
}

func (o *osFile) ReadAt(p []byte, off int64) (int, error)  { return o.f.ReadAt(p, off) }
func (o *osFile) WriteAt(p []byte, off int64) (int, error) { return o.f.WriteAt(p, off) }
func (o *osFile) Truncate(size int64) error                { return o.f.Truncate(size) }
func (o *osFile) Close() error                             { return o.f.Close() }

func (o *osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
