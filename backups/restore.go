package backups

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/skerrydb/skerry/engine"
)

// restoredDir is the folder in the folder of backups below which data folders are restored. On disk: do not change.
const restoredDir = "restored"

// MaxRestored is how many restored folders Restored returns.
const MaxRestored = 100

// folderName matches the names that a restored folder can have: one name, never a path.
var folderName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// NewFolder returns the path of a folder to be restored into. It must not exist yet.
func (f *Folder) NewFolder(name string) (string, error) {
	if !folderName.MatchString(name) {
		return "", engine.Errorf(engine.CodeInvalid, "%q cannot be the name of a new folder: use 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit", name)
	}
	dir := filepath.Join(f.dir, restoredDir, name)
	switch _, err := os.Lstat(dir); {
	case err == nil:
		return "", engine.Errorf(engine.CodeConflict, "%s exists already; a restore never overwrites anything", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fileError("make the new folder", err)
	}
	return dir, nil
}

// Restore restores a backup into a new folder of that name, and returns the folder's path.
func (f *Folder) Restore(ctx context.Context, file, name string, p *Progress) (dir string, sum Summary, err error) {
	if dir, err = f.NewFolder(name); err != nil {
		return "", sum, err
	}
	r, one, err := f.OpenFile(file)
	if err != nil {
		return "", sum, err
	}
	defer r.Close() // nothing is written through it
	if f.o.Room != nil {
		if err := f.o.Room(one.Size); err != nil {
			return "", sum, err
		}
	}
	p.Expect(one.Size)
	sum, err = f.o.Restore(ctx, p.Reader(ctx, r), dir)
	return dir, sum, fileError("restore "+file, err)
}

// Restored returns the paths of the folders that were restored and are still there, at most MaxRestored.
func (f *Folder) Restored() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(f.dir, restoredDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileError("list restored folders", err)
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() && len(all) < MaxRestored {
			all = append(all, filepath.Join(f.dir, restoredDir, e.Name()))
		}
	}
	return all, nil
}
