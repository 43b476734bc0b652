package problem_test

import (
	"errors"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// withStatus is an error of somebody else's type.
type withStatus int

func (e withStatus) Error() string   { return "its text" }
func (e withStatus) HTTPStatus() int { return int(e) }

// TestWithStatus: the error's own status is used if it is an error status; its text is public unless it may be
// secret.
func TestWithStatus(t *testing.T) {
	all := problem.All()
	for _, c := range []struct {
		err    error
		status int
		code   engine.Code
		detail string
	}{
		{withStatus(410), 410, "gone", "its text"}, {fmt.Errorf("around: %w", withStatus(418)), 418, "im_a_teapot", "its text"},
		{withStatus(499), 499, "client_closed_request", "its text"}, {withStatus(599), 599, "server_error", "its text"},
		{withStatus(500), 500, "internal_server_error", "internal server error"}, {withStatus(507), 507, "insufficient_storage", "insufficient storage"},
		{withStatus(200), 500, "internal", "a fault in the program; details are in the server's log"}, {withStatus(0), 500, "internal", "a fault in the program; details are in the server's log"},
		{errors.Join(withStatus(404), engine.Errorf(engine.CodeConflict, "text")), 404, engine.CodeConflict, "text"},
	} {
		p := all.Describe(c.err)
		if p.Status != c.status || p.Code != c.code || p.Detail != c.detail || p.Title == "" {
			t.Errorf("%#v: %+v", c.err, p)
		}
	}
}

// TestClean: the text of a problem can be shown anywhere, and the original error is unchanged.
func TestClean(t *testing.T) {
	for in, want := range map[string]string{"plain ä 漢": "plain ä 漢", "a\nb\tc": "a b c", "\x1b[1m\x00\x7f\u0085\u202e\u2066\u2028": "�[1m������", "\xff": "�"} {
		if got := problem.Clean(in); got != want || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	f := problem.Faults{{Parameter: "ok", Code: engine.CodeInvalid, Detail: "fine"}, {Pointer: "/a\x00", Code: engine.CodeInvalid, Detail: "b\x1b"}}
	p := problem.All().Describe(f)
	if p.Errors[1].Pointer != "/a�" || p.Errors[1].Detail != "b�" || p.Errors[0] != f[0] || f[1].Detail != "b\x1b" {
		t.Errorf("%+v of %+v", p.Errors, f)
	}
}
