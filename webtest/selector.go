package webtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// selector is a path of elements, the outermost first.
type selector []compound

// compound is the conditions for one element.
type compound []func(n *html.Node) bool

var simple = regexp.MustCompile(`^(?:[#.]?[A-Za-z][\w-]*|\[[\w-]+(?:="?[^"\]]*"?)?\])`)

// parseSelector parses a selector. Values of attributes must not contain spaces.
func parseSelector(text string) (selector, error) {
	var path selector
	for _, word := range strings.Fields(text) {
		var c compound
		for rest := word; rest != ""; {
			part := simple.FindString(rest)
			if part == "" || c != nil && part[0] != '#' && part[0] != '.' && part[0] != '[' {
				return nil, fmt.Errorf("webtest: the selector %q is not supported", text)
			}
			c = append(c, match(part))
			rest = rest[len(part):]
		}
		path = append(path, c)
	}
	if path == nil {
		return nil, fmt.Errorf("webtest: the selector is empty")
	}
	return path, nil
}

// match returns the condition of one part of a selector.
func match(part string) func(n *html.Node) bool {
	switch part[0] {
	case '#':
		return func(n *html.Node) bool { id, _ := attr(n, "id"); return id == part[1:] }
	case '.':
		return func(n *html.Node) bool {
			classes, _ := attr(n, "class")
			return slices.Contains(strings.Fields(classes), part[1:])
		}
	case '[':
		name, value, given := strings.Cut(strings.Trim(part, "[]"), "=")
		value = strings.Trim(value, `"`)
		return func(n *html.Node) bool {
			v, has := attr(n, name)
			return has && (!given || v == value)
		}
	}
	return func(n *html.Node) bool { return n.Data == part }
}

// finds reports whether the selector matches n.
func (s selector) finds(n *html.Node) bool {
	last := len(s) - 1
	if n.Type != html.ElementNode || slices.ContainsFunc(s[last], func(is func(*html.Node) bool) bool { return !is(n) }) {
		return false
	}
	if last == 0 {
		return true
	}
	for up := range n.Ancestors() {
		if s[:last].finds(up) {
			return true
		}
	}
	return false
}
