package backups

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Names in the folder. They are on disk: do not change.
const (
	ext        = ".skerry"
	checksName = "verified.json" // which file was verified when; without it all are just not verified yet
	stamp      = "20060102T150405.000Z"
)

// unfinished matches the names that WriteWhole gives in this folder.
var unfinished = regexp.MustCompile(`^(?:(?:scheduled|manual)-\d{8}T\d{6}\.\d{3}Z\.skerry|verified\.json)\.[0-9a-z]+\.tmp$`)

// Kind says who made a file.
type Kind string

const (
	Scheduled Kind = "scheduled"
	Manual    Kind = "manual"
	Foreign   Kind = "" // somebody has put it there
)

// File is a backup in the folder.
type File struct {
	Name  string
	Kind  Kind
	Taken time.Time // by its name; zero: the name does not say
	Size  int64

	Verified time.Time // when it was read last; zero: never
	Problem  string    // what that found; "": it is whole
	Summary  Summary   // of a whole one
}

// Good reports whether the file was whole when it was read last.
func (f *File) Good() bool { return !f.Verified.IsZero() && f.Problem == "" }

// check is what the reading of a file has found. On disk: do not rename.
type check struct {
	At      time.Time `json:"at"`
	Size    int64     `json:"size"`
	Problem string    `json:"problem,omitempty"`
	Summary Summary   `json:"summary"`
}

func fileName(kind Kind, at time.Time) string {
	return string(kind) + "-" + at.UTC().Format(stamp) + ext
}

// parseName returns what the name of a file says. ok is false for names that are not those of backups.
func parseName(name string) (kind Kind, taken time.Time, ok bool) {
	stem, ok := strings.CutSuffix(name, ext)
	if !ok || stem == "" {
		return "", time.Time{}, false
	}
	for _, k := range []Kind{Scheduled, Manual} {
		if text, is := strings.CutPrefix(stem, string(k)+"-"); is {
			if at, err := time.Parse(stamp, text); err == nil {
				return k, at, true
			}
		}
	}
	return Foreign, time.Time{}, true
}

// Files returns the backups in the folder, newest first; those of an unknown time are last.
func (f *Folder) Files() ([]File, error) {
	names, err := f.o.FS.List(f.dir)
	if err != nil {
		return nil, fileError("list the folder of backups", err)
	}
	known := f.known()
	all := []File{}
	for _, name := range names {
		kind, taken, ok := parseName(name)
		if !ok {
			continue
		}
		size, err := f.size(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		one := File{Name: name, Kind: kind, Taken: taken, Size: size}
		if c, ok := known[name]; ok && c.Size == size {
			one.Verified, one.Problem, one.Summary = c.At, c.Problem, c.Summary
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(x, y File) int { return y.Taken.Compare(x.Taken) })
	f.count(all)
	return all, nil
}

// count puts into the status what the folder has.
func (f *Folder) count(all []File) {
	f.update(func(s *Status) {
		s.Files, s.Bytes, s.Newest = len(all), 0, time.Time{}
		for _, one := range all {
			s.Bytes += one.Size
			if one.Good() && one.Taken.After(s.Newest) {
				s.Newest = one.Taken
			}
		}
	})
}

func (f *Folder) size(name string) (int64, error) {
	file, err := f.o.FS.OpenFile(filepath.Join(f.dir, name), 0)
	if err != nil {
		return 0, fileError("open "+name, err)
	}
	defer file.Close() // nothing is written through it
	n, err := file.Size()
	return n, fileError("size of "+name, err)
}

// find returns a file of the list. No other name reaches the disk.
func (f *Folder) find(name string) (File, error) {
	all, err := f.Files()
	if err != nil {
		return File{}, err
	}
	for _, one := range all {
		if one.Name == name {
			return one, nil
		}
	}
	return File{}, engine.Errorf(engine.CodeNotFound, "the folder of backups has no file %q", name)
}

// OpenFile opens a backup to be read. The caller closes it.
func (f *Folder) OpenFile(name string) (io.ReadCloser, File, error) {
	one, err := f.find(name)
	if err != nil {
		return nil, one, err
	}
	file, err := f.o.FS.OpenFile(filepath.Join(f.dir, name), 0)
	if err != nil {
		return nil, one, fileError("open "+name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, 0, math.MaxInt64), file}, one, nil
}

// Verify reads a whole backup and returns the file with what it found: damage is in File.Problem, not in the error.
func (f *Folder) Verify(ctx context.Context, name string, p *Progress) (File, error) {
	end, err := f.begin()
	if err != nil {
		return File{}, err
	}
	defer end()
	defer f.changed()
	return f.verify(ctx, name, p)
}

// verify is Verify of an operation that has begun.
func (f *Folder) verify(ctx context.Context, name string, p *Progress) (File, error) {
	r, one, err := f.OpenFile(name)
	if err != nil {
		return one, err
	}
	defer r.Close() // nothing is written through it
	p.Expect(one.Size)
	sum, err := f.o.Verify(p.Reader(ctx, r))
	if ctx.Err() != nil {
		return one, ctx.Err()
	}
	c := check{At: f.o.Now().UTC(), Size: one.Size, Summary: sum}
	if err != nil {
		c.Problem, c.Summary = err.Error(), Summary{}
		f.o.Logger.Error("a backup is damaged", "file", filepath.Join(f.dir, name), "err", err)
	}
	one.Verified, one.Problem, one.Summary = c.At, c.Problem, c.Summary
	return one, f.note(name, c)
}

// Last returns the name of the newest good backup, "" if there is none.
func Last(all []File) string {
	for _, one := range all {
		if one.Good() {
			return one.Name
		}
	}
	return ""
}

// Remove deletes a backup. The newest good one is deleted only if last is set.
func (f *Folder) Remove(name string, last bool) error {
	end, err := f.begin()
	if err != nil {
		return err
	}
	defer end()
	defer f.changed()
	all, err := f.Files()
	if err != nil {
		return err
	}
	switch {
	case !slices.ContainsFunc(all, func(one File) bool { return one.Name == name }):
		return engine.Errorf(engine.CodeNotFound, "the folder of backups has no file %q", name)
	case !last && Last(all) == name:
		return engine.Errorf(engine.CodeConflict, "%s is the newest backup that was verified; confirm that it may go", name)
	}
	return f.remove(name)
}

// remove deletes a file of an operation that has begun.
func (f *Folder) remove(name string) error {
	if err := f.o.FS.Remove(filepath.Join(f.dir, name)); err != nil {
		return fileError("delete "+name, err)
	}
	if err := f.o.FS.SyncDir(f.dir); err != nil {
		return fileError("delete "+name, err)
	}
	f.mu.Lock()
	delete(f.checks, name)
	f.mu.Unlock()
	_, err := f.Files() // counts again
	return errors.Join(err, f.saveChecks())
}

// note keeps what the reading of a file has found.
func (f *Folder) note(name string, c check) error {
	f.mu.Lock()
	f.checks[name] = c
	f.mu.Unlock()
	return f.saveChecks()
}

// saveChecks writes checksName. The caller has begun an operation, so that two do not write at once.
func (f *Folder) saveChecks() error {
	text, err := json.MarshalIndent(f.known(), "", "\t")
	if err != nil {
		return err
	}
	_, err = WriteWhole(f.o.FS, filepath.Join(f.dir, checksName), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}, nil)
	return fileError("write "+checksName, err)
}

// maxChecksBytes bounds checksName as it is read.
const maxChecksBytes = 64 << 20

// loadChecks reads checksName. If it is missing or damaged, no file counts as verified.
func (f *Folder) loadChecks() {
	file, err := f.o.FS.OpenFile(filepath.Join(f.dir, checksName), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var all map[string]check
	if err == nil {
		defer file.Close() // nothing is written through it
		var text []byte
		if text, err = io.ReadAll(io.NewSectionReader(file, 0, maxChecksBytes)); err == nil {
			err = json.Unmarshal(text, &all)
		}
	}
	if err != nil {
		f.o.Logger.Warn("it is not known which backups were verified; all will be read again", "file", filepath.Join(f.dir, checksName), "err", err)
		return
	}
	for name, c := range all {
		f.checks[name] = c
	}
}

// removeUnfinished removes files of this package that a crash has left half-written, and no others.
func (f *Folder) removeUnfinished() error {
	names, err := f.o.FS.List(f.dir)
	if err != nil {
		return fileError("list the folder of backups", err)
	}
	for _, name := range names {
		if !unfinished.MatchString(name) || !journal.IsTemp(name) {
			continue
		}
		f.o.Logger.Info("removing a backup that was not completed", "file", filepath.Join(f.dir, name))
		if err := f.o.FS.Remove(filepath.Join(f.dir, name)); err != nil {
			return fileError("remove an unfinished backup", err)
		}
	}
	return nil
}
