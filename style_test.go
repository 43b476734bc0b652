package skerry_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Bounds of the style: anything longer has two subjects.
const (
	maxFileLines = 600
	maxFuncLines = 70
)

// goFile is one Go file of the repository.
type goFile struct {
	path, dir string // with slashes, from the repository's root
	test      bool
	nested    bool // part of another module (tools, bench)
	text      []byte
	syntax    *ast.File
	set       *token.FileSet
}

// walk calls fn for everything in the repository except hidden folders, test data and generated files.
func walk(t *testing.T, fn func(p string, d fs.DirEntry)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." {
			switch name := d.Name(); {
			case strings.HasPrefix(name, "."), name == "testdata", name == "node_modules", p == "data", p == "bin":
				return fs.SkipDir
			}
		}
		fn(p, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goFiles parses every Go file of the repository, also of nested modules.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	var modules []string
	walk(t, func(p string, d fs.DirEntry) {
		if d.Name() == "go.mod" && p != "go.mod" {
			modules = append(modules, path.Dir(p)+"/")
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		f := goFile{path: p, dir: path.Dir(p), test: strings.HasSuffix(p, "_test.go"), text: text, set: token.NewFileSet()}
		if f.syntax, err = parser.ParseFile(f.set, p, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			t.Errorf("%v", err)
			return
		}
		files = append(files, f)
	})
	for i := range files {
		for _, m := range modules {
			files[i].nested = files[i].nested || strings.HasPrefix(files[i].path, m)
		}
	}
	if len(files) < 10 {
		t.Fatalf("found only %d Go files: the walk is broken", len(files))
	}
	return files
}

func TestSize(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if n := bytes.Count(f.text, []byte("\n")); n > maxFileLines {
			t.Errorf("%s: %d lines, at most %d", f.path, n, maxFileLines)
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from, to := f.set.Position(fn.Pos()), f.set.Position(fn.End())
			if n := to.Line - from.Line + 1; n > maxFuncLines {
				t.Errorf("%s: %s has %d lines, at most %d", from, fn.Name.Name, n, maxFuncLines)
			}
		}
	}
}

func TestGofmt(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		want, err := format.Source(f.text)
		if err != nil {
			t.Errorf("%s: %v", f.path, err)
		} else if !bytes.Equal(want, f.text) {
			t.Errorf("%s: not formatted by gofmt", f.path)
		}
	}
}

// TestNoInit: the effects of an import are invisible, unordered and untestable. Imports for side effects are
// the same thing under another name. The one exception is required by database/sql of its drivers
// (docs/decisions/0019).
func TestNoInit(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && f.path != "client/sqldriver/connector.go" {
				t.Errorf("%s: init function", f.set.Position(fn.Pos()))
			}
		}
		for _, im := range f.syntax.Imports {
			if im.Name != nil && im.Name.Name == "_" && im.Path.Value != `"embed"` {
				t.Errorf("%s: import of %s for its side effects", f.set.Position(im.Pos()), im.Path.Value)
			}
		}
	}
}

// TestPackageDocs: every package documents in one place what it knows and what it must not know; a program
// documents what it does.
func TestPackageDocs(t *testing.T) {
	t.Parallel()
	docs := map[string]string{}
	mains := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		docs[f.dir] += f.syntax.Doc.Text()
		mains[f.dir] = f.syntax.Name.Name == "main"
	}
	for dir, doc := range docs {
		doc = strings.Join(strings.Fields(doc), " ")
		switch {
		case doc == "":
			t.Errorf("%s: no package comment", dir)
		case mains[dir] && !strings.HasPrefix(doc, "Command "):
			t.Errorf("%s: the package comment of a program begins with Command", dir)
		case !mains[dir] && !(strings.Contains(doc, "knows") && strings.Contains(doc, "must not know")):
			t.Errorf("%s: the package comment says what it knows and what it must not know", dir)
		}
	}
}

// TestNoTodo: missing features are in the docs with their reasons, not in notes that nobody finds.
func TestNoTodo(t *testing.T) {
	t.Parallel()
	mark := regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	for _, f := range goFiles(t) {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if f.path != "style_test.go" && mark.MatchString(c.Text) {
					t.Errorf("%s: %s", f.set.Position(c.Pos()), mark.FindString(c.Text))
				}
			}
		}
	}
}

var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// fenced matches a block of code, in which ](…) is not a link.
var fenced = regexp.MustCompile("(?ms)^```.*?^```")

// TestDocsAreListed: the README links to every document.
func TestDocsAreListed(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := fs.Glob(os.DirFS("."), "docs/*.md")
	if err != nil || len(docs) < 10 {
		t.Fatalf("found only %d documents: %v", len(docs), err)
	}
	for _, name := range docs {
		if !bytes.Contains(readme, []byte("]("+name+")")) {
			t.Errorf("README.md has no link to %s", name)
		}
	}
}

// TestDocLinks: links from documents to files of the repository work.
func TestDocLinks(t *testing.T) {
	t.Parallel()
	walk(t, func(p string, d fs.DirEntry) {
		if d.IsDir() || !strings.HasSuffix(p, ".md") {
			return
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range markdownLink.FindAllSubmatch(fenced.ReplaceAll(text, nil), -1) {
			target, _, _ := strings.Cut(string(m[1]), "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(path.Join(path.Dir(p), target)); err != nil {
				t.Errorf("%s: link to %s leads nowhere", p, target)
			}
		}
	})
}
