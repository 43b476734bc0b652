package webtest

import (
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// Page is an answer.
type Page struct {
	Browser *Browser
	Path    string // where it is from, after redirects, with its query
	Status  int
	Header  http.Header
	Body    string

	root *html.Node // of Body, once it was looked into
}

// Expect fails unless the page has a status and all these texts, as they stand in its
// source.
func (p *Page) Expect(status int, texts ...string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	if p.Status != status {
		t.Fatalf("%s: status %d, want %d\n%s", p.Path, p.Status, status, p.Body)
	}
	for _, text := range texts {
		if !strings.Contains(p.Body, text) {
			t.Fatalf("%s does not have %q:\n%s", p.Path, text, p.Body)
		}
	}
	return p
}

// ExpectPath fails unless the page is that of a path, with its query.
func (p *Page) ExpectPath(path string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	if p.Path != path {
		t.Fatalf("the page is %s (%d), want %s\n%s", p.Path, p.Status, path, p.Body)
	}
	return p
}

// Lacks fails if the page has one of these texts.
func (p *Page) Lacks(texts ...string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.Body, text) {
			t.Fatalf("%s has %q:\n%s", p.Path, text, p.Body)
		}
	}
	return p
}

// All returns the elements that a selector finds, in the order of the page. Selectors
// are CSS's: names, #id, .class, [attribute] and [attribute=value], together and, with
// spaces between them, one inside the other.
func (p *Page) All(selector string) []*Element {
	t := p.Browser.Site.t
	t.Helper()
	path, err := parseSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	if p.root == nil {
		if p.root, err = html.Parse(strings.NewReader(p.Body)); err != nil {
			t.Fatalf("%s: %v", p.Path, err)
		}
	}
	var found []*Element
	for n := range p.root.Descendants() {
		if path.finds(n) {
			found = append(found, &Element{n})
		}
	}
	return found
}

// Find returns the only element that a selector finds, and fails if there is another
// number of them.
func (p *Page) Find(selector string) *Element {
	t := p.Browser.Site.t
	t.Helper()
	found := p.All(selector)
	if len(found) != 1 {
		t.Fatalf("%s has %d elements %s, want one:\n%s", p.Path, len(found), selector, p.Body)
	}
	return found[0]
}

// Click follows the link with a text, or fails if there is none.
func (p *Page) Click(text string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	for _, a := range p.All("a[href]") {
		if a.Text() == text {
			return p.Browser.Get(p.resolve(a.Attr("href")))
		}
	}
	t.Fatalf("%s has no link %q:\n%s", p.Path, text, p.Body)
	panic("unreachable")
}

// Submit fills in the form that a selector finds and sends it: fields are names and
// values in turn. What is not given stays as it is in the page. The first button
// presses it, unless the name of another one is given with its value. A field that
// the form does not have fails the test.
func (p *Page) Submit(selector string, fields ...string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	form := p.Find(selector)
	if form.node.Data != "form" || strings.Contains(form.Attr("enctype"), "multipart") {
		t.Fatalf("%s: %s is no form that webtest can send", p.Path, selector)
	}
	values, err := fill(form.node, p.Browser.pairs(fields))
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", p.Path, selector, err, p.Body)
	}
	to := p.resolve(form.Attr("action"))
	if strings.EqualFold(form.Attr("method"), "post") {
		return p.Browser.do(http.MethodPost, to, values)
	}
	to, _, _ = strings.Cut(to, "?")
	return p.Browser.Get(to + "?" + values.Encode())
}

// resolve is the address that a link of the page leads to.
func (p *Page) resolve(link string) string {
	t := p.Browser.Site.t
	t.Helper()
	at, err := url.Parse(p.Browser.Site.URL + p.Path)
	if err == nil {
		at, err = at.Parse(link)
	}
	if err != nil {
		t.Fatal(err)
	}
	at.Fragment = ""
	return at.String()
}

// Element is one element of a page.
type Element struct{ node *html.Node }

// Text returns the text in the element, with single spaces.
func (e *Element) Text() string {
	var words []string
	for n := range e.node.Descendants() {
		if n.Type == html.TextNode {
			words = append(words, strings.Fields(n.Data)...)
		}
	}
	return strings.Join(words, " ")
}

// Attr returns the value of an attribute, "" if there is none.
func (e *Element) Attr(name string) string {
	value, _ := attr(e.node, name)
	return value
}

func attr(n *html.Node, name string) (value string, ok bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}
