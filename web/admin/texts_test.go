package admin_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/npm"
)

var rewrite = flag.Bool("rewrite", false, "write texts.txt anew")

// inView finds {{t "text"}} and (t "text" .value) in views; inModule finds t("text") in modules.
var (
	inView   = regexp.MustCompile(`[{(]\s*t ("(?:[^"\\]|\\.)*")`)
	inModule = regexp.MustCompile(`\bt\(\s*("(?:[^"\\]|\\.)*")`)
)

// textsIn returns the texts that people read: in views, modules and calls of text.
func textsIn(t *testing.T) []string {
	t.Helper()
	all := map[string]bool{}
	add := func(literal, file string) {
		text, err := strconv.Unquote(literal)
		if err != nil {
			t.Errorf("%s: %s: %v", file, literal, err)
		}
		all[text] = true
	}
	for pattern, find := range map[string]*regexp.Regexp{"views/*.html": inView, "assets/*.mjs": inModule} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range find.FindAllSubmatch(content, -1) {
				add(string(m[1]), name)
			}
		}
	}
	sources, _ := filepath.Glob("*.go")
	for _, name := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "text" && len(n.Args) > 0 {
					if lit, ok := n.Args[0].(*ast.BasicLit); ok {
						add(lit.Value, name)
					}
				}
			case *ast.BasicLit: // titles of the menu
				if name == "menu.go" && n.Kind == token.STRING && n.Value[1] >= 'A' && n.Value[1] <= 'Z' {
					add(n.Value, name)
				}
			case *ast.KeyValueExpr: // notices
				if lit, ok := n.Value.(*ast.BasicLit); ok && name == "render.go" && lit.Kind == token.STRING {
					add(lit.Value, name)
				}
			}
			return true
		})
	}
	return slices.Sorted(func(yield func(string) bool) {
		for text := range all {
			if !yield(text) {
				return
			}
		}
	})
}

// TestTexts: texts.txt has every text of the page, for those who translate it.
func TestTexts(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	for _, text := range textsIn(t) {
		want.WriteString(strconv.Quote(text) + "\n")
	}
	if *rewrite {
		if err := os.WriteFile("texts.txt", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("texts.txt")
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("texts.txt is out of date (%v): go test ./web/admin -run TestTexts -rewrite", err)
	}
}

// TestTypes checks the types of all modules, which their comments declare.
func TestTypes(t *testing.T) {
	t.Parallel()
	dir, err := npm.Install("admin", "testdata/npm")
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatalf("%v, and SKERRY_REQUIRE_SERVERS=1", err)
		}
		t.Skip(err)
	}
	modules, err := filepath.Glob("assets/*.mjs")
	if err != nil || len(modules) == 0 {
		t.Fatalf("%d modules: %v", len(modules), err)
	}
	check := func(files ...string) (string, error) {
		args := []string{filepath.Join(dir, "node_modules/typescript/bin/tsc"), "--noEmit", "--allowJs", "--checkJs", "--strict", "--noUnusedLocals",
			"--target", "es2022", "--module", "es2022", "--moduleResolution", "bundler", "--lib", "es2023,dom,dom.iterable"}
		out, err := exec.CommandContext(t.Context(), "node", append(args, files...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := check(modules...); err != nil {
		t.Errorf("tsc: %v\n%s", err, out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.mjs")
	if err := os.WriteFile(wrong, []byte("/** @type {number} */\nexport const n = \"a\";\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := check(wrong); err == nil || !strings.Contains(out, "TS2322") {
		t.Errorf("a wrong type is not found: %v %s", err, out)
	}
}
