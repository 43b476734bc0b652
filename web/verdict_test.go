package web_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// reports are the faults that an application has reported.
type reports []web.Fault

func (r *reports) Report(f web.Fault) { *r = append(*r, f) }

// TestVerdicts: a code of the program's own is a refusal with its text, a lost leader is not a fault of the
// program, and a panic is.
func TestVerdicts(t *testing.T) {
	var faults reports
	var detail string
	s := serve(t, web.Options{Faults: &faults}, func(a *web.App) {
		a.Post("/own", func(c *web.Context) error {
			err := engine.Errorf("too_many_votes", "you have voted")
			detail = c.Detail(err)
			return err
		})
		a.Post("/lost", func(*web.Context) error { return engine.Errorf(engine.CodeOutcomeUnknown, "secret") })
		a.Post("/wrong", func(*web.Context) error { return web.Wrong("/age", "is too much") })
		a.Post("/panic", func(*web.Context) error { panic("secret") })
		a.Get("/next", func(c *web.Context) error { return c.RedirectOr(c.Query("next").String(), "/home") })
	})
	if got := s.do("POST", "/own", ""); got.status != 422 || !strings.Contains(got.body, `"code":"too_many_votes","detail":"you have voted"`) || detail != "you have voted" {
		t.Errorf("a code of its own: %+v, detail %q", got, detail)
	}
	if got := s.do("POST", "/lost", ""); got.status != 500 || strings.Contains(got.body, "secret") {
		t.Errorf("an unknown outcome: %+v", got)
	}
	if len(faults) != 0 {
		t.Errorf("reported %v", faults)
	}
	if s.do("POST", "/panic", ""); len(faults) != 1 || faults[0].Route != "POST /panic" || faults[0].Stack == nil {
		t.Errorf("a panic: reported %v", faults)
	}
	if got := s.do("POST", "/wrong", "", "Accept", "text/html"); strings.Count(got.body, "is too much") != 1 {
		t.Errorf("a page about one fault: %s", got.body)
	}
	for next, want := range map[string]string{"/a?b=c": "/a?b=c", "//evil.example": "/home", "https://evil.example": "/home", `/\evil.example`: "/home", "": "/home",
		// net/http cleans the path: /./\evil would become /\evil, which browsers take for another host.
		`/./\evil.example`: "/home", `/a/../\evil.example`: "/home", `/#/../\evil.example`: "/home", `/a\b`: "/home", `/a?b=\c`: `/a?b=\c`} {
		r := s.do("GET", "/next?next="+strings.NewReplacer("?", "%3F", "\\", "%5C", "#", "%23").Replace(next), "")
		if got := r.header.Get("Location"); r.status != 303 || got != want {
			t.Errorf("next %q: %d to %q, want %q", next, r.status, got, want)
		}
	}
}
