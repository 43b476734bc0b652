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

// places have a value in every kind of place.
const places = `{{.v}} <title>{{.v}}</title> <p title="{{.v}}"> <p title={{.v}}> <p {{.v}}>
<a href="{{.v}}"> <a href="/{{.v}}"> <a href="?{{.v}}"> <a href={{.v}}> <a href=/{{.v}}> <a href=?{{.v}}>
<img srcset="{{.v}}"> <meta content="url={{.v}}"> <meta content="{{.v}}">
<script>a = {{.v}}, b = '{{.v}}', c = "{{.v}}", d = ` + "`{{.v}} ${ {{.v}} }`" + `, e = /{{.v}}/</script>
<p onclick="f({{.v}}, '{{.v}}')" onload=g({{.v}})> <p style="a: {{.v}}; b: '{{.v}}'; c: url('{{.v}}'); d: url('/{{.v}}')">
<style>a { b: {{.v}}; c: "{{.v}}"; d: url("{{.v}}"); e: url(/x?{{.v}}) }</style>
`

// TestValues: in every place, every value comes out as html/template has it.
func TestValues(t *testing.T) {
	t.Parallel()
	v := load(t, map[string]string{"html.html": places, "z.z.html": strings.ReplaceAll(places, "{{.v}}", "#{v}")})
	plain := template.Must(template.New("").Parse(places))
	same := func(value any) {
		t.Helper()
		locals := map[string]any{"v": value}
		var want strings.Builder
		if err := plain.Execute(&want, locals); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"z", "html"} {
			if got := render(t, v, name, locals); got != want.String() {
				t.Fatalf("%s: %#v:\n got %s\nwant %s", name, value, got, want.String())
			}
		}
	}
	for c := range rune(0x100) {
		for _, text := range []string{"%c", "a%c", "%ca", "a%ca", "0%c00", "%[1]c%[1]c"} {
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

// TestFailingValue: a value that cannot be shown is an error with its line.
func TestFailingValue(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"a.z.html": "\n\n<script>x = /*! v */</script>", "a.html": "\n\n<script>x = {{.v}}</script>"} {
		v := load(t, map[string]string{name: text})
		err := v.Fragment(new(strings.Builder), "a", map[string]any{"v": panics{}})
		expectError(t, err, view.CodeViewFailed, name+":3:", "oh dear")
	}
	v := load(t, map[string]string{"a.z.html": "#{v}"}) // JSON in text, which reports no error
	if got := render(t, v, "a", map[string]any{"v": panics{}}); got != "{}" {
		t.Errorf("got %s", got)
	}
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
