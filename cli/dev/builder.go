package dev

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/cli/dev/front"
	"github.com/skerrydb/skerry/cli/dev/sources"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/web"
)

// Times of the development loop.
const (
	stillBuilding = 5 * time.Second       // when a build reports that it is still running
	readyEvery    = 20 * time.Millisecond // how often a new program is asked whether it is ready
	frontEnd      = 2 * time.Second       // for the last responses at the end
)

// builder builds a program repeatedly and runs it behind fronts.
type builder struct {
	p       verb.Process
	o       *options
	program *sources.Program
	nodes   []Node
	flags   []string // the user's, for serve
	fronts  map[int]*front.Front
	run     *supervisor
	watcher *sources.Watcher

	built int               // number of successful builds
	sum   [sha256.Size]byte // of the last one

	mu    sync.Mutex     // guards what follows
	file  string         // the running program
	live  []string       // folders that it reads from disk
	since time.Time      // when it was started; zero: it is ready
	ready map[int]func() // by node: ends the wait until it is ready

	mailShown bool // whether the address of the outbox was printed
}

// develop builds and runs the program, and repeats that when its source changes, until ctx ends.
func develop(ctx context.Context, p verb.Process, o *options, program *sources.Program, nodes []Node, flags []string) (err error) {
	o.nodes = len(nodes)
	if len(nodes) > 1 {
		if err := makeCluster(ctx, p, nodes); err != nil {
			return err
		}
	}
	w := &builder{p: p, o: o, program: program, nodes: nodes, flags: flags, fronts: map[int]*front.Front{}, ready: map[int]func(){}}
	w.run = newSupervisor(p, callbacks{command: w.command, up: w.up, down: w.down, failed: w.failed, lines: true, alone: len(nodes) == 1})
	end, err := w.open()
	if err != nil {
		return err
	}
	defer end()
	if err := w.announce(); err != nil {
		return err
	}
	// Watch before reading, to miss no change.
	w.watcher = sources.Watch(program.Module)
	if w.watcher.Over() {
		w.say("%s has more than %d files: changes to some of them will not be noticed", program.Module, sources.MaxFiles)
	}
	defer w.run.stop()
	return w.loop(ctx)
}

// open opens the fronts, where requests wait from now on. end closes them.
func (w *builder) open() (end func(), err error) {
	var servers []*http.Server
	end = func() {
		ctx, cancel := context.WithTimeout(context.Background(), frontEnd)
		defer cancel()
		for _, s := range servers {
			if s.Shutdown(ctx) != nil {
				s.Close()
			}
		}
	}
	for _, n := range w.nodes {
		l, err := net.Listen("tcp", n.HTTP)
		if err != nil {
			end()
			return nil, err
		}
		f := front.New(front.Options{})
		s := web.NewServer(f, verb.Quiet(w.p.Stderr))
		w.fronts[n.ID] = f
		servers = append(servers, s)
		go func() { _ = s.Serve(l) }() // it ends when end closes it
	}
	return end, nil
}

// loop builds, and waits for changes.
func (w *builder) loop(ctx context.Context) error {
	what := "building " + w.place(w.program.Main)
	for {
		if err := w.build(ctx, what); err != nil {
			return w.over(ctx, err)
		}
		for what = ""; what == ""; {
			changed, err := w.watcher.Next(ctx)
			if err != nil {
				return w.over(ctx, err)
			}
			rest := slices.DeleteFunc(slices.Clone(changed), w.isLive)
			if len(rest) == 0 {
				what := "reloaded without a restart"
				if w.run.wake() { // the change may fix what kept the program from starting
					what = "starting again"
				}
				w.say("%s changed: %s", some(changed), what)
				continue
			}
			what = some(rest) + " changed: building"
		}
	}
}

// over returns nil if the end was wanted.
func (w *builder) over(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end was wanted
	}
	return err
}

// some lists files, but not too many.
func some(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// isLive reports whether a file of the module is in a folder that the program reads from disk.
func (w *builder) isLive(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	full := filepath.Join(w.program.Module, name)
	return slices.ContainsFunc(w.live, func(dir string) bool { return strings.HasPrefix(full, dir+string(filepath.Separator)) })
}

// place returns a folder as the user would write it.
func (w *builder) place(dir string) string {
	here, err := os.Getwd()
	if err != nil {
		return dir
	}
	if rel, err := filepath.Rel(here, dir); err == nil && filepath.IsLocal(rel) {
		return "./" + strings.TrimPrefix(filepath.ToSlash(rel), ".")
	}
	return dir
}

func (w *builder) say(format string, args ...any) {
	w.run.mu.Lock() // guards the output
	defer w.run.mu.Unlock()
	fmt.Fprintf(w.p.Stderr, "%s %s\n", w.p.Paint(w.p.Stderr, verb.Cyan, "dev |"), fmt.Sprintf(format, args...))
}

// build builds the program and restarts it if it has changed. It returns only errors that are not faults of
// the source.
func (w *builder) build(ctx context.Context, what string) error {
	w.say("%s", what)
	began := time.Now()
	progress := time.NewTicker(stillBuilding)
	defer progress.Stop()
	file := filepath.Join(w.o.data, "build", fmt.Sprint(w.built%2), w.program.Name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	type result struct {
		sum [sha256.Size]byte
		err error
	}
	if w.built == 0 {
		for _, f := range w.fronts {
			f.Building(w.program.Name, began)
			defer f.Building("", time.Time{})
		}
	}
	done := make(chan result, 1)
	go func() {
		sum, err := w.program.Build(ctx, file, ownSettings(w.p.Environ))
		done <- result{sum, err}
	}()
	for {
		select {
		case <-progress.C:
			first := ""
			if w.built == 0 {
				first = ": the first build compiles everything"
			}
			w.say("still building after %v%s", time.Since(began).Round(time.Second), first)
			continue
		case r := <-done:
			return w.finish(r.sum, r.err, file, time.Since(began).Round(time.Millisecond))
		}
	}
}

// finish handles the outcome of a build.
func (w *builder) finish(sum [sha256.Size]byte, err error, file string, took time.Duration) error {
	if no, ok := errors.AsType[*sources.Failed](err); ok {
		note := "Nothing is running yet."
		if w.built > 0 {
			note = "The last successful build is still running."
		}
		if strings.Contains(no.Output, "missing go.sum entry") || strings.Contains(no.Output, "updates to go.mod needed") {
			note += " Run `go mod tidy` to complete go.mod and go.sum."
		}
		w.say("%s (%v)\n%s", w.p.Paint(w.p.Stderr, verb.Red, "does not build"), took, no)
		w.say("%s", note)
		for _, f := range w.fronts {
			f.Broken(&front.Failure{Title: w.program.Name + " does not build", Text: no.Output, Note: note})
		}
		return nil
	}
	if err != nil {
		return err
	}
	same := w.built > 0 && sum == w.sum
	if !same {
		w.mu.Lock()
		w.file, w.since = file, time.Now()
		w.mu.Unlock()
		w.built++
		w.sum = sum
		for _, f := range w.fronts {
			f.Hold()
		}
	}
	for _, f := range w.fronts {
		f.Broken(nil)
	}
	switch {
	case same && w.run.wake():
		w.say("built in %v: the program is unchanged, starting again", took)
	case same:
		w.say("built in %v: the program is unchanged, nothing to restart", took)
	case w.built == 1:
		w.say("built in %v: starting", took)
		for _, n := range w.nodes {
			w.run.start(n)
		}
	default:
		w.say("built in %v: restarting", took)
		w.run.restart()
	}
	return nil
}
