package skerry

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// Files returns one folder of the files that a program brings along, with the
// names in it: its pages, or its assets. They are those of embedded, which go:embed
// has filled, or, while the program is developed (Source is set), those on disk, as
// they are whenever they are opened. On disk the folder is looked for in Source, and
// then in the folders above it, up to the one with go.mod.
//
// If there is no such folder in embedded, everything that is opened fails and says
// so. Files must only be called while the application is made.
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

// findSource looks for dir in source and above it; "" means that it is nowhere, or
// that there is no source.
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

// noFiles fails whatever is opened.
type noFiles struct{ err error }

// Open implements fs.FS.
func (n noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: n.err}
}

// Live returns the folders that the application reads as they are now, because
// Web.Source is set: a change in them needs no restart.
func (s *Server) Live() []string { return slices.Clone(s.services.live) }
