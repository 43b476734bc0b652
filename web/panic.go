package web

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// panicError is a handler's panic.
type panicError struct {
	value any
	stack []byte // from where it panicked, outwards
	place string // the function and line of the program that panicked, "": unknown
}

// ownFrames is the prefix of this package's functions.
const ownFrames = "github.com/skerrydb/skerry/web."

// newPanicError makes a panicError from the results of recover and, in the same deferred function,
// debug.Stack.
func newPanicError(value any, stack []byte) *panicError {
	head, frames := framesOf(stack)
	std := "" // the folder of Go's own packages; "" with -trimpath
	for i, f := range frames {
		if strings.HasPrefix(f.function, "panic(") || strings.HasPrefix(f.function, "runtime.Goexit(") {
			std, _, _ = strings.Cut(f.file, "runtime/panic.go:")
			frames = frames[i+1:]
			break
		}
	}
	for len(frames) > 0 && strings.HasPrefix(frames[0].function, "runtime.") { // frames of a nil pointer dereference
		frames = frames[1:]
	}
	e := &panicError{value: value}
	out := bytes.NewBufferString(head + "\n")
	for _, f := range frames {
		fmt.Fprintf(out, "%s\n\t%s\n", f.function, f.file)
		if e.place == "" && !strings.HasPrefix(f.function, ownFrames) && !f.standard(std) {
			e.place = f.place()
		}
	}
	e.stack = out.Bytes()
	return e
}

// Error implements error.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the error that the panic was called with, if it was one.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// frame is one function of a stack.
type frame struct{ function, file string }

// standard reports whether the frame is of Go's own packages, which are in the folder root. With -trimpath, root
// is "" and files begin with their import path; only in Go's own packages and in the main module can its first
// element be without a dot.
func (f frame) standard(root string) bool {
	if root != "" || filepath.IsAbs(f.file) {
		return root != "" && strings.HasPrefix(f.file, root)
	}
	first, _, _ := strings.Cut(f.file, "/")
	info, ok := debug.ReadBuildInfo()
	return ok && !strings.Contains(first, ".") && !strings.HasPrefix(f.file, info.Main.Path+"/")
}

// framesOf splits the output of debug.Stack into its first line and the frames.
func framesOf(stack []byte) (head string, frames []frame) {
	head, rest, _ := strings.Cut(string(stack), "\n")
	lines := strings.Split(rest, "\n")
	for i := 0; i+1 < len(lines); i++ {
		if file, ok := strings.CutPrefix(lines[i+1], "\t"); ok {
			frames = append(frames, frame{lines[i], file})
			i++
		}
	}
	return head, frames
}

// place formats the frame for people: its function, and the file without its folders.
func (f frame) place() string {
	name := f.function
	if i := strings.LastIndexByte(name, '('); i > 0 {
		name = name[:i]
	}
	at, _, _ := strings.Cut(f.file, " +0x")
	return fmt.Sprintf("%s (%s)", name, at[strings.LastIndexByte(at, '/')+1:])
}
