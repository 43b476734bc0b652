package view_test

import (
	"bytes"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/view"
)

// hostile closes tags, attributes and strings. What may not come out of a page
// is "<q9" and a quotation mark between two q9s that was not escaped.
const hostile = "x9<q9\"q9'q9`q9${q9}\\</script>\u2028 x9"

var escapedNot = regexp.MustCompile(`<q9|[^\\]q9"q9|q9"q9'q9"`)

// FuzzZ: no text makes the compiler panic; accepted texts never output a hostile value unescaped; and a text
// without tags is rendered as by html/template.
func FuzzZ(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.txt")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		_, list := sections(string(text))
		for _, s := range list {
			if s.verb == "file" {
				f.Add(s.text)
			}
		}
	}
	for _, s := range []string{"<a b='#{x}' c=#{x}>", "<script>a = /*! x */, b = '#{x}', c = `${ {/* x */} }`</script>", "<p onclick=\"f([/* x */])\">", `\\\#{x}`, "<style>a{b:#{x}}</style>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkZ(t, text) })
}

func checkZ(t *testing.T, text string) {
	if strings.Contains(text, "q9") {
		return
	}
	v, err := view.New(view.Options{FS: folder(map[string]string{"a.z.html": text})})
	if err != nil {
		expectError(t, err, view.CodeViewBroken, "a.z.html")
		return
	}
	keys := view.Keys(text)
	locals := map[string]any{}
	for i, key := range keys {
		locals[key] = []any{hostile, []string{hostile}, map[string]any{hostile: hostile}}[i%3]
	}
	got := render(t, v, "a", locals)
	if m := escapedNot.FindString(got); m != "" {
		t.Errorf("%q outputs %q unescaped:\n%s", text, m, got)
	}
	render(t, v, "a", nil)
	if len(keys) > 0 || strings.Contains(text, `\#{`) {
		return
	}
	left, right := view.Marks()
	want, err := template.New("a").Delims(left, right).Parse(strings.TrimPrefix(text, "\uFEFF"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if strings.TrimPrefix(text, "\uFEFF") != "" {
		if err := want.Execute(&b, nil); err != nil {
			t.Fatalf("%q: html/template rejects it: %v", text, err)
		}
	}
	if b.String() != got {
		t.Errorf("%q:\n got %q\nwant %q", text, got, b.String())
	}
}

// pieces are parts of pages in the Z syntax and for html/template.
var pieces = []struct{ z, html string }{
	{"#{a}", "{{.a}}"}, {"#{b}", "{{.b}}"}, {"#{n}", "{{.n}}"}, {"#{h}", "{{.h}}"}, {"#{nil}", "{{.nil}}"},
	{"<script>var a = {/* m */}, b = [/* l */], c = /*! a */, d = '#{b}', e = #{n}", "<script>var a = {{.m}}, b = {{.l}}, c = {{.a}}, d = '{{.b}}', e = {{.n}}"},
	{"<p onclick=\"f({/* m */}, /*! b */)\"", "<p onclick=\"f({{.m}}, {{.b}})\""},
	{"<script>", ""}, {"</script>", ""}, {"<style>", ""}, {"</style>", ""}, {"<title>", ""}, {"</title>", ""}, {"<textarea>", ""},
	{"</textarea>", ""}, {"<a href=\"", ""}, {"<a href='/x?q=", ""}, {"<img srcset=\"", ""}, {"<p style='", ""}, {"<p title=", ""},
	{"<p onclick=\"", ""}, {"<p ", ""}, {">", ""}, {"\"", ""}, {"'", ""}, {"`", ""}, {"${", ""}, {"}", ""}, {"{", ""}, {"(", ""}, {")", ""},
	{"[", ""}, {"]", ""}, {"=", ""}, {" x = 1;", ""}, {"?", ""}, {"#", ""}, {"\n", ""}, {" ", ""}, {"/", ""}, {"url(", ""}, {"color: ", ""}, {"</p>", ""},
}

// FuzzSame: a Z file, the same page as an html/template file, and html/template
// alone give the same bytes.
func FuzzSame(f *testing.F) {
	rnd := seed.Rand(f)
	for range 300 {
		b := make([]byte, rnd.IntN(12))
		for i := range b {
			b[i] = byte(rnd.IntN(len(pieces)))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, choice []byte) { checkSame(t, choice) })
}

func checkSame(t *testing.T, choice []byte) {
	var z, html strings.Builder
	for i, c := range choice[:min(len(choice), 40)] {
		p := pieces[int(c)%len(pieces)]
		if strings.Contains(p.z, "/*") && i > 0 {
			continue // comment forms only where they are tags for sure
		}
		z.WriteString(p.z)
		if p.html == "" {
			p.html = p.z
		}
		html.WriteString(p.html)
	}
	tags := strings.Count(html.String(), "{{.")
	if strings.Count(html.String(), "{{") != tags || strings.Contains(html.String(), "{{{") {
		return // braces of the text that html/template would take
	}
	locals := map[string]any{
		"a": hostile, "b": "javascript:alert(1)", "n": -7, "h": template.HTML("<b title='x'>"), "nil": nil,
		"m": map[string]any{"<": hostile}, "l": []int{1, 2},
	}
	a, errA := view.New(view.Options{FS: folder(map[string]string{"a.z.html": z.String()})})
	b, errB := view.New(view.Options{FS: folder(map[string]string{"a.html": html.String()})})
	if (errA == nil) != (errB == nil) {
		t.Fatalf("%q: %v\n%q: %v", z.String(), errA, html.String(), errB)
	}
	if errA != nil {
		if line := regexp.MustCompile(`html:\d+: `); engine.CodeOf(errA) != view.CodeViewBroken || !line.MatchString(errA.Error()) {
			t.Errorf("%q: no line in %v", z.String(), errA)
		}
		return
	}
	if a.Actions("a") != tags { // one stands in a comment
		return
	}
	var want bytes.Buffer
	if err := template.Must(template.New("").Parse(html.String())).Execute(&want, locals); err != nil && html.Len() > 0 {
		t.Fatalf("%q: %v", html.String(), err)
	}
	for _, got := range []string{render(t, a, "a", locals), render(t, b, "a", locals)} {
		if got != want.String() {
			t.Errorf("%q\n got %q\nwant %q", z.String(), got, want.String())
		}
	}
}
