package procvet

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// allowMark begins a comment that allows the findings on its line or, if it is alone on its
// line, on the next one.
const allowMark = "//skerry:allow"

// allowance is one such comment.
type allowance struct {
	pos    token.Pos
	reason string
	used   bool
}

// findAllowances collects the comments.
func (v *vetter) findAllowances() {
	for _, file := range v.pass.Files {
		var code map[int]bool // lines with code; computed on demand
		for _, group := range file.Comments {
			for _, c := range group.List {
				rest, ok := strings.CutPrefix(c.Text, allowMark)
				if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
					continue
				}
				if code == nil {
					code = v.codeLines(file)
				}
				a := &allowance{pos: c.Pos(), reason: strings.TrimSpace(rest)}
				p := v.pass.Fset.Position(c.Pos())
				if v.allows[p.Filename] == nil {
					v.allows[p.Filename] = map[int]*allowance{}
				}
				line := p.Line
				if !code[line] {
					line++
				}
				v.allows[p.Filename][line] = a
				v.ordered = append(v.ordered, a)
			}
		}
	}
}

// codeLines returns the lines on which a node of the syntax tree begins or ends.
func (v *vetter) codeLines(file *ast.File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.CommentGroup, *ast.Comment, *ast.File:
			return n != nil
		}
		lines[v.pass.Fset.Position(n.Pos()).Line] = true
		lines[v.pass.Fset.Position(n.End()-1).Line] = true
		return true
	})
	return lines
}

// allowed returns the comment that allows what begins at pos, or nil. A comment without a
// reason also allows, but is reported itself.
func (v *vetter) allowed(pos token.Pos) *allowance {
	p := v.pass.Fset.Position(pos)
	return v.allows[p.Filename][p.Line]
}

// reportAllowances reports comments without a reason, and those in functions that allow
// nothing.
func (v *vetter) reportAllowances() {
	for _, a := range v.ordered {
		text := ""
		switch {
		case a.reason == "":
			text = "allows without a reason: write " + allowMark + " and why the rule may be broken here"
		case !a.used && v.inside(a.pos):
			text = "allows nothing: remove the comment"
		default:
			continue
		}
		v.pass.Report(analysis.Diagnostic{Pos: a.pos, Category: string(KindAllow), Message: text})
	}
}

// inside reports whether pos is in a function that was analyzed.
func (v *vetter) inside(pos token.Pos) bool {
	for _, f := range v.list {
		if pos >= f.node.Pos() && pos <= f.node.End() {
			return true
		}
	}
	return false
}
