package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/web/admin"
)

// TestOwnPages: a page of the application is in the menu and behind the login, and its texts can be translated.
func TestOwnPages(t *testing.T) {
	t.Parallel()
	reports := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("reports at " + r.URL.Path)) })
	w := start(t, skerry.Options{Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
		s.AdminPages = append(s.AdminPages, admin.Page{Path: "/reports", Title: "Reports <1>", Handler: reports})
		s.AdminTexts = map[string]string{"This node": "Dieser <Knoten>", "%d s ago": "vor %d s"}
		return hello(s)
	}}})
	w.anna().get("/admin/overview").expect(200, `<a href="/admin/reports/">Reports &lt;1&gt;</a>`, "Dieser &lt;Knoten&gt;", "(vor ").lacks(">This node<")
	ben := w.ben()
	ben.get("/admin/reports/today").expect(200, "reports at /admin/reports/today")
	ben.post("/admin/reports/today").expect(403)
	if at := w.client().get("/admin/reports/today"); !strings.HasPrefix(at.Path, "/admin/account/login") {
		t.Errorf("a stranger gets %s: %s", at.Path, at.Body)
	}
}
