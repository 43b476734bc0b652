package front

import (
	"crypto/rand"
	_ "embed"
	"html/template"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/web/hostname"
)

//go:embed failure.html
var failureHTML string

var failurePage = template.Must(template.New("failure").Parse(failureHTML))

// showFailure responds with a failure: as a page that polls for changes and then reloads itself, or as text to
// clients that accept no HTML.
func showFailure(w http.ResponseWriter, r *http.Request, why *Failure, seen uint64) {
	shown := *why
	if !hostname.Trusted(r.Host, nil) { // a foreign web page must not read output of the program or the compiler
		shown = Failure{Title: "The program does not respond", Note: "Open this page at localhost to see why."}
	}
	if len(shown.Text) > MaxFailureBytes {
		shown.Text = strings.ToValidUTF8(shown.Text[:MaxFailureBytes], "") + "\n… the rest is in the terminal"
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Retry-After", "1")
	h.Set("X-Content-Type-Options", "nosniff")
	if !isPage(r) {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, part := range []string{shown.Title, shown.Text, shown.Note} {
			if part != "" {
				_, _ = w.Write([]byte(strings.TrimRight(part, "\n") + "\n"))
			}
		}
		return
	}
	nonce := rand.Text()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; base-uri 'none'; frame-ancestors 'self'; style-src 'nonce-"+nonce+"'; script-src 'nonce-"+nonce+"'")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = failurePage.Execute(w, map[string]any{"Failure": shown, "Nonce": nonce, "Path": SeenPath, "Seen": seen})
}
