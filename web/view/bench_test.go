package view_test

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/web/view"
)

// benchPage makes a page of about 10 kB with 60 values for both kinds of files,
// and its locals, of which one in eight has something to escape.
func benchPage() (z, html string, locals map[string]any) {
	var a, b strings.Builder
	both := func(format string, zs, hs []any) {
		fmt.Fprintf(&a, format, zs...)
		fmt.Fprintf(&b, format, hs...)
	}
	locals = map[string]any{
		"m": map[string]any{"a": 1, "b": "two"}, "l": []int{1, 2, 3}, "v": 7, "s": "it's",
	}
	for i := range 28 {
		filler := strings.Repeat("lorem ipsum dolor sit amet ", 10)
		k, l := fmt.Sprint("k", i), fmt.Sprint("l", i)
		locals[k], locals[l] = fmt.Sprintf("some/path/%d", i), fmt.Sprintf("the value number %d", i)
		if i%4 == 0 {
			locals[l] = fmt.Sprintf("<%d> isn't plain", i)
		}
		both("<p><a href=\"/x/%s\" title='"+filler+"'>%s</a></p>\n", []any{"#{" + k + "}", "#{" + l + "}"}, []any{"{{." + k + "}}", "{{." + l + "}}"})
	}
	both("<script>\nvar m = %s, l = %s, v = %s, s = '%s';\n</script>\n",
		[]any{"{/* m */}", "[/* l */]", "/*! v */", "#{s}"}, []any{"{{.m}}", "{{.l}}", "{{.v}}", "{{.s}}"})
	return a.String(), b.String(), locals
}

const benchLayout = "<!DOCTYPE html>\n<title>{{.title}}</title>\n<main>{{.contents}}</main>\n"

// measure runs fn as a benchmark.
func measure(b *testing.B, name string, fn func() error) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := fn(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFragment compares both kinds of files with html/template alone, which
// writes into a reused buffer.
func BenchmarkFragment(b *testing.B) {
	z, html, locals := benchPage()
	v := load(b, map[string]string{"z.z.html": z, "html.html": html})
	plain := template.Must(template.New("").Parse(html))
	b.SetBytes(int64(len(render(b, v, "z", locals))))
	if render(b, v, "z", locals) != render(b, v, "html", locals) {
		b.Fatal("the pages differ")
	}
	for _, name := range []string{"z", "html"} {
		measure(b, name, func() error { return v.Fragment(io.Discard, name, locals) })
	}
	var buf bytes.Buffer
	measure(b, "plain", func() error { buf.Reset(); return plain.Execute(&buf, locals) })
}

// BenchmarkRender is a page in its layout, and one for which locals have to be
// added.
func BenchmarkRender(b *testing.B) {
	z, html, locals := benchPage()
	locals["title"] = "title"
	v := load(b, map[string]string{"z.z.html": z, "html.html": html, "layout.html": benchLayout, "mixed.z.html": z + "#{m} #{v} #{not given}"})
	plain := template.Must(template.New("page").Parse(html))
	template.Must(plain.New("layout").Parse(strings.Replace(benchLayout, "{{.contents}}", "{{template \"page\" .}}", 1)))
	for _, name := range []string{"z", "html", "mixed"} {
		measure(b, name, func() error { return v.Render(io.Discard, name, locals) })
	}
	var buf bytes.Buffer
	measure(b, "plain", func() error { buf.Reset(); return plain.ExecuteTemplate(&buf, "layout", locals) })
}

// BenchmarkNew measures the cost of one page at start.
func BenchmarkNew(b *testing.B) {
	z, html, _ := benchPage()
	for name, files := range map[string]map[string]string{"z": {"a.z.html": z}, "html": {"a.html": html}} {
		fsys := folder(files)
		measure(b, name, func() error { _, err := view.New(view.Options{FS: fsys}); return err })
	}
}
