package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// MaxFileBytes is the size of the largest file that Files reads.
const MaxFileBytes = 4 << 20

// Files reads and writes whole small files. It writes all files that a start needs,
// except logs, snapshots and votes.
type Files struct{ FS FS }

// Read returns the content of a file. If it is missing, the error wraps
// fs.ErrNotExist. If it is larger than MaxFileBytes, the error is *LimitError.
func (f Files) Read(path string) ([]byte, error) {
	file, err := f.FS.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close() // nothing is written through it
	size, err := file.Size()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if size > MaxFileBytes {
		return nil, &LimitError{path, size, MaxFileBytes}
	}
	data := make([]byte, size)
	if n, err := file.ReadAt(data, 0); err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// Write atomically replaces the file at path with data. After a crash the file is
// either the old or the new one; once Write has returned nil it is the new one. Only
// its owner can read it.
func (f Files) Write(path string, data []byte) error {
	return replace(f.FS, path, func(file File) error {
		if _, err := file.WriteAt(data, 0); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", path, err)
		}
		return nil
	})
}

// Claim durably creates an empty file. If the file exists, the error wraps
// fs.ErrExist: of several concurrent claims of a path only one succeeds.
func (f Files) Claim(path string) error {
	file, err := f.FS.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close(), f.FS.SyncDir(filepath.Dir(path)))
}

// List returns the names of the files in a folder, sorted.
func (f Files) List(dir string) ([]string, error) { return f.FS.List(dir) }

// MkdirAll durably creates a folder and its missing parents.
func (f Files) MkdirAll(dir string) error { return f.FS.MkdirAll(dir) }

// replace durably replaces the file at path with a new one that write fills and
// syncs. It does not touch the old file before that.
func replace(fsys FS, path string, write func(File) error) error {
	dir, err := fsys.OpenDir(filepath.Dir(path)) // now: once the file has its name it is too late for an error
	if err != nil {
		return err
	}
	defer dir.Close() // nothing is written through it
	tmp := path + tmpSuffix
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, removeTemp(fsys, tmp))
	}
	if err := dir.Sync(); err != nil {
		return &FailedError{"sync folder of", path, err}
	}
	return nil
}

// removeTemp deletes an unfinished file. A missing file is not an error.
func removeTemp(fsys FS, tmp string) error {
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove unfinished file: %w", err)
	}
	return nil
}
