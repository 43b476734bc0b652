package proc

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// maxCrashFrames is the maximum number of stack frames that are logged for a panic.
const maxCrashFrames = 100

// crashed returns the error for user code that panicked or, if v is nil, ended its
// goroutine. The deferred function that recovered calls it.
func (t *Tx) crashed(v any) error {
	t.counts.panics.Add(1)
	def := t.what.Load()
	text := "a procedure ended its goroutine; nothing was written"
	if v != nil {
		text = "a procedure panicked; nothing was written"
	}
	t.set.logCrash(def, text, v)
	return engine.Errorf(engine.CodeInternal, "procedure %s failed; the server's log has the details", def.schema.Name)
}

// logCrash logs that user code of def panicked with v or, if v is nil, ended its goroutine.
func (s *Set) logCrash(def *definition, text string, v any) {
	frames, more := crashFrames()
	attrs := []any{"procedure", def.schema.Name, "at", place(frames, def.pkg())}
	if v != nil {
		attrs = append(attrs, "panic", v)
	}
	s.o.Logger.Error(text, append(attrs, "stack", stackText(frames, more))...)
}

// crashFrames returns the stack frames from the one that panicked, or ended its goroutine,
// to the procedure or hint. more means that there are further frames.
func crashFrames() (list []runtime.Frame, more bool) {
	pcs := make([]uintptr, 4*maxCrashFrames) // an inner procedure and deferred calls add frames
	pcs = pcs[:runtime.Callers(0, pcs)]
	entry := procPath() + ".(*typedFrame["
	all := runtime.CallersFrames(pcs)
	inside := false // the frames so far belong to the recovery
	for {
		f, next := all.Next()
		switch {
		case f.Function == "":
			return list, false
		case !inside:
			inside = f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit"
		case strings.HasPrefix(f.Function, entry):
			return list, false
		case len(list) == 0 && packageOf(f.Function) == "runtime": // what turns a fault into a panic
		case len(list) == maxCrashFrames:
			return list, true
		default:
			list = append(list, f)
		}
		if !next {
			return list, false
		}
	}
}

// place returns the position in the program: the innermost frame that is neither in the
// standard library nor in Skerry, or else the innermost frame. own is the package of the
// procedure.
func place(frames []runtime.Frame, own string) string {
	if len(frames) == 0 {
		return ""
	}
	at := frames[0]
	for _, f := range frames {
		if isProgram(f, own) {
			at = f
			break
		}
	}
	return fmt.Sprintf("%s:%d (%s)", at.File, at.Line, at.Function)
}

// isProgram reports whether f is neither in the standard library nor in Skerry.
func isProgram(f runtime.Frame, own string) bool {
	pkg := packageOf(f.Function)
	if pkg == own || pkg == "main" {
		return true
	}
	module := strings.TrimSuffix(procPath(), "proc")
	return !strings.HasPrefix(pkg+"/", module) && !isStandard(f, pkg, own)
}

// isStandard reports whether f is in the standard library: its file is under the same root
// as package runtime. In a program built with -trimpath, file names have no root; there, it
// checks that the first path element has no dot and differs from the program's.
func isStandard(f runtime.Frame, pkg, own string) bool {
	root := goRoot()
	if !strings.HasPrefix(filepath.ToSlash(f.File), root) {
		return false
	}
	first, _, _ := strings.Cut(pkg, "/")
	owns, _, _ := strings.Cut(own, "/")
	return root != "" || !strings.Contains(first, ".") && first != owns
}

// goRoot returns the root directory of the standard library with a trailing slash, or "" if
// the program was built with -trimpath.
func goRoot() string {
	gc := runtime.FuncForPC(reflect.ValueOf(runtime.GC).Pointer())
	file, _ := gc.FileLine(gc.Entry())
	root, _, _ := strings.Cut(filepath.ToSlash(file), "runtime/mgc.go")
	return root
}

// procPath returns the import path of this package.
func procPath() string { return reflect.TypeFor[Tx]().PkgPath() }

// pkg returns the import path of the package of the procedure's function.
func (d *definition) pkg() string {
	fn := runtime.FuncForPC(reflect.ValueOf(d.fn).Pointer())
	if fn == nil {
		return ""
	}
	return packageOf(fn.Name())
}

// packageOf returns the import path in a function's name. It ends at the first dot after
// the last slash; dots in the last element are written as %2e.
func packageOf(function string) string {
	if i := strings.IndexByte(function, '['); i >= 0 {
		function = function[:i] // type arguments may contain slashes
	}
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return function[:slash] + strings.ReplaceAll(name, "%2e", ".")
}

// stackText formats frames in the style of the runtime.
func stackText(frames []runtime.Frame, more bool) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	if more {
		b.WriteString("…\n")
	}
	return b.String()
}
