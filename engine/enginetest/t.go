// Package enginetest is the conformance suite of package engine. It has a named case for
// every statement of the contract that a program can check.
//
// It knows only the contract; it must not know any engine, nor package testing, so that a
// test and a command can run the same cases. It skips, by name, the cases for promises that
// an engine does not make.
package enginetest

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

// T is the part of *testing.T that a case needs. Fatalf and Skipf end the case and, like
// those of package testing, may be called only in its own goroutine.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Cleanup(func())
	TempDir() string
	Run(name string, fn func(T)) bool
}

// tester is T as implemented by *testing.T: Run passes on the same concrete type.
type tester[S any] interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Cleanup(func())
	TempDir() string
	Run(name string, fn func(S)) bool
}

// Adapt returns a T for a *testing.T: enginetest.Run(enginetest.Adapt(t), open, …).
func Adapt[S tester[S]](t S) T { return adapted[S]{t} }

type adapted[S tester[S]] struct{ tester[S] }

// Run implements T.
func (a adapted[S]) Run(name string, fn func(T)) bool {
	return a.tester.Run(name, func(t S) { fn(adapted[S]{t}) })
}

// recorder is a T outside of go test. Any goroutine may report errors.
type recorder struct {
	mu       sync.Mutex // guards the fields below
	log      []string
	failed   bool
	skipped  bool
	cleanups []func()
}

// record runs fn as a case and returns when its clean-up is done.
func record(fn func(T)) *recorder {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.clean()
		defer r.recover()
		fn(r)
	}()
	<-done
	return r
}

func (r *recorder) recover() {
	if v := recover(); v != nil {
		stack := make([]byte, 8<<10)
		r.Errorf("panic: %v\n%s", v, stack[:runtime.Stack(stack, false)])
	}
}

// clean runs the clean-up functions, the last first. Each may end itself with Fatalf.
func (r *recorder) clean() {
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer r.recover()
			last()
		}()
		<-done
	}
}

// Helper implements T.
func (r *recorder) Helper() {}

// Logf implements T.
func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// Errorf implements T.
func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

// Fatalf implements T.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf implements T.
func (r *recorder) Skipf(format string, args ...any) {
	r.Logf(format, args...)
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

// Cleanup implements T.
func (r *recorder) Cleanup(fn func()) { r.cleanups = append(r.cleanups, fn) }

// TempDir implements T.
func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "skerry-conform-")
	if err != nil {
		r.Fatalf("make a temporary folder: %v", err)
	}
	r.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			r.Errorf("remove the temporary folder: %v", err)
		}
	})
	return dir
}

// Run implements T. A case of this suite has no sub-cases.
func (r *recorder) Run(name string, fn func(T)) bool {
	sub := record(fn)
	for _, line := range sub.log {
		r.Logf("%s: %s", name, line)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || sub.failed
	return !sub.failed
}
