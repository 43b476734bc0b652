package mail_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
)

// message returns a valid message, modified by change.
func message(change ...func(*mail.Message)) mail.Message {
	m := mail.Message{To: []string{"ann@example.org"}, From: "app@example.org", Subject: "Hello", Text: "A text."}
	for _, c := range change {
		c(&m)
	}
	return m
}

// send sends such a message.
func send(t *testing.T, to mail.Sender, change ...func(*mail.Message)) {
	t.Helper()
	if err := to.Send(t.Context(), message(change...)); err != nil {
		t.Fatal(err)
	}
}

// TestRefused: every sender refuses messages that could never be sent, or that would differ from what the
// program meant.
func TestRefused(t *testing.T) {
	t.Parallel()
	box := mail.NewOutbox(0)
	smtp, err := mail.NewSMTP(mail.SMTPOptions{Host: "localhost", From: "app@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 1000)
	for name, c := range map[string]struct {
		change func(*mail.Message)
		want   error
	}{
		"no recipient":        {func(m *mail.Message) { m.To = nil }, engine.ErrInvalid},
		"empty recipient":     {func(m *mail.Message) { m.To = []string{""} }, engine.ErrInvalid},
		"no address":          {func(m *mail.Message) { m.To = []string{"ann"} }, engine.ErrInvalid},
		"two in one":          {func(m *mail.Message) { m.To = []string{"a@example.org, b@example.org"} }, engine.ErrInvalid},
		"no body":             {func(m *mail.Message) { m.Text = "" }, engine.ErrInvalid},
		"subject LF":          {func(m *mail.Message) { m.Subject = "a\nBcc: eve@example.org" }, engine.ErrInvalid},
		"subject CR":          {func(m *mail.Message) { m.Subject = "a\rBcc: eve@example.org" }, engine.ErrInvalid},
		"subject NUL":         {func(m *mail.Message) { m.Subject = "a\x00b" }, engine.ErrInvalid},
		"subject U+2028":      {func(m *mail.Message) { m.Subject = "a\u2028b" }, engine.ErrInvalid},
		"subject not UTF-8":   {func(m *mail.Message) { m.Subject = "a\xff" }, engine.ErrInvalid},
		"recipient CRLF":      {func(m *mail.Message) { m.To = []string{"ann@example.org\r\nBcc: eve@example.org"} }, engine.ErrInvalid},
		"name CRLF":           {func(m *mail.Message) { m.To = []string{"\"Ann\r\nBcc: eve@example.org\" <ann@example.org>"} }, engine.ErrInvalid},
		"encoded name CRLF":   {func(m *mail.Message) { m.To = []string{"=?utf-8?q?Ann=0D=0ABcc:_eve?= <ann@example.org>"} }, engine.ErrInvalid},
		"from CRLF":           {func(m *mail.Message) { m.From = "app@example.org\nX: y" }, engine.ErrInvalid},
		"reply CRLF":          {func(m *mail.Message) { m.ReplyTo = "app@example.org\r\n\r\nbody" }, engine.ErrInvalid},
		"ref with space":      {func(m *mail.Message) { m.Ref = "a b" }, engine.ErrInvalid},
		"ref LF":              {func(m *mail.Message) { m.Ref = "a\nb" }, engine.ErrInvalid},
		"quoted local CRLF":   {func(m *mail.Message) { m.To = []string{"\"a\r\nRCPT TO:<eve@example.org>\"@example.org"} }, engine.ErrInvalid},
		"quoted local >":      {func(m *mail.Message) { m.To = []string{`"a> NOTIFY=NEVER"@example.org`} }, engine.ErrInvalid},
		"quoted local <>":     {func(m *mail.Message) { m.To = []string{`"a>b"@example.org`} }, engine.ErrInvalid},
		"other script":        {func(m *mail.Message) { m.To = []string{"ann@exämple.org"} }, engine.ErrInvalid},
		"long local part":     {func(m *mail.Message) { m.To = []string{strings.Repeat("a", 65) + "@example.org"} }, engine.ErrInvalid},
		"text not UTF-8":      {func(m *mail.Message) { m.Text = "\xff" }, engine.ErrInvalid},
		"too many recipients": {func(m *mail.Message) { m.To = make([]string, mail.MaxRecipients+1) }, engine.ErrLimit},
		"long subject":        {func(m *mail.Message) { m.Subject = long }, engine.ErrLimit},
		"long address":        {func(m *mail.Message) { m.To = []string{long + " <ann@example.org>"} }, engine.ErrLimit},
		"long ref":            {func(m *mail.Message) { m.Ref = long }, engine.ErrLimit},
		"long body":           {func(m *mail.Message) { m.HTML = strings.Repeat("a", mail.MaxBodyBytes) }, engine.ErrLimit},
	} {
		for _, s := range []mail.Sender{box, smtp} {
			if err := s.Send(t.Context(), message(c.change)); !errors.Is(err, c.want) {
				t.Errorf("%s: %T: %v, want %v", name, s, err, c.want)
			} else if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%s: the error has a line break: %q", name, err)
			}
		}
	}
	if n := len(box.List()); n != 0 {
		t.Errorf("the outbox keeps %d refused messages", n)
	}
}

// TestParseURL: a URL gives options, or an error that never contains its password.
func TestParseURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"smtp://ann:s3cr3t%40x@mail.example.org?from=app@example.org":      "smtp://ann@mail.example.org:587 starttls app@example.org",
		"smtps://ann:s3cr3t@mail.example.org/?from=app@example.org":        "smtps://ann@mail.example.org:465 tls app@example.org",
		"smtp://mail.example.org:2525?from=App+<app@example.org>&tls=none": "smtp://mail.example.org:2525 none App <app@example.org>",
		"smtp://127.0.0.1:25?from=app@example.org&tls=none&hello=x.org":    "smtp://127.0.0.1:25 none app@example.org",
		"smtp://ann:s3cr3t@127.0.0.1:25?from=app@example.org&tls=none":     "smtp://ann@127.0.0.1:25 none app@example.org",
		"smtp://[::1]:25?from=app@example.org&tls=tls":                     "smtps://[::1]:25 tls app@example.org",
		"":                                               "must begin with smtp://",
		"http://x":                                       "must begin with smtp://",
		"smtp://ann:s3cr3t@/":                            "no host",
		"smtp:mail.example.org":                          "no host",
		"smtp://ann:s3cr3t%zz@x?from=a@b":                "%40 for @",
		"smtp://ann:s3cr3t/x@y?from=a@b":                 "",
		"smtp://ann:s3cr3t@x:99999?from=a@b":             "port",
		"smtp://ann:s3cr3t@x":                            "from=",
		"smtp://ann:s3cr3t@x?from=nobody":                "not an address",
		"smtp://ann:s3cr3t@x?from=a@b&from=a@b":          "more than once",
		"smtp://ann:s3cr3t@x?from=a@b&form=a@b":          `no parameter "form"`,
		"smtp://ann:s3cr3t@x?from=a@b&tls=ssl":           "starttls, tls or none",
		"smtps://ann:s3cr3t@x?from=a@b&tls=none":         "TLS from the first byte",
		"smtp://ann:s3cr3t@x?from=a@b&tls=none":          "unencrypted",
		"smtp://ann@x?from=a@b":                          "be given together",
		"smtp://ann:s3cr3t@x/path?from=a@b":              "path",
		"smtp://ann:s3cr3t@x?from=a@b#s3cr3t":            "#",
		"smtp://ann:s3cr3t@x?from=a%0d%0ab@c":            "line break",
		"smtp://ann:s3cr3t@x?from=a@b&hello=a%0d%0aQUIT": "line break",
	} {
		o, err := mail.ParseURL(in)
		got := ""
		if err == nil {
			got = o.String() + " " + string(o.TLS) + " " + o.From
		} else {
			got = err.Error()
			if !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%s: %v is not CodeInvalid", in, err)
			}
		}
		if !strings.Contains(got, want) || (err == nil) != strings.HasPrefix(want, "smtp") {
			t.Errorf("%s:\n got %s\nwant %s", in, got, want)
		}
		if strings.Contains(got, "s3cr3t") {
			t.Errorf("%s: the password is in %q", in, got)
		}
	}
}
