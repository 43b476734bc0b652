package sources

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits and times of a Watcher.
const (
	// MaxFiles is the maximum number of files that are watched; any others are
	// ignored.
	MaxFiles = 20_000
	// Every is how often files are checked, unless a check takes long: checks never take more than a tenth of
	// the time.
	Every = 200 * time.Millisecond
	// maxSettle is how long to wait at most until files stop changing.
	maxSettle = 2 * time.Second
)

// skipped are folders that do not contain the program's source.
var skipped = []string{"node_modules", "testdata", "vendor", "bin"}

// stamp is the state of a file without its contents.
type stamp struct {
	time time.Time
	size int64
}

// Watcher finds changed files below a folder by polling, which works on every file system and with every
// editor. It ignores names that begin with a dot, tests, and data folders. It must be used by one goroutine.
type Watcher struct {
	dir  string
	max  int // files
	last map[string]stamp
	over bool
	took time.Duration // duration of the last check
}

// Watch begins to watch the files below dir.
func Watch(dir string) *Watcher {
	return watch(dir, MaxFiles)
}

func watch(dir string, most int) *Watcher {
	w := &Watcher{dir: dir, max: most}
	w.last = w.look()
	return w
}

// Over reports whether there are more than MaxFiles, so that some are not watched.
func (w *Watcher) Over() bool { return w.over }

// Next waits until files have changed, appeared or disappeared since Watch or the last Next, and then until
// they stop changing. It returns their sorted paths, relative to dir. The error is ctx's.
func (w *Watcher) Next(ctx context.Context) ([]string, error) {
	now, err := w.lookNext(ctx)
	for err == nil && maps.Equal(now, w.last) {
		now, err = w.lookNext(ctx)
	}
	for end := time.Now().Add(maxSettle); err == nil && time.Now().Before(end); {
		var again map[string]stamp
		if again, err = w.lookNext(ctx); err == nil && maps.Equal(now, again) {
			break
		}
		now = again
	}
	if err != nil {
		return nil, err
	}
	var changed []string
	for name, s := range now {
		if before, ok := w.last[name]; !ok || before != s {
			changed = append(changed, name)
		}
	}
	for name := range w.last {
		if _, ok := now[name]; !ok {
			changed = append(changed, name)
		}
	}
	w.last = now
	if changed == nil { // a file appeared and disappeared
		return w.Next(ctx)
	}
	slices.Sort(changed)
	return changed, nil
}

// lookNext checks again, after a pause.
func (w *Watcher) lookNext(ctx context.Context) (map[string]stamp, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(max(Every, 10*w.took)):
	}
	return w.look(), nil
}

// look reads the stamps of all files. It ignores files that it cannot read.
func (w *Watcher) look() map[string]stamp {
	began := time.Now()
	found := make(map[string]stamp, len(w.last))
	w.over = false
	w.below("", found)
	w.took = time.Since(began)
	return found
}

func (w *Watcher) below(rel string, found map[string]stamp) {
	dir := filepath.Join(w.dir, rel)
	entries, err := os.ReadDir(dir)
	if err != nil || rel != "" && isData(entries) {
		return
	}
	for _, e := range entries {
		name := filepath.Join(rel, e.Name())
		if leftOut(e) {
			continue
		}
		if e.IsDir() {
			w.below(name, found)
			continue
		}
		if len(found) >= w.max {
			w.over = true
			return
		}
		info, err := os.Stat(filepath.Join(w.dir, name)) // of the target of a link
		if err == nil && info.Mode().IsRegular() {
			found[name] = stamp{info.ModTime(), info.Size()}
		}
	}
}

// leftOut reports whether an entry is not part of the program's source.
func leftOut(e fs.DirEntry) bool {
	name := e.Name()
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, "_test.go") {
		return true
	}
	return e.IsDir() && slices.Contains(skipped, name)
}

// isData reports whether a folder is a server's data folder, which changes all the time.
func isData(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "LOCK" && !e.IsDir() })
}
