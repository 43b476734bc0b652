package starter_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "copy examples/todo into the template")

// TestTodo: the template todo is examples/todo: its procedures, routes, pages and assets.
func TestTodo(t *testing.T) {
	t.Parallel()
	const example, template = "../../../examples/todo", "templates/todo"
	own := map[string]bool{"main.go.txt": true, "main_test.go.txt": true} // the template's alone
	copies := map[string]bool{}
	for _, name := range []string{"procedures.go", "routes.go", "register.go"} {
		copies[name] = true
	}
	for _, dir := range []string{"views", "assets"} {
		err := filepath.WalkDir(filepath.Join(example, dir), func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name, _ := filepath.Rel(example, p)
				copies[name] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for name := range copies {
		want, err := os.ReadFile(filepath.Join(example, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(want, []byte("[[")) {
			t.Errorf("%s has [[, which templates take for a value", name)
		}
		to := filepath.Join(template, name)
		if strings.HasSuffix(name, ".go") {
			to += ".txt"
			want = bytes.Replace(want, []byte("package todo\n"), []byte("package main\n"), 1)
		}
		if *rewrite {
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not examples/todo/%s (go test -rewrite copies it): %v", to, name, err)
		}
		seen++
	}
	err := filepath.WalkDir(template, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(template, p)
		if !own[name] && !copies[strings.TrimSuffix(name, ".txt")] {
			t.Errorf("%s is not in examples/todo", p)
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Errorf("%d copies: %v", seen, err)
	}
}
