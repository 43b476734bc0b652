package admin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/examples/browsertest"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// uploadFile sends a form with a file, given as alternating names and values of its other fields.
func (c *client) uploadFile(path, file, text string, fields ...string) *answer {
	c.w.t.Helper()
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		if err := m.WriteField(fields[i], fields[i+1]); err != nil {
			c.w.t.Fatal(err)
		}
	}
	part, err := m.CreateFormFile("file", file)
	if err == nil {
		_, err = io.WriteString(part, text)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		c.w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(c.w.t.Context(), http.MethodPost, c.w.URL+path, &body)
	if err != nil {
		c.w.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", m.FormDataContentType())
	return c.send(r)
}

// onlooker returns the browser of an administrator who may only look.
func (w *world) onlooker() *client {
	w.t.Helper()
	resp, err := http.Post(w.URL+"/administrators", "application/json", strings.NewReader(`{"email":"vera@example.org","role":"viewer"}`))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var to struct{ Path string }
	if err := json.NewDecoder(resp.Body).Decode(&to); err != nil || to.Path == "" {
		w.t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	c := w.client()
	c.setUp(to.Path, "vera@example.org")
	return c
}

// countNotes returns how many notes there are.
func countNotes(t *testing.T, db *record.DB) (n int) {
	t.Helper()
	_, err := db.View(t.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) error {
		q, err := tx.ParseQuery("notes", map[string][]string{"count": {"true"}, "limit": {"1"}})
		if err != nil {
			return err
		}
		page, err := tx.Find("notes", q)
		if err == nil {
			n = page.Total
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const importPath = "/admin/records/notes/import"

// TestImport: a file is checked, its mistakes are named, and it is imported.
func TestImport(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.anna()
	c.get(importPath).expect(200, "id,title,text,stars", "10\u202f000 records", "16.0 MiB")
	c.get("/admin/records/none/import").expect(404)
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `{"id":"n%d","data":{"title":"note %d","stars":%d}}`+"\n", i, i, i%6)
	}
	c.uploadFile(importPath, "notes.jsonl", b.String(), "do", "check").expect(200, "can be imported", "<b>10\u202f000</b>", "note 9").lacks("note 11")
	if n := countNotes(t, db); n != 0 {
		t.Fatalf("a check has written %d records", n)
	}
	c.uploadFile(importPath, "notes.jsonl", b.String(), "do", "import").expect(200, "was imported", "Created")
	if n := countNotes(t, db); n != 10_000 {
		t.Fatalf("%d records", n)
	}
	c.get("/admin/records/notes/n7/history").expect(200, email, "create")
	c.get("/admin/log").expect(200, "records.import", "notes.jsonl", "existing records: refuse")
	c.uploadFile(importPath, "notes.jsonl", b.String(), "do", "import").expect(422, "Nothing was written", "9\u202f800 more rows", "With mistakes").lacks("was imported")
	c.uploadFile(importPath, "notes.jsonl", b.String(), "do", "import", "existing", "skip").expect(200, "was imported", "Skipped")
	b.WriteString(`{"data":{"title":"one more"}}`)
	c.uploadFile(importPath, "notes.jsonl", b.String(), "do", "check").expect(422, "more than 10000 records")
	if n := countNotes(t, db); n != 10_000 {
		t.Fatalf("%d records", n)
	}
}

// TestImportMistakes: each mistake has its line and column.
func TestImportMistakes(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.anna()
	file := "id,title,stars\na,fine,1\nb,,2\nc,<b>bad</b>,many\nd\n"
	a := c.uploadFile(importPath, "n.csv", file, "do", "import").expect(422, "Nothing was written")
	for _, text := range []string{`<td class="number">3</td>`, `<td class="number">4</td><td class="number">14</td><td>stars</td>`, `<td class="number">5</td>`, "1 values, but the first line has 3", "title", "&lt;b&gt;bad"} {
		a.expect(422, text)
	}
	if n := countNotes(t, db); n != 0 {
		t.Fatalf("%d records", n)
	}
	c.uploadFile(importPath, "n.csv", file, "do", "import", "partial", "true").expect(200, "was imported", `<td class="number">3</td>`)
	if n := countNotes(t, db); n != 1 {
		t.Fatalf("%d records", n)
	}
	c.uploadFile(importPath, "n.csv", "id,title\na,other\n", "do", "import", "existing", "update").expect(200, "was imported", "Updated")
	c.get("/admin/records/notes/a/history").expect(200, "<del>fine</del><ins>other</ins>")

	c.uploadFile(importPath, "n.csv", "id,nothing\na,b\n", "do", "check").expect(422, "line 1, column 4", "no field")
	c.uploadFile(importPath, "n.jsonl", "{\"data\":{\"title\":\"a\"}}\nno\n", "do", "check").expect(200, "has mistakes", `<td class="number">2</td>`, "not a JSON object")
	c.uploadFile(importPath, "n.xls", "x", "do", "check").expect(422, "choose the format")
	c.uploadFile(importPath, "", "", "do", "check").expect(422, "Choose a file first")
	c.uploadFile(importPath, "n.txt", "title\nb\n", "format", "csv", "do", "check").expect(200, "can be imported")
	c.uploadFile(importPath, "n.jsonl", "", "do", "import").expect(200, "was imported")
	c.uploadFile(importPath, "n.jsonl", strings.Repeat(" ", 17<<20), "do", "check").expect(413, "larger than 16.0 MiB")
	c.uploadFile(importPath, "n.csv", "title\nhello\n", "do", "check", "evil", "1")
}

// TestExport: what is exported can be imported again.
func TestExport(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t, schema.Field{Name: "pin", Type: schema.Text})
	c := w.anna()
	createNote(t, db, "ann", "one", `{"title":"a, \"b\"\nc","stars":3,"more":{"x":[1]}}`)
	createNote(t, db, "ann", "two", `{"title":"<b>","parent":"one"}`)
	const path = "/admin/records/notes/export"
	c.get(path).expect(200, "Download", "Filter")
	c.get("/admin/records/none/export").expect(404)
	c.get(path+"?format=xml").expect(422, "csv or jsonl")
	c.get(path+"?format=csv&filter=nothing+%3D+1").expect(422, "nothing = 1", "nothing")
	only := c.get(path+"?format=jsonl&sort=&filter=stars+%3D+3").expect(200, `"one"`)
	if strings.Contains(only.Body, `"two"`) {
		t.Error("the filter is not applied")
	}
	c.get(path+"?filter=stars+%3D+3&columns=a&at=2026-01-01&deleted=1").expect(200, `value="stars = 3"`, `value="2026-01-01"`, `value="1" checked`)
	c.get(path+"?format=csv&at=yesterday").expect(422, "must be a time")
	c.get(path+"?format=csv&limit=3").expect(422, "limit")
	if past := c.get(path + "?format=jsonl&at=2001-01-01&columns=x&count=1").expect(200); past.Body != "" {
		t.Errorf("in 2001 there was %s", past.Body)
	}
	by := func(fn func(tx *record.Tx) error) { t.Helper(); doAs(t, db, "ann", fn) }
	by(func(tx *record.Tx) error { _, err := tx.Delete("notes", "two", 0); return err })
	c.get(path + "?format=jsonl").expect(200).lacks("two")
	c.get(path+"?format=jsonl&deleted=1").expect(200, "two")
	by(func(tx *record.Tx) error { _, err := tx.Restore("notes", "two", 0); return err })
	for _, format := range []string{"csv", "jsonl"} {
		a := c.get(path+"?format="+format).expect(200, "one", "two")
		if h := a.Header; !strings.Contains(h.Get("Content-Disposition"), "attachment") || !strings.Contains(h.Get("Content-Disposition"), "notes."+format) || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers %v", h)
		}
		c.uploadFile(importPath, "n."+format, a.Body, "do", "import", "existing", "update").expect(200, "was imported")
		if again := c.get(path + "?format=" + format); again.Body != a.Body {
			t.Errorf("%s: %s\nthen %s", format, a.Body, again.Body)
		}
		doAs(t, db, "ann", func(tx *record.Tx) error {
			for _, id := range []string{"two", "one"} {
				if _, err := tx.Delete("notes", id, 0); err != nil {
					return err
				}
				if err := tx.Purge("notes", id, 0); err != nil {
					return err
				}
			}
			return nil
		})
		c.uploadFile(importPath, "n."+format, a.Body, "do", "import").expect(200, "was imported")
		if n := countNotes(t, db); n != 2 {
			t.Errorf("%d records after the import", n)
		}
	}
}

// TestViewerHistory: those who may only look see histories and export, but change nothing.
func TestViewerHistory(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	w.anna()
	v := w.onlooker()
	createNote(t, db, "ann", "one", `{"title":"a"}`)
	updateNote(t, db, "ann", "one", `{"title":"b"}`)
	const path = "/admin/records/notes/one/history"
	v.get(path+"?rev=1").expect(200, "Revision 1 of 2").lacks("Go back to", `action="/admin/records/notes/one/history/undo"`)
	v.get("/admin/records/notes/history").expect(200, "update").lacks("Verify notes", "Undo what")
	v.get(importPath).expect(200, "Viewers cannot import").lacks(`type="file"`)
	v.get("/admin/records/notes/export?format=csv").expect(200, "one,b")
	v.post(path+"/undo", "rev", "2", "to", "2").expect(403, "change nothing")
	v.post(path+"/revert", "rev", "2", "to", "1").expect(403)
	v.post(path+"/restore", "rev", "2").expect(403)
	v.post("/admin/records/notes/history/verify").expect(403)
	v.post("/admin/records/notes/history/undo", "by", "ann", "since", "2020-01-01").expect(403)
	v.uploadFile(importPath, "n.csv", "title\nx\n", "do", "import").expect(403)
	if n := countNotes(t, db); n != 1 {
		t.Errorf("%d records", n)
	}
	for _, at := range []string{path, importPath, "/admin/records/notes/export?format=csv"} {
		if body := w.client().get(at).expect(200, "Log in").Body; strings.Contains(body, "one,b") {
			t.Errorf("a stranger sees %s", at)
		}
	}
}

// TestLooksImport imports with the module, and looks at the pages.
func TestLooksImport(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.open()
	c.visit(importPath)
	c.looks("import")
	file := filepath.Join(t.TempDir(), "notes.csv")
	if err := os.WriteFile(file, []byte("id,title,stars\na,fine,1\nb,,2\nc,"+strings.Repeat("long ", 100)+",many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Do(chromedp.SetUploadFiles(chromedp.CSS(`[type=file]`), []string{file}), chromedp.Click(chromedp.CSS(`[value=check]`)))
	c.Until(`document.querySelector("#result table") !== null && document.querySelector("[type=file]").files.length === 1`)
	if is := browsertest.Eval[string](c.Tab, `document.querySelector("#result .problem").textContent`); !strings.Contains(is, "notes.csv has mistakes") {
		t.Errorf("the result: %s", is)
	}
	c.looks("import-mistakes")
	browsertest.Eval[bool](c.Tab, `(globalThis.confirm = () => true)()`)
	c.Do(chromedp.Click(chromedp.CSS(`[name=partial]`)), chromedp.Click(chromedp.CSS(`[value=import]`)))
	c.Until(`document.querySelector("#result .notice")?.textContent === "notes.csv was imported."`)
	if n := countNotes(t, db); n != 1 {
		t.Errorf("%d records", n)
	}
	c.visit("/admin/records/notes/export")
	c.looks("export")
}
