package mail

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

//go:embed outbox.html
var outboxHTML string

const (
	// pagePolicy is the Content-Security-Policy of the outbox's own pages.
	pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	// htmlPolicy is the Content-Security-Policy of a message's HTML, which may be anything: it runs no script
	// and has its own opaque origin, even when opened directly.
	htmlPolicy = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; img-src http: https: data:; font-src http: https: data:; style-src 'unsafe-inline' http: https:; form-action 'none'; frame-ancestors 'self'"
)

// part is a piece of a text; a link is a whole URL.
type part struct {
	Text string
	Link bool
}

var linkPattern = regexp.MustCompile(`https?://[^\s<>"'\x60]+`)

// split splits a text into links and the text between them.
func split(text string) (parts []part) {
	at := 0
	for _, m := range linkPattern.FindAllStringIndex(text, -1) {
		// Punctuation after a link is not part of it.
		end := m[0] + len(strings.TrimRight(text[m[0]:m[1]], ".,;:!?)]}"))
		if m[0] > at {
			parts = append(parts, part{Text: text[at:m[0]]})
		}
		parts = append(parts, part{Text: text[m[0]:end], Link: true})
		at = end
	}
	if at < len(text) {
		parts = append(parts, part{Text: text[at:]})
	}
	return parts
}

// ServeHTTP shows the outbox: / is the list, /ID a message, /ID/html its HTML alone, which runs no scripts.
// Links are relative, so it can be mounted under any path: app.Handle("/outbox/", http.StripPrefix("/outbox",
// box)). It shows every email, including password reset links, so it is for development only. It sets its own
// Content-Security-Policy and X-Frame-Options.
func (b *Outbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the outbox can only be read", http.StatusMethodNotAllowed)
		return
	}
	p := strings.TrimPrefix(r.URL.Path, "/")
	if p == "" {
		writePage(w, "list", b.List())
		return
	}
	number, alone := strings.CutSuffix(p, "/html")
	id, err := strconv.Atoi(number)
	if err != nil {
		http.Error(w, "the outbox has no such page", http.StatusNotFound)
		return
	}
	kept, err := b.Get(id)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
	case alone:
		writeHTML(w, kept)
	default:
		writePage(w, "one", struct {
			*Kept
			Parts []part
		}{kept, split(kept.Message.Text)})
	}
}

func writePage(w http.ResponseWriter, name string, data any) {
	pages, err := template.New("").Parse(outboxHTML)
	var b bytes.Buffer
	if err == nil {
		err = pages.ExecuteTemplate(&b, name, data)
	}
	if err != nil {
		http.Error(w, "the outbox's page is broken: "+err.Error(), http.StatusInternalServerError)
		return
	}
	headers(w, pagePolicy, "DENY")
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

// writeHTML responds with a message's HTML as it would be sent, except that links open in a new tab.
func writeHTML(w http.ResponseWriter, k *Kept) {
	headers(w, htmlPolicy, "SAMEORIGIN")
	_, _ = io.WriteString(w, `<!doctype html><base target="_blank">`+k.Message.HTML)
}

func headers(w http.ResponseWriter, policy, frames string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", frames)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}
