package admin_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
)

// sender is a mail server that refuses some addresses.
type sender struct{}

func (sender) Send(context.Context, mail.Message) error {
	panic("BUG: a test should not wait in the queue")
}

func (sender) SendNow(_ context.Context, m mail.Message) error {
	switch m.To[0] {
	case "gone@example.org":
		return engine.Errorf(mail.CodeRefused, "the mail server refuses gone@example.org: 550 <no such user>")
	case "later@example.org":
		return engine.Errorf(mail.CodeUnavailable, "the mail server does not answer")
	}
	return nil
}

func (sender) Metrics() iter.Seq[engine.Metric] {
	return slices.Values([]engine.Metric{{Name: "mail_sent_total", Help: "Messages that the server accepted.", Value: 12345}, {Name: "mail_waiting", Help: "Messages that wait.", Value: 7}})
}

// TestMail: the numbers of the sender, and a test message.
func TestMail(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	o := withUsers(t, &s)
	o.Web.Mail = sender{}
	w := start(t, o)
	anna := w.anna()
	anna.get("/admin/mail").expect(200, "Messages that wait.", "12\u202f345").lacks("outbox is empty")
	anna.post("/admin/mail", "to", "ben@example.org").expect(200, "Done.")
	anna.post("/admin/mail", "to", "gone@example.org").expect(422, "550 &lt;no such user&gt;", `value="gone@example.org"`)
	anna.post("/admin/mail", "to", "later@example.org").expect(503, "does not answer", `value="later@example.org"`)
	anna.get("/admin/mail/1").expect(404)
	anna.get("/admin/log").expect(200, "mail.test", "ben@example.org", "550")
	ben := anna.invite(viewersEmail, "viewer")
	ben.get("/admin/mail").expect(200, "Messages that wait.").lacks("Send a test")
	ben.post("/admin/mail", "to", "ben@example.org").expect(403)
}

// TestOutbox: in development, superadmins read the messages; viewers see only that there are some.
func TestOutbox(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s))
	anna := w.anna()
	anna.get("/admin/mail").expect(200, "The outbox is empty.")
	send(t, s, "Reset <b>", "https://example.org/reset/SECRET", "<script>alert(1)</script>")
	anna.get("/admin/mail").expect(200, "Reset &lt;b&gt;", "/admin/mail/1").lacks("SECRET")
	anna.get("/admin/mail/1").expect(200, "SECRET", "&lt;script&gt;alert(1)").lacks("<script>alert")
	anna.get("/admin/mail/2").expect(404)
	anna.get("/admin/mail/x").expect(404)
	anna.post("/admin/mail", "to", "no address").expect(422, `value="no address"`)
	anna.post("/admin/mail", "to", "ben@example.org").expect(200, "A test of Skerry")
	for range 55 {
		send(t, s, "More", strings.Repeat("long ", 50_000), "")
	}
	anna.get("/admin/mail").expect(200, "before=8", "More").lacks("A test of Skerry")
	anna.get("/admin/mail?before=8").expect(200, "A test of Skerry")
	anna.get("/admin/mail/57").expect(200, "long l…")
	ben := anna.invite(viewersEmail, "viewer")
	ben.get("/admin/mail").expect(200, "More").lacks("/admin/mail/57")
	ben.get("/admin/mail/1").expect(403).lacks("SECRET")
}

func send(t *testing.T, s *skerry.Services, subject, text, html string) {
	t.Helper()
	if err := s.Mail.Send(t.Context(), mail.Message{To: []string{"eve@example.org"}, Subject: subject, Text: text, HTML: html}); err != nil {
		t.Fatal(err)
	}
}

func TestLooksMail(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s))
	c := w.open()
	c.visit("/admin/mail")
	c.looks("mail-empty")
	send(t, s, strings.Repeat("a subject ", 40), strings.Repeat("w", 3000), "<p>Hello</p>")
	send(t, s, "Confirm your address", "Open https://example.org/verify/ABC", "")
	c.visit("/admin/mail")
	c.looks("mail")
	c.Do(chromedp.Click(chromedp.CSS(`tbody tr:last-child a`)), chromedp.WaitVisible(chromedp.CSS(`pre`)))
	c.looks("message")
}
