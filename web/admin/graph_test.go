package admin_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// TestGraph: what is in a graph, a vertex with its neighbours, and traversals that only read; mistakes are shown where they are.
func TestGraph(t *testing.T) {
	t.Parallel()
	w, s := startLive(t, skerry.Options{})
	c := w.anna()
	c.get("/admin/graph").expect(200, "This graph is empty", "No indexes")
	addLiveGraph(t, s, 120)
	if err := s.Graphs.AddIndex(t.Context(), graph.Default, graph.Index{On: value.KindVertex, Label: "person", Keys: []string{"name"}}); err != nil {
		t.Fatal(err)
	}
	c.get("/admin/graph").expect(200, "person", ">121<", "knows", "in use")
	page := c.get("/admin/graph?vertex=anna").expect(200, "Anna", "Neighbours", "&lt;script&gt;", "More").lacks("<script>alert")
	c.get(linkOf(page, "More")).expect(200, "Neighbours", "Person")
	c.get("/admin/graph?vertex=nobody").expect(404, "nobody")
	c.get("/admin/graph?vertex=1&type=number").expect(404)
	c.get("/admin/graph?graph=other").expect(404, "other")
	c.get("/admin/graph/near?vertex=anna").expect(200, `"edges"`)

	ask := func(text string) string { return "/admin/graph?gremlin=" + url.QueryEscape(text) }
	first := c.get(ask("g.V('anna').out('knows').limit(1)")).expect(200, "Results", "person ")
	c.get(linkOf(first, "person "+strings.TrimSpace(cutOut(first.Body, ">person ", "<")))).expect(200, "Neighbours", "Anna")
	c.get(ask("g.V('anna').outE().limit(2)")).expect(200, "knows")
	c.get(ask("g.V().count()")).expect(200, ">121<")
	c.get(ask("g.V().values('name')")).expect(200, "&lt;script&gt;").lacks("<script>alert")
	c.get(ask("g.V().both().both()")).expect(200, "only the first 200")
	c.get(ask("g.V().out().explain()")).expect(200, "Plan")
	c.get(ask("g.V('none')")).expect(200, "No results")
	c.get(ask("g.V().out(")).expect(422, "line 1, column", "<mark>", "g.V().out(</textarea>")
	c.get(ask("g.V()\n.nonsense()")).expect(422, "line 2", "<mark>n</mark>")
	c.get(ask("g.V().values('name').sum()")).expect(422, "sum", "<mark>s</mark>")
	c.get(ask("g.addV('x')")).expect(422, "only reads")
	c.get(ask("g.V().drop()")).expect(422, "only reads")
	c.get(ask("g.tx().commit()")).expect(422, "only reads")
	c.get(ask("<script>")).expect(422, "&lt;")
	c.get("/admin/graph").expect(200, ">121<")
	w.liveViewer().get(ask("g.V().count()")).expect(200, ">121<")
}

func cutOut(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

// TestLooksGraph looks at the graph, and goes through its picture with mouse and keyboard.
func TestLooksGraph(t *testing.T) {
	t.Parallel()
	w, s := startLive(t, skerry.Options{})
	c := w.open()
	c.visit("/admin/graph")
	c.looks("graph-empty")
	addLiveGraph(t, s, 12)
	c.visit("/admin/graph")
	c.looks("graph")
	c.visit("/admin/graph?vertex=anna")
	c.Until(`document.querySelectorAll("#picture g[role=button]").length === 13 && document.querySelectorAll("#picture g.seen").length === 1`)
	c.looks("graph-vertex")
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("#picture g[role=button]")[2].dispatchEvent(new MouseEvent("click", {bubbles: true}))`))
	c.Until(`document.querySelectorAll("#picture g.seen").length === 2`)
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("#picture g[role=button]")[3].focus()`), chromedp.KeyEvent("\r"))
	c.Until(`document.querySelectorAll("#picture g.seen").length === 3 && document.activeElement.getAttribute("class").includes("seen")`)
	c.visit("/admin/graph?gremlin=" + url.QueryEscape("g.V().valueMap().nothing()"))
	c.Refused(1)
	c.looks("graph-wrong")
	c.visit("/admin/graph?gremlin=" + url.QueryEscape("g.V('anna').outE()"))
	c.looks("graph-results")
}
