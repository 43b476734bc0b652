package admin_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/web"
)

// failing adds routes that fail.
func failing(_ *skerry.Services, app *web.App) {
	app.Get("/panics", func(*web.Context) error { panic("<b>no luck</b>") })
	app.Get("/fails/{token}", func(*web.Context) error { return errors.New("the disk said no: password=hunter2") })
}

// ask sends a request to the application and returns the request's id.
func (w *world) ask(path string) string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.srv.HTTPURL()+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.client().http.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusInternalServerError {
		w.t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return resp.Header.Get("X-Request-Id")
}

// TestFaults: a fault is found by its reference, without secrets.
func TestFaults(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s, failing))
	anna := w.anna()
	anna.get("/admin/faults").expect(200, "has had no faults")
	first, second := w.ask("/panics"), w.ask("/fails/ABCDEF?token=x")
	if first == "" || first == second {
		t.Fatalf("the references are %q and %q", first, second)
	}
	page := anna.get("/admin/faults").expect(200, first, second, "the disk said no", "&lt;b&gt;no luck", "faults_test.go", "<details>").lacks("hunter2", "ABCDEF", "<b>no luck")
	if strings.Index(page.Body, second) > strings.Index(page.Body, first) {
		t.Error("the newest fault is not first")
	}
	anna.get("/admin/faults?q="+first).expect(200, "no luck", "GET /panics").lacks("the disk said no")
	anna.get("/admin/faults?q=%3Cnothing%3E").expect(200, "No fault has this reference.", "&lt;nothing&gt;")
	anna.get("/admin/faults?faults=x&lines=-1").expect(200, first)
	anna.invite(viewersEmail, "viewer").get("/admin/faults").expect(200, first)
	for range 30 {
		w.ask("/fails/x")
	}
	older := regexp.MustCompile(`href="\?(q=&amp;faults=[0-9]+)"`).FindStringSubmatch(anna.get("/admin/faults").expect(200).lacks("<code>GET /panics</code>").Body)
	if older == nil {
		t.Fatal("there is no link to older faults")
	}
	anna.get("/admin/faults?"+strings.ReplaceAll(older[1], "&amp;", "&")).expect(200, "<code>GET /panics</code>")
}

// TestRecentLog: the newest lines from level warn on are there, with their attributes, whatever the log itself keeps.
func TestRecentLog(t *testing.T) {
	t.Parallel()
	recent := &skerry.RecentLog{}
	var kept strings.Builder
	log := slog.New(recent.Handler(slog.NewTextHandler(&kept, &slog.HandlerOptions{Level: slog.LevelError})))
	log.Info("a secret link", "url", "hidden")
	log.With("node", 3).WithGroup("disk").Warn("it is <full>", "free", 0)
	log.Error("it broke", "err", errors.New("two\nlines"))
	if got := kept.String(); strings.Contains(got, "full") || !strings.Contains(got, "it broke") {
		t.Errorf("the log itself has %s", got)
	}
	w := start(t, skerry.Options{RecentLog: recent})
	anna := w.anna()
	anna.get("/admin/faults").expect(200, "it is &lt;full&gt;", "node=3 disk.free=0", "it broke", `two\nlines`).lacks("a secret link", "Faults of the application")
	anna.get("/admin/faults?level=error").expect(200, "it broke").lacks("it is &lt;full")
	anna.get("/admin/faults?q=FREE").expect(200, "it is &lt;full").lacks("it broke")
	for i := range 1200 {
		log.Warn(fmt.Sprintf("line %d.", i), "text", strings.Repeat("x", 10_000))
	}
	anna.get("/admin/faults").expect(200, "line 1199.", "Older lines").lacks("line 1099.", "it broke")
	anna.get("/admin/faults?q=it+broke").expect(200, "No line of the log has this text.")
	anna.get("/admin/faults?q=line+200.").expect(200, ">line 200.")
}

func TestLooksFaults(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s, failing))
	c := w.open()
	c.visit("/admin/faults")
	c.looks("faults-empty")
	w.ask("/panics")
	w.ask("/fails/x")
	c.visit("/admin/faults")
	c.Do(chromedp.Click(chromedp.CSS(`summary`)))
	c.looks("faults")
}
