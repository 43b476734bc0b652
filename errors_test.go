package skerry_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/view"
)

// errorCatalogs are all catalogs besides those of engine and web/problem: of the server's capabilities, and of
// packages for applications.
func errorCatalogs(t *testing.T) [][]engine.Meaning {
	t.Helper()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := skerry.Open(db, skerry.Options{HTTP: skerry.Off, RESP: skerry.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return append(s.Errors(), oidc.Catalog(), view.Catalog())
}

// everyCode returns the codes of all catalogs, sorted.
func everyCode(catalogs [][]engine.Meaning) []engine.Meaning {
	all := slices.Concat(append(catalogs, engine.Catalog(), problem.Catalog())...)
	slices.SortFunc(all, func(a, b engine.Meaning) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return all
}

// TestStatuses: every code has a kind with a status, and no code is in two catalogs.
func TestStatuses(t *testing.T) {
	t.Parallel()
	catalogs := errorCatalogs(t)
	all, seen := problem.All(catalogs...), map[engine.Code]bool{}
	for _, m := range everyCode(catalogs) {
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

// TestErrorsDoc compares docs/errors.md with the catalogs; -rewrite prints it.
func TestErrorsDoc(t *testing.T) {
	t.Parallel()
	catalogs := errorCatalogs(t)
	all := problem.All(catalogs...)
	var b strings.Builder
	b.WriteString("\n| code | kind | HTTP status | retry | meaning |\n|---|---|---|---|---|\n")
	for _, m := range everyCode(catalogs) {
		retry := ""
		if m.Retryable {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %s | %s |\n", m.Code, m.Kind, all.Of(m.Code).Status, retry, m.Text)
	}
	expectSection(t, "docs/errors.md", "-rewrite .`.\n", "", b.String())
}
