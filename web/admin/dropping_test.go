package admin_test

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry/examples/browsertest"
)

// drop drops files, given as alternating names and texts, onto an element of the page. It reports whether the page has taken them;
// otherwise the browser would open them.
func (c *tab) drop(element string, files ...string) bool {
	list, err := json.Marshal(files)
	if err != nil {
		panic(err)
	}
	return browsertest.Eval[bool](c.Tab, `(() => {
		const all = new DataTransfer(), files = %s;
		for (let i = 0; i < files.length; i += 2) all.items.add(new File([files[i + 1]], files[i]));
		const at = document.querySelector(%q);
		const fire = (kind) => !at.dispatchEvent(new DragEvent(kind, { dataTransfer: all, bubbles: true, cancelable: true }));
		fire("dragenter");
		if (!document.querySelector("main.dropping")) throw new Error("the page does not show that files can be dropped");
		const over = fire("dragover"), taken = fire("drop");
		if (document.querySelector("main.dropping")) throw new Error("the page shows it still");
		return over && taken;
	})()`, list, element)
}

// TestDroppedFiles: a file that is dropped onto the records is checked on the page of imports, whose form has it then; files that cannot
// be imported are refused before they are sent.
func TestDroppedFiles(t *testing.T) {
	t.Parallel()
	w, db := notesServer(t)
	c := w.open()
	grid := "/admin/records/notes"
	c.visit(grid)
	problem := func(at string) string {
		return browsertest.Eval[string](c.Tab, `document.querySelector("%s .problem")?.textContent ?? ""`, at)
	}
	for _, refused := range []struct {
		files []string
		want  string
	}{
		{[]string{"notes.xls", "x"}, "The name of notes.xls does not end with .csv, .jsonl or .ndjson, so choose the format."},
		{[]string{"a.csv", "title\na\n", "b.csv", "title\nb\n"}, "Drop one file at a time."},
	} {
		if !c.drop("main", refused.files...) || problem("#fault") != refused.want {
			t.Errorf("%q: %q", refused.files, problem("#fault"))
		}
	}
	if !c.drop("h1", "notes.csv", "id,title,stars\na,fine,1\n") {
		t.Error("the page of records does not take the file")
	}
	c.Until(`location.pathname === "` + importPath + `" && document.querySelector("#result .notice") !== null && document.querySelector("[type=file]").files[0]?.name === "notes.csv"`)
	if n := countNotes(t, db); n != 0 {
		t.Errorf("%d records were written by the check", n)
	}
	c.looks("import-dropped")
	browsertest.Eval[bool](c.Tab, `(globalThis.confirm = () => true)()`)
	c.Do(chromedp.Click(chromedp.CSS(`[value=import]`)))
	c.Until(`document.querySelector("#result .notice")?.textContent === "notes.csv was imported."`)
	if n := countNotes(t, db); n != 1 {
		t.Errorf("%d records", n)
	}

	c.visit(importPath) // the file was taken once
	if n := browsertest.Eval[int](c.Tab, `document.querySelector("[type=file]").files.length`); n != 0 {
		t.Errorf("%d files are in the form of a new page", n)
	}
	if !c.drop(".drop", "notes.txt", "title\nx\n") || problem("#result") == "" {
		t.Error("a file of an unknown type is not refused")
	}
	if got := browsertest.Eval[string](c.Tab, `(() => {
		const all = new DataTransfer(), input = document.querySelector("[type=file]");
		all.items.add(new File([new Uint8Array(17 << 20)], "large.csv"));
		input.files = all.files;
		input.dispatchEvent(new Event("change", { bubbles: true }));
		return document.querySelector("#result .problem")?.textContent ?? "";
	})()`); got != "large.csv has 17.0 MiB; a file can have 16.0 MiB at most. For more, use “skerry import”." {
		t.Errorf("a large file: %q", got)
	}
	if !c.drop(".drop", "notes.ndjson", `{"id":"b","data":{"title":"other"}}`) {
		t.Error("the page of imports does not take the file")
	}
	c.Until(`document.querySelector("#result .notice")?.textContent.startsWith("notes.ndjson can be imported")`)
}
