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

// others are the catalogs above the engine.
func others() [][]engine.Meaning {
	return [][]engine.Meaning{auth.Catalog(), oidc.Catalog(), mail.Catalog(), session.Catalog(), view.Catalog()}
}

// everyCode is what docs/errors.md lists: the engine's codes, HTTP's own, and those of
// what applications are made with.
func everyCode() []engine.Meaning {
	all := append(engine.Catalog(), problem.Catalog()...)
	for _, catalog := range others() {
		all = append(all, catalog...)
	}
	slices.SortFunc(all, func(a, b engine.Meaning) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return all
}

// TestStatuses: every code has a kind that has a status, and no code is in two catalogs.
func TestStatuses(t *testing.T) {
	all, seen := problem.All(others()...), map[engine.Code]bool{}
	for _, m := range everyCode() {
		if seen[m.Code] {
			t.Errorf("%s is in the catalogs twice", m.Code)
		}
		seen[m.Code] = true
		o := all.Of(m.Code)
		if o.Meaning != m || o.Status < 400 || o.Status > 599 {
			t.Errorf("%s: the outcome is %+v, the catalog has %+v", m.Code, o, m)
		}
		if internal := m.Kind == engine.KindInternal || m.Kind == engine.KindUnknownOutcome; internal != (o.Status == http.StatusInternalServerError) {
			t.Errorf("%s: kind %q has status %d: is it in the map?", m.Code, m.Kind, o.Status)
		}
		final := m.Code == engine.CodeStopped || m.Code == problem.CodeTimeout // which cannot know what was done
		if o.Status == http.StatusServiceUnavailable && !m.Retryable && !final {
			t.Errorf("%s: 503 says to try again, the catalog says not to", m.Code)
		}
	}
	if len(all) != len(seen) {
		t.Errorf("%d codes have outcomes, the catalogs have %d", len(all), len(seen))
	}
	if got := all.Of("from the future"); got.Code != engine.CodeInternal || got.Status != http.StatusInternalServerError {
		t.Errorf("an unknown code is %+v", got)
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
	all := problem.All(others()...)
	var b strings.Builder
	b.WriteString(`# Error codes

Every failure has a code. Codes are part of the API: a code is never renamed and never changes its meaning.
HTTP reports the code in a problem answer ([http.md](http.md#errors)), RESP in brackets at the end of the error
([redis.md](redis.md)). The kind of a code decides its HTTP status and the first word of a RESP error. "Retry" means
that nothing was written and the same request may succeed later.

This page is printed from the code: ` + "`go test ./web/problem -run TestErrorsDoc -rewrite`" + `.

| code | kind | HTTP status | retry | meaning |
|---|---|---|---|---|
`)
	for _, m := range everyCode() {
		retry := ""
		if m.Retryable {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %s | %s |\n", m.Code, m.Kind, all.Of(m.Code).Status, retry, m.Text)
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
