package admin_test

import (
	"html"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine/embedded"
)

// linkOf returns where the link with a text leads.
func linkOf(a *answer, text string) string {
	a.t.Helper()
	found := regexp.MustCompile(`href="([^"]*)">` + regexp.QuoteMeta(text) + `<`).FindStringSubmatch(a.Body)
	if found == nil {
		a.t.Fatalf("%s has no link %q:\n%s", a.Path, text, a.Body)
	}
	return html.UnescapeString(found[1])
}

// TestBackups: a download is a whole backup, the log of actions has it, and only superadmins get one.
func TestBackups(t *testing.T) {
	t.Parallel()
	w, s := startLive(t, skerry.Options{})
	setLiveKey(t, s, 16, "a", "b")
	c := w.anna()
	c.get("/admin/backups").expect(200, "Nobody has taken a backup", "skerry backup --from "+w.URL, "skerry restore --from", "--archive")
	got := c.post("/admin/backups/take").expect(200)
	if d := got.Header.Get("Content-Disposition"); !strings.Contains(d, "attachment") || !strings.Contains(d, ".skerry") {
		t.Errorf("Content-Disposition: %s", d)
	}
	sum, err := embedded.VerifyBackup(strings.NewReader(got.Body))
	if err != nil || sum.Keys == 0 {
		t.Errorf("the download: %+v, %v", sum, err)
	}
	c.get("/admin/backups").expect(200, email, "position ").lacks("Nobody has taken")
	c.get("/admin/log").expect(200, "backup.take", "backup.taken")

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/admin/backups/take", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	setLiveKey(t, s, 16, "large", noise(16<<20))
	resp, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() // long before its end
	eventually.True(t, "the log says that the download broke off", func() bool { return strings.Contains(c.get("/admin/backups").Body, "broke off</td>") })

	v := w.liveViewer()
	v.get("/admin/backups").expect(403, "superadmins")
	v.post("/admin/backups/take").expect(403)
	w.client().post("/admin/backups/take").lacks("SKERRY")
}

// noise returns a text that does not compress.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return string(b)
}
