package backups

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// tmpExt ends the name of a file that is not complete. The journal's IsTemp knows it too.
const tmpExt = ".tmp"

// WriteWhole writes a file by fill, and has verify, if it is not nil, read it back. Only then the file gets its name, durably: a file
// with the name is never incomplete. An older one is replaced. After an error there is
// no new file, unless only the folder could not be made durable. It returns the size.
func WriteWhole(fsys journal.FS, name string, fill func(io.Writer) error, verify func(io.Reader) error) (size int64, err error) {
	tmp := name + "." + strconv.FormatUint(rand.Uint64(), 36) + tmpExt
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return 0, err
	}
	closed := false
	defer func() {
		if err != nil {
			if !closed {
				_ = f.Close() // the file goes
			}
			if gone := fsys.Remove(tmp); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	w := &fileWriter{file: f}
	if err := fill(w); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	if verify != nil {
		if err := verify(io.NewSectionReader(f, 0, w.n)); err != nil {
			return 0, fmt.Errorf("the written file is not complete: %w", err)
		}
	}
	closed = true
	if err := f.Close(); err != nil {
		return 0, err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return 0, err
	}
	return w.n, fsys.SyncDir(filepath.Dir(name))
}

// fileWriter writes a file from its beginning.
type fileWriter struct {
	file journal.File
	n    int64
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.file.WriteAt(p, w.n)
	w.n += int64(n)
	return n, err
}

// fileError gives an error of the disk one of the catalog's codes.
func fileError(doing string, err error) error {
	locked, inUse := errors.AsType[*journal.LockedError](err)
	_, coded := errors.AsType[*engine.Error](err)
	switch {
	case err == nil:
		return nil
	case coded:
		return fmt.Errorf("%s: %w", doing, err)
	case inUse:
		return engine.Errorf(engine.CodeLocked, "%s: %w", doing, locked)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return engine.Errorf(engine.CodeDiskFull, "%s: %w", doing, err)
	case journal.NoFiles(err):
		return engine.Errorf(engine.CodeFilesFull, "%s: %w", doing, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return engine.Errorf(engine.CodeUnavailable, "%s: this server may not write there: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
