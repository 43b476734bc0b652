package query

import (
	"os"
	"strings"
	"testing"
)

// TestDocs: the conditions in docs/queries.md are valid.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/queries.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```filter\n")
	filters, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/queries.md has no conditions")
	}
	for line := range strings.Lines(filters) {
		if _, err := check(t, strings.TrimSpace(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
