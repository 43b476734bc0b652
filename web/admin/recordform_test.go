package admin_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
)

// shopOrder returns an order as JSON.
func shopOrder(t *testing.T, db *record.DB, id string) (text string, r *record.Record) {
	t.Helper()
	_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) (err error) {
		r, err = tx.Get("orders", id)
		return err
	})
	if errors.Is(err, record.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(r.AppendJSON(nil)), r
}

func TestRecordForm(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	c := w.anna()
	fillShop(t, db, 1)
	c.get("/admin/records/orders/new").expect(200, `name="f.title"`, `<option value="bo">Bo</option>`, "Default: &#34;open&#34;").lacks("<b onclick")
	refused := c.post("/admin/records/orders/new", "id", "mine", "f.title", hostileText, "f.total", "many", "f.due", "soon", "f.more", "{oops", "f.owner", "nobody")
	refused.expect(422, "many", "not JSON", "{oops", "soon").lacks("<b onclick")
	refused = c.post("/admin/records/orders/new", "id", "mine", "f.title", hostileText, "f.total", "many", "f.due", "soon", "f.owner", "nobody")
	refused.expect(422, `value="mine"`, `value="many"`, `value="soon"`, `aria-invalid="true"`)
	at := c.post("/admin/records/orders/new", "id", "mine", "f.title", hostileText, "f.total", "12.5", "f.count", "3", "f.paid", "true", "f.due", "2026-05-01 10:00", "m.tags", "1", "f.tags", "red", "f.tags", "green",
		"f.owner", "bo", "f.notes", "a\r\nb", "f.more", `{"x": {"y": 1, "z": null}}`).expect(200, "Created.").lacks("<b onclick").Path
	if at != "/admin/records/orders/mine?done=created" {
		t.Error(at)
	}
	text, r := shopOrder(t, db, "mine")
	for _, part := range []string{`"total":"12.50"`, `"paid":true`, `"due":"2026-05-01T10:00:00.000000Z"`, `"tags":["red","green"]`, `"notes":"a\nb"`, `"status":"open"`, `"created_by":"anna@example.org"`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %s", text, part)
		}
	}
	c.post("/admin/records/orders/new", "id", "mine", "f.title", "twice").expect(409, "twice", "mine")
	// A form that is sent as it was changes nothing.
	c.post("/admin/records/orders/mine", "rev", "1", "f.title", hostileText, "f.total", "12.50", "f.notes", "a\r\nb", "f.more", "{\r\n  \"x\": {\r\n    \"y\": 1,\r\n    \"z\": null\r\n  }\r\n}").expect(200, "Saved.")
	if _, now := shopOrder(t, db, "mine"); now.Rev != r.Rev {
		t.Errorf("revision %d", now.Rev)
	}
	c.post("/admin/records/orders/mine", "rev", "1", "f.more", `{"x": {"z": 2}}`, "f.notes", "", "n.notes", "1", "m.tags", "1").expect(200, "Saved.")
	if text, _ := shopOrder(t, db, "mine"); !strings.Contains(text, `"more":{"x":{"z":2}}`) || strings.Contains(text, "notes") || strings.Contains(text, "tags") {
		t.Error(text)
	}
	c.post("/admin/records/orders/mine", "rev", "2", "f.more", `{"x": {"z": 2, "m": "<&>"}, "q\"": [1]}`).expect(200, "Saved.", "&lt;&amp;&gt;")
	if text, _ := shopOrder(t, db, "mine"); !strings.Contains(text, `"m":"<&>"`) || !strings.Contains(text, `"q\"":[1]`) {
		t.Error(text)
	}
	c.post("/admin/records/orders/mine/delete", "rev", "1").expect(409, "revision")
	c.post("/admin/records/orders/mine/delete", "rev", "3").expect(200, "Deleted.", "Restore")
	c.get("/admin/records/orders?deleted=1").expect(200, `class="gone"`)
	c.post("/admin/records/orders/mine", "rev", "4", "f.title", "lost?").expect(409, "lost?", "Restore")
	c.post("/admin/records/orders/mine/restore", "rev", "4").expect(200, "Restored.")
	c.get("/admin/log").expect(200, "record.restore", "orders/mine")
	c.get("/admin/records/people/bo").expect(200, "There is a password").lacks("very secret", "argon2")
	c.post("/admin/records/people/bo", "rev", "1", "extra", "[1]", "f.name", "Bob").expect(422, "must be a JSON object", "Bob", "[1]")
	c.post("/admin/records/people/bo", "rev", "1", "extra", "{\"shoe\": 42}").expect(200, "Saved.", "shoe", "42")
	c.post("/admin/records/people/bo", "rev", "2", "extra", "").expect(200, "Saved.").lacks("shoe")
	c.post("/admin/records/people/bo/delete", "rev", "3").expect(409, "refer")
}

// TestRecordConflict: when two administrators save the same record, the second one sees both and loses nothing.
func TestRecordConflict(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	c := w.anna()
	fillShop(t, db, 1)
	form := []string{"rev", "1", "f.title", "Order 000", "f.count", "0", "f.notes", "", "n.notes", "1"}
	with := func(rev, title, count, notes string) []string {
		all := append([]string{}, form...)
		all[1], all[3], all[5], all[7] = rev, title, count, notes
		return all
	}
	c.post("/admin/records/orders/o000", with("1", "hers", "0", "from her")...).expect(200, "Saved.")
	both := c.post("/admin/records/orders/o000", with("1", "his", "7", "")...).expect(409, "his", "hers", "Saved meanwhile", `value="2"`, `value="7"`, "from her", "Save over it", "anna@example.org has saved this record in the meantime")
	if n := strings.Count(both.Body, "Saved meanwhile:"); n != 1 {
		t.Errorf("%d fields are in conflict:\n%s", n, both.Body)
	}
	c.post("/admin/records/orders/o000", with("2", "his", "7", "from her")...).expect(200, "Saved.")
	if text, _ := shopOrder(t, db, "o000"); !strings.Contains(text, `"title":"his"`) || !strings.Contains(text, `"notes":"from her"`) || !strings.Contains(text, `"count":7`) {
		t.Error(text)
	}
	c.post("/admin/records/orders/o000/cell", "rev", "1", "field", "title", "value", "cell").expect(409, `"text":"his"`, `"rev":3`, email)
	c.post("/admin/records/orders/o000/cell", "rev", "3", "field", "count", "value", "many").expect(422, `"detail"`)
	c.post("/admin/records/orders/o000/cell", "rev", "3", "field", "title", "value", "cell").expect(200, `"rev":4`, `"text":"cell"`)
	c.post("/admin/records/people/bo/cell", "rev", "1", "field", "secret", "value", "x").expect(400)
}

func TestBulk(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	c := w.anna()
	fillShop(t, db, 20)
	c.post("/admin/records/orders/bulk", "op", "set", "field", "count", "value", "1", "on", "ids").expect(422, "Choose records")
	c.post("/admin/records/orders/bulk", "op", "set", "field", "count", "value", "many", "on", "all").expect(422, "A trial with the first records failed").lacks(`action="/admin/records/orders/bulk/do"`)
	c.post("/admin/records/orders/bulk", "op", "set", "field", "count", "value", "1", "on", "all", "filter", "count >").expect(422, "<mark>")
	seen := c.post("/admin/records/orders/bulk", "op", "set", "field", "notes", "value", hostileText, "on", "all", "filter", "count >= 5", "columns", "title,notes").expect(200, "Change 15 records", "Order 005", "dry run").lacks("<b onclick")
	if text, _ := shopOrder(t, db, "o005"); strings.Contains(text, "notes") {
		t.Error("the dry run has changed", text)
	}
	c.post("/admin/records/orders/bulk/do", "op", "set", "field", "notes", "value", "x", "on", "all", "filter", "count >= 5", "known", "14").expect(409, "Since the preview")
	c.post("/admin/records/orders/bulk/do", "op", "set", "field", "notes", "value", "x", "on", "all", "filter", "count >= 5", "known", seen.known()).expect(200, "Done.")
	if text, _ := shopOrder(t, db, "o005"); !strings.Contains(text, `"notes":"x"`) || !strings.Contains(text, `"updated_by":"anna@example.org"`) {
		t.Error(text)
	}
	seen = c.post("/admin/records/orders/bulk", "op", "delete", "on", "ids", "id", "o001", "id", "o002", "id", "none").expect(200, "Delete 2 records?")
	c.post("/admin/records/orders/bulk/do", "op", "delete", "on", "ids", "id", "o001", "id", "o002", "known", seen.known()).expect(200, "Done.").lacks("o001")
	c.get("/admin/log").expect(200, "records.delete", "15 records")
	c.post("/admin/records/nothing/bulk", "op", "delete", "on", "all").expect(404)
}

var knownInPage = regexp.MustCompile(`name="known" value="([^"]*)"`)

// known returns what the form of a dry run knows of the records.
func (a *answer) known() string {
	a.t.Helper()
	found := knownInPage.FindStringSubmatch(a.Body)
	if found == nil {
		a.t.Fatalf("no dry run: %s", a.Body)
	}
	return found[1]
}

// TestBulkSeesWhatWasShown: records that were changed, added or deleted since the dry run are counted, and nothing is done.
func TestBulkSeesWhatWasShown(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	c := w.anna()
	fillShop(t, db, 20)
	do := func(known string) *answer {
		return c.post("/admin/records/orders/bulk/do", "op", "set", "field", "notes", "value", "x", "on", "all", "filter", "count >= 5", "known", known)
	}
	known := c.post("/admin/records/orders/bulk", "op", "set", "field", "notes", "value", "x", "on", "all", "filter", "count >= 5").expect(200, "Change 15 records").known()
	c.post("/admin/records/orders/o001/delete", "rev", "1").expect(200) // the filter does not find it
	c.post("/admin/records/orders/o006/cell", "field", "title", "value", "another", "rev", "1")
	c.post("/admin/records/orders/o007/delete", "rev", "1").expect(200)
	again := do(known).expect(409, "at least 2 of the records", "Change 14 records", "dry run")
	if text, _ := shopOrder(t, db, "o008"); strings.Contains(text, "notes") {
		t.Error("it was done nevertheless:", text)
	}
	for _, none := range []string{"", "%", "AAAA", known[:8]} {
		do(none).expect(409, "Since the preview")
	}
	do(again.known()).expect(200, "Done.")
	do(again.known()).expect(409, "at least 14 of the records") // they have other revisions now
}

// TestViewsAtOnce: requests at once store no more views than the limit, and one of a name that exists is no new one.
func TestViewsAtOnce(t *testing.T) {
	t.Parallel()
	w, _ := shopWorld(t)
	c := w.anna()
	save := func(name string) int { return c.post("/admin/records/orders/views", "name", name).Status }
	for i := range 46 {
		if status := save(fmt.Sprintf("view %02d", i)); status != 200 {
			t.Fatalf("view %d: %d", i, status)
		}
	}
	var saved atomic.Int32
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			if status := save(fmt.Sprintf("more %d", i)); status == 200 {
				saved.Add(1)
			} else if status != 422 {
				t.Errorf("status %d", status)
			}
		})
	}
	all.Wait()
	if n := saved.Load(); n != 4 {
		t.Errorf("%d more views beside 46, the limit is 50", n)
	}
	c.post("/admin/records/orders/views", "name", "view 00").expect(200, "Saved.")
	c.post("/admin/records/orders/views", "name", "late").expect(422, "50 views, the limit")
}

func TestSavedViews(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	c := w.anna()
	fillShop(t, db, 3)
	c.post("/admin/records/orders/views", "name", "", "filter", "count > 1").expect(422, "The name of a view", `value="count &gt; 1"`)
	c.post("/admin/records/orders/views", "name", hostileText, "filter", "count > 1", "sort", "-count", "columns", "count,title").expect(200, "Saved.", "Order 002").lacks("Order 001", "<b onclick")
	c.get("/admin/records/orders").expect(200, "?columns=count%2Ctitle")
	c.get("/admin/records/people").lacks("columns=count")
	c.post("/admin/records/orders/views/remove", "name", hostileText).expect(200, "Deleted.").lacks("columns=count%2Ctitle")
	c.post("/admin/records/nothing/views", "name", "x").expect(404)
}
