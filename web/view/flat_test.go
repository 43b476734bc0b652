package view_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web/view"
)

// TestPlain: in every place, every value comes out as html/template has it, if
// it is written as it is, too.
func TestPlain(t *testing.T) {
	t.Parallel()
	html := strings.ReplaceAll(strings.Join(view.Snippets(), "\n"), "{{.V}}", "{{.v}}")
	v := load(t, map[string]string{"html.html": html, "z.z.html": strings.ReplaceAll(html, "{{.v}}", "#{v}")})
	if !v.Flat("z") || v.Actions("z") != len(view.Snippets()) {
		t.Fatal("the snippets are not known")
	}
	same := func(value any) {
		t.Helper()
		locals := map[string]any{"v": value}
		if got, want := render(t, v, "z", locals), render(t, v, "html", locals); got != want {
			t.Errorf("%#v:\n got %s\nwant %s", value, got, want)
		}
	}
	for c := range rune(0x180) {
		for _, text := range []string{"%c", "a%c", "%ca", "a%ca", "0%c00", "%[1]c%[1]c", "/%c/", "a-%[1]c.%[1]c"} {
			same(fmt.Sprintf(text, c))
		}
	}
	text := "by pointer"
	for _, value := range []any{
		"", nil, 0, -1, 1 << 40, int64(-5), uint8(7), 1.5, true, time.Second, errors.New("<e>"), &text, (*string)(nil),
		json.Number("12"), template.HTML("<b a='x'>"), template.URL("javascript:x"), template.JS("f()"), template.JSStr(`\x41"`),
		template.CSS("a: b"), template.HTMLAttr("a=b"), template.Srcset("a 1x, b"), "\xff", "a\xc3", "\u2028", "\ufdd0", "\ufffe", "日本語",
		"on", "onclick", "style", "href", "expression", "javascript", "//x/y", "%41", "a b", "http://x/y?z=1", hostile,
	} {
		same(value)
	}
}

// TestNotFlat: a page with a place that is not known is executed, with the same
// keys and failures.
func TestNotFlat(t *testing.T) {
	t.Parallel()
	text := "<style>a { b: url(/x?#{v}) } /* #{v} */</style>\n<p onclick=f(/#{v}/)> #{missing} <script>x = {/* v */}</script>"
	v := load(t, map[string]string{"a.z.html": text})
	if v.Flat("a") {
		t.Skip("all places are known")
	}
	got := render(t, v, "a", map[string]any{"v": map[string]int{"a": 1}})
	want := "<style>a { b: url(/x?%7b%22a%22%3a1%7d) }  </style>\n<p onclick=f(/\\{\\u0022a\\u0022:1\\}/)> missing <script>x = {\"a\":1}</script>"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	err := v.Fragment(new(strings.Builder), "a", map[string]any{"v": panics{}})
	expectError(t, err, view.CodeViewFailed, "a.z.html:2:", "oh dear")
	v = load(t, map[string]string{"a.z.html": "\n#{v} <script>x = /*! v */</script>"})
	err = v.Fragment(new(strings.Builder), "a", map[string]any{"v": panics{}})
	expectError(t, err, view.CodeViewFailed, `a.z.html:2: the value of "v" cannot be shown: oh dear`)
}

// TestNilLists: the list or map that Go calls nil is an empty one to a script.
func TestNilLists(t *testing.T) {
	t.Parallel()
	v := load(t, map[string]string{"a.z.html": "<script>a = {/* m */}, b = [/* l */], c = {/* p */}, d = [/* n */]</script>"})
	got := render(t, v, "a", map[string]any{"m": map[string]int(nil), "l": []string(nil), "p": (*time.Time)(nil), "n": nil})
	if want := "<script>a = {}, b = [], c =  null , d =  null </script>"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
