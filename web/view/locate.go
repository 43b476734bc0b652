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

// maxLocateBytes is how much text is escaped to find the line of a mistake.
const maxLocateBytes = 16 << 20

// locate makes a mistake of an error of the escaper. It has no line for what is
// wrong in the text around actions, so locate looks for the first line that the
// escaper does not take, or that begins what is never closed. text is what the
// page's own tree was parsed from.
func (s *set) locate(p *page, trees map[string]*parse.Tree, text string, err error) mistake {
	m := placed(err, p.file.path)
	m.what = describe(m.what)
	if _, ok := errors.AsType[*template.Error](err); !ok || m.line > 0 {
		return m
	}
	if found, ok := s.search(p.file, trees, text); ok {
		return found
	}
	for _, f := range p.deps[min(1, len(p.deps)):] { // what it calls
		if found, ok := s.search(f, trees, f.text); ok {
			return found
		}
	}
	return m
}

// search looks for a mistake in the text of one file. A stretch of lines that
// the escaper takes and that ends in plain text again is done with.
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
	for i, end := range ends {
		if budget -= end - from + 1; budget < 0 {
			break
		}
		part := maps.Clone(trees)
		part[f.name] = cut(trees[f.name], from, end)
		_, err := s.escape(f.name, part)
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

// cut copies a tree with only the text between two offsets of its file.
func cut(tree *parse.Tree, from, to int) *parse.Tree {
	c := tree.Copy()
	walk(c.Root, func(n parse.Node) {
		t, ok := n.(*parse.TextNode)
		if !ok {
			return
		}
		a := min(max(from-int(t.Pos), 0), len(t.Text))
		b := min(max(to-int(t.Pos), a), len(t.Text))
		t.Text = t.Text[a:b]
	})
	return c
}

var endsIn = regexp.MustCompile(`^.*ends in a non-text context: \{state(\w+) .*$`)

// places says in words what html/template calls the states of its escaper.
func places() map[string]string {
	return map[string]string{
		"Tag": "a tag", "AttrName": "a tag", "AfterName": "a tag", "BeforeValue": "a tag",
		"HTMLCmt": "a comment", "RCDATA": "a textarea or title", "Attr": "an attribute", "URL": "an attribute", "Srcset": "an attribute",
		"MetaContent": "an attribute", "MetaContentURL": "an attribute",
		"JS": "a script", "JSDqStr": "a string of a script", "JSSqStr": "a string of a script", "JSTmplLit": "a template literal of a script",
		"JSRegexp": "a regular expression of a script", "JSBlockCmt": "a comment of a script", "JSLineCmt": "a comment of a script",
		"CSS": "a style", "CSSDqStr": "a string of a style", "CSSSqStr": "a string of a style", "CSSDqURL": "a URL of a style",
		"CSSSqURL": "a URL of a style", "CSSURL": "a URL of a style", "CSSBlockCmt": "a comment of a style",
	}
}

// describe says in words what the escaper says about its states.
func describe(what string) string {
	m := endsIn.FindStringSubmatch(what)
	if m == nil {
		if _, rest, ok := strings.Cut(what, wrapper+": "); ok {
			return rest
		}
		return what
	}
	place := places()[m[1]]
	if place == "" {
		place = "something"
	}
	return fmt.Sprintf("%s begins here that is not closed before the end of the file", place)
}
