package admin_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/docs"
	"github.com/skerrydb/skerry/web/admin"
)

// TestMarkdown: each kind of text becomes HTML, and markup of others stays text.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"# A `b` c\n\n# Again", "<h1 id=\"a-b-c\">A <code>b</code> c</h1>\n<h2 id=\"again\">Again</h2>\n"},
		{"## X\n## X", "<h2 id=\"x\">X</h2>\n<h2 id=\"x-1\">X</h2>\n"},
		{"one\ntwo **bold** *it*\n\nthree", "<p>one two <strong>bold</strong> <em>it</em></p>\n<p>three</p>\n"},
		{"2 * 3 * 4 \\*x\\* a_b_c", "<p>2 * 3 * 4 *x* a_b_c</p>\n"},
		{"- a\n  b\n- `c*d*`", "<ul>\n<li>a b</li>\n<li><code>c*d*</code></li>\n</ul>\n"},
		{"1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n"},
		{"## T\n| a | |\n|---|---|\n| `x\\|y` | <b> |", "<h2 id=\"t\">T</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"T\"><table>\n<tr><th scope=\"col\">a</th><td></td></tr>\n<tr><td><code>x|y</code></td><td>&lt;b&gt;</td></tr>\n</table></div>\n"},
		{"| | |\n|---|---|\n| x | y |", "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"\"><table>\n<tr><td>x</td><td>y</td></tr>\n</table></div>\n"},
		{"```go\na < b\n\n# no\n```\nafter", "<pre class=\"sample\" tabindex=\"0\"><code>a &lt; b\n\n# no</code></pre>\n<p>after</p>\n"},
		{"[text](cache.md#two) [`Go`](https://go.dev/x?a=1&b=2) [up](../x/y.md) [here](#a)", `<p><a href="/admin/docs/cache#two">text</a> <a href="https://go.dev/x?a=1&amp;b=2" rel="noreferrer"><code>Go</code></a> up <a href="#a">here</a></p>` + "\n"},
		{"<!-- hidden\n still -->\n<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"},
		{"[x](javascript:alert(1)) [y](//evil.example) [<b>](\"onclick=x)", "<p>x y &lt;b&gt;</p>\n"},
		{"`` a ` b ``", "<p><code>a ` b</code></p>\n"},
		{"```\nopen", "<pre class=\"sample\" tabindex=\"0\"><code>open</code></pre>\n"},
	} {
		if got := admin.Rendered(c.text); got != c.want {
			t.Errorf("%q is\n%q, want\n%q", c.text, got, c.want)
		}
	}
}

var (
	hrefs = regexp.MustCompile(`href="(/admin/docs/[^"#]*)?(#[^"]*)?"`)
	codes = regexp.MustCompile(`(?s)<code>.*?</code>`)
)

// TestDocs: every page of the documentation is whole, and each link in it leads somewhere.
func TestDocs(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(docs.Pages, "*.md")
	if err != nil || len(names) < 20 {
		t.Fatal(names, err)
	}
	pages := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(docs.Pages, name)
		if err != nil {
			t.Fatal(err)
		}
		pages["/admin/docs/"+strings.TrimSuffix(name, ".md")] = admin.Rendered(string(text))
	}
	for path, text := range pages {
		if n := strings.Count(text, "<h1"); n != 1 {
			t.Errorf("%s has %d titles", path, n)
		}
		if bare := codes.ReplaceAllString(text, ""); strings.Contains(bare, "](") || strings.Contains(bare, "**") || strings.Contains(bare, "`") {
			i := strings.IndexAny(bare, "`")
			t.Errorf("%s has markup that is not HTML: …%.200s", path, bare[max(0, i-80):])
		}
		for _, to := range hrefs.FindAllStringSubmatch(text, -1) {
			page := to[1]
			if page == "" {
				page = path
			}
			target, ok := pages[page]
			if !ok || to[2] != "" && !strings.Contains(target, `id="`+to[2][1:]+`"`) {
				t.Errorf("%s: %s leads nowhere", path, to[0])
			}
		}
	}
}

// TestDocsPages: the list, a page and a search.
func TestDocsPages(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	anna.get("/admin/docs").expect(200, ">Guarantees</a>", "Of the version that runs: test")
	anna.get("/admin/docs/guarantees").expect(200, "<h1 id=\"guarantees\">").lacks("&lt;h2")
	anna.get("/admin/docs/guarantees.md").expect(200)
	for _, path := range []string{"nothing", "..%2Fdocs", "%2e%2e%2fREADME", "decisions%2f0016-effects-with-a-base", "a%00b", "%3Cb%3E"} {
		anna.get("/admin/docs/" + path).expect(404)
	}
	anna.get("/admin/docs?q=BACKUP+archive").expect(200, "<mark>", "/admin/docs/backup")
	anna.get("/admin/docs?q=the").expect(200, "Only the first results")
	anna.get("/admin/docs?q=%3Cb%3E+xyzzy").expect(200, "has all these words", "&lt;b&gt; xyzzy")
	anna.get("/admin/docs?q=" + strings.Repeat("x", 5000)).expect(200)
	anna.invite(viewersEmail, "viewer").get("/admin/docs/cache").expect(200)
	w.client().get("/admin/docs/cache").lacks("staleness")
}

func TestLooksDocs(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	c := w.open()
	c.visit("/admin/docs")
	c.looks("docs")
	c.visit("/admin/docs?q=backup")
	c.looks("docs-search")
	c.visit("/admin/docs/queries")
	c.looks("doc")
}
