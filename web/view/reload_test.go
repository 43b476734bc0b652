package view_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/web/view"
)

// site is a real folder of views.
type site struct {
	t   *testing.T
	dir string
}

func newSite(t *testing.T) *site { return &site{t, t.TempDir()} }

// write replaces a file as a careful editor does: at once.
func (s *site) write(name, text string) {
	s.t.Helper()
	p := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		s.t.Fatal(err)
	}
	tmp := filepath.Join(s.dir, ".new")
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(tmp, p); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) load(reload bool) *view.Views {
	s.t.Helper()
	return newViews(s.t, view.Options{FS: os.DirFS(s.dir), Reload: reload})
}

func (s *site) expect(v *view.Views, name, want string) {
	s.t.Helper()
	var b bytes.Buffer
	if err := v.Render(&b, name, map[string]any{"k": "<"}); err != nil {
		s.t.Fatal(err)
	}
	if b.String() != want {
		s.t.Errorf("%s: %q, want %q", name, b.String(), want)
	}
}

// TestReload: in development every change is seen at once, in production none.
func TestReload(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("a.html", `1{{template "_p" .}}`)
	s.write("_p.html", "p{{.k}}")
	s.write("b.z.html", "b#{k}")
	dev, prod := s.load(true), s.load(false)
	s.expect(dev, "a", "1p&lt;")

	s.write("_p.html", "q{{.k}}") // as long as before
	s.expect(dev, "a", "1q&lt;")
	s.write("b.z.html", "c#{k}")
	s.expect(dev, "b", "c&lt;")
	s.write("layout.z.html", "[#{contents}]")
	s.expect(dev, "b", "[c&lt;]")
	s.write("sub/new.html", "new")
	s.expect(dev, "sub/new", "[new]")
	s.remove("layout.z.html")
	s.expect(dev, "b", "c&lt;")
	s.remove("b.z.html")
	expectError(t, dev.Render(io.Discard, "b", nil), view.CodeViewMissing)
	s.write("b.html", "html {{.k}}") // of the other kind
	s.expect(dev, "b", "html &lt;")

	s.expect(prod, "a", "1p&lt;")
	s.expect(prod, "b", "b&lt;")
	if prod.Has("sub/new") {
		t.Error("production has read the files again")
	}
}

// TestHeal: a file that breaks is an error of the pages that need it, with its
// line, until it is fixed.
func TestHeal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("a.html", `1{{template "_p" .}}`)
	s.write("_p.html", "p\n{{ if }}")
	s.write("b.z.html", "b#{k}")
	_, err := view.New(view.Options{FS: os.DirFS(s.dir)})
	expectError(t, err, view.CodeViewBroken, "_p.html:2:")
	v := s.load(true)
	expectError(t, v.Check(), view.CodeViewBroken, "_p.html:2:")
	expectError(t, v.Render(io.Discard, "a", nil), view.CodeViewBroken, "_p.html:2:")
	s.expect(v, "b", "b&lt;")

	s.write("_p.html", "p")
	s.expect(v, "a", "1p")
	if err := v.Check(); err != nil {
		t.Error(err)
	}
	s.write("b.z.html", "\n<p title='#{k}")
	expectError(t, v.Render(io.Discard, "b", nil), view.CodeViewBroken, "b.z.html:2:")
	s.expect(v, "a", "1p")
	s.write("b.html", "twice")
	expectError(t, v.Render(io.Discard, "a", nil), view.CodeViewBroken, "same name")
	s.remove("b.z.html")
	s.expect(v, "b", "twice")
	s.write("layout.html", "{{")
	expectError(t, v.Render(io.Discard, "a", nil), view.CodeViewBroken, "layout.html:1:")
	if err := v.Fragment(io.Discard, "a", nil); err != nil {
		t.Errorf("a fragment needs no layout: %v", err)
	}
	s.write("layout.html", "{{.contents}}")
	s.expect(v, "a", "1p")
}

// TestReloadRace renders while files change: every page is one of those that
// there were, whole.
func TestReloadRace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	texts := []string{"<p>#{k}</p>\n<script>a = '#{k}'</script>", "<b>#{k} #{other}</b>", "<i title='#{k}'>"}
	want := []string{"<p>&lt;</p>\n<script>a = '\\u003c'</script>", "<b>&lt; other</b>", "<i title='&lt;'>"}
	s.write("a.z.html", texts[0])
	s.write("layout.html", "[{{.contents}}]")
	v := s.load(true)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				var b bytes.Buffer
				if err := v.Render(&b, "a", map[string]any{"k": "<"}); err != nil {
					t.Error(err)
					return
				}
				got := strings.TrimSuffix(strings.TrimPrefix(b.String(), "["), "]")
				if got != want[0] && got != want[1] && got != want[2] {
					t.Errorf("%q is none of the versions", got)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 60 {
		s.write("a.z.html", texts[i%len(texts)])
	}
	close(done)
	wg.Wait()
}

// TestSymlinks: a file that is a link is read, a folder that is one is not
// walked into, so that a loop of links ends.
func TestSymlinks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("a.html", "a")
	for link, target := range map[string]string{"b.html": "a.html", "loop": ".", "dir.html": "."} {
		if err := os.Symlink(target, filepath.Join(s.dir, link)); err != nil {
			t.Skip(err)
		}
	}
	_, err := view.New(view.Options{FS: os.DirFS(s.dir)})
	if err == nil || !strings.Contains(err.Error(), "dir.html") {
		t.Errorf("a folder with the name of a view: %v", err)
	}
	s.remove("dir.html")
	if got := strings.Join(s.load(false).Names(), " "); got != "a b" {
		t.Errorf("views: %s", got)
	}
}
