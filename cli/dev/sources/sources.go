// Package sources watches the source of a Go program and builds it.
//
// It knows files, folders and the go command; it must not know what the program
// does, or who runs it.
package sources

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/build"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrNone is the error of Find if there is no program.
var ErrNone = errors.New("there is no Go program here")

// Program is the location of a program's source.
type Program struct {
	Module string // the folder with go.mod
	Main   string // the folder of package main, in Module
	Name   string // of Main's folder, or of its parent if that is named server: the name of the program's file
}

// Find returns the program in pkg, a folder relative to dir. If pkg is "", Find tries dir, its folder server,
// the module's folder and the folder server in that, and takes the first with a package main. The resulting
// paths are absolute.
func Find(dir, pkg string) (*Program, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	module := moduleOf(dir)
	try := []string{dir, filepath.Join(dir, "server")}
	if pkg != "" {
		main := pkg
		if !filepath.IsAbs(pkg) {
			main = filepath.Join(dir, pkg)
		}
		module, try = moduleOf(main), []string{filepath.Clean(main)}
	} else if module != "" {
		try = append(try, module, filepath.Join(module, "server"))
	}
	if module == "" && pkg != "" {
		return nil, fmt.Errorf("%s is not in a Go module: there is no go.mod in it or above it", pkg)
	}
	for _, main := range try {
		if module != "" && isMain(main) {
			name := filepath.Base(main)
			if name == "server" {
				name = filepath.Base(filepath.Dir(main))
			}
			return &Program{Module: module, Main: main, Name: name}, nil
		}
	}
	if pkg != "" {
		return nil, fmt.Errorf("%s has no package main", pkg)
	}
	return nil, ErrNone
}

// moduleOf returns the folder with go.mod that contains dir, or "".
func moduleOf(dir string) string {
	for {
		if info, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && !info.IsDir() {
			return dir
		}
		if filepath.Dir(dir) == dir {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// isMain reports whether a folder has a package main, even one that does not compile.
func isMain(dir string) bool {
	p, _ := build.ImportDir(dir, 0) // the compiler reports what is wrong with it
	return p != nil && p.Name == "main"
}

// Failed is the error of Build if the source does not compile.
type Failed struct{ Output string }

func (f *Failed) Error() string { return strings.TrimRight(f.Output, "\n") }

// buildEnd is how long a stopped build may take to end by itself.
const buildEnd = 5 * time.Second

// maxOutput bounds the compiler output that is kept, in bytes.
const maxOutput = 256 << 10

// Build builds the program into a file and returns a hash of it: equal hashes mean equal programs. It fails
// with a *Failed, with ctx's error, or if there is no go command.
func (p *Program) Build(ctx context.Context, file string, environ []string) (sum [sha256.Size]byte, err error) {
	rel, err := filepath.Rel(p.Module, p.Main)
	if err != nil {
		return sum, err
	}
	// Without information about the repository and the hash of all source, the result depends on the code
	// alone: a changed comment changes nothing.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-buildid=", "-o", file, "./"+filepath.ToSlash(rel))
	cmd.Dir, cmd.Env = p.Module, environ
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it stops its compilers too
	cmd.WaitDelay = buildEnd
	var out limited
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return sum, ctx.Err()
		}
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return sum, &Failed{cmp.Or(out.String(), "go build: "+err.Error())}
		}
		return sum, fmt.Errorf("build: %w", err)
	}
	f, err := os.Open(file)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// limited keeps the first maxOutput bytes.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), maxOutput-l.Len())])
	return len(p), nil
}
