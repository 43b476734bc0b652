package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// panics are handlers that panic, with the expected text and whether the place is in Go's own packages or this
// one, beneath the program's function.
func panics(line *int) map[string]web.Handler {
	here := func() { _, _, *line, _ = runtime.Caller(1) }
	return map[string]web.Handler{
		"/value": func(*web.Context) error { here(); panic("own value") },
		"/nil":   func(*web.Context) error { var c *web.Context; here(); return c.Request.Context().Err() },
		"/index": func(c *web.Context) error { here(); return []error{}[len(c.Route())] },
		"/std":   func(*web.Context) error { here(); return errors.New(strings.Repeat("x", -len("x"))) },
		"/web":   func(c *web.Context) error { here(); c.Session(); return nil },
	}
}

// TestPanicInDebugMode: the page names the place of the panic, and its stack begins there; without debug mode
// neither is shown.
func TestPanicInDebugMode(t *testing.T) {
	for _, debug := range []bool{true, false} {
		line := 0
		var faults reports
		s := serve(t, web.Options{Debug: debug, Faults: &faults}, func(a *web.App) {
			for path, h := range panics(&line) {
				a.Get(path, h)
			}
		})
		for path := range panics(&line) {
			page := s.do("GET", path, "", "Accept", "text/html").body
			place := fmt.Sprintf("(panic_test.go:%d)", line)
			if strings.Contains(page, place+"</code>") != debug || strings.Contains(page, "panic_test.go") != debug {
				t.Errorf("debug %v: %s, %s:\n%s", debug, path, place, page)
			}
			stack := string(faults[len(faults)-1].Stack)
			first := strings.Split(stack, "\n")[1]
			if !strings.HasPrefix(stack, "goroutine ") || strings.Contains(stack, "debug.Stack") || strings.Contains(stack, "recovered") || strings.HasPrefix(first, "runtime.") || strings.HasPrefix(first, "panic(") {
				t.Errorf("%s: the stack begins with %s:\n%s", path, first, stack)
			}
			if problem := s.do("GET", path, "").body; strings.Contains(problem, place+`"`) != debug {
				t.Errorf("debug %v: %s: the problem is %s", debug, path, problem)
			}
		}
	}
}

// TestCauseInDebugMode: programs get the cause in debug mode only, cleaned; and the public text about a broken
// view does not mention that it names the place.
func TestCauseInDebugMode(t *testing.T) {
	for _, debug := range []bool{true, false} {
		s := serve(t, web.Options{Debug: debug}, func(a *web.App) {
			a.Get("/hidden", func(*web.Context) error { return fmt.Errorf("the \x1bdisk is gone") })
			a.Get("/view", func(*web.Context) error { return engine.Errorf("view_failed", "home.html:3: secret") })
		})
		if got := s.do("GET", "/hidden", ""); got.status != http.StatusInternalServerError || strings.Contains(got.body, `"cause":"the �disk is gone"`) != debug || strings.Contains(got.body, "disk") != debug {
			t.Errorf("debug %v: %s", debug, got.body)
		}
		got := s.do("GET", "/view", "").body
		if strings.Contains(got, "home.html:3") != debug || !regexp.MustCompile(`"detail":"[^"]*the log names file and line"`).MatchString(got) {
			t.Errorf("debug %v: %s", debug, got)
		}
	}
}
