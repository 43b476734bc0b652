package admin

import (
	"errors"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

const (
	maxDocHits   = 50  // results of a search
	maxDocQuery  = 200 // bytes of what is searched for
	excerptBytes = 240
)

func (a *Admin) addDocs(g *web.Group) {
	g.Get("/docs", a.docsPage)
	g.Get("/docs/{page}", a.docPage)
}

// docEntry is a page in the list of the documentation.
type docEntry struct{ Name, Title, About string }

// docHit is a result of a search.
type docHit struct {
	Name, Title, Under, Anchor string
	Excerpt                    []markedText
}

// markedText is a piece of a text that may match.
type markedText struct {
	Text string
	Mark bool
}

// docNames returns the names of all pages, without .md.
func (a *Admin) docNames() ([]string, error) {
	names, err := fs.Glob(a.o.Docs, "*.md")
	for i, n := range names {
		names[i] = strings.TrimSuffix(n, ".md")
	}
	return names, err
}

func (a *Admin) readDoc(name string) (document, error) {
	text, err := fs.ReadFile(a.o.Docs, name+".md")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return document{}, engine.Errorf(engine.CodeNotFound, "the documentation has no page %.80q", name)
	}
	return parseMarkdown(string(text)), err
}

// docsPage shows the list of pages, or what a search finds in them.
func (a *Admin) docsPage(c *web.Context) error {
	search := shorten(strings.TrimSpace(c.Query("q").String()), maxDocQuery)
	names, err := a.docNames()
	if err != nil {
		return err
	}
	var entries []docEntry
	var titles, hits []docHit
	words := strings.Fields(strings.ToLower(search))
	for _, name := range names {
		d, err := a.readDoc(name)
		if err != nil {
			return err
		}
		entries = append(entries, docEntry{name, d.Title, d.about()})
		if len(words) > 0 {
			first, others := d.find(name, words)
			titles, hits = append(titles, first...), append(hits, others...)
		}
	}
	slices.SortFunc(entries, func(x, y docEntry) int { return strings.Compare(strings.ToLower(x.Title), strings.ToLower(y.Title)) })
	hits = append(titles, hits...)
	more := len(hits) > maxDocHits
	hits = hits[:min(len(hits), maxDocHits)]
	return a.show(c, http.StatusOK, "docs", web.Locals{"title": a.text("Documentation"), "q": search, "entries": entries, "hits": hits, "more": more})
}

// about returns the beginning of the first paragraph.
func (d document) about() string {
	for _, x := range d.Blocks {
		if x.Kind == "paragraph" {
			text := plainMarkdown(strings.Join(x.Lines, " "))
			if i := strings.Index(text, ". "); i > 0 {
				text = text[:i+1]
			}
			return shorten(text, excerptBytes)
		}
	}
	return ""
}

// find returns the blocks that contain all words: headings, and others.
func (d document) find(name string, words []string) (headings, others []docHit) {
	for _, x := range d.Blocks {
		for _, text := range x.texts() {
			if !containsAll(strings.ToLower(text), words) {
				continue
			}
			hit := docHit{name, d.Title, x.Under, x.Anchor, excerpt(text, words)}
			if x.Kind == "heading" {
				headings = append(headings, hit)
			} else {
				others = append(others, hit)
			}
			break
		}
	}
	return headings, others
}

// texts returns the parts of a block that a search looks at.
func (x block) texts() []string {
	switch x.Kind {
	case "code":
		return x.Lines
	case "list", "numbered", "table":
		var all []string
		for _, l := range x.Lines {
			all = append(all, plainMarkdown(strings.Trim(l, "| ")))
		}
		return all
	}
	return []string{plainMarkdown(strings.Join(x.Lines, " "))}
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// excerpt cuts a text to what is around the first word, and marks it there.
func excerpt(text string, words []string) []markedText {
	at := strings.Index(strings.ToLower(text), words[0])
	if at < 0 || len(strings.ToLower(text)) != len(text) { // a letter has another length in lower case
		return []markedText{{shorten(text, excerptBytes), false}}
	}
	from := 0
	if at > excerptBytes/2 {
		from = at - excerptBytes/2
		if i := strings.IndexByte(text[from:at], ' '); i >= 0 {
			from += i + 1
		} else {
			from = at
		}
	}
	before := text[from:at]
	if from > 0 {
		before = "… " + before
	}
	end := at + len(words[0])
	return []markedText{{before, false}, {text[at:end], true}, {shorten(text[end:], excerptBytes), false}}
}

func (a *Admin) docPage(c *web.Context) error {
	name := c.Path("page").String()
	if path.Base(name) != name {
		return engine.Errorf(engine.CodeNotFound, "the documentation has no page %.80q", name)
	}
	d, err := a.readDoc(strings.TrimSuffix(name, ".md"))
	if err != nil {
		return err
	}
	var contents []block
	for _, x := range d.Blocks {
		if x.Kind == "heading" && x.Level == 2 {
			contents = append(contents, x)
		}
	}
	return a.show(c, http.StatusOK, "doc", web.Locals{"title": d.Title, "page_html": d.html(), "headings": contents})
}
