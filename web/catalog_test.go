package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// everyCode is what docs/errors.md lists: the engine's codes and HTTP's own.
func everyCode() []engine.Meaning {
	all := append(engine.Catalog(), web.Catalog()...)
	slices.SortFunc(all, func(a, b engine.Meaning) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return all
}

// TestStatuses: every code has a status that says it is an error, and no code
// is in both catalogs.
func TestStatuses(t *testing.T) {
	seen := map[engine.Code]bool{}
	for _, m := range everyCode() {
		if seen[m.Code] {
			t.Errorf("%s is in the catalogs twice", m.Code)
		}
		seen[m.Code] = true
		status, known := web.Statuses()[m.Code]
		if !known || status != web.Status(m.Code) || status < 400 || status > 599 {
			t.Errorf("%s: status %d, known %v", m.Code, status, known)
		}
		if (status == http.StatusServiceUnavailable) != m.Retryable && m.Code != engine.CodeStopped && status == http.StatusServiceUnavailable {
			t.Errorf("%s: 503 says to try again, the catalog says not to", m.Code)
		}
	}
	for code := range web.Statuses() {
		if !seen[code] {
			t.Errorf("%s has a status but is in no catalog", code)
		}
	}
	if got := web.Status("from the future"); got != http.StatusInternalServerError {
		t.Errorf("an unknown code is %d", got)
	}
	if !slices.IsSortedFunc(web.Catalog(), func(a, b engine.Meaning) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
		t.Error("web.Catalog is not sorted")
	}
}

// TestErrorsDoc holds docs/errors.md against the catalogs; -rewrite prints it.
func TestErrorsDoc(t *testing.T) {
	const file = "../docs/errors.md"
	var b strings.Builder
	b.WriteString(`# Error codes

Every failure has a code. Codes are part of the API: none is ever renamed or given another meaning.
Over HTTP the code is in the problem answer ([http.md](http.md#errors)). "Retry" means that the same
request may succeed later and that nothing was written.

This page is printed from the code: ` + "`go test ./web -run TestErrorsDoc -rewrite`" + `.

| code | HTTP status | retry | meaning |
|---|---|---|---|
`)
	for _, m := range everyCode() {
		retry := ""
		if m.Retryable {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", m.Code, web.Status(m.Code), retry, m.Text)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the catalogs say; run this test with -rewrite", file)
	}
}

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
	s := serveOn(t, web.Options{}, func(e engine.Engine) engine.Engine { f.Engine = e; return f })
	for _, m := range engine.Catalog() {
		f.err = engine.Errorf(m.Code, "secret of /var/lib: %w", context.Canceled)
		checkProblem(t, s.do(t, "GET", "/db/a", nil), m)
		checkProblem(t, s.do(t, "PUT", "/db/a", strings.NewReader("x")), m)
		checkProblem(t, s.do(t, "GET", "/db/", nil), m)
	}
	f.err = fmt.Errorf("secret of a stranger")
	checkProblem(t, s.do(t, "DELETE", "/db/a", nil), engine.Meaning{Code: engine.CodeInternal})
	f.err = fmt.Errorf("wrapped: %w", context.Canceled)
	checkProblem(t, s.do(t, "DELETE", "/db/a", nil), engine.Meaning{Code: web.CodeCanceled, Retryable: true})
}

func checkProblem(t *testing.T, got answer, want engine.Meaning) {
	t.Helper()
	var p web.Problem
	if err := json.Unmarshal(got.body, &p); err != nil {
		t.Fatalf("%s: %v: %s", want.Code, err, got.body)
	}
	if got.status != web.Status(want.Code) || p.Status != got.status || p.Code != want.Code || p.Retryable != want.Retryable {
		t.Errorf("%s: answered %d with %+v", want.Code, got.status, p)
	}
	if p.Title == "" || p.Detail == "" || p.RequestID == "" || p.RequestID != got.header.Get("X-Request-Id") {
		t.Errorf("%s: something is missing: %+v", want.Code, p)
	}
	if hide := got.status == 500 || got.status == 507 || want.Code == engine.CodeStopped; hide && strings.Contains(string(got.body), "secret") {
		t.Errorf("%s: the answer tells what only the log should: %s", want.Code, got.body)
	}
	if retry := got.header.Get("Retry-After") != ""; retry != (got.status == 503 && want.Retryable) {
		t.Errorf("%s: Retry-After is there: %v", want.Code, retry)
	}
}

// TestHTTPDoc: docs/http.md names every resource of the index and every code of HTTP's own.
func TestHTTPDoc(t *testing.T) {
	doc, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, web.Options{})
	var index struct{ Resources []struct{ Path string } }
	if err := json.Unmarshal(s.do(t, "GET", "/", nil).body, &index); err != nil || len(index.Resources) == 0 {
		t.Fatalf("%v: %v", index, err)
	}
	for _, r := range index.Resources {
		if path, _, _ := strings.Cut(r.Path, "?"); !strings.Contains(string(doc), "`"+path+"`") {
			t.Errorf("docs/http.md does not have %s", path)
		}
	}
	for _, m := range web.Catalog() {
		if m.Code != web.CodeCanceled && !strings.Contains(string(doc), "`"+string(m.Code)+"`") {
			t.Errorf("docs/http.md does not have %s", m.Code)
		}
	}
}
