package view

import (
	"errors"
	"fmt"
	"html/template"
	"maps"
	"regexp"
	"strings"
	"text/template/parse"
)

// maxLocateBytes is how much text is escaped to find the line of a fault.
const maxLocateBytes = 16 << 20

// locate turns an error of the escaper into a mistake. The escaper reports no line for faults in the text
// around actions, so locate looks for the first line that the escaper refuses, or that begins something that
// is never closed. text is the source of the page's own tree.
func (s *set) locate(p *page, trees map[string]*parse.Tree, text string, err error) mistake {
	m := placed(err, p.file.path)
	m.what = describe(m.what)
	if _, ok := errors.AsType[*template.Error](err); !ok || m.line > 0 {
		return m
	}
	if found, ok := s.search(p.file, trees, text); ok {
		return found
	}
	for _, f := range p.deps[min(1, len(p.deps)):] { // files that it calls
		if found, ok := s.search(f, trees, f.text); ok {
			return found
		}
	}
	return m
}

// search looks for a fault in the text of one file. It skips a range of lines that the escaper accepts and
// that ends in plain text again.
func (s *set) search(f *file, trees map[string]*parse.Tree, text string) (mistake, bool) {
	ends := []int{}
	for i, c := range text {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	ends = append(ends, len(text))
	from, first, budget := 0, 1, maxLocateBytes
	var last error
	if _, err := s.escape(f.name, with(trees, f.name, 0, 0)); err != nil {
		return mistake{}, false // the fault is in a called file
	}
	for i, end := range ends {
		if budget -= end - from + 1; budget < 0 {
			break
		}
		_, err := s.escape(f.name, with(trees, f.name, from, end))
		e, ok := errors.AsType[*template.Error](err)
		switch {
		case err == nil:
			from, first, last = end, i+2, nil
		case !ok:
			return mistake{}, false
		case e.ErrorCode == template.ErrEndContext:
			last = err
		case e.Node == nil && e.Line == 0:
			m := placed(err, f.path)
			return mistake{f.path, i + 1, describe(m.what)}, true
		}
	}
	if last == nil {
		return mistake{}, false
	}
	return mistake{f.path, first, describe(placed(last, f.path).what)}, true
}

// with returns the trees, one of them cut.
func with(trees map[string]*parse.Tree, name string, from, to int) map[string]*parse.Tree {
	part := maps.Clone(trees)
	part[name] = cut(trees[name], from, to)
	return part
}

// cut copies a tree with only the text between two offsets of its file. It shares the actions with the
// original, which escape copies anyway.
func cut(tree *parse.Tree, from, to int) *parse.Tree {
	c := *tree
	c.Root = cutList(tree.Root, from, to)
	return &c
}

func cutList(l *parse.ListNode, from, to int) *parse.ListNode {
	if l == nil {
		return nil
	}
	c := &parse.ListNode{NodeType: l.NodeType, Pos: l.Pos}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			a := min(max(from-int(n.Pos), 0), len(n.Text))
			b := min(max(to-int(n.Pos), a), len(n.Text))
			if a < b {
				c.Nodes = append(c.Nodes, &parse.TextNode{NodeType: n.NodeType, Pos: n.Pos, Text: n.Text[a:b]})
			}
		case *parse.IfNode:
			b := *n
			b.List, b.ElseList = cutList(n.List, from, to), cutList(n.ElseList, from, to)
			c.Nodes = append(c.Nodes, &b)
		case *parse.RangeNode:
			b := *n
			b.List, b.ElseList = cutList(n.List, from, to), cutList(n.ElseList, from, to)
			c.Nodes = append(c.Nodes, &b)
		case *parse.WithNode:
			b := *n
			b.List, b.ElseList = cutList(n.List, from, to), cutList(n.ElseList, from, to)
			c.Nodes = append(c.Nodes, &b)
		default:
			c.Nodes = append(c.Nodes, n)
		}
	}
	return c
}

var contextOf = regexp.MustCompile(`\{state(\w+) [^{}]*\}`)

// places has descriptions of the states of html/template's escaper.
func places() map[string]string {
	return map[string]string{
		"Text": "text", "Tag": "a tag", "AttrName": "a tag", "AfterName": "a tag", "BeforeValue": "a tag",
		"HTMLCmt": "a comment", "RCDATA": "a textarea or title", "Attr": "an attribute", "URL": "an attribute", "Srcset": "an attribute",
		"MetaContent": "an attribute", "MetaContentURL": "an attribute",
		"JS": "a script", "JSDqStr": "a string in a script", "JSSqStr": "a string in a script", "JSTmplLit": "a template literal in a script",
		"JSRegexp": "a regular expression in a script", "JSBlockCmt": "a comment in a script", "JSLineCmt": "a comment in a script",
		"CSS": "a style", "CSSDqStr": "a string in a style", "CSSSqStr": "a string in a style", "CSSDqURL": "a URL in a style",
		"CSSSqURL": "a URL in a style", "CSSURL": "a URL in a style", "CSSBlockCmt": "a comment in a style",
	}
}

// describe replaces the escaper's states in a text by descriptions.
func describe(what string) string {
	named := places()
	what = contextOf.ReplaceAllStringFunc(strings.TrimPrefix(what, wrapper+": "), func(c string) string {
		if name := named[contextOf.FindStringSubmatch(c)[1]]; name != "" {
			return name
		}
		return c
	})
	if _, place, ok := strings.Cut(what, "ends in a non-text context: "); ok {
		return fmt.Sprintf("what begins here is not closed: the file ends in %s", place)
	}
	return what
}
