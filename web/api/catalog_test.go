package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/problem"
)

// failing is a real engine whose calls fail.
type failing struct {
	engine.Engine
	err error
}

func (f *failing) View(context.Context, engine.Read, func(engine.Tx) error) (engine.Position, error) {
	return 0, f.err
}

func (f *failing) Update(context.Context, func(engine.Tx) error) (engine.Position, error) {
	return 0, f.err
}

// TestEveryFailure: whatever the engine says arrives with its code and status,
// and messages that may name files stay inside.
func TestEveryFailure(t *testing.T) {
	f := new(failing)
	s := serveOn(t, api.Options{}, func(e engine.Engine) engine.Engine { f.Engine = e; return f })
	for _, m := range engine.Catalog() {
		f.err = engine.Errorf(m.Code, "secret of /var/lib: %w", context.Canceled)
		checkProblem(t, s.do(t, "GET", "/db/a", nil), m)
		checkProblem(t, s.do(t, "PUT", "/db/a", strings.NewReader("x")), m)
		checkProblem(t, s.do(t, "GET", "/db/", nil), m)
	}
	f.err = fmt.Errorf("secret of a stranger")
	checkProblem(t, s.do(t, "DELETE", "/db/a", nil), engine.Meaning{Code: engine.CodeInternal})
	f.err = fmt.Errorf("wrapped: %w", context.Canceled)
	checkProblem(t, s.do(t, "DELETE", "/db/a", nil), engine.Meaning{Code: problem.CodeCanceled, Retryable: true})
}

func checkProblem(t *testing.T, got answer, want engine.Meaning) {
	t.Helper()
	var p problem.Problem
	if err := json.Unmarshal(got.body, &p); err != nil {
		t.Fatalf("%s: %v: %s", want.Code, err, got.body)
	}
	if got.status != problem.All().Of(want.Code).Status || p.Status != got.status || p.Code != want.Code || p.Retryable != want.Retryable {
		t.Errorf("%s: answered %d with %+v", want.Code, got.status, p)
	}
	if p.Title == "" || p.Detail == "" || p.RequestID == "" || p.RequestID != got.header.Get("X-Request-Id") {
		t.Errorf("%s: something is missing: %+v", want.Code, p)
	}
	if hide := got.status == 500 || got.status == 507 || want.Code == engine.CodeStopped; hide && strings.Contains(string(got.body), "secret") {
		t.Errorf("%s: the response contains what only the log should: %s", want.Code, got.body)
	}
	if retry := got.header.Get("Retry-After") != ""; retry != (got.status == 503 && want.Retryable) {
		t.Errorf("%s: Retry-After is there: %v", want.Code, retry)
	}
}

// TestHTTPDoc: docs/http.md has the routes as the index has them, and every code of HTTP's own;
// -rewrite prints the routes.
func TestHTTPDoc(t *testing.T) {
	const file = "../../docs/http.md"
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := serveProcedures(t, testProcedures(), api.Options{})
	var index struct {
		Resources []struct{ Methods, Path, Text string }
	}
	if err := json.Unmarshal(s.do(t, "GET", "/", nil).body, &index); err != nil || len(index.Resources) == 0 {
		t.Fatalf("%v: %v", index, err)
	}
	var b strings.Builder
	for _, r := range index.Resources {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", r.Methods, r.Path, r.Text)
	}
	const above = "| GET, HEAD | `/` | this list: a page for browsers, JSON for programs |\n"
	head, rest, found := strings.Cut(string(doc), above)
	table, tail, ended := strings.Cut(rest, "\n\n")
	switch {
	case !found || !ended:
		t.Fatalf("%s has no table of routes", file)
	case table+"\n" == b.String():
	case !*rewrite:
		t.Errorf("%s differs from the routes; run this test with -rewrite", file)
	default:
		if err := os.WriteFile(file, []byte(head+above+b.String()+"\n"+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range problem.Catalog() {
		if m.Code != problem.CodeCanceled && !strings.Contains(string(doc), "`"+string(m.Code)+"`") {
			t.Errorf("docs/http.md does not have %s", m.Code)
		}
	}
}
