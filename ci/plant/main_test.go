package main

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table of bugs into docs/developing.md")

// TestBugsApply: every bug can still be planted, gives a file that parses, and
// names a test that there is.
func TestBugsApply(t *testing.T) {
	t.Chdir("../..")
	bugs, err := loadBugs(bugFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		files := map[string][]byte{}
		for _, c := range b.changes {
			if files[c.file] == nil {
				if files[c.file], err = os.ReadFile(c.file); err != nil {
					t.Fatalf("%s: %v", b.name, err)
				}
			}
			if files[c.file], err = c.apply(files[c.file]); err != nil {
				t.Fatalf("%s: %v", b.name, err)
			}
		}
		for name, text := range files {
			if _, err := parser.ParseFile(token.NewFileSet(), name, text, 0); err != nil {
				t.Errorf("%s: %v", b.name, err)
			}
		}
		name, _, _ := strings.Cut(b.test, "/")
		if !hasTest(t, b.pkg, strings.TrimRight(name, "$")) {
			t.Errorf("%s: there is no test %s in %s", b.name, name, b.pkg)
		}
	}
}

func hasTest(t *testing.T, pkg, name string) bool {
	paths, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(`).Match(b)
	})
}

// TestTable: docs/developing.md lists the bugs.
func TestTable(t *testing.T) {
	t.Chdir("../..")
	bugs, err := loadBugs(bugFolder)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("\n| bug | where | the test that finds it | needs |\n|---|---|---|---|\n")
	for _, b := range bugs {
		fmt.Fprintf(&want, "| %s | `%s` | `%s` in `%s` | %s |\n", b.text, b.changes[0].file, b.test, strings.TrimPrefix(b.pkg, "./"), b.needs)
	}
	const file, mark = "docs/developing.md", "<!-- printed by go test ./ci/plant -rewrite -->\n"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, have, ok := strings.Cut(string(b), mark)
	if !ok {
		t.Fatalf("%s does not have %q", file, mark)
	}
	if have == want.String() {
		return
	}
	if !*rewrite {
		t.Fatalf("%s differs from the bugs; go test ./ci/plant -rewrite prints it anew", file)
	}
	if err := os.WriteFile(file, []byte(head+mark+want.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestParseBug: a file that is not a bug is refused, not planted in part.
func TestParseBug(t *testing.T) {
	const head = "bug: b\ntest: ./p T\nneeds: 1 s\n\n"
	b, err := parseBug(head + "--- f.go\n@@\n one\n-two\n+three\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.changes[0].apply([]byte("zero\none\ntwo\nfour\n"))
	if err != nil || string(got) != "zero\none\nthree\nfour\n" {
		t.Errorf("applied: %q, %v", got, err)
	}
	for _, file := range []string{"one\nthree\n", "one\ntwo\none\ntwo\n"} {
		if _, err := b.changes[0].apply([]byte(file)); err == nil {
			t.Errorf("applied to %q", file)
		}
	}
	for _, text := range []string{"", head, head + "--- f.go\n", head + "@@\n-x\n", head + "--- f.go\n@@\nx\n", "bug: b\n\n--- f.go\n@@\n-x\n", head + "what\n"} {
		if _, err := parseBug(text); err == nil {
			t.Errorf("taken: %q", text)
		}
	}
}
