package view

import (
	"errors"
	"html/template"
	"reflect"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/skerrydb/skerry/engine"
)

// A compiled Z file is a list of texts and values, without conditions and loops.
// It can be written straight off: a value that has nothing to escape as it is,
// and every other one by a template that has html/template's escapers for that
// place and nothing else. That takes a tenth of the time of executing the
// whole. Files with places that are not in snippets are executed.

// op is one text or value of a Z file.
type op struct {
	text  string
	shown *shown // nil for text
	slot  int
	line  int
}

// shown says how values are written in one kind of place.
type shown struct {
	plain *[256]bool // the bytes that html/template leaves as they are; nil: it looks at the whole
	tmpl  *template.Template
}

// one is what such a template is executed on.
type one struct{ V any }

// snippets have a value in every kind of place.
func snippets() []string {
	return []string{
		`{{.V}}`, `<title>{{.V}}</title>`, `<p title="{{.V}}">`, `<p title={{.V}}>`, `<p {{.V}}>`,
		`<a href="{{.V}}">`, `<a href="/{{.V}}">`, `<a href="?{{.V}}">`, `<a href={{.V}}>`, `<a href=/{{.V}}>`, `<a href=?{{.V}}>`,
		`<img srcset="{{.V}}">`, `<meta content="url={{.V}}">`,
		`<script>{{.V}}</script>`, `<script>'{{.V}}'</script>`, "<script>`{{.V}}`</script>", `<script>/{{.V}}/</script>`,
		`<p onclick="{{.V}}">`, `<p onclick="'{{.V}}'">`, `<p onclick={{.V}}>`,
		`<style>{{.V}}</style>`, `<p style="{{.V}}">`, `<style>"{{.V}}"</style>`, `<style>url("{{.V}}")</style>`, `<style>url("/{{.V}}")</style>`,
		`<p style="a:'{{.V}}'">`, `<p style="url('{{.V}}')">`, `<p style="url('/{{.V}}')">`,
	}
}

// plainBytes says which bytes none of the escapers changes, wherever in a value
// they stand. TestPlain holds it against html/template, which a new version of
// Go may change.
func plainBytes(escapers []string) *[256]bool {
	const word = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
	var plain [256]bool
	mark := func(chars string) *[256]bool {
		for i := range len(chars) {
			plain[chars[i]] = true
		}
		return &plain
	}
	text, url := true, true
	for _, e := range escapers {
		switch strings.TrimPrefix(e, "_html_template_") {
		case "htmlescaper", "attrescaper", "rcdataescaper":
			url = url && len(escapers) > 1
		case "urlfilter", "urlnormalizer":
			text = false
		case "nospaceescaper", "urlescaper", "jsstrescaper", "jstmpllitescaper":
			text, url = false, false
		default:
			return nil
		}
	}
	switch {
	case text:
		for c := range plain {
			plain[c] = c != 0 && !strings.ContainsRune("\"&'+<>", rune(c))
		}
		return &plain
	case url:
		return mark(word + "-./")
	}
	return mark(word + "-.")
}

// newShown makes what is needed for every kind of place, by its escapers.
func newShown(s *set) (map[string]*shown, error) {
	all := map[string]*shown{}
	for _, text := range snippets() {
		t, err := template.New("value").Parse(text)
		if err != nil {
			return nil, err
		}
		tmpl, err := s.escape("value", map[string]*parse.Tree{"value": t.Tree})
		if err != nil {
			return nil, err
		}
		root := tmpl.Tree.Root
		for _, n := range root.Nodes {
			if a, ok := n.(*parse.ActionNode); ok {
				names := escapers(a)
				all[strings.Join(names, " ")] = &shown{plain: plainBytes(names), tmpl: tmpl}
				root.Nodes = []parse.Node{a}
				break
			}
		}
	}
	return all, nil
}

// escapers returns the names of the escapers of an action.
func escapers(a *parse.ActionNode) (names []string) {
	for _, c := range a.Pipe.Cmds {
		if id, ok := c.Args[0].(*parse.IdentifierNode); ok {
			names = append(names, id.Ident)
		}
	}
	return names
}

// flatten makes the list of a page, nil if it has a place that is not known.
func (z *zpage) flatten(tree *parse.Tree, known map[string]*shown) (ops []op) {
	slots := map[string]int{}
	for i, s := range z.slots {
		slots[s.name] = i
	}
	for _, n := range tree.Root.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			ops = append(ops, op{text: string(n.Text)})
		case *parse.ActionNode:
			how := known[strings.Join(escapers(n), " ")]
			if how == nil {
				return nil
			}
			slot := slots[n.Pipe.Cmds[0].Args[0].(*parse.FieldNode).Ident[0]]
			ops = append(ops, op{shown: how, slot: slot, line: n.Line})
		default:
			return nil
		}
	}
	return ops
}

// write renders the list.
func (z *zpage) write(b *buffer, p *page, locals map[string]any, missing func(*slot)) error {
	values := make([]any, len(z.slots))
	for i := range z.slots {
		values[i] = z.slots[i].value(locals, missing)
	}
	for i := range z.ops {
		o := &z.ops[i]
		text := o.text
		if o.shown != nil {
			var plain bool
			if text, plain = o.shown.asIs(values[o.slot]); !plain {
				if err := o.shown.tmpl.Execute(b, &one{values[o.slot]}); err != nil {
					return p.failedValue(err, z.slots[o.slot].key, o.line)
				}
				continue
			}
		}
		if err := b.room(len(text)); err != nil {
			return p.failed(err)
		}
		b.b.WriteString(text)
	}
	return nil
}

// asIs returns the text of a value that has nothing to escape, and whether it
// is one. The empty string is none: html/template puts a word in its place where
// nothing cannot stand.
func (s *shown) asIs(v any) (text string, plain bool) {
	if s.plain == nil {
		return "", false
	}
	switch v := v.(type) {
	case string:
		text = v
	case int:
		text = strconv.Itoa(v)
	case int64:
		text = strconv.FormatInt(v, 10)
	default:
		return "", false
	}
	for i := range len(text) {
		if !s.plain[text[i]] {
			return "", false
		}
	}
	return text, text != ""
}

// failedValue makes the error of showing one value one of the page.
func (p *page) failedValue(err error, key string, line int) error {
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Code == CodeViewTooLarge {
		return p.failed(err)
	}
	m := placed(err, p.file.path)
	_, what, ok := strings.Cut(m.what, "error calling _html_template_")
	if _, cause, found := strings.Cut(what, ": "); ok && found {
		m.what = cause
	}
	m = mistake{p.file.path, line, "the value of " + strconv.Quote(key) + " cannot be shown: " + m.what}
	return &engine.Error{Code: CodeViewFailed, Msg: "render a view: " + m.String(), Err: err}
}

// value returns what a slot stands for.
func (s *slot) value(locals map[string]any, missing func(*slot)) any {
	v, given := locals[s.key]
	if !given {
		missing(s)
		return s.fallback()
	}
	switch s.class {
	case classText:
		if text, composite := jsonText(v); composite {
			return text
		}
	case classObject, classArray:
		if r := reflect.ValueOf(v); (r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.IsNil() {
			return template.JS(map[class]string{classObject: "{}", classArray: "[]"}[s.class])
		}
	}
	return v
}
