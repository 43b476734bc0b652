package exec

import (
	"bytes"
	"html/template"
	"io"
	"reflect"
	"strconv"
	"strings"
	"text/template/parse"
)

// escape writes a value escaped for one context, and reports whether it could.
type escape func(m *machine, v reflect.Value) bool

// prototype is a template of html/template with one value in one kind of context. It escapes what this package
// does not.
type prototype struct {
	t              *template.Template
	prefix, suffix int // bytes around the value
}

// places are templates with one value each. They cover every chain of escapers that pages have. Other chains
// are left to html/template.
var places = []string{
	"«»", `<a title="«»">`, `<a title='«»'>`, "<a title=«»>", "<title>«»</title>", "<textarea>«»</textarea>",
	`<a href="«»">`, `<a href='«»'>`, "<a href=«»>", `<a href="/x/«»">`, `<a href="/?q=«»">`, "<a href=/?q=«»>", "<a href=/x/«»>",
	"<script>var x = «»;</script>", `<script>var x = "«»";</script>`, "<script>var x = '«»';</script>", "<script>var x = `«»`;</script>", "<script>var x = /«»/;</script>",
	`<a onclick="f(«»)">`, `<a onclick="f('«»')">`, "<a onclick='f(\"«»\")'>", `<a onclick="f(/«»/)">`, "<a onclick=f(«»)>",
	"<style>p { color: «» }</style>", `<style>p { x: "«»" }</style>`, "<style>p { background: url(«») }</style>", `<style>p { background: url("/«»") }</style>`, `<style>p { background: url("/?q=«»") }</style>`,
	`<a style="color: «»">`, `<a style="background: url('«»')">`, `<a style="x: '«»'">`, `<img srcset="«»">`, "<a «»=x>", "<a «»>", "<!-- «» -->",
}

// prototypes returns the prototypes by their chains.
func prototypes() map[string]*prototype {
	all := map[string]*prototype{}
	for _, place := range places {
		prefix, suffix, _ := strings.Cut(place, "«»")
		t, err := template.New("").Parse(prefix + "{{.}}" + suffix)
		if err != nil {
			continue
		}
		if err := t.Execute(io.Discard, "x"); err != nil { // adds the escapers
			continue
		}
		for _, n := range t.Tree.Root.Nodes {
			a, ok := n.(*parse.ActionNode)
			if !ok {
				continue
			}
			_, chain := splitEscapers(a.Pipe)
			if all[chain] == nil && chain != "" {
				before, after := around(t.Tree.Root.Nodes, n)
				all[chain] = &prototype{t, before, after}
			}
		}
	}
	return all
}

// around returns how many bytes of text are before and after a node.
func around(nodes []parse.Node, at parse.Node) (before, after int) {
	n := &before
	for _, x := range nodes {
		if x == at {
			n = &after
		} else if t, ok := x.(*parse.TextNode); ok {
			*n += len(t.Text)
		}
	}
	return before, after
}

// write lets html/template escape v.
func (p *prototype) write(m *machine, v reflect.Value) bool {
	var arg any
	if v.IsValid() {
		if !v.CanInterface() || concrete(v).IsValid() && concrete(v).Type() == valueType {
			return false
		}
		arg = v.Interface()
	}
	var out bytes.Buffer
	if p.t.Execute(&out, arg) != nil {
		return false
	}
	text := out.Bytes()
	m.buf.Write(text[p.prefix : len(text)-p.suffix])
	return true
}

// escaper returns the escape for a chain of html/template's escapers, or nil.
func (b *builder) escaper(chain string) escape {
	p := b.escapers[chain]
	if p == nil {
		return nil
	}
	var text func(b *bytes.Buffer, s string)
	raw := false
	switch chain {
	case "htmlescaper":
		text, raw = html, true
	case "attrescaper", "rcdataescaper":
		text = html
	case "urlescaper attrescaper":
		text = func(b *bytes.Buffer, s string) { url(b, s, false) }
	case "urlnormalizer attrescaper":
		text = func(b *bytes.Buffer, s string) { url(b, s, true) }
	case "urlfilter urlnormalizer attrescaper":
		text = func(b *bytes.Buffer, s string) {
			if !safeURL(s) {
				s = "#ZgotmplZ"
			}
			url(b, s, true)
		}
	default:
		return p.write
	}
	return func(m *machine, v reflect.Value) bool {
		v = concrete(v)
		if !v.IsValid() {
			return p.write(m, v)
		}
		switch t := v.Type(); {
		case t == stringType:
			text(m.buf, v.String())
		case t == intType:
			m.text = strconv.AppendInt(m.text[:0], v.Int(), 10)
			m.buf.Write(m.text)
		case t == boolType:
			m.text = strconv.AppendBool(m.text[:0], v.Bool())
			m.buf.Write(m.text)
		case raw && t == htmlType:
			m.buf.WriteString(v.String())
		default:
			return p.write(m, v)
		}
		return true
	}
}

var htmlType = reflect.TypeFor[template.HTML]()

// html writes s as text or as the value of an attribute. It replaces the same characters as html/template, by
// the same references.
func html(b *bytes.Buffer, s string) {
	from := 0
	for i := range len(s) {
		var ref string
		switch s[i] {
		case 0:
			ref = "\uFFFD"
		case '"':
			ref = "&#34;"
		case '&':
			ref = "&amp;"
		case '\'':
			ref = "&#39;"
		case '+':
			ref = "&#43;"
		case '<':
			ref = "&lt;"
		case '>':
			ref = "&gt;"
		default:
			continue
		}
		b.WriteString(s[from:i])
		b.WriteString(ref)
		from = i + 1
	}
	b.WriteString(s[from:])
}

// url writes s as a part of a URL in an attribute. normalise leaves characters that have a meaning in URLs,
// and existing escapes.
func url(b *bytes.Buffer, s string, normalise bool) {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~':
			b.WriteByte(c)
		case normalise && c == '&':
			b.WriteString("&amp;")
		case normalise && c == '+':
			b.WriteString("&#43;")
		case normalise && strings.IndexByte("!#$*,/:;=?@[]", c) >= 0:
			b.WriteByte(c)
		case normalise && c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// safeURL reports whether a whole URL has no scheme, or one that cannot run scripts.
func safeURL(s string) bool {
	scheme, _, found := strings.Cut(s, ":")
	return !found || strings.Contains(scheme, "/") ||
		strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "mailto")
}
