package admin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// recordsLink returns a set-up link for an administrator, made at the operator's port.
func (w *world) recordsLink(email, role string) string {
	w.t.Helper()
	body, err := json.Marshal(map[string]string{"email": email, "role": role})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.URL+"/administrators", strings.NewReader(string(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	var made struct{ Path string }
	if err := json.Unmarshal([]byte(w.client().send(r).expect(200).Body), &made); err != nil {
		w.t.Fatal(err)
	}
	return made.Path
}

// TestRecordsViewer: those who may only look see records, but no forms, and cannot change any.
func TestRecordsViewer(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	w.anna()
	fillShop(t, db, 2)
	c := w.client()
	c.setUp(w.recordsLink("vic@example.org", "viewer"), "vic@example.org")
	c.get("/admin/records").expect(200, "orders").lacks("/import", "/new")
	c.get("/admin/records/orders").expect(200, "Order 001").lacks("New record", "Save this view", "Change many", "data-field")
	c.get("/admin/records/orders/o001").expect(200, "Order 001", "readonly", "disabled").lacks("<button>Save", "/delete")
	for _, path := range []string{"orders/new", "orders/o001", "orders/o001/cell", "orders/o001/delete", "orders/o001/restore", "orders/bulk", "orders/bulk/do", "orders/views", "orders/views/remove"} {
		c.post("/admin/records/"+path, "rev", "1", "name", "x", "f.title", "hacked", "field", "title", "value", "hacked", "op", "delete", "on", "all", "known", "2").expect(403)
	}
	if text, _ := shopOrder(t, db, "o001"); !strings.Contains(text, "Order 001") || strings.Contains(text, "hacked") {
		t.Error(text)
	}
}

// TestRecordsHostile: values, names and ids that pages could break at.
func TestRecordsHostile(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	c := w.anna()
	fillShop(t, db, 1)
	for _, id := range []string{"import", "new", "bulk"} { // words of paths
		c.post("/admin/records/orders/new", "id", id, "f.title", "word "+id).expect(200, "word "+id)
		c.post("/admin/records/orders/"+id+"/edit", "rev", "1", "f.title", "other "+id).expect(200, "other "+id)
		c.get("/admin/records/orders").expect(200, "/admin/records/orders/"+id+"/edit")
	}
	c.post("/admin/records/orders/new", "id", "../x", "f.title", "x").expect(422, "../x")
	big := strings.Repeat("<i>é", 250_000)
	c.post("/admin/records/people/new", "id", "big", "f.name", big[:len(big)/2], "extra", `{"q\"": "</textarea>", "a b": "`+"\u202e"+`"}`).expect(200, "&lt;i&gt;é").lacks("<i>")
	if page := c.get("/admin/records/people").expect(200, "&lt;i&gt;é").lacks("<i>"); len(page.Body) > 50_000 {
		t.Errorf("the grid has %d bytes", len(page.Body))
	}
	c.post("/admin/records/people/new", "id", "huge", "f.name", big+big).expect(422, "bytes")
	c.post("/admin/records/people/new", "id", "nul", "f.name", "a\x00b").expect(422, "NUL")
	c.post("/admin/records/people/new", "id", "bad", "f.name", "a\xffb").expect(422, "UTF-8")
	c.get("/admin/records/orders?sort=%3Cb%3E&columns=%3Cb%3E&at=%3Cb%3E&after=%3Cb%3E").expect(422).lacks("<b>")
	c.get("/admin/records/%3Cb%3E").expect(404).lacks("<b>")
	c.get("/admin/records/orders/%3Cb%3E").expect(404).lacks("<b>")
	c.post("/admin/records/orders/o000", "rev", "x").expect(400)
	c.post("/admin/records/orders/none", "rev", "1", "f.title", "x").expect(404)
}
