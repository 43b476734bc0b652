package sources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// write makes files of "name: text" lines.
func write(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, f := range files {
		name, text, _ := strings.Cut(f, ": ")
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "none/a.go: package a", "m/go.mod: module m", "m/lib.go: package m", "m/gen.go: //go:build ignore\n\npackage main",
		"m/server/main.go: package main\n\nfunc main( {", "m/cmd/tool/main.go: package main", "m/deep/er/a.go: package er",
		"top/go.mod: module top", "top/main.go: package main", "top/server/main.go: package main", "lib/go.mod: module lib", "lib/a.go: package lib")
	for _, c := range []struct{ at, pkg, main, wrong string }{
		{"m", "", "m/server", ""},
		{"m/deep/er", "", "m/server", ""},
		{"m/cmd/tool", "", "m/cmd/tool", ""},
		{"m", "./cmd/tool", "m/cmd/tool", ""},
		{"m/deep", "../cmd/tool/", "m/cmd/tool", ""},
		{"none", "../top", "top", ""},
		{"top", "", "top", ""},
		{"top/server", "", "top/server", ""},
		{"lib", "", "", ErrNone.Error()},
		{"none", "", "", ErrNone.Error()},
		{"m", "deep/er", "", "deep/er has no package main"},
		{"m", "nowhere", "", "nowhere has no package main"},
		{"none", ".", "", "is not in a Go module"},
	} {
		p, err := Find(filepath.Join(dir, c.at), c.pkg)
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s %s: %v, want %s", c.at, c.pkg, err, c.wrong)
			}
		case err != nil:
			t.Errorf("%s %s: %v", c.at, c.pkg, err)
		default:
			module := filepath.Join(dir, strings.Split(c.main, "/")[0])
			name := filepath.Base(strings.TrimSuffix(c.main, "/server"))
			if want := (Program{module, filepath.Join(dir, c.main), name}); *p != want {
				t.Errorf("%s %s: %+v, want %+v", c.at, c.pkg, *p, want)
			}
		}
	}
}

// next is Next with a time limit.
func next(t *testing.T, w *Watcher) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	changed, err := w.Next(ctx)
	if err != nil {
		t.Fatalf("nothing seems to change: %v", err)
	}
	return changed
}

// TestWatch: changed, created, renamed and removed files are reported once, and files that are not the
// program's source are not.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "main.go: 1", "views/a.html: 1", "old.go: 1")
	w := Watch(dir)
	others := []string{".git/index: 1", "node_modules/x/a.js: 1", "testdata/a: 1", "main_test.go: 1", ".main.go.swp: 1", "main.go~: 1",
		"data-dev/LOCK: 1", "data-dev/n1/log/1: 1", "vendor/a.go: 1", "bin/prog: 1"}
	write(t, dir, others...)
	write(t, dir, "main.go: 22", "views/new/b.html: 1")
	if err := os.Remove(filepath.Join(dir, "old.go")); err != nil {
		t.Fatal(err)
	}
	want := []string{"main.go", "old.go", filepath.Join("views", "new", "b.html")}
	if got := next(t, w); !slices.Equal(got, want) {
		t.Errorf("changed: %q, want %q", got, want)
	}
	// As many editors do it: a new file in the place of the old one.
	write(t, dir, "views/a.html.new: 1")
	if err := os.Rename(filepath.Join(dir, "views", "a.html.new"), filepath.Join(dir, "views", "a.html")); err != nil {
		t.Fatal(err)
	}
	if got := next(t, w); !slices.Equal(got, []string{filepath.Join("views", "a.html")}) {
		t.Errorf("replaced: %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*Every)
	defer cancel()
	write(t, dir, others...)
	if got, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing has changed, but %q, %v", got, err)
	}
}

// TestSettles: files that come one after the other are one change.
func TestSettles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := Watch(dir)
		go func() {
			for i := range 5 {
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600)
				time.Sleep(Every / 4)
			}
		}()
		if got := next(t, w); len(got) != 5 {
			t.Errorf("the first change has %q", got)
		}
	})
}

// TestMaxFiles: of too many files the first ones are watched, and it is known.
func TestMaxFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a: 1", "b: 1", "c: 1")
	w := watch(dir, 3)
	if w.Over() {
		t.Error("three are too many")
	}
	write(t, dir, "b: 22", "d: 1")
	if got := next(t, w); !slices.Equal(got, []string{"b"}) || !w.Over() {
		t.Errorf("got %q, over %v", got, w.Over())
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	dir := t.TempDir()
	write(t, dir, "go.mod: module m\n\ngo 1.26\n", "server/main.go: package main\n\n// words\nfunc main() { println(1) }\n")
	p, err := Find(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	build := func() [32]byte {
		t.Helper()
		sum, err := p.Build(t.Context(), filepath.Join(dir, "out"), os.Environ())
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := build()
	write(t, dir, "server/main.go: package main\n\n// more words\nfunc main() { println(1) }\n", "README.md: x")
	if build() != first {
		t.Error("with another comment it is another program")
	}
	write(t, dir, "server/main.go: package main\n\nfunc main() { println(2) }\n")
	if build() == first {
		t.Error("another source is the same program")
	}
	write(t, dir, "server/main.go: package main\n\nfunc main() { println(x) }\n")
	_, err = p.Build(t.Context(), filepath.Join(dir, "out"), os.Environ())
	if no, ok := errors.AsType[*Failed](err); !ok || !strings.Contains(no.Output, "main.go:3:23: undefined: x") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = p.Build(ctx, filepath.Join(dir, "out"), os.Environ()); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
