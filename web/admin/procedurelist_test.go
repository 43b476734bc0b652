package admin_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// inList finds the procedures of the list, in order.
var inList = regexp.MustCompile(`<tr data-name="([^"]+)">`)

func listed(a *answer) (names []string) {
	a.t.Helper()
	for _, m := range inList.FindAllStringSubmatch(a.expect(200).Body, -1) {
		names = append(names, m[1])
	}
	return names
}

// failsBadge is that of a procedure with errors, fineBadge that of one without.
const (
	failsBadge = `<span class="badge wrong" data-fails>errors</span>`
	fineBadge  = `<span class="badge wrong" data-fails hidden>errors</span>`
)

// TestProcedureNumbers: the list and the page of a procedure show what it has done, and the list is sorted by a click.
func TestProcedureNumbers(t *testing.T) {
	t.Parallel()
	var store *kv.Store
	w := start(t, withProcedures(&store))
	c := w.anna()
	page := c.get("/admin/procedures").expect(200, fineBadge, `data-live="p99">–</td>`, `data-live="errors">0</td>`, `aria-sort="ascending"`, `href="?sort=-p99"`)
	page.lacks(failsBadge)
	if names := listed(page); !slices.Equal(names, []string{"annotate", "balance", "many", "move", "nothing"}) {
		t.Errorf("listed: %q", names)
	}
	c.get("/admin/procedures/move").expect(200, "What it has done on this node", `<th scope="row">p99</th><td class="number">–</td><td class="number">–</td>`).lacks("<svg")
	for i := range 4 {
		from := []string{"ann", ""}[i/3] // the last one fails
		c.post("/admin/procedures/move", "arg-from", from, "arg-to", "ben", "arg-amount", "1").expect([]int{200, 422}[i/3])
	}
	c.post("/admin/procedures/nothing").expect(200)
	page = c.get("/admin/procedures?sort=-errors").expect(200, failsBadge, `data-live="errors">1 (25 %)</td>`, `aria-sort="descending"`, `href="?sort=errors"`, `data-total="calls">5<`, `data-total="errors">1<`)
	if names := listed(page); names[0] != "move" || strings.Count(page.Body, failsBadge) != 1 {
		t.Errorf("listed by errors: %q, %d badges", names, strings.Count(page.Body, failsBadge))
	}
	if names := listed(c.get("/admin/procedures?sort=p99")); !slices.Equal(names[:3], []string{"annotate", "balance", "many"}) {
		t.Errorf("listed by p99: %q", names)
	}
	for _, sort := range []string{"-rate", "-p50", "-p99"} {
		if names := listed(c.get("/admin/procedures?sort=" + sort)); sort != "-rate" && !slices.Contains([]string{"move", "nothing"}, names[0]) {
			t.Errorf("listed by %s: %q", sort, names)
		}
	}
	for _, sort := range []string{"--p99", "wrong", "%22%3E", "-"} { // as if there were none
		if names := listed(c.get("/admin/procedures?sort=" + sort)); names[0] != "annotate" || len(names) != 5 {
			t.Errorf("listed by %s: %q", sort, names)
		}
	}
	c.get("/admin/procedures?find=mo&sort=-p99").expect(200, `href="?find=mo&amp;sort=p99"`, `name="sort" value="-p99"`, "1 to 1 of 1<").lacks(`data-name="many"`)
	c.get("/admin/procedures/move").expect(200, "errors</span></h1>", "<svg", `<th scope="row">Errors</th><td class="number">1 (25 %)</td><td class="number">1 (25 %)</td>`, "4 of the runs were timed")
	c.get("/admin/overview").expect(200)
	if text := w.metrics(); !strings.Contains(text, `skerry_proc_errors_total{procedure="move"} 1`) || !strings.Contains(text, `skerry_proc_run_seconds_count{procedure="move"} 4`) {
		t.Errorf("/metrics lacks the procedure")
	}
}

// metrics returns /metrics of the operator's port.
func (w *world) metrics() string {
	w.t.Helper()
	return w.client().get("/metrics").expect(200).Body
}

// TestProceduresMany: a thousand procedures are ten pages, in each order and with each search.
func TestProceduresMany(t *testing.T) {
	t.Parallel()
	o := skerry.Options{}
	for i := range 1000 {
		o.Procedures = append(o.Procedures, proc.DefineRead(fmt.Sprintf("p%03d", i), func(*proc.Tx, struct{}) (int, error) { return i, nil }))
	}
	c := start(t, o).anna()
	c.get("/admin/procedures/p500?call=1").expect(200, "500")
	at, seen := "/admin/procedures", 0
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	for ; at != ""; seen += 100 {
		page := c.get(at)
		names := listed(page)
		if len(names) != 100 || names[0] != fmt.Sprintf("p%03d", seen) {
			t.Fatalf("%s has %d procedures, from %q on", at, len(names), names)
		}
		at = ""
		if found := next.FindStringSubmatch(page.Body); found != nil {
			at = "/admin/procedures" + strings.ReplaceAll(found[1], "&amp;", "&")
		}
	}
	if seen != 1000 {
		t.Errorf("the pages have %d procedures", seen)
	}
	for _, page := range []string{"11", "99999999999999999999", "-1", "x"} {
		if names := listed(c.get("/admin/procedures?page=" + page)); len(names) != 100 {
			t.Errorf("page %s has %d procedures", page, len(names))
		}
	}
	if names := listed(c.get("/admin/procedures?sort=-p50")); names[0] != "p500" || names[1] != "p000" {
		t.Errorf("by median: %q", names[:2])
	}
	c.get("/admin/procedures?find=p5&sort=p50&page=1").expect(200, "1 to 100 of 100<").lacks(`rel="next"`, `rel="prev"`)
	c.get("/admin/procedures?find=9&page=2").expect(200, "101 to 200 of 271", `href="?find=9&amp;page=3&amp;sort=name"`, `href="?find=9&amp;sort=name"`)
}

// TestProceduresLive: the stream has the numbers of all procedures, then only those that changed.
func TestProceduresLive(t *testing.T) {
	t.Parallel()
	var store *kv.Store
	w := start(t, withProcedures(&store))
	c := w.anna()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/admin/procedures/_live?find=O", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	type news struct {
		Totals map[string]string
		Lines  map[string]struct {
			Errors string
			Fails  bool
		}
	}
	scan := bufio.NewScanner(resp.Body)
	event := func() (n news) {
		t.Helper()
		for scan.Scan() {
			if text, ok := strings.CutPrefix(scan.Text(), "data:"); ok {
				if err := json.Unmarshal([]byte(text), &n); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				return n
			}
		}
		t.Fatalf("the stream has ended: %v", scan.Err())
		return n
	}
	first := event()
	if len(first.Lines) != 3 || first.Lines["move"].Fails || first.Lines["annotate"].Errors != "0" || first.Totals["calls"] != "0" { // annotate, move, nothing
		t.Errorf("first: %+v", first)
	}
	c.post("/admin/procedures/move", "arg-from", "", "arg-to", "ben", "arg-amount", "1").expect(422)
	for {
		n := event()
		if _, ok := n.Lines["annotate"]; ok {
			t.Errorf("what did not change is sent again: %+v", n)
		}
		if l, ok := n.Lines["move"]; ok {
			if l.Errors != "1 (100 %)" || !l.Fails || n.Totals["errors"] != "1" {
				t.Errorf("after an error: %+v", n)
			}
			return
		}
	}
}

// TestLooksProcedureNumbers looks at the list with numbers, live, and at the numbers of one procedure.
func TestLooksProcedureNumbers(t *testing.T) {
	t.Parallel()
	var store *kv.Store
	w := start(t, withProcedures(&store))
	putKeys(t, store, 0, "ann", "100")
	c := w.open()
	c.visit("/admin/procedures?sort=-p99")
	c.Until(`document.getElementById("stale").textContent === ""`)
	other := w.client()
	other.setUp(w.invite("bea@example.org", "superadmin"), "bea@example.org")
	other.post("/admin/procedures/nothing").expect(200)
	for i := range 5 {
		from := []string{"ann", ""}[i/4]
		other.post("/admin/procedures/move", "arg-from", from, "arg-to", "ben", "arg-amount", "1")
	}
	c.Until(`document.querySelector("[data-name=move] [data-live=errors]").textContent === "1 (20 %%)" && document.querySelector("[data-name=move] [data-fails]").checkVisibility()`)
	c.looks("procedures-numbers")
	c.Do(chromedp.Click(chromedp.CSS(`[data-name=move] a`)), chromedp.WaitVisible(chromedp.CSS(`#numbers`)))
	c.Until(`document.querySelectorAll("td.bars svg").length > 0`)
	c.looks("procedure-numbers")
	c.visit("/admin/procedures/nothing") // without arguments: the numbers are near the top
	c.looks("procedure-numbers-short")
}
