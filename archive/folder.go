package archive

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// folder is the content of an archive, from file names and heads.
type folder struct {
	dir   string
	fs    journal.FS
	bases []baseFile // oldest first
	parts []part     // oldest first
}

// IsArchive reports whether dir is an archive, even a damaged one.
func IsArchive(fsys journal.FS, dir string) bool {
	f, err := orOS(fsys).OpenFile(filepath.Join(dir, headName), 0)
	if err != nil {
		return false
	}
	f.Close() // nothing was written through it
	return true
}

func orOS(fsys journal.FS) journal.FS {
	if fsys == nil {
		return journal.OS()
	}
	return fsys
}

// scan reads names and heads. It passes errors of damaged heads to broken, or returns
// them if broken is nil.
func scan(fsys journal.FS, dir string, broken func(error)) (folder, error) {
	f := folder{dir: dir, fs: fsys}
	var head folderHead
	if err := readHead(fsys, filepath.Join(dir, headName), &head, &head.Format); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return f, engine.Errorf(engine.CodeNotFound, "%s is not an archive: %w", dir, err)
		}
		return f, err
	}
	names, err := list(fsys, filepath.Join(dir, basesDir))
	if err != nil {
		return f, err
	}
	for _, name := range names {
		if b, ok := parseBase(dir, name); ok {
			f.bases = append(f.bases, b)
		}
	}
	if names, err = list(fsys, filepath.Join(dir, logDir)); err != nil {
		return f, err
	}
	for _, name := range names {
		stem, ok := strings.CutSuffix(name, partExt)
		if !ok {
			continue
		}
		p := part{head: filepath.Join(dir, logDir, name), dir: filepath.Join(dir, logDir, stem)}
		err := readHead(fsys, p.head, &p.partHead, &p.Format)
		if err == nil && p.head != partAt(dir, p.after()).head {
			err = engine.Errorf(engine.CodeCorrupt, "%s begins after position %d, which is not its name", p.head, p.After)
		}
		switch {
		case err != nil && broken == nil:
			return f, err
		case err != nil:
			broken(err)
		default:
			f.parts = append(f.parts, p)
		}
	}
	return f, nil
}

// list returns the names in a folder, or none if it is missing.
func list(fsys journal.FS, dir string) ([]string, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, fileError("list archive", err)
}

// holding returns the index of the part that has, or would have, the change after pos, or
// -1 if there is none.
func (f *folder) holding(pos engine.Position) int {
	i := len(f.parts) - 1
	for i >= 0 && f.parts[i].after() > pos {
		i--
	}
	return i
}

// run returns the consecutive parts without a gap that begin with the one that contains
// the change after pos, and the next part, which does not continue them, if any.
func (f *folder) run(pos engine.Position) (parts []part, gap *part) {
	i := f.holding(pos)
	if i < 0 {
		if len(f.parts) > 0 {
			gap = &f.parts[0]
		}
		return nil, gap
	}
	for end := i + 1; end < len(f.parts); end++ {
		if f.parts[end].Begins {
			return f.parts[i:end], &f.parts[end]
		}
	}
	return f.parts[i:], nil
}

// runStart returns the position before the first change of the newest run.
func (f *folder) runStart() engine.Position {
	for i := len(f.parts) - 1; i >= 0; i-- {
		if f.parts[i].Begins || i == 0 {
			return f.parts[i].after()
		}
	}
	return 0
}

// logBytes returns the size of the files of a part's log without the space that a log
// reserves.
func (f *folder) logBytes(p part) (int64, error) {
	names, err := list(f.fs, p.dir)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, name := range names {
		n, err := fileSize(f.fs, filepath.Join(p.dir, name))
		if err != nil {
			return 0, err
		}
		sum += max(0, n-reserveBytes)
	}
	return sum, nil
}

func fileSize(fsys journal.FS, path string) (int64, error) {
	f, err := fsys.OpenFile(path, 0)
	if err != nil {
		return 0, fileError("open archive file", err)
	}
	defer f.Close() // nothing is written through it
	n, err := f.Size()
	return n, fileError("size of "+path, err)
}

// prepare makes the folder an archive or checks that it is one, and finishes operations
// that a crash interrupted.
func (a *Archiver) prepare() error {
	fsys := a.o.FS
	if !IsArchive(fsys, a.dir) {
		// List returns no folders, so look into those of an archive and of a data folder.
		for _, sub := range []string{"", basesDir, logDir, "snap"} {
			path := filepath.Join(a.dir, sub)
			names, err := list(fsys, path)
			if err != nil {
				return err
			}
			for _, name := range names {
				if name != "LOCK" && !strings.HasSuffix(name, ".tmp") {
					return engine.Errorf(engine.CodeInvalid, "%s is neither empty nor an archive: it has %s", a.dir, filepath.Join(path, name))
				}
			}
		}
		if err := writeHead(fsys, filepath.Join(a.dir, headName), folderHead{folderFormat}); err != nil {
			return fileError("create archive", err)
		}
	}
	for _, sub := range []string{"", basesDir, logDir} {
		path := filepath.Join(a.dir, sub)
		if err := fsys.MkdirAll(path); err != nil {
			return fileError("create archive", err)
		}
		if err := journal.RemoveTemp(fsys, path); err != nil {
			return fileError("prepare archive", err)
		}
	}
	names, err := list(fsys, filepath.Join(a.dir, logDir))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, goneExt) {
			if err := removePart(fsys, filepath.Join(a.dir, logDir, name)); err != nil {
				return err
			}
		}
	}
	_, err = scan(fsys, a.dir, func(err error) {
		a.o.Logger.Warn("the archive is damaged; run `skerry check` for details", "archive", a.dir, "err", err)
	})
	return err
}

// removePart removes the log of a part whose head was renamed to gone, and then the head.
func removePart(fsys journal.FS, gone string) error {
	dir := strings.TrimSuffix(gone, goneExt)
	names, err := list(fsys, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
			return fileError("remove old part", err)
		}
	}
	fsys.Remove(dir) // an empty folder does no harm
	return fileError("remove old part", fsys.Remove(gone))
}
