package problem_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/view"
)

var rewrite = flag.Bool("rewrite", false, "print docs/errors.md anew")

// everyCode is what docs/errors.md lists: the engine's codes, HTTP's own, and those of
// what applications are made with.
func everyCode() []engine.Meaning {
	all := append(engine.Catalog(), problem.Catalog()...)
	for _, others := range [][]engine.Meaning{auth.Catalog(), oidc.Catalog(), mail.Catalog(), session.Catalog(), view.Catalog()} {
		all = append(all, others...)
	}
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
		o, known := problem.All()[m.Code]
		status := o.Status
		if o.Meaning != m {
			t.Errorf("%s: told as %+v, the catalog has %+v", m.Code, o.Meaning, m)
		}
		if !known || status != problem.Status(m.Code) || status < 400 || status > 599 {
			t.Errorf("%s: status %d, known %v", m.Code, status, known)
		}
		final := m.Code == engine.CodeStopped || m.Code == problem.CodeTimeout // which cannot know what was done
		if status == http.StatusServiceUnavailable && !m.Retryable && !final {
			t.Errorf("%s: 503 says to try again, the catalog says not to", m.Code)
		}
	}
	for code := range problem.All() {
		if !seen[code] {
			t.Errorf("%s has a status but is in no catalog", code)
		}
	}
	if got := problem.Status("from the future"); got != http.StatusInternalServerError {
		t.Errorf("an unknown code is %d", got)
	}
	if problem.CodeRateLimited != auth.CodeRateLimited {
		t.Errorf("auth's rate limit is %q, HTTP's %q", auth.CodeRateLimited, problem.CodeRateLimited)
	}
	if !slices.IsSortedFunc(problem.Catalog(), func(a, b engine.Meaning) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
		t.Error("problem.Catalog is not sorted")
	}
}

// TestErrorsDoc holds docs/errors.md against the catalogs; -rewrite prints it.
func TestErrorsDoc(t *testing.T) {
	const file = "../../docs/errors.md"
	var b strings.Builder
	b.WriteString(`# Error codes

Every failure has a code. Codes are part of the API: none is ever renamed or given another meaning.
Over HTTP the code is in the problem answer ([http.md](http.md#errors)). "Retry" means that the same
request may succeed later and that nothing was written.

This page is printed from the code: ` + "`go test ./web/problem -run TestErrorsDoc -rewrite`" + `.

| code | HTTP status | retry | meaning |
|---|---|---|---|
`)
	for _, m := range everyCode() {
		retry := ""
		if m.Retryable {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", m.Code, problem.Status(m.Code), retry, m.Text)
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
