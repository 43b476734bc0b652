package exec

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"reflect"
	"strings"
	"testing"
)

// growing is a list that grows and shrinks while a page goes over it.
type growing struct{ Items []int }

func (g *growing) Grow() string {
	if len(g.Items) < 5 {
		g.Items = append(g.Items, len(g.Items))
	}
	return ""
}

func (g *growing) Drop() string { g.Items = nil; return "" }

// boxed has methods whose results text/template takes out of a reflect.Value.
type boxed struct{}

func (boxed) False() reflect.Value { return reflect.ValueOf(false) }
func (boxed) HTML() reflect.Value  { return reflect.ValueOf(template.HTML("<b>")) }

// TestCorners: rare cases, too, are as in html/template.
func TestCorners(t *testing.T) {
	c := NewCompiler()
	for _, page := range []string{
		`{{.nil.Name}}`, `{{$.nil.Name}}x`, `{{(.nil).Name}}x`, `{{and .nil.Name 1}}`, `{{range .nil.x}}{{end}}`, `{{if .nil.x}}a{{else}}b{{end}}`, `{{.missing.x.y}}`,
		`{{0i}}`, `{{printf "%d" 0x1p4}} {{printf "%d" 0x1e}} {{printf "%d" -0X1P4}} {{printf "%d" +0x1e}} {{1_0}} {{1e3}} {{-0.0}}`,
		`{{fails | and false}}`, `{{fails | or true}}`, `{{panics | or true}}`, `{{.np.Name | and .no}}`, `{{.s | len | print "x"}}{{if .n | eq -42}}y{{end}}`,
		`{{.boxed}}`, `<script>x = {{.boxed}}</script>`, `<a title="{{.boxed}}">`, `{{if .box.False}}y{{else}}n{{end}}`, `{{.box.HTML}}`, `{{.box.HTML | print}}`, `{{if box}}y{{else}}n{{end}}`, `{{.list}}`,
		`{{define "r"}}{{if .Boss}}{{template "r" .Boss}}{{end}}{{.Name | shout | print (shout .Name)}}{{end}}{{template "r" .p}}`,
	} {
		data := locals()
		maps.Copy(data, map[string]any{"boxed": reflect.ValueOf(template.HTML("<b>")), "box": boxed{}, "list": []reflect.Value{reflect.ValueOf(1)}})
		compareWith(t, c, page, data)
	}
	compareWith(t, c, `{{.}}{{if .}}y{{end}}`, reflect.ValueOf(template.HTML("<b>")))
	compareWith(t, c, `{{if .}}y{{end}}`, reflect.ValueOf(false))
}

// TestOrder: functions are called in the order of html/template, and a list may
// change while it is ranged over.
func TestOrder(t *testing.T) {
	for _, page := range []string{
		`{{seen "a" | print (seen "b") (seen "c")}}`, `{{seen "a" | and (seen "")}}`, `{{seen "a" | pair (seen "b")}}`, `{{seen "a" | eq (seen "b")}}`,
		`{{range .Items}}{{.}}{{$.Grow}}{{else}}none{{end}}`, `{{range .Items}}{{.}}{{$.Drop}}{{else}}none{{end}}`,
	} {
		var calls []string
		funcs := template.FuncMap{
			"seen": func(s string) string { calls = append(calls, s); return s },
			"pair": func(a, b string) string { return a + b },
		}
		tm := template.Must(template.New("page").Funcs(funcs).Parse(page))
		var want, got bytes.Buffer
		if err := tm.Execute(&want, &growing{Items: []int{0, 1}}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(&want, calls)
		calls = nil
		p := NewCompiler().Compile(tm, funcs)
		if p == nil || !p.Execute(&got, &growing{Items: []int{0, 1}}, 1<<20) {
			t.Errorf("%s was left to html/template", page)
			continue
		}
		fmt.Fprint(&got, calls)
		if got.String() != want.String() {
			t.Errorf("%s: %s, html/template: %s", page, got.String(), want.String())
		}
	}
}

// TestForgets: pooled objects do not refer to values of pages.
func TestForgets(t *testing.T) {
	tm := template.Must(template.New("page").Parse(`{{$x := .}}{{$x}}`))
	if err := tm.Execute(&strings.Builder{}, "x"); err != nil {
		t.Fatal(err)
	}
	p := NewCompiler().Compile(tm, nil)
	m := new(machine)
	p.pools.New = func() any { return m }
	if !p.Execute(new(bytes.Buffer), "x", 100) {
		t.Fatal("left to html/template")
	}
	for _, v := range m.vars[:cap(m.vars)] {
		if v.IsValid() {
			t.Errorf("%v is kept", v)
		}
	}
}
