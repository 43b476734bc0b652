package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// notesServer starts a server with a collection and returns its records.
func notesServer(t *testing.T, more ...schema.Field) (*world, *record.DB) {
	t.Helper()
	var db *record.DB
	fields := append([]schema.Field{
		{Name: "title", Type: schema.Text, Required: true}, {Name: "text", Type: schema.Text}, {Name: "stars", Type: schema.Int}, {Name: "more", Type: schema.JSON}, {Name: "parent", Type: schema.Reference, Collection: "notes"},
	}, more...)
	w := start(t, skerry.Options{Web: skerry.Web{Application: func(s *skerry.Services) (_ http.Handler, err error) {
		db = s.Records
		if s.Users, err = auth.New(s.KV, auth.Options{}); err != nil {
			return nil, err
		}
		return http.NotFoundHandler(), db.Define(schema.Collection{Name: "open", Extra: true}, schema.Collection{Name: "notes", Fields: fields}, schema.Collection{Name: "blank", History: schema.History{Off: true}, Fields: fields[:2]})
	}}})
	return w, db
}

// doAs runs fn in a transaction of a user.
func doAs(t *testing.T, db *record.DB, user string, fn func(tx *record.Tx) error) {
	t.Helper()
	if _, err := db.Update(context.Background(), record.Actor{ID: user, System: true, Request: "request-of-" + user}, fn); err != nil {
		t.Fatal(err)
	}
}

func createNote(t *testing.T, db *record.DB, user, id, data string) {
	t.Helper()
	doAs(t, db, user, func(tx *record.Tx) error { _, err := tx.Create("notes", id, []byte(data)); return err })
}

func updateNote(t *testing.T, db *record.DB, user, id, patch string) {
	t.Helper()
	doAs(t, db, user, func(tx *record.Tx) error { _, err := tx.Update("notes", id, []byte(patch), 0); return err })
}

// bodyOf returns the table of the record as it was.
func bodyOf(a *answer) string {
	_, rest, _ := strings.Cut(a.Body, `<tbody id="members">`)
	text, _, _ := strings.Cut(rest, "</tbody>")
	return text
}

// TestHistory: edits, a look back, a comparison, and the ways back.
func TestHistory(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.anna()
	createNote(t, db, "ann", "one", `{"title":"The old man and the sea","stars":3}`)
	updateNote(t, db, "bob", "one", `{"title":"The old man and the lake"}`)
	updateNote(t, db, "ann", "one", `{"stars":5,"text":"good"}`)

	const path = "/admin/records/notes/one/history"
	page := c.get(path).expect(200, "Revision 3 of 3", "request-of-bob", "bob", "stars", `<ins>good</ins>`, `<del>3</del><ins>5</ins>`)
	if strings.Contains(bodyOf(page), "sea") {
		t.Error("the newest state has an old value")
	}
	page = c.get(path+"?rev=2").expect(200, "Revision 2 of 3", "The old man and the ", "<del>sea</del><ins>lake</ins>", "different from revision 1")
	if strings.Contains(bodyOf(page), "good") {
		t.Error("a past state has a later value")
	}
	c.get(path+"?rev=1").expect(200, "Revision 1 of 3", "no earlier revision").lacks("<del>", "<ins>")
	c.get(path+"?rev=3&against=1").expect(200, "<del>sea</del><ins>lake</ins>", "different from revision 1")
	c.get(path+"?rev=1&against=3").expect(200, "<del>good</del>", "<del>5</del><ins>3</ins>")
	c.get(path+"?rev=9").expect(200, "There is no revision 9")
	c.get(path + "?rev=x").expect(400)
	c.get(path+"?at=2001-01-01T00:00").expect(200, "no such record at that time")
	c.get(path+"?at=2999-01-01T00:00:00").expect(200, "Revision 3 of 3")
	c.get(path + "?at=yesterday").expect(400)
	c.get("/admin/records/notes/none/history").expect(404)
	c.get("/admin/records/none/one/history").expect(404)
	c.get("/admin/records/none/history").expect(404)

	if at := c.post(path+"/undo", "rev", "3", "to", "2").expect(200, "Undone.", "Revision 4 of 4", email, "<del>lake</del><ins>sea</ins>", "good").Path; !strings.HasPrefix(at, path) {
		t.Errorf("it went to %s", at)
	}
	c.post(path+"/revert", "rev", "3", "to", "1").expect(409, "revision 4 now", "showed revision 3")
	c.post(path+"/revert", "rev", "4", "to", "2").expect(200, "Restored.", "<del>sea</del><ins>lake</ins>")
	c.get(path).expect(200, "Revision 5 of 5")
	updateNote(t, db, "bob", "one", `{"title":"Other"}`)
	c.post(path+"/undo", "rev", "6", "to", "5").expect(409, "someone else has since changed title")
	c.post(path+"/undo", "rev", "x").expect(400)
	c.get("/admin/log").expect(200, "record.undo", "record.revert", "notes/one", "failed")
	c.get("/admin/records/notes/history").expect(200, "one", "update", email, "bob", "Verify")
}

// TestHistoryTrash: a deleted record is restored, and a purged one only has its log.
func TestHistoryTrash(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.anna()
	createNote(t, db, "ann", "one", `{"title":"a"}`)
	doAs(t, db, "ann", func(tx *record.Tx) error { _, err := tx.Delete("notes", "one", 0); return err })
	const path = "/admin/records/notes/one/history"
	c.get(path).expect(200, "in the trash", "Restore the record", "delete")
	c.post(path+"/restore", "rev", "1").expect(409, "revision 2 now")
	c.post(path+"/restore", "rev", "2").expect(200, "Restored.", "Revision 3 of 3").lacks("Restore the record")
	c.post(path+"/restore", "rev", "3").expect(409)

	updateNote(t, db, "ann", "one", `{"title":"secret"}`)
	doAs(t, db, "ann", func(tx *record.Tx) error { _, err := tx.Redact("notes", "one", 4); return err })
	c.get(path).expect(200, "redacted by ann", "secret") // the current record keeps its data
	updateNote(t, db, "ann", "one", `{"title":"public"}`)
	doAs(t, db, "ann", func(tx *record.Tx) error { _, err := tx.Redact("notes", "one", 5); return err })
	c.get(path+"?rev=4").expect(200, "cannot be shown", "redacted").lacks("secret")
	c.get(path+"?rev=5&against=4").expect(200, "public", "no earlier revision").lacks("secret")
	c.post(path+"/undo", "rev", "5", "to", "4").expect(409, "redacted").lacks("secret")
	c.post(path+"/revert", "rev", "5", "to", "4").expect(422).lacks("secret")

	doAs(t, db, "ann", func(tx *record.Tx) error {
		if _, err := tx.Delete("notes", "one", 0); err != nil {
			return err
		}
		return tx.Purge("notes", "one", 0)
	})
	c.get(path).expect(200, "was purged", "no longer has any data").lacks("secret", "Go back to this revision")
	c.get("/admin/records/notes/history").expect(200, "purge").lacks("secret")
	c.get("/admin/records/blank/history").expect(200, "keeps no history")
	c.get("/admin/records/blank/one/history").expect(200, "keeps no history")
}

// TestHistoryHostile: values that are long, or want to be markup.
func TestHistoryHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks for hundreds of pages")
	}
	t.Parallel()
	w, db := notesServer(t)
	c := w.anna()
	long := strings.Repeat("x", 900_000)
	createNote(t, db, `<b>"bob"`, "one", `{"title":"<script>alert(1)</script>","text":"`+long+`"}`)
	updateNote(t, db, "bob", "one", `{"title":"<script>alert(2)</script>\u202e","text":"`+long+`!","more":{"a":[1,2,"</script>"]}}`)
	const path = "/admin/records/notes/one/history"
	for _, at := range []string{path, path + "?rev=1", path + "?rev=1&against=2", "/admin/records/notes/history", path + "/state?rev=2"} {
		a := c.get(at).expect(200).lacks("<script>alert", `<b>"bob"`, `"</script>"`)
		if len(a.Body) > 100_000 {
			t.Errorf("%s has %d bytes", at, len(a.Body))
		}
	}
	var wide strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&wide, `"<b>%d":%d,`, i, i)
	}
	doAs(t, db, "ann", func(tx *record.Tx) error {
		if _, err := tx.Create("open", "wide", []byte("{"+wide.String()+`"last":1}`)); err != nil {
			return err
		}
		_, err := tx.Update("open", "wide", []byte(`{"last":2}`), 0)
		return err
	})
	if a := c.get("/admin/records/open/wide/history").expect(200, "9801 more fields are not shown", "<del>1</del><ins>2</ins>").lacks("<b>"); len(a.Body) > 100_000 {
		t.Errorf("a wide record makes %d bytes", len(a.Body))
	}
	c.get(path).expect(200, "&lt;script&gt;alert(", "<ins>2</ins>", "&lt;/script&gt;", "!")
}

// TestHistoryMany: a long history has pages.
func TestHistoryMany(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.anna()
	createNote(t, db, "ann", "one", `{"title":"0"}`)
	doAs(t, db, "ann", func(tx *record.Tx) error {
		for i := 1; i < 120; i++ {
			if _, err := tx.Update("notes", "one", fmt.Appendf(nil, `{"stars":%d}`, i), 0); err != nil {
				return err
			}
		}
		return nil
	})
	const path = "/admin/records/notes/one/history"
	seen := map[string]bool{}
	for at := path; at != ""; {
		a := c.get(at).expect(200)
		for _, m := range regexp.MustCompile(`history\?rev=(\d+)">\d`).FindAllStringSubmatch(a.Body, -1) {
			seen[m[1]] = true
		}
		at = ""
		if m := regexp.MustCompile(`history\?before=(\d+)&amp;rev=`).FindStringSubmatch(a.Body); m != nil {
			at = path + "?before=" + m[1]
		}
	}
	if len(seen) != 120 {
		t.Errorf("the pages have %d changes", len(seen))
	}
	a := c.get("/admin/records/notes/history").expect(200, "Older changes")
	m := regexp.MustCompile(`\?before=(\d+)`).FindString(a.Body)
	c.get("/admin/records/notes/history"+m).expect(200, "Older changes")
}

// TestUndoUser: what a user did is undone after a look at it.
func TestUndoUser(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.anna()
	createNote(t, db, "ann", "one", `{"title":"a"}`)
	createNote(t, db, "ann", "two", `{"title":"b"}`)
	since := time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04:05")
	updateNote(t, db, "eve", "one", `{"title":"broken"}`)
	updateNote(t, db, "eve", "two", `{"title":"broken"}`)
	updateNote(t, db, "ann", "two", `{"title":"mine"}`)
	const path = "/admin/records/notes/history"
	c.post(path+"/undo", "by", "eve", "since", "then").expect(422, "eve", "must be a time")
	c.post(path+"/undo", "by", "nobody@example.org", "since", since).expect(422, "no user has the address")
	c.post(path+"/undo", "by", email, "since", since).expect(422, "no user has the address")
	c.post(path+"/undo", "by", email, "kind", "administrator", "since", since).expect(200, "changed nothing")
	c.post(path+"/undo", "by", "zoe", "since", since).expect(200, "changed nothing")
	c.post(path+"/undo", "by", "eve", "since", since, "do", "check").expect(200, "To change: 1. Conflicts, left as they are: 1.", "conflict", "someone else", "notes/one")
	c.get("/admin/records/notes/one/history").expect(200, "Revision 2 of 2")
	c.post(path+"/undo", "by", "eve", "since", since, "do", "undo").expect(200, "Changed: 1. Conflicts, left as they are: 1.")
	c.get("/admin/records/notes/one/history").expect(200, "Revision 3 of 3", "<ins>a</ins>")
	c.get("/admin/log").expect(200, "user.undo", "eve", "since ")
	c.post(path+"/undo", "by", " ANNA@example.org", "kind", "administrator", "since", since, "do", "undo").expect(200, "Changed: 1.", "notes/one")
	c.get("/admin/records/notes/one/history").expect(200, "Revision 4 of 4", "<ins>broken</ins>")
	c.post(path+"/verify").expect(200, "No fault: 7 changes, 2 records")
	c.get("/admin/log").expect(200, "collection.verify")
}

// TestLooksHistory looks at histories, and moves the slider.
func TestLooksHistory(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.open()
	c.visit("/admin/records/notes/history")
	c.looks("history-none")
	createNote(t, db, "ann", "one", `{"title":"The old man and the sea","text":"`+strings.Repeat("A fisherman has caught nothing for weeks. Today he rows far out. ", 6)+`","stars":3}`)
	updateNote(t, db, "bob", "one", `{"title":"The old man and the lake"}`)
	updateNote(t, db, "ann", "one", `{"stars":5,"more":{"tags":["fish","<b>"],"`+strings.Repeat("w", 300)+`":1}}`)
	updateNote(t, db, "", "one", `{"text":"`+strings.Repeat("A fisherman has caught nothing for weeks. Today he rows far out. ", 6)+`It ends."}`)
	createNote(t, db, "ann", "two", `{"title":"`+strings.Repeat("x", 2000)+`"}`)
	doAs(t, db, "ann", func(tx *record.Tx) error { _, err := tx.Delete("notes", "two", 0); return err })
	c.visit("/admin/records/notes/one/history")
	c.Until(`document.getElementById("slide").hidden === false`)
	slide := func(rev int) {
		t.Helper()
		browsertest.Eval[bool](c.Tab, `(() => { const s = document.getElementById("slider"); s.value = "%d"; return s.dispatchEvent(new Event("input", {bubbles: true})) })()`, rev)
		c.Until(`document.getElementById("title").textContent === "Revision %d of 4"`, rev)
	}
	slide(2)
	if is := browsertest.Eval[string](c.Tab, `document.querySelector("#members del").textContent + "/" + document.querySelector("#members ins").textContent + "/" + document.querySelector("#revert [name=to]").value + location.search + document.querySelector("[name=against]").value`); is != "sea/lake/2?rev=21" {
		t.Errorf("at revision 2: %s", is)
	}
	c.looks("history")
	slide(1)
	if !browsertest.Eval[bool](c.Tab, `document.getElementById("older").disabled && document.querySelector("#members del") === null`) {
		t.Error("the first revision is compared with another one")
	}
	slide(4)
	c.Do(chromedp.Click(chromedp.CSS("#older")))
	c.Until(`document.getElementById("title").textContent === "Revision 3 of 4"`)
	c.visit("/admin/records/notes/two/history?" + url.Values{"at": {"2999-01-01T00:00"}}.Encode())
	c.looks("history-trash")
	c.visit("/admin/records/notes/history")
	c.looks("history-collection")
	c.Do(chromedp.SendKeys(chromedp.CSS(`[name=by]`), "ann"))
	browsertest.Eval[bool](c.Tab, `(document.querySelector("[name=since]").value = "2020-01-01T00:00:00") !== ""`)
	c.Do(chromedp.Click(chromedp.CSS(`[value=check]`)))
	c.Until(`document.getElementById("result") !== null`)
	c.looks("history-undo")
}
