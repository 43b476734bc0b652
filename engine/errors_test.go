package engine_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

func TestErrorsMatchByCode(t *testing.T) {
	err := fmt.Errorf("set key: %w", engine.Errorf(engine.CodeKeyTooLarge, "key of %d bytes", 9))
	if !errors.Is(err, engine.ErrKeyTooLarge) || errors.Is(err, engine.ErrValueTooLarge) {
		t.Errorf("%v matches wrongly", err)
	}
	if got, want := err.Error(), "set key: key of 9 bytes [key_too_large]"; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
	if errors.Is(engine.ErrClosed, fs.ErrClosed) {
		t.Error("matches an error that is not an Error")
	}
}

// TestNilError: an error that holds a nil *Error, as a function returns whose
// result has that type, works like any other.
func TestNilError(t *testing.T) {
	var none *engine.Error
	for _, err := range []error{none, fmt.Errorf("a: %w", none), engine.Errorf(engine.CodeInternal, "b: %w", none)} {
		if got := engine.CodeOf(err); got != engine.CodeInternal {
			t.Errorf("%v: code %q", err, got)
		}
		if engine.Retryable(err) || errors.Is(err, engine.ErrClosed) || errors.Is(err, fs.ErrInvalid) || err.Error() == "" {
			t.Errorf("%v matches", err)
		}
	}
	if engine.ErrClosed.Is(none) || errors.Is(none, engine.ErrClosed) || !errors.Is(none, none) {
		t.Error("a nil Error matches wrongly")
	}
}

func TestErrorfKeepsTheCause(t *testing.T) {
	err := engine.Errorf(engine.CodeDiskFull, "write %s: %w", "a", fs.ErrInvalid)
	if !errors.Is(err, fs.ErrInvalid) || !errors.Is(err, engine.ErrDiskFull) {
		t.Errorf("%v has lost its cause or its code", err)
	}
	if err := engine.Errorf(engine.CodeInvalid, "plain"); err.Err != nil {
		t.Errorf("a cause out of nothing: %v", err.Err)
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err       error
		code      engine.Code
		retryable bool
	}{
		{nil, "", false},
		{errors.New("what?"), engine.CodeInternal, false},
		{engine.ErrQueueFull, engine.CodeQueueFull, true},
		{fmt.Errorf("a: %w", engine.ErrNotFound), engine.CodeNotFound, false},
		{engine.Errorf(engine.CodeConflict, "b: %w", engine.ErrCorrupt), engine.CodeConflict, true},
		{errors.Join(errors.New("x"), engine.ErrClosed), engine.CodeClosed, true},
		{engine.Errorf(engine.CodeOutcomeUnknown, "c"), engine.CodeOutcomeUnknown, false},
	} {
		if got := engine.CodeOf(c.err); got != c.code {
			t.Errorf("CodeOf(%v) = %q, want %q", c.err, got, c.code)
		}
		if got := engine.Retryable(c.err); got != c.retryable {
			t.Errorf("Retryable(%v) = %t", c.err, got)
		}
	}
}

func TestCatalogIsSortedAndPlain(t *testing.T) {
	all := engine.Catalog()
	form := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for i, m := range all {
		if i > 0 && all[i-1].Code >= m.Code {
			t.Errorf("%q comes after %q", m.Code, all[i-1].Code)
		}
		if !form.MatchString(string(m.Code)) {
			t.Errorf("code %q is not in lower snake case", m.Code)
		}
		if m.Text == "" || strings.HasSuffix(m.Text, ".") || m.Text[0] < 'a' || m.Text[0] > 'z' {
			t.Errorf("text of %q: %q", m.Code, m.Text)
		}
	}
}

// TestCatalogIsTotal reads the source, so that a constant or a sentinel that
// is added later cannot be forgotten.
func TestCatalogIsTotal(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range engine.Catalog() {
		listed = append(listed, string(m.Code))
	}
	codes, sentinels := map[string]string{}, map[string]string{} // by name: code; by name of code: sentinel
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
			return true
		}
		name := spec.Names[0].Name
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && strings.HasPrefix(name, "Code") {
			codes[name], _ = strconv.Unquote(lit.Value)
		}
		if addr, ok := spec.Values[0].(*ast.UnaryExpr); ok && strings.HasPrefix(name, "Err") {
			code := addr.X.(*ast.CompositeLit).Elts[0].(*ast.KeyValueExpr).Value.(*ast.Ident).Name
			sentinels[code] = name
		}
		return true
	})
	if len(codes) != len(listed) || len(codes) < 20 {
		t.Errorf("%d constants, %d in the catalog", len(codes), len(listed))
	}
	for name, code := range codes {
		if !slices.Contains(listed, code) {
			t.Errorf("%s is not in the catalog", name)
		}
		want := "Err" + strings.TrimPrefix(name, "Code")
		if name == "CodeInternal" {
			want = "" // an unknown error has no sentinel, so it cannot be matched
		}
		if sentinels[name] != want {
			t.Errorf("the sentinel of %s is %q, want %q", name, sentinels[name], want)
		}
	}
}
