package procvet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// MaxLoadErrors is how many errors of packages that cannot be compiled Run returns; further
// ones are only counted.
const MaxLoadErrors = 20

// Run analyzes the packages that match patterns, which have the syntax of the go command
// run in dir (default "./..."). It writes a line for each finding to w, sorted:
// file:line:col: message, with file relative to dir if it is below dir. Tests are not
// analyzed.
//
// Run requires the go command. It also reads the packages that those import, including
// those of other modules. It returns an error if they cannot be loaded or compiled, or if w
// fails.
func Run(dir string, patterns []string, w io.Writer) (findings int, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return 0, fmt.Errorf("find the folder: %w", err)
	}
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	asked, needed, err := survey(dir, patterns)
	if err != nil || len(asked) == 0 {
		return 0, err
	}
	pkgs, err := loadSource(dir, needed)
	if err != nil {
		return 0, err
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{Analyzer()}, pkgs, nil)
	if err != nil {
		return 0, fmt.Errorf("analyze the packages: %w", err)
	}
	var found []finding
	for _, act := range graph.Roots {
		if act.Err != nil {
			return 0, fmt.Errorf("analyze %s: %w", act.Package.PkgPath, act.Err)
		}
		if !asked[act.Package.PkgPath] {
			continue
		}
		for _, d := range act.Diagnostics {
			p := act.Package.Fset.Position(d.Pos)
			found = append(found, finding{relative(dir, p.Filename), p.Line, p.Column, d.Message})
		}
	}
	slices.SortFunc(found, compareFindings)
	for _, f := range found {
		if _, err := fmt.Fprintf(w, "%s:%d:%d: %s\n", f.file, f.line, f.col, f.text); err != nil {
			return 0, fmt.Errorf("write the findings: %w", err)
		}
	}
	return len(found), nil
}

// finding is one line of Run.
type finding struct {
	file      string
	line, col int
	text      string
}

func compareFindings(a, b finding) int {
	return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.col, b.col), strings.Compare(a.text, b.text))
}

// relative returns a file's name relative to dir if it is below dir.
func relative(dir, file string) string {
	if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return file
}

// survey lists packages without compiling them. asked are the packages that match patterns
// and can have procedures, because they import proc directly or indirectly. needed are the
// packages whose source is required to analyze them: they and their imports outside the
// standard library and Skerry itself.
func survey(dir string, patterns []string) (asked map[string]bool, needed []string, err error) {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule
	pkgs, err := packages.Load(&packages.Config{Mode: mode, Dir: dir}, patterns...)
	if err != nil {
		return nil, nil, fmt.Errorf("list packages: %w", err)
	}
	if err := loadErrors(dir, pkgs); err != nil {
		return nil, nil, err
	}
	uses := map[*packages.Package]bool{}
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, im := range p.Imports {
			uses[p] = uses[p] || im.PkgPath == procPath || uses[im]
		}
	})
	asked = map[string]bool{}
	var roots []*packages.Package
	for _, p := range pkgs {
		if p.PkgPath == "command-line-arguments" {
			return nil, nil, errors.New("give packages, not files: ./..., or the folder of a package")
		}
		if uses[p] {
			asked[p.PkgPath] = true
			roots = append(roots, p)
		}
	}
	source := map[string]bool{}
	packages.Visit(roots, nil, func(p *packages.Package) {
		if p.Module != nil && (asked[p.PkgPath] || !ownPackage(p.PkgPath)) {
			source[p.PkgPath] = true
		}
	})
	return asked, slices.Sorted(maps.Keys(source)), nil
}

// loadSource loads packages from source, and all others from compiled export data.
func loadSource(dir string, paths []string) ([]*packages.Package, error) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: dir}, paths...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	if err := loadErrors(dir, pkgs); err != nil {
		return nil, err
	}
	// Packages that were not loaded from source have no facts, and the checker must not
	// analyze them.
	read := map[*packages.Package]bool{}
	for _, p := range pkgs {
		read[p] = true
	}
	for _, p := range pkgs {
		maps.DeleteFunc(p.Imports, func(_ string, im *packages.Package) bool { return !read[im] })
	}
	return pkgs, nil
}

// loadErrors returns the errors of packages as one error with a line for each.
func loadErrors(dir string, pkgs []*packages.Package) error {
	var lines []string
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if e.Kind == packages.ListError && strings.HasPrefix(e.Msg, "# ") && len(p.Errors) > 1 {
				continue // the compiler's output, which the other errors repeat in parts
			}
			text := e.Msg
			if file, rest, ok := strings.Cut(e.Pos, ":"); ok && file != "" && file != "-" {
				text = relative(dir, file) + ":" + rest + ": " + e.Msg
			}
			if !slices.Contains(lines, text) {
				lines = append(lines, text)
			}
		}
	})
	if len(lines) == 0 {
		return nil
	}
	if more := len(lines) - MaxLoadErrors; more > 0 {
		lines = append(lines[:MaxLoadErrors], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("the packages do not compile:\n\t%s", strings.Join(lines, "\n\t"))
}
