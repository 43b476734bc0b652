package view_test

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/view"
)

// folder makes a file system of paths and texts.
func folder(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// load makes views of paths and texts.
func load(t testing.TB, files map[string]string) *view.Views {
	t.Helper()
	return newViews(t, view.Options{FS: folder(files)})
}

func newViews(t testing.TB, o view.Options) *view.Views {
	t.Helper()
	v, err := view.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render returns a page without a layout.
func render(t testing.TB, v *view.Views, name string, locals map[string]any) string {
	t.Helper()
	var b bytes.Buffer
	if err := v.Fragment(&b, name, locals); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// expectError checks the code of an error and that its text has the parts.
func expectError(t *testing.T, err error, code engine.Code, parts ...string) {
	t.Helper()
	if engine.CodeOf(err) != code {
		t.Fatalf("%v does not have the code %s", err, code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
}

// TestGotro is the example of GotRo's tutorial.
func TestGotro(t *testing.T) {
	t.Parallel()
	v := load(t, map[string]string{"post.z.html": `<h2>#{something that not exists}</h2>
<script>
  var title = '#{title}';
  var a_map = {/* map */};
  var an_arr = [/* arr */];
  var n = /*! n */;
  function f(){/* noop */}
</script>
`})
	got := render(t, v, "post", map[string]any{
		"title": "Post </script>", "map": map[string]any{"test1": 1, "test4": 4}, "arr": []int{1, 2, 3, 4}, "n": 5, "noop": 1,
	})
	want := `<h2>something that not exists</h2>
<script>
  var title = 'Post \u003c\/script\u003e';
  var a_map = {"test1":1,"test4":4};
  var an_arr = [1,2,3,4];
  var n =  5 ;
  function f(){ }
</script>
`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := view.New(view.Options{})
	expectError(t, err, engine.CodeInvalid, "FS")
	_, err = view.New(view.Options{FS: folder(nil), Funcs: template.FuncMap{"no name": strings.ToUpper}})
	expectError(t, err, engine.CodeInvalid, "Funcs", "no name")
	_, err = view.New(view.Options{FS: folder(nil), Funcs: template.FuncMap{"f": 1}})
	expectError(t, err, engine.CodeInvalid, "Funcs")
	if _, err = view.New(view.Options{FS: os.DirFS(filepath.Join(t.TempDir(), "nowhere"))}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	v := load(t, nil)
	expectError(t, v.Render(io.Discard, "x", nil), view.CodeViewMissing, "no views at all")
	if v.Has("x") || len(v.Names()) != 0 {
		t.Error("an empty folder has views")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	v := load(t, map[string]string{"a.html": "", "b/c.z.html": "", "b/_d.html": "", "x.txt": "", ".html": "", "b/.z.html": "", "e.html.bak": ""})
	if got := v.Names(); !slices.Equal(got, []string{"a", "b/_d", "b/c"}) {
		t.Errorf("names: %q", got)
	}
	if !v.Has("b/c") || v.Has("b/C") || v.Has("c") || v.Has("b/../a") || v.Has("/a") || v.Has("") {
		t.Error("Has")
	}
}

// TestText: the text of a file that is not as it should be, or unusual.
func TestText(t *testing.T) {
	t.Parallel()
	for _, ext := range []string{".html", ".z.html"} {
		v := load(t, map[string]string{"a" + ext: "\uFEFF<p>\r\nä</p>\r\n"})
		if got := render(t, v, "a", nil); got != "<p>\r\nä</p>\r\n" {
			t.Errorf("%s: %q", ext, got)
		}
		for text, parts := range map[string][]string{
			"line\nl\xe4tin1":                        {"a" + ext + ":2:", "0xe4", "UTF-8"},
			"\xff\xfe<\x00":                          {":1:", "0xff"},
			"a\n\nb\uFDD0":                           {":3:", `\ufdd0`},
			strings.Repeat("x", view.MaxFileBytes+1): {"at most 1048576"},
		} {
			_, err := view.New(view.Options{FS: folder(map[string]string{"a" + ext: text})})
			expectError(t, err, view.CodeViewBroken, parts...)
		}
		load(t, map[string]string{"a" + ext: strings.Repeat("x", view.MaxFileBytes)})
	}
}

func TestMaxViews(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range view.MaxViews {
		files[fmt.Sprintf("%d.z.html", i)] = ""
	}
	load(t, files)
	files["x.html"] = ""
	_, err := view.New(view.Options{FS: folder(files)})
	expectError(t, err, engine.CodeLimit, "4096")
}

func TestMaxPageBytes(t *testing.T) {
	t.Parallel()
	v := load(t, map[string]string{"layout.html": "{{.contents}}x", "a.z.html": "#{v}"})
	locals := map[string]any{"v": template.HTML(strings.Repeat("y", view.MaxPageBytes))}
	var n counter
	if err := v.Fragment(&n, "a", locals); err != nil || n != view.MaxPageBytes {
		t.Fatalf("%d bytes, %v", n, err)
	}
	n = 0
	expectError(t, v.Render(&n, "a", locals), view.CodeViewTooLarge, "layout.html", "8388608")
	locals["v"] = locals["v"].(template.HTML) + "y"
	expectError(t, v.Fragment(&n, "a", locals), view.CodeViewTooLarge, "a.z.html")
	if n != 0 {
		t.Errorf("wrote %d bytes of a page that is too long", n)
	}
	if !view.Pooled(view.MaxPooledBytes) || view.Pooled(view.MaxPooledBytes+1) {
		t.Error("MaxPooledBytes")
	}
}

// counter counts the bytes written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// TestLocals: they are only read, and what the handler's values do wrong is an error.
func TestLocals(t *testing.T) {
	t.Parallel()
	v := load(t, map[string]string{"layout.html": "{{.contents}}", "a.z.html": "#{m} #{x} <script>x = {/* m */}</script>", "b.z.html": "\n<script>f = /*! f */</script>"})
	locals := map[string]any{"m": []int{1}}
	before := maps.Clone(locals)
	if err := v.Render(io.Discard, "a", locals); err != nil {
		t.Fatal(err)
	}
	if len(locals) != len(before) {
		t.Errorf("the locals became %v", locals)
	}
	expectError(t, v.Render(io.Discard, "b", map[string]any{"f": panics{}}), view.CodeViewFailed, "b.z.html:2:", "oh dear")
	lost := errors.New("connection lost")
	if err := v.Render(failing{lost}, "a", locals); !errors.Is(err, lost) || engine.CodeOf(err) != engine.CodeInternal {
		t.Errorf("a failing writer: %v", err)
	}
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("oh dear") }

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestJSONText: values other than text become JSON, except those that can print themselves.
func TestJSONText(t *testing.T) {
	t.Parallel()
	v := load(t, map[string]string{"a.z.html": "#{v}"})
	type point struct{ X, Y int }
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, ""}, {"<", "&lt;"}, {true, "true"}, {1.5, "1.5"}, {uint8(3), "3"}, {template.HTML("<b>"), "<b>"},
		{[]string{"a"}, `[&#34;a&#34;]`}, {point{1, 2}, `{&#34;X&#34;:1,&#34;Y&#34;:2}`}, {&point{1, 2}, `{&#34;X&#34;:1,&#34;Y&#34;:2}`},
		{map[string]int{"a": 1}, `{&#34;a&#34;:1}`}, {[2]bool{}, "[false,false]"},
		{stringer{1}, "stringer 1"}, {&stringer{2}, "stringer 2"}, {errors.New("e<"), "e&lt;"}, {map[bool]chan int{}, "map[]"},
	} {
		if got := render(t, v, "a", map[string]any{"v": c.value}); got != c.want {
			t.Errorf("%#v: %s, want %s", c.value, got, c.want)
		}
	}
}

type stringer struct{ n int }

func (s stringer) String() string { return fmt.Sprintf("stringer %d", s.n) }

// TestWarnings: one warning for each key and view, at most the limit, and never about locals that every page
// gets.
func TestWarnings(t *testing.T) {
	t.Parallel()
	var log logbuf.Buffer
	v := newViews(t, view.Options{
		FS:     folder(map[string]string{"a.z.html": "#{k}", "b.html": "{{range .items}}{{.}}{{end}}", "c.html": "{{range $k, $v := .}}{{$k}}{{end}}", "layout.z.html": "#{contents}"}),
		Always: []string{"always"},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	locals := map[string]any{"always": 1, "contents": 1}
	for i := range 2 * view.MaxWarnings {
		locals[fmt.Sprint("local", i)] = i
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, name := range []string{"a", "b", "c"} {
				if err := v.Render(io.Discard, name, locals); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	text := log.String()
	if got := strings.Count(text, "file=a.z.html"); got != view.MaxWarnings {
		t.Errorf("%d warnings about a", got)
	}
	if got := strings.Count(text, "file=b.html"); got != view.MaxWarnings || strings.Contains(text, "local=items") {
		t.Errorf("%d warnings about b", got)
	}
	if strings.Contains(text, "file=c.html") || strings.Contains(text, "always") || strings.Contains(text, "contents") {
		t.Error("a warning about what is used or always given")
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		_, lines[i], _ = strings.Cut(lines[i], "msg=")
	}
	slices.Sort(lines)
	if n := len(lines); len(slices.Compact(lines)) != n {
		t.Error("a warning was given twice")
	}
}

// TestLostPartials: if a called partial and all others are missing, the error explains why go:embed may have
// left them out; otherwise it does not.
func TestLostPartials(t *testing.T) {
	for _, c := range []struct {
		other, called string
		hint          bool
	}{{"page", "_item", true}, {"page", "todo/_item", true}, {"_row", "_item", false}, {"page", "item", false}} {
		_, err := view.New(view.Options{FS: folder(map[string]string{"list.html": `{{template "` + c.called + `" .}}`, c.other + ".html": "x"})})
		if engine.CodeOf(err) != view.CodeViewBroken || strings.Contains(err.Error(), "go:embed") != c.hint {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
