package proc

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// maxCrashFrames is how many calls deep the stack of a panic is logged.
const maxCrashFrames = 100

// crashed reports that user code panicked, or ended its goroutine if v is nil. It
// is called by the deferred function that recovered.
func (t *Tx) crashed(v any) error {
	t.counts.panics.Add(1)
	def := t.what.Load()
	frames, more := crashFrames()
	attrs := []any{"procedure", def.schema.Name, "at", place(frames, def.pkg())}
	text := "a procedure ended its goroutine; nothing was written"
	if v != nil {
		text = "a procedure panicked; nothing was written"
		attrs = append(attrs, "panic", v)
	}
	t.set.o.Logger.Error(text, append(attrs, "stack", stackText(frames, more))...)
	return engine.Errorf(engine.CodeInternal, "procedure %s failed; the server's log has the details", def.schema.Name)
}

// crashFrames returns the calls from the one that panicked, or ended its goroutine,
// out to the procedure; more says that there are further ones.
func crashFrames() (list []runtime.Frame, more bool) {
	pcs := make([]uintptr, 4*maxCrashFrames) // those of an inner procedure and of deferred calls come on top
	pcs = pcs[:runtime.Callers(0, pcs)]
	entry := procPath() + ".(*typedFrame["
	all := runtime.CallersFrames(pcs)
	inside := false // the frames so far are of how it was found out
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

// place says where in the program it was: at the innermost call that is neither of
// the standard library nor of Skerry, or at the innermost one if there is none.
// own is the package of the procedure.
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

// isProgram reports whether f is neither of the standard library nor of Skerry.
func isProgram(f runtime.Frame, own string) bool {
	pkg := packageOf(f.Function)
	if pkg == own || pkg == "main" {
		return true
	}
	module := strings.TrimSuffix(procPath(), "proc")
	return !strings.HasPrefix(pkg+"/", module) && !isStandard(f, pkg, own)
}

// isStandard reports whether f is of the standard library: its file stands beside
// those of package runtime. A program built with -trimpath has no folders of files;
// there it is a path that begins without a dot, and not as the program's does.
func isStandard(f runtime.Frame, pkg, own string) bool {
	root := goRoot()
	if !strings.HasPrefix(filepath.ToSlash(f.File), root) {
		return false
	}
	first, _, _ := strings.Cut(pkg, "/")
	owns, _, _ := strings.Cut(own, "/")
	return root != "" || !strings.Contains(first, ".") && first != owns
}

// goRoot returns the folder with the standard library, with a slash at the end; ""
// if the program was built without.
func goRoot() string {
	gc := runtime.FuncForPC(reflect.ValueOf(runtime.GC).Pointer())
	file, _ := gc.FileLine(gc.Entry())
	root, _, _ := strings.Cut(filepath.ToSlash(file), "runtime/mgc.go")
	return root
}

// procPath is the import path of this package.
func procPath() string { return reflect.TypeFor[Tx]().PkgPath() }

// pkg is the import path of the package of the procedure's function.
func (d *definition) pkg() string {
	fn := runtime.FuncForPC(reflect.ValueOf(d.fn).Pointer())
	if fn == nil {
		return ""
	}
	return packageOf(fn.Name())
}

// packageOf returns the import path in the name of a function, in which a dot after
// the last slash ends it; those in it are written %2e there.
func packageOf(function string) string {
	if i := strings.IndexByte(function, '['); i >= 0 {
		function = function[:i] // types that a generic one has may hold slashes
	}
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return function[:slash] + strings.ReplaceAll(name, "%2e", ".")
}

// stackText writes frames as the runtime does.
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
