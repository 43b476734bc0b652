package webtest

import (
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// Page is a response.
type Page struct {
	Browser *Browser
	Path    string // its path, after redirects, with its query
	Status  int
	Header  http.Header
	Body    string

	root *html.Node // of Body, once parsed
}

// Expect fails the test unless the page has the given status and its source contains all texts.
func (p *Page) Expect(status int, texts ...string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	if p.Status != status {
		t.Fatalf("%s: status %d, want %d\n%s", p.Path, p.Status, status, p.Body)
	}
	for _, text := range texts {
		if !strings.Contains(p.Body, text) {
			t.Fatalf("%s does not contain %q:\n%s", p.Path, text, p.Body)
		}
	}
	return p
}

// ExpectPath fails the test unless the page is at path, including its query.
func (p *Page) ExpectPath(path string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	if p.Path != path {
		t.Fatalf("the page is %s (%d), want %s\n%s", p.Path, p.Status, path, p.Body)
	}
	return p
}

// Lacks fails the test if the page contains one of the texts.
func (p *Page) Lacks(texts ...string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.Body, text) {
			t.Fatalf("%s contains %q:\n%s", p.Path, text, p.Body)
		}
	}
	return p
}

// All returns the elements that match a selector, in the order of the page. Selectors are a subset of CSS:
// names, #id, .class, [attribute] and [attribute=value], combined, and separated by spaces for descendants.
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

// Find returns the only element that matches a selector. It fails the test unless there is exactly one.
func (p *Page) Find(selector string) *Element {
	t := p.Browser.Site.t
	t.Helper()
	found := p.All(selector)
	if len(found) != 1 {
		t.Fatalf("%s has %d elements %s, want one:\n%s", p.Path, len(found), selector, p.Body)
	}
	return found[0]
}

// Click follows the link with a text. It fails the test if there is none.
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

// Submit fills in the form that matches a selector and sends it. fields are alternating names and values;
// other fields keep their values in the page. Submit presses the first button, unless fields name another one
// with its value. A field that the form does not have fails the test.
func (p *Page) Submit(selector string, fields ...string) *Page {
	t := p.Browser.Site.t
	t.Helper()
	form := p.Find(selector)
	if form.node.Data != "form" || strings.Contains(form.Attr("enctype"), "multipart") {
		t.Fatalf("%s: %s is not a form that webtest can submit", p.Path, selector)
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

// resolve returns the URL of a link of the page.
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

// Text returns the text in the element, with whitespace collapsed.
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
