package mail_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
)

// page reads one page of an outbox that is mounted under /outbox/.
func page(t *testing.T, box *mail.Outbox, method, path string) (int, http.Header, string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/outbox/", http.StripPrefix("/outbox", box))
	server := httptest.NewServer(mux)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(body)
}

// TestOutboxKeepsTheLast: the newest messages come first, the oldest are dropped.
func TestOutboxKeepsTheLast(t *testing.T) {
	t.Parallel()
	box := mail.NewOutbox(3)
	for i := 1; i <= 5; i++ {
		send(t, box, func(m *mail.Message) { m.Subject = fmt.Sprint(i) })
	}
	var got []string
	for _, k := range box.List() {
		got = append(got, fmt.Sprint(k.ID, "=", k.Message.Subject))
	}
	if want := []string{"5=5", "4=4", "3=3"}; !slices.Equal(got, want) {
		t.Errorf("it keeps %v, want %v", got, want)
	}
	if _, err := box.Get(2); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a dropped message: %v", err)
	}
	if k, err := box.Get(4); err != nil || k.Message.Subject != "4" || k.Message.Ref == "" {
		t.Errorf("message 4: %+v, %v", k, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := box.Send(ctx, message()); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// TestOutboxLogs: every kept message is logged, without its body.
func TestOutboxLogs(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	box := mail.NewOutbox(0)
	box.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	for i := range 2 {
		send(t, box, func(m *mail.Message) { m.Subject, m.Text = fmt.Sprintf("Message %d", i), "secret" })
	}
	if err := box.Send(t.Context(), mail.Message{Subject: "to nobody"}); err == nil {
		t.Error("a message without a recipient was kept")
	}
	if got := logged.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "secret") ||
		!strings.Contains(got, `level=INFO msg="mail kept in the outbox" id=2 to=`) || !strings.Contains(got, `subject="Message 1"`) || !strings.Contains(got, message().To[0]) {
		t.Errorf("logged: %s", got)
	}
}

// TestOutboxBytes: the total size is bounded; the newest message always stays.
func TestOutboxBytes(t *testing.T) {
	t.Parallel()
	box := mail.NewOutbox(mail.MaxOutbox)
	const each = mail.MaxBodyBytes
	text := strings.Repeat("a", each)
	for range mail.MaxOutboxBytes/each + 3 {
		send(t, box, func(m *mail.Message) { m.Text = text })
	}
	if n := len(box.List()); n != mail.MaxOutboxBytes/each-1 {
		t.Errorf("it keeps %d messages of %d bytes", n, each)
	}
}

// TestOutboxPages: the contents of a message are shown, but scripts in it never run.
func TestOutboxPages(t *testing.T) {
	t.Parallel()
	box := mail.NewOutbox(0)
	if code, _, body := page(t, box, "GET", "/outbox/"); code != 200 || !strings.Contains(body, "No mail yet") {
		t.Errorf("an empty outbox: %d %s", code, body)
	}
	evil := `<img src=x onerror=alert(1)>`
	m := mail.Message{
		To: []string{`"` + evil + `" <ann@example.org>`}, ReplyTo: `"` + evil + `" <r@example.org>`, Subject: evil,
		Text: "See https://example.org/verify?a=1&b=2. Or (http://example.org/x) " + evil + "\njavascript:alert(1) https://example.org/\"onmouseover=alert(1)",
		HTML: "<p>Hello</p>" + evil + `<a href="https://example.org/">in</a>`,
	}
	if err := box.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/outbox/", "/outbox/1"} {
		code, header, body := page(t, box, "GET", path)
		if code != 200 || strings.Contains(body, "<img") || !strings.Contains(body, "&lt;img src=x onerror=alert(1)&gt;") {
			t.Errorf("%s: %d %s", path, code, body)
		}
		if p := header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'") || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, header)
		}
	}
	if _, _, body := page(t, box, "GET", "/outbox/"); !strings.Contains(body, `<a href="1">`) {
		t.Errorf("the list has no link to the message: %s", body)
	}
	_, _, body := page(t, box, "GET", "/outbox/1")
	for _, want := range []string{
		`<a href="https://example.org/verify?a=1&amp;b=2" target="_blank" rel="noopener noreferrer">https://example.org/verify?a=1&amp;b=2</a>. Or (<a href="http://example.org/x"`,
		`<a href="https://example.org/" target`,
		`<iframe sandbox="allow-popups allow-popups-to-escape-sandbox" src="1/html"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s:\n%s", want, body)
		}
	}
	if n := strings.Count(body, "<a href="); n != 4 { // one leads back
		t.Errorf("%d links:\n%s", n, body)
	}
	code, header, html := page(t, box, "GET", "/outbox/1/html")
	policy := header.Get("Content-Security-Policy")
	if code != 200 || !strings.Contains(html, m.HTML) || !strings.Contains(html, `<base target="_blank">`) {
		t.Errorf("the HTML alone: %d %s", code, html)
	}
	if !strings.HasPrefix(policy, "sandbox allow-popups allow-popups-to-escape-sandbox;") || strings.Contains(policy, "script") || header.Get("X-Frame-Options") != "SAMEORIGIN" {
		t.Errorf("its headers: %v", header)
	}
	for path, want := range map[string]int{"/outbox/2": 404, "/outbox/x": 404, "/outbox/1/text": 404, "/outbox/1/html/html": 404, "/outbox/-1": 404} {
		if code, _, _ := page(t, box, "GET", path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	if code, header, _ := page(t, box, "POST", "/outbox/"); code != 405 || header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", code, header)
	}
}
