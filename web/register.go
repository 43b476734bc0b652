package web

import (
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
)

// register adds a route. It panics with a text that names the fault and the line.
func (a *App) register(rt *route) {
	if wrong := taken(a.mux, rt); wrong != "" {
		panic(a.conflict(rt, wrong))
	}
	a.routes = append(a.routes, rt)
}

// taken adds rt to mux, and returns the message of the ServeMux if it refuses rt.
func taken(mux *http.ServeMux, rt *route) (wrong string) {
	defer func() {
		if p := recover(); p != nil {
			wrong = fmt.Sprint(p)
		}
	}()
	mux.Handle(rt.pattern, rt)
	return ""
}

// conflict explains why the ServeMux refuses rt with the message wrong.
func (a *App) conflict(rt *route, wrong string) string {
	if malformed := taken(http.NewServeMux(), rt); malformed != "" {
		return fmt.Sprintf("web: the route at %s: %s", rt.at, malformed)
	}
	for _, other := range a.routes {
		mux := http.NewServeMux()
		mux.Handle(other.pattern, other)
		detail := taken(mux, rt)
		switch {
		case detail == "":
		case other.pattern == rt.pattern:
			return fmt.Sprintf("web: %s is registered at %s and at %s", rt.pattern, other.at, rt.at)
		default:
			_, detail, _ = strings.Cut(detail, "\n") // the first line names lines of this package
			return fmt.Sprintf("web: %s at %s conflicts with %s at %s: %s", rt.pattern, rt.at, other.pattern, other.at, detail)
		}
	}
	panic("BUG: no route conflicts: " + wrong)
}

// mustBeginWithSlash panics if path does not.
func mustBeginWithSlash(what, path string) {
	if !strings.HasPrefix(path, "/") {
		panic(fmt.Sprintf("web: %s %q at %s must begin with a /", what, path, caller()))
	}
}

// caller returns the file and line of the program that called a method of Group or App; New adds routes, too.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if f.Function == ownFrames+"New" {
			return "web.New"
		}
		if !more || !strings.HasPrefix(f.Function, ownFrames) {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}
