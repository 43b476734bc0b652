package exec

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
)

type person struct {
	Name   string
	Age    int
	Tags   []string
	Boss   *person
	Web    template.URL
	Extra  any
	secret string
}

func (p person) Upper() string            { return strings.ToUpper(p.Name) }
func (p *person) Pointed() string         { return "*" + p.Name }
func (p person) Failing() (string, error) { return "", errors.New("it fails") }
func (p person) Maybe() (string, error)   { return "<maybe>", nil }

type named string

type text struct{ s string }

func (t text) String() string { return "text " + t.s }

var funcs = template.FuncMap{
	"shout":  func(s string) string { return s + "!" },
	"add":    func(a, b int) int { return a + b },
	"fails":  func() (string, error) { return "", errors.New("no") },
	"panics": func() string { panic("no") },
	"many":   func(a ...int) int { return len(a) },
}

// hostile values stand where a page's author did not expect them.
const hostile = "<img src=x onerror='alert(1)'>\"`${1}</script>\u2028&amp;+%41%zz\x00\xff javascript:x"

func locals() map[string]any {
	boss := &person{Name: "<boss>", Age: 60, Tags: []string{"a&b"}}
	return map[string]any{
		"s": hostile, "n": -42, "u": uint8(7), "f": 1.5e30, "b": true, "no": false, "nil": nil, "empty": "",
		"html": template.HTML("<b>x</b>"), "js": template.JS("f()"), "url": template.URL("/a?b=c&d"), "link": "https://x.y/z?a=b&c=d e", "bad": "javascript:alert(1)",
		"named": named("<n>"), "text": text{"<t>"}, "err": errors.New("<e>"), "time": time.Unix(0, 0).UTC(), "bytes": []byte("<x>"),
		"p": person{secret: "x", Name: "<p>", Age: 3, Tags: []string{"x", "<y>"}, Boss: boss, Web: "http://w", Extra: map[string]any{"k": "<v>"}}, "pp": boss,
		"people": []person{{Name: "a"}, {Name: "<b>", Boss: boss}}, "ptrs": []*person{boss}, "none": []string{}, "nils": []any{nil, "x", 1},
		"m": map[string]int{"b": 2, "a": 1}, "mi": map[int]string{2: "b", 1: "a"}, "mm": map[string]map[string]string{"x": {"y": "<z>"}}, "np": (*person)(nil),
		"ch": closed(), "fn": func() string { return "f" }, "k": "a",
	}
}

var pages = []string{
	`plain`, `{{.s}}`, `{{.n}} {{.u}} {{.f}} {{.b}} {{.nil}} {{.missing}} {{.empty}}`, `{{.html}} {{.js}} {{.url}}`,
	`<a title="{{.s}}" class='{{.html}}' id={{.s}}>{{.named}} {{.text}} {{.err}} {{.time}} {{.bytes}}</a>`,
	`<a href="{{.link}}">{{.link}}</a><a href="{{.bad}}">x</a><a href="{{.s}}">x</a><a href="{{.url}}">x</a><a href="/?q={{.s}}&r={{.n}}">x</a><a href='/p/{{.s}}'>x</a><a href={{.s}}>x</a>`,
	`<a href="{{.missing}}">{{.n}}</a><a href="?x={{.missing}}{{.b}}{{.u}}{{.f}}">x</a>`,
	`<script>var a = {{.s}}, b = "{{.s}}", c = '{{.n}}', d = {{.m}}, e = {{.people}}, f = {{.missing}}; g = ` + "`{{.s}}`" + `; h = /{{.s}}/;</script>`,
	`<a onclick="f({{.s}}, '{{.s}}', {{.m}})" style="color: {{.s}}; background: url('{{.link}}')">x</a><style>p { color: {{.k}} }</style><img srcset="{{.link}}">`,
	`<title>{{.s}}</title><textarea>{{.html}}</textarea><!-- {{.s}} -->`,
	`{{if .b}}yes {{.s}}{{else}}no{{end}}{{if .no}}x{{else if .s}}elseif{{end}}{{if .missing}}x{{else}}missing{{end}}{{if .nil}}x{{end}}{{if .np}}x{{else}}np{{end}}{{if .f}}f{{end}}{{if .u}}u{{end}}`,
	`{{with .p}}{{.Name}} {{.Age}} {{.Upper}} {{.Maybe}} {{.Web}} {{.Boss.Name}} {{.Extra.k}} {{$.s}}{{end}}{{with .missing}}x{{else}}none{{end}}{{with $x := .s}}{{$x}}{{.}}{{end}}`,
	`{{range .people}}<i>{{.Name}} {{.Upper}} {{with .Boss}}{{.Name}} {{.Pointed}}{{end}}</i>{{else}}none{{end}}{{range .none}}x{{else}}none{{end}}{{range .missing}}x{{else}}m{{end}}`,
	`{{range $i, $p := .people}}{{$i}}:{{$p.Name}}{{.Pointed}} {{end}}{{range $x := .p.Tags}}{{$x}}{{.}}{{end}}{{range .ptrs}}{{.Name}}{{.Pointed}}{{end}}`,
	`{{range $k, $v := .m}}{{$k}}={{$v}};{{end}}{{range .m}}{{.}}{{end}}{{range .mi}}{{.}}{{end}}{{range 3}}{{.}}{{end}}{{range $i := 3}}{{$i}}{{end}}{{range .n}}x{{else}}neg{{end}}`,
	`{{range .nils}}[{{.}}]{{end}}{{range .people}}{{if eq .Name "a"}}{{continue}}{{end}}{{.Name}}{{break}}{{end}}{{range .people}}{{break}}{{else}}x{{end}}`,
	`{{$x := 1}}{{$x}}{{$x = 2}}{{$x}}{{if .b}}{{$x := 3}}{{$x}}{{$x = 4}}{{end}}{{$x}}{{range 2}}{{$x = .}}{{end}}{{$x}}{{$y := .s}}{{$y}}`,
	`{{shout .s}} {{.k | shout}} {{add 1 2}} {{add .n 2}} {{shout "x" | shout}} {{shout .named}}`, `{{add .u 1}}`, `{{many 1 2}}`, `{{fails}}`, `{{panics}}`, `{{shout .n}}`,
	`{{and .b .s}} {{and .no .s}} {{or .no .empty .k}} {{or .no .empty}} {{not .b}} {{not .missing}} {{len .s}} {{len .people}} {{len .m}} {{and .missing .s}}`,
	`{{eq .n -42}} {{ne .s "x"}} {{lt .n 3}} {{le .n -42}} {{gt "b" "a"}} {{ge 2 3}} {{eq .b true}} {{eq .u 7}} {{eq .k "a" "b"}} {{eq .missing "x"}} {{eq .named "<n>"}}`, `{{eq .n "x"}}`, `{{lt .b true}}`, `{{eq .f 1.5e30}} {{lt 1.5 2.5}}`,
	`{{print .n " " .s}} {{printf "%d-%q" .n .k}} {{println .k}} {{printf "%s" .missing}}`, `{{index .m "a"}} {{index .people 0}} {{slice .s 1 2}}`, `{{html .s}} {{.s | html}} {{js .s}} {{urlquery .s}}`,
	`{{define "x"}}[{{.}}{{$}}]{{end}}{{template "x" .s}}{{template "x"}}{{template "x" .n}}<a title="{{template "x" .s}}">`, `{{define "r"}}{{.Name}}{{with .Boss}}{{template "r" .}}{{end}}{{end}}{{template "r" .p}}`,
	`{{block "b" .p}}{{.Name}}{{end}}`, `{{(.p).Name}} {{(index .people 0).Name}} {{.p.Name | printf "%s" | shout}} {{$.p.Boss.Boss}} {{.mm.x.y}} {{.mm.q.y}}`,
	`{{.p.Missing}}`, `{{.p.secret}}`, `{{.p.hidden}}`, `{{.np.Name}}`, `{{.s.Name}}`, `{{.p.Failing}}`, `{{.p.Boss.Boss.Name}}`, `{{.fn}}`, `{{call .fn}}`, `{{range .ch}}{{end}}`, `{{nil}}`, `{{range .s}}{{.}}{{end}}`,
	`{{/* a comment */}}{{- " trimmed " -}} {{true}} {{3}} {{0x10}} {{'a'}} {{1e3}} {{1i}} {{"q\"<"}} {{.u}}`, `{{range .people}}{{$n := .Name}}{{$n}}{{end}}{{with .p}}{{with .Boss}}{{.Name}}{{end}}{{.Name}}{{end}}`,
	`{{if and .b (eq .k "a") (gt (len .people) 1)}}ok{{end}}{{if or (not .b) (and .k .no)}}x{{else}}y{{end}}`, `{{range $i, $e := .none}}{{else}}{{$e}}{{end}}`, `{{with .nil}}x{{else}}y{{end}}{{.p}}`, `{{.people}}{{.m}}{{.nils}}`,
	`<a {{.k}}="{{.s}}" data-x="{{.s}}" href="{{if .b}}/x{{else}}{{.bad}}{{end}}?{{.s}}#{{.s}}">`, `<a href="{{if .b}}{{.link}}{{else}}/x/{{end}}">`,
}

// compareWith executes t both ways.
func compareWith(t *testing.T, c *Compiler, page string, data any) (fast bool) {
	t.Helper()
	tm, err := template.New("page").Funcs(funcs).Parse(page)
	if err != nil {
		return false
	}
	var want, got bytes.Buffer
	failed := tm.Execute(&want, data)
	if tm.Tree == nil {
		return false // it cannot be escaped
	}
	p := c.Compile(tm, funcs)
	if p == nil {
		return false
	}
	for range 2 {
		got.Reset()
		got.WriteString("before")
		if !p.Execute(&got, data, 1<<20) {
			if got.String() != "before" {
				t.Errorf("%s: not executed, but something was written: %q", page, got.String())
			}
			return false
		}
		if failed != nil {
			t.Errorf("%s: html/template fails with %v, but the output here is %q", page, failed, got.String())
			return true
		}
		if got.String() != "before"+want.String() {
			t.Errorf("%s:\n%q\nhtml/template:\n%q", page, got.String()[6:], want.String())
		}
	}
	return true
}

// TestSameAsHTMLTemplate: every page gives what html/template gives, or is left to it.
// Most are not left to it: those that are, are counted.
func TestSameAsHTMLTemplate(t *testing.T) {
	c := NewCompiler()
	left := 0
	for _, page := range pages {
		if !compareWith(t, c, page, locals()) {
			left++
			t.Logf("left to html/template: %s", page)
		}
	}
	if left > 33 {
		t.Errorf("%d of %d pages are left to html/template", left, len(pages))
	}
	for _, data := range []any{nil, "x<", 3, []string{"a"}, person{Name: "<x>"}, &person{Name: "<x>"}, (*person)(nil), map[string]string{"s": "<"}, map[named]string{"Name": "<"}} {
		for _, page := range []string{`{{.}}`, `{{.Name}}`, `{{.s}}`, `{{.Pointed}}`, `{{with .}}{{.}}{{end}}`, `{{range .}}{{.}}{{end}}`, `{{$}}`} {
			compareWith(t, c, page, data)
		}
	}
}

// FuzzValues: any text in any place.
func FuzzValues(f *testing.F) {
	for _, s := range []string{hostile, "", "mailto:x", "HTTP:/x", "a:b", "/a:b", "%4", "%41", "é", "-->", "]]>", "\\", "{{", "+-1e5", "x y"} {
		f.Add(s)
	}
	c := NewCompiler()
	f.Fuzz(func(t *testing.T, s string) {
		for _, place := range places {
			page := strings.Replace(place, "«»", "{{.}}", 1)
			compareWith(t, c, page, s)
			compareWith(t, c, page, template.HTML(s))
			compareWith(t, c, page, named(s))
			compareWith(t, c, page, []any{s, len(s), nil})
		}
	})
}

// TestRandomPages: pages put together at random from pieces.
func TestRandomPages(t *testing.T) {
	rng := seed.Rand(t)
	c := NewCompiler()
	fast := 0
	const n = 2000
	for range n {
		page := randomPage(rng, 3)
		if compareWith(t, c, page, locals()) {
			fast++
		}
		if t.Failed() {
			return
		}
	}
	if fast < n/20 {
		t.Errorf("only %d of %d pages were executed here", fast, n)
	}
}

// randomValue is a pipe, which mostly has a value.
func randomValue(rng *rand.Rand, depth int) string {
	words := []string{
		".", "$", "$.s", "$.n", "$.b", "$.no", "$.k", "$.html", "$.link", "$.missing", "$.nil", "$.nil.Name", "$.people", "$.nils", "$.m", "$.mm.x.y", "$.mm.q.y", "$.p", "$.pp", "$.np",
		"$.text", "$.err", "$.p.Name", "$.p.Boss.Name", "$.p.Extra.k", "$.pp.Pointed", "$.p.Upper", "$.p.Maybe", "$.u", "$.f", ".Name", ".k", "1", "-2", "1.5", "0x1e", "0x1p4", "0i", `"<q>"`, "true", "'x'",
	}
	word := func() string {
		if depth > 0 && rng.IntN(6) == 0 {
			return "(" + randomValue(rng, depth-1) + ")"
		}
		return words[rng.IntN(len(words))]
	}
	s := word()
	if rng.IntN(3) == 0 {
		calls := []string{"and", "or", "not", "len", "eq", "ne", "lt", "ge", "print", `printf "%v %T"`, "shout", "add 1", "fails", "html", "index"}
		s = calls[rng.IntN(len(calls))]
		for range rng.IntN(3) {
			s += " " + word()
		}
	}
	for rng.IntN(5) == 0 {
		s += " | " + []string{"print", "and $.b", "and $.no", "or $.no", "or true", "len", "not", "eq 1", "shout", `printf "%v-%v" 1`, "html"}[rng.IntN(11)]
	}
	return s
}

func randomPage(rng *rand.Rand, depth int) string {
	value := func() string { return randomValue(rng, 2) }
	var b strings.Builder
	for range 1 + rng.IntN(4) {
		switch k := rng.IntN(9); {
		case k < 3 || depth == 0:
			b.WriteString(strings.Replace(places[rng.IntN(13)], "«»", "{{"+value()+"}}", 1))
		case k == 3:
			fmt.Fprintf(&b, "{{if %s}}%s{{else}}%s{{end}}", value(), randomPage(rng, depth-1), randomPage(rng, depth-1))
		case k == 4:
			fmt.Fprintf(&b, "{{with %s}}%s{{end}}", value(), randomPage(rng, depth-1))
		case k == 5:
			fmt.Fprintf(&b, "{{range $i, $e := $.people}}{{$i}}%s{{end}}", randomPage(rng, depth-1))
		case k == 6:
			fmt.Fprintf(&b, "{{$v := %s}}{{$v}}%s{{$v = %s}}{{$v}}", value(), randomPage(rng, depth-1), value())
		case k == 7:
			fmt.Fprintf(&b, "{{range %s}}%s{{break}}{{end}}", value(), randomPage(rng, depth-1))
		default:
			b.WriteString(places[rng.IntN(len(places))][:1] + "p>text")
		}
	}
	return b.String()
}

// TestDepth: endless recursion is left to html/template, which has a limit.
func TestDepth(t *testing.T) {
	tm := template.Must(template.New("r").Parse(`x{{template "r" .}}`))
	if err := tm.Execute(stop{}, 1); err == nil {
		t.Fatal("endless recursion ended")
	}
	p := NewCompiler().Compile(tm, nil)
	if p == nil {
		t.Fatal("not compiled")
	}
	var buf bytes.Buffer
	if p.Execute(&buf, 1, 1<<20) || buf.Len() != 0 {
		t.Errorf("executed: %d bytes", buf.Len())
	}
}

// TestLimit: a page over the limit is left to html/template, and its output dropped.
func TestLimit(t *testing.T) {
	c := NewCompiler()
	for page, whole := range map[string]int{`{{range .}}x{{end}}`: 100, `{{range .}}{{.}}{{end}}`: 100, `abc{{range .}}{{end}}d`: 4, `{{printf "%100d" 1}}`: 100} {
		tm := template.Must(template.New("l").Parse(page))
		data := make([]string, 100)
		for i := range data {
			data[i] = "y"
		}
		if err := tm.Execute(io.Discard, data); err != nil {
			t.Fatal(err)
		}
		p := c.Compile(tm, nil)
		for limit, want := range map[int]bool{whole: true, whole - 1: false} {
			var buf bytes.Buffer
			if got := p.Execute(&buf, data, limit); got != want || !got && buf.Len() != 0 {
				t.Errorf("%s with %d bytes: %v, %d bytes", page, limit, got, buf.Len())
			}
		}
	}
}

// stop is a writer that has had enough at once.
type stop struct{}

func (stop) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// BenchmarkPage measures a page of 10 kB with 160 values both ways.
func BenchmarkPage(b *testing.B) {
	const page = `<h1>{{.title}}</h1><table>{{range .people}}<tr><td><a href="/p?name={{.Name}}">{{.Name}}</a></td><td title="{{.Age}}">{{.Upper}}</td></tr>
{{end}}</table>`
	data := map[string]any{"title": "People & <others>"}
	var people []*person
	for i := range 40 {
		people = append(people, &person{Name: fmt.Sprintf("Person %d & \"%s\"", i, strings.Repeat("x", 50)), Age: i})
	}
	data["people"] = people
	tm := template.Must(template.New("page").Parse(page))
	var buf bytes.Buffer
	b.Run("html-template", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf.Reset()
			if err := tm.Execute(&buf, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	p := NewCompiler().Compile(tm, nil)
	b.Run("exec", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf.Reset()
			if !p.Execute(&buf, data, 1<<20) {
				b.Fatal("left to html/template")
			}
		}
		b.SetBytes(int64(buf.Len()))
	})
}

func closed() chan int {
	c := make(chan int)
	close(c)
	return c
}
