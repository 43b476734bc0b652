package admin_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/record/schema"
)

const (
	storyList   = "/admin/records/notes"
	storyRecord = storyList + "/n4321"
)

// TestStory is a day of an administrator: from the set-up link over an import, edits and ways back to a cluster whose node is away for
// a while.
func TestStory(t *testing.T) {
	t.Parallel()
	with := skerry.Options{Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
		return http.NotFoundHandler(), s.Records.Define(schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "title", Type: schema.Text, Required: true}, {Name: "stars", Type: schema.Int}}})
	}}}
	nodes := growCluster(t, nil, 1, with)
	nodes[0].link = <-nodes[0].links
	c := nodes[0].open() // the link, a password and the second factor
	storyImport(c)
	storyEdit(c)
	storyBack(c)

	c.visit("/admin/cluster")
	c.Until(`document.querySelector("main").textContent.includes(%q) && document.getElementById("fresh").textContent === "Live."`, "skerry cluster invite --data "+nodes[0].dir)
	nodes = growCluster(t, nodes, 2, with) // by what these commands do
	c.Until(`document.getElementById("fresh").textContent.includes("Load the page again")`)
	c.visit("/admin/cluster")
	c.Until(`document.querySelectorAll(".node").length === 2`)
	storyOutage(c, nodes[0])
}

// answers has the page answer its questions with yes, until the next page.
func (c *tab) answers() {
	c.T.Helper()
	browsertest.Eval[bool](c.Tab, `(globalThis.confirm = () => true)()`)
}

// press clicks an element wherever it is, also below the bar that stays on top.
func (c *tab) press(selector string) {
	c.T.Helper()
	c.Until(`document.querySelector(%q) !== null`, selector)
	c.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).click(); undefined`, selector)))
}

// storyImport opens the collection and imports 10,000 rows.
func storyImport(c *tab) {
	c.T.Helper()
	c.visit("/admin/records")
	c.press(`main a[href="` + storyList + `"]`)
	c.Until(`location.pathname === %q && document.querySelector(".empty") !== null`, storyList)
	c.press(`a[href="` + storyList + `/import"]`)
	c.Until(`document.querySelector("#import [value=import]") !== null && document.readyState === "complete"`)
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `{"id":"n%d","data":{"title":"note %d","stars":%d}}`+"\n", i, i, i)
	}
	file := filepath.Join(c.T.TempDir(), "notes.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		c.T.Fatal(err)
	}
	c.answers()
	c.Do(chromedp.SetUploadFiles(chromedp.CSS(`[type=file]`), []string{file}))
	c.press(`#import [value=import]`)
	c.Until(`document.querySelector("#result .notice")?.textContent === "notes.jsonl was imported." && document.querySelector("#result dd b").textContent.replace(/\D/g, "") === "10000"`)
}

// storyEdit finds one of the records by a filter and changes it in the list.
func storyEdit(c *tab) {
	c.T.Helper()
	c.press(`main a[href="` + storyList + `"]`)
	c.Until(`document.querySelectorAll("#grid tbody tr").length === 50 && document.readyState === "complete"`)
	c.Do(chromedp.Focus(chromedp.CSS(`#filter`)), chromedp.KeyEvent("stars = 4321"), chromedp.KeyEvent(kb.Enter))
	c.Until(`location.search.includes("4321") && document.querySelectorAll("#grid tbody tr").length === 1 && document.readyState === "complete"`)
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#grid [data-field=title]").focus(); undefined`), chromedp.KeyEvent(kb.Enter))
	c.Until(`document.activeElement?.closest("td.editing")`)
	c.Do(chromedp.KeyEvent(" edited"), chromedp.KeyEvent(kb.Enter))
	c.Until(`document.querySelector("td.saved")?.textContent.includes("note 4321 edited")`)
}

// storyBack slides back in time, undoes the edit, and deletes and restores the record.
func storyBack(c *tab) {
	c.T.Helper()
	c.press(`#grid a[href="` + storyRecord + `"]`)
	c.Until(`document.getElementById("f-title")?.value === "note 4321 edited" && document.readyState === "complete"`)
	c.press(`main a[href="` + storyRecord + `/history"]`)
	c.Until(`document.getElementById("slide")?.hidden === false && document.getElementById("title").textContent === "Revision 2 of 2"`)
	browsertest.Eval[bool](c.Tab, `(() => { const s = document.getElementById("slider"); s.value = "1"; return s.dispatchEvent(new Event("input", {bubbles: true})) })()`)
	c.Until(`document.getElementById("title").textContent === "Revision 1 of 2" && document.getElementById("members").textContent.includes("note 4321") && !document.getElementById("members").textContent.includes("edited")`)
	c.answers()
	c.press(`#events tr[data-rev="2"] form button`)
	c.Until(`document.getElementById("title")?.textContent === "Revision 3 of 3" && !!document.querySelector("#members del")?.textContent.includes("edited")`)

	c.visit(storyRecord)
	c.Until(`document.getElementById("f-title").value === "note 4321"`)
	c.answers()
	c.press(`form[action="` + storyRecord + `/delete"] button`)
	c.Until(`document.querySelector("h1 .badge") !== null && document.readyState === "complete"`)
	c.press(`form[action="` + storyRecord + `/restore"] button`)
	c.Until(`location.search.includes("restored") && document.querySelector("h1 .badge") === null && document.getElementById("f-title").value === "note 4321"`)
}

// storyOutage stops the node of the pages while text is typed in one and the other is live, and starts it again.
func storyOutage(c *tab, node *member) {
	c.T.Helper()
	c.visit(storyRecord)
	c.Do(chromedp.Focus(chromedp.CSS(`#f-title`)), chromedp.KeyEvent(kb.End), chromedp.KeyEvent(" typed"))
	c.Until(`document.getElementById("f-title").value === "note 4321 typed"`)
	ctx, cancel := chromedp.NewContext(c.Context)
	c.T.Cleanup(cancel)
	live := &browsertest.Tab{T: c.T, Context: ctx} // it may complain: the server does not answer
	live.Do(chromedp.Navigate(c.w.URL + "/admin/overview"))
	live.Until(`document.querySelectorAll(".uplot").length === 3 && document.getElementById("stale").textContent === ""`)

	node.stop()
	live.Until(`document.getElementById("stale").textContent.includes("The server does not answer")`)
	node.run(listen(c.T, node.peer), node.peer)
	eventually.True(c.T, "the node is back", func() bool { return node.srv.Ready() == nil })
	live.Until(`document.getElementById("stale").textContent === ""`)

	c.Until(`document.getElementById("f-title").value === "note 4321 typed"`)
	c.press(`#record > p button`)
	c.Until(`location.search.includes("saved") && document.getElementById("f-title").value === "note 4321 typed"`)
	c.visit(storyRecord + "/history")
	c.Until(`document.getElementById("title").textContent === "Revision 6 of 6" && document.querySelector("#members ins").textContent.includes("typed")`)
}
