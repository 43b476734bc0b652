package skerry_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write what the code says into the documents")

// expectSection compares a section of a document, between two marks or after the first one, with a text from
// the code.
func expectSection(t *testing.T, file, after, before, want string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	head, rest, found := strings.Cut(text, after)
	if !found {
		t.Fatalf("%s: does not have %q", file, after)
	}
	tail := ""
	if before != "" {
		i := strings.Index(rest, before)
		if i < 0 {
			t.Fatalf("%s: does not have %q", file, before)
		}
		rest, tail = rest[:i], rest[i:]
	}
	if rest == want {
		return
	}
	if !*rewrite {
		t.Errorf("%s differs from the code; go test -run %s -rewrite . prints it anew", file, t.Name())
		return
	}
	if err := os.WriteFile(file, []byte(head+after+want+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLimitsTable: docs/limits.md has every exported limit with its value.
func TestLimitsTable(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, f := range goFiles(t) {
		if f.test || f.nested || f.dir == "cli" || strings.HasPrefix(f.dir, "examples/") {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.CONST {
				rows = append(rows, limits(f, g)...)
			}
		}
	}
	if len(rows) < 20 {
		t.Fatalf("found only %d limits: the search is broken", len(rows))
	}
	slices.Sort(rows)
	expectSection(t, "docs/limits.md", "<!-- printed from the constants -->\n", "<!-- end -->",
		"\n| limit | value | meaning |\n|---|---|---|\n"+strings.Join(rows, "")+"\n")
}

// nanoseconds replaces the units of package time by numbers.
var nanoseconds = strings.NewReplacer("time.Hour", "3600000000000", "time.Minute", "60000000000", "time.Second", "1000000000")

var lastZeros = regexp.MustCompile(`([hm])(0m)?0s$`)

var limitName = regexp.MustCompile(`^(Guest)?(Default)?Max[A-Z]`)

// limits returns a row for every limit in one declaration.
func limits(f goFile, g *ast.GenDecl) (rows []string) {
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		for i, name := range v.Names {
			if !limitName.MatchString(name.Name) || i >= len(v.Values) {
				continue
			}
			expr := v.Values[i]
			if lit, ok := expr.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				continue // a name
			}
			from, to := f.set.Position(expr.Pos()).Offset, f.set.Position(expr.End()).Offset
			value := string(f.text[from:to])
			about := v.Doc.Text() + v.Comment.Text()
			if about == "" {
				about = g.Doc.Text()
			}
			about = strings.Join(strings.Fields(about), " ")
			about = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(about, name.Name+" "), "is "), ".")
			inNanoseconds := nanoseconds.Replace(value)
			if tv, err := types.Eval(token.NewFileSet(), nil, token.NoPos, inNanoseconds); err == nil {
				if n, ok := constant.Int64Val(constant.ToInt(tv.Value)); ok && inNanoseconds != value {
					value = lastZeros.ReplaceAllString(time.Duration(n).String(), "$1")
				} else if ok {
					bytes := strings.Contains(name.Name+about, "Bytes") || strings.Contains(about, "bytes of") || strings.Contains(about, "in bytes")
					value = quantity(n, bytes)
				}
			}
			dir := strings.TrimPrefix(f.dir, "./")
			if dir == "." {
				dir = path.Base(module)
			}
			rows = append(rows, fmt.Sprintf("| `%s.%s` | %s | %s |\n", dir, name.Name, value, strings.ReplaceAll(about, "|", `\|`)))
		}
	}
	return rows
}

// quantity formats a number for people.
func quantity(n int64, bytes bool) string {
	if bytes {
		for _, u := range []struct {
			name string
			size int64
		}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
			if n >= u.size && n%u.size == 0 {
				return fmt.Sprintf("%d %s", n/u.size, u.name)
			}
		}
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if bytes {
		s += " bytes"
	}
	return s
}

var direct = regexp.MustCompile(`(?m)^(?:require )?\t?(\S+\.\S+/\S+) v\S+$`)

// TestDependencies: docs/dependencies.md has exactly the modules that go.mod requires directly.
func TestDependencies(t *testing.T) {
	t.Parallel()
	gomod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, m := range direct.FindAllSubmatch(gomod, -1) {
		have[string(m[1])] = true
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \|`).FindAllSubmatch(doc, -1) {
		listed[string(m[1])] = true
	}
	for m := range have {
		if !listed[m] {
			t.Errorf("docs/dependencies.md does not say why there is %s", m)
		}
	}
	for m := range listed {
		if !have[m] {
			t.Errorf("docs/dependencies.md lists %s, which go.mod does not require", m)
		}
	}
	if len(have) == 0 {
		t.Error("found no dependency: the search is broken")
	}
}

// TestLocksTable: docs/locks.md lists every mutex of the program.
func TestLocksTable(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("docs/locks.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\S+)`").FindAllSubmatch(doc, -1) {
		listed[string(m[1])] = true
	}
	have := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test || f.nested || f.dir == "workload" || f.dir == "engine/enginetest" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				for _, name := range mutexes(st) {
					have[f.dir+"."+spec.Name.Name+"."+name] = true
				}
			}
			return true
		})
	}
	for name := range have {
		if !listed[name] {
			t.Errorf("docs/locks.md does not have %s", name)
		}
	}
	for name := range listed {
		if !have[name] {
			t.Errorf("docs/locks.md lists %s, which does not exist", name)
		}
	}
	if len(have) < 5 {
		t.Errorf("found only %d mutexes: the search is broken", len(have))
	}
}

// mutexes returns the fields of a struct that are a sync.Mutex or sync.RWMutex.
func mutexes(st *ast.StructType) (names []string) {
	for _, field := range st.Fields.List {
		sel, ok := field.Type.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok || pkg.Name != "sync" || !strings.HasSuffix(sel.Sel.Name, "Mutex") {
			continue
		}
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}
