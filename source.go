package skerry

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// Files returns one folder of the program's embedded files, such as its pages or its assets, with names
// relative to that folder. In production the files come from embedded, which go:embed fills. In development
// (Source is set) they come from disk and are read anew at every open. On disk, Files looks for the folder in
// Source and then in its parents, up to the one with go.mod.
//
// If embedded has no such folder, every Open fails with an error that says so. Files must only be called while
// the application is being made.
func (s *Services) Files(embedded fs.FS, dir string) fs.FS {
	info, err := fs.Stat(embedded, dir)
	if err == nil && !info.IsDir() {
		err = engine.Errorf(engine.CodeInvalid, "%s is not a folder", dir)
	}
	if err != nil {
		return noFiles{engine.Errorf(engine.CodeInvalid, "skerry: Files(%q): %w; is it in the go:embed line?", dir, err)}
	}
	if on := findSource(s.Source, dir); on != "" {
		if !slices.Contains(s.live, on) {
			s.live = append(s.live, on)
		}
		return os.DirFS(on)
	}
	sub, err := fs.Sub(embedded, dir)
	if err != nil {
		return noFiles{err}
	}
	return sub
}

// findSource looks for dir in source and its parents. It returns "" if there is none, or if source is empty.
func findSource(source, dir string) string {
	for at := source; at != ""; {
		if info, err := os.Stat(filepath.Join(at, filepath.FromSlash(dir))); err == nil && info.IsDir() {
			return filepath.Join(at, filepath.FromSlash(dir))
		}
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil || filepath.Dir(at) == at {
			return ""
		}
		at = filepath.Dir(at)
	}
	return ""
}

// noFiles is a file system in which every Open fails.
type noFiles struct{ err error }

// Open implements fs.FS.
func (n noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: n.err}
}

// Live returns the folders that the application reads from disk because Web.Source is set. A change in them
// needs no restart.
func (s *Server) Live() []string { return slices.Clone(s.services.live) }
