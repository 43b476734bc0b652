package admin_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/keyspace"
)

// TestChanges: the newest changes come first, filters leave out the others, and what Skerry keeps for itself is never named.
func TestChanges(t *testing.T) {
	t.Parallel()
	w, s := startLive(t, skerry.Options{})
	c := w.anna()
	c.get("/admin/changes").expect(200, "Nothing has changed yet").lacks("internal</span>")
	setLiveKey(t, s, 16, "user/1", "secret value")
	setLiveKey(t, s, 17, hostileLive, "x")
	addLiveNote(t, s, "ann", "n0") // with it the collection is stored
	addLiveNote(t, s, "ann", "n1")
	addLiveNote(t, s, "bob", "n2")
	setLiveKey(t, s, keyspace.Sessions, "sessionkey", "x")

	c.get("/admin/changes").expect(200, "user/1", "/admin/records/notes/n1", "notes/n2", "/admin/keys/one?space=16&amp;key=user%2F1", "create", ">ann</a>", "&lt;script&gt;").lacks("secret value", "sessionkey", "<script>alert")
	c.get("/admin/changes?internal=1").expect(200, ">internal</span>").lacks("sessionkey")
	c.get("/admin/changes?prefix=user/").expect(200, "user/1").lacks("notes/n1", "alert")
	c.get("/admin/changes?space=17").expect(200, "alert").lacks("user/1")
	c.get("/admin/changes?collection=notes").expect(200, "notes/n1", "notes/n2").lacks("user/1")
	c.get("/admin/changes?actor=ann").expect(200, "notes/n1").lacks("notes/n2", "user/1")
	c.get("/admin/changes?kind=key").expect(200, "user/1").lacks("notes/n1")
	c.get("/admin/changes?collection=other").expect(200, "No change among")
	c.get("/admin/changes?space=254").expect(422, "0 to 127", `value="254"`)
	c.get("/admin/changes?space=%3Cb%3E").expect(422, "&lt;b&gt;")
	c.get("/admin/changes?before=x").expect(422, "before")
	c.get("/admin/changes?kind=x").expect(422, "kind")
	c.get("/admin/changes?before=1").expect(200)
	w.liveViewer().get("/admin/changes").expect(200, "user/1")
}

// TestChangesPages: a page is bounded and leads to older changes, and a history that was dropped is said to be.
func TestChangesPages(t *testing.T) {
	t.Parallel()
	w, s := startLive(t, skerry.Options{})
	c := w.anna()
	for i := range 120 {
		setLiveKey(t, s, 16, fmt.Sprintf("k/%03d", i), "x")
	}
	page := c.get("/admin/changes?kind=key").expect(200, "k/119", "k/070", "Older").lacks("k/069")
	page = c.get("/admin/changes"+linkOf(page, "Older")).expect(200, "k/069", "k/020").lacks("k/070", "k/019")
	c.get("/admin/changes"+linkOf(page, "Older")).expect(200, "k/019", "k/000")

	big := make([]byte, 1<<20)
	for range 40 {
		setLiveKey(t, s, 16, "big", string(big))
	}
	c.get("/admin/changes").expect(200, "does not keep older changes", "big")
}

// TestChangesLive: changes appear while the page is open; a pause holds them back.
func TestChangesLive(t *testing.T) {
	t.Parallel()
	w, s := startLive(t, skerry.Options{})
	addLiveNote(t, s, "ann", "n0")
	c := w.open()
	c.visit("/admin/changes")
	c.Until(`document.getElementById("state").textContent.startsWith("Live")`)
	setLiveKey(t, s, 16, hostileLive, "x")
	c.Until(`document.getElementById("rows").textContent.includes("<script>alert(1)")`)
	c.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("pause").click()`))
	addLiveNote(t, s, "ann", "n1")
	c.Until(`document.getElementById("state").textContent.startsWith("Paused; 1")`)
	c.Until(`!document.getElementById("rows").textContent.includes("notes/n1")`)
	c.Do(chromedp.Evaluate[chromedp.Void](`document.getElementById("pause").click()`))
	c.Until(`document.getElementById("rows").textContent.includes("notes/n1") && document.getElementById("rows").textContent.includes("by ann")`)
}

// TestLooksChanges looks at the page of changes, empty and filled.
func TestLooksChanges(t *testing.T) {
	t.Parallel()
	w, s := startLive(t, skerry.Options{})
	c := w.open()
	c.visit("/admin/changes")
	c.looks("changes-empty")
	for i := range 12 {
		setLiveKey(t, s, 16, fmt.Sprintf("user/%d", i), "x")
		addLiveNote(t, s, "ann", fmt.Sprint("n", i))
	}
	setLiveKey(t, s, 17, hostileLive+string(make([]byte, 2000)), "x")
	c.visit("/admin/changes")
	c.Until(`document.getElementById("state").textContent.startsWith("Live")`)
	c.looks("changes")
}
