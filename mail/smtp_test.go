package mail_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
)

// TestDelivery: messages arrive as sent, over each kind of connection.
func TestDelivery(t *testing.T) {
	t.Parallel()
	own := certs.New(t)
	cert, key := own.Write(t, t.TempDir())
	for _, mode := range []mail.TLSMode{mail.NoTLS, mail.StartTLS, mail.ImplicitTLS} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			args := []string{"--tls", string(mode), "--user", "ann", "--password", "s3cr3t"}
			if mode != mail.NoTLS {
				args = append(args, "--cert", cert, "--key", key)
			}
			d := serve(t, args...)
			s := start(t, d.port, trust(mode, own), login("ann", "s3cr3t"))
			m := mail.Message{
				To: []string{"Zoë <zoe@example.org>", "bob@example.org"}, From: "Die App <app@example.com>",
				ReplyTo: "help@example.com", Subject: "Grüße, 世界", HTML: "<p>Grüße</p>\n",
				Text: "Grüße\n.\n..dots\nFrom here " + strings.Repeat("on and ", 200) + "\n",
			}
			if err := s.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			got := d.must(t)
			if got.TLS != (mode != mail.NoTLS) || got.User != "ann" || got.From != "app@example.com" || !slices.Equal(got.To, []string{"zoe@example.org", "bob@example.org"}) {
				t.Errorf("it was sent as %+v", got)
			}
			expectContent(t, got, m)
			eventually.True(t, "sent is counted", func() bool { return s.metric(t, "mail_sent_total") == 1 })
		})
	}
}

// expectContent reads a message that a server took.
func expectContent(t *testing.T, got taken, want mail.Message) {
	t.Helper()
	msg, err := netmail.ReadMessage(strings.NewReader(got.Data))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject"))
	if err != nil || subject != want.Subject {
		t.Errorf("subject %q (%v), want %q", subject, err, want.Subject)
	}
	to, err := msg.Header.AddressList("To")
	if err != nil || len(to) != 2 || to[0].Name != "Zoë" {
		t.Errorf("to %v (%v)", to, err)
	}
	for header, want := range map[string]string{
		"Reply-To": "<help@example.com>", "Auto-Submitted": "auto-generated", "From": `"Die App" <app@example.com>`, "Bcc": "",
	} {
		if got := msg.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	if id := msg.Header.Get("Message-ID"); !strings.HasSuffix(id, "@example.com>") {
		t.Errorf("message id %q", id)
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(msg.Body, params["boundary"])
	for _, body := range []string{want.Text, want.HTML} {
		p, err := parts.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(string(b), "\r\n", "\n"); got != body {
			t.Errorf("a part is\n%q, want\n%q", got, body)
		}
	}
}

// TestConnectionRefused: each reason why a server cannot be used has a useful error.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	own := certs.New(t)
	cert, key := own.Write(t, t.TempDir())
	tlsArgs := []string{"--cert", cert, "--key", key, "--user", "ann", "--password", "s3cr3t"}
	starttls := serve(t, append(tlsArgs, "--tls", "starttls")...)
	clear := serve(t)
	noAuth := serve(t, "--no-auth")
	silent := deaf(t)
	for name, c := range map[string]struct {
		port int
		set  []func(*mail.SMTPOptions)
		want string
	}{
		"wrong password":    {starttls.port, []func(*mail.SMTPOptions){trust(mail.StartTLS, own), login("ann", "wr0ng")}, "rejected the user and password"},
		"other certificate": {starttls.port, []func(*mail.SMTPOptions){trust(mail.StartTLS, certs.New(t))}, "certificate"},
		"no STARTTLS":       {clear.port, []func(*mail.SMTPOptions){trust(mail.StartTLS, own)}, "does not offer STARTTLS"},
		"no AUTH":           {noAuth.port, []func(*mail.SMTPOptions){login("ann", "s3cr3t")}, "no supported way"},
		"no TLS":            {clear.port, []func(*mail.SMTPOptions){trust(mail.ImplicitTLS, own), func(o *mail.SMTPOptions) { o.Timeout = time.Second }}, "tls"},
		"silence":           {silent, []func(*mail.SMTPOptions){func(o *mail.SMTPOptions) { o.Timeout = 50 * time.Millisecond }}, "deadline exceeded"},
		"no time":           {silent, []func(*mail.SMTPOptions){func(o *mail.SMTPOptions) { o.Timeout = 1 }}, "deadline exceeded"},
		"silence in TLS":    {silent, []func(*mail.SMTPOptions){trust(mail.ImplicitTLS, own), func(o *mail.SMTPOptions) { o.Timeout = 50 * time.Millisecond }}, "deadline exceeded"},
	} {
		l := &logs{}
		o := options(c.port, l)
		for _, set := range c.set {
			set(&o)
		}
		s, err := mail.NewSMTP(o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = s.SendNow(t.Context(), message())
		if engine.CodeOf(err) != mail.CodeUnavailable || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s and %q", name, err, mail.CodeUnavailable, c.want)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, o, o), o.Password) && o.Password != "" {
			t.Errorf("%s: the password is in %v", name, err)
		}
	}
}

// TestWrongPasswordWaits: mail waits until a wrong password is corrected.
func TestWrongPasswordWaits(t *testing.T) {
	t.Parallel()
	d := serve(t, "--user", "ann", "--password", "s3cr3t")
	s := start(t, d.port, login("ann", "wr0ng"))
	send(t, s)
	eventually.True(t, "it was tried more than once", func() bool { return s.metric(t, "mail_retries_total") >= 3 })
	d.kill()
	d = serve(t, append(portFlag(d.port), "--user", "ann", "--password", "wr0ng")...)
	d.must(t)
	eventually.True(t, "the recovery is logged", func() bool { return len(s.logs.lines("can be used again")) == 1 })
	if n := len(s.logs.lines("cannot be used, mail waits")); n != 1 {
		t.Errorf("the failure is logged %d times:\n%s", n, s.logs)
	}
	if strings.Contains(s.logs.String(), "wr0ng") {
		t.Error("the password is in the log")
	}
}

// TestDownThenUp: everything that was accepted while the server was down arrives.
func TestDownThenUp(t *testing.T) {
	t.Parallel()
	d := serve(t)
	d.kill()
	s := start(t, d.port)
	const n = 30
	for i := range n {
		send(t, s, func(m *mail.Message) { m.Subject = fmt.Sprint("mail ", i) })
	}
	eventually.True(t, "an attempt has failed", func() bool { return s.metric(t, "mail_retries_total") > 0 })
	if queued := s.metric(t, "mail_queued"); queued != n {
		t.Errorf("%d wait, want %d", queued, n)
	}
	d = serve(t, portFlag(d.port)...)
	got := map[string]int{}
	for range n {
		got[d.must(t).header(t, "Subject")]++
	}
	if len(got) != n {
		t.Errorf("%d different mails arrived, want %d: %v", len(got), n, got)
	}
	eventually.True(t, "none waits", func() bool { return s.metric(t, "mail_queued") == 0 && s.metric(t, "mail_sent_total") == n })
}

// TestAnswers: a permanently refused recipient is logged and does not prevent delivery
// to the others; one that has to wait is tried again alone.
func TestAnswers(t *testing.T) {
	t.Parallel()
	d := serve(t)
	s := start(t, d.port)
	send(t, s, func(m *mail.Message) {
		m.To = []string{"ann@example.org", "gone@example.org", "late@example.org"}
		m.Ref, m.Text = "ref-1", "s3cr3t text"
	})
	first, second := d.must(t), d.must(t)
	if !slices.Equal(first.To, []string{"ann@example.org"}) || !slices.Equal(second.To, []string{"late@example.org"}) {
		t.Errorf("sent to %v, then to %v", first.To, second.To)
	}
	if a, b := first.header(t, "Message-ID"), second.header(t, "Message-ID"); a != b {
		t.Errorf("two Message-IDs: %s and %s", a, b)
	}
	if a, b := first.header(t, "To"), second.header(t, "To"); a != b || !strings.Contains(b, "ann@") || !strings.Contains(b, "late@") {
		t.Errorf("the recipients see each other as %q, and at the second attempt as %q", a, b)
	}
	eventually.True(t, "it is counted as failed", func() bool { return s.metric(t, "mail_failed_total") == 1 })
	if sent := s.metric(t, "mail_sent_total"); sent != 0 {
		t.Errorf("and %d times as sent", sent)
	}
	if n := len(s.logs.lines("mail refused", "ref-1", "gone@example.org", "5.1.1")); n != 1 || strings.Contains(s.logs.String(), "s3cr3t") {
		t.Errorf("logged %d times, or with its body:\n%s", n, s.logs)
	}
	if n := len(s.logs.lines("cannot be used")); n != 0 {
		t.Errorf("a reply about a recipient counts against the server:\n%s", s.logs)
	}
	for to, want := range map[string]engine.Code{
		"gone": mail.CodeRefused, "spam": mail.CodeRefused, "busy": mail.CodeUnavailable, "late": "", "ann": "",
	} {
		err := s.SendNow(t.Context(), message(func(m *mail.Message) { m.To = []string{to + "@example.org"} }))
		if engine.CodeOf(err) != want {
			t.Errorf("to %s: %v, want %q", to, err, want)
		}
	}
}

// TestGiveUp: a message that could not be sent in time is logged once, with its reference and without its
// body.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	d := serve(t)
	s := start(t, d.port, func(o *mail.SMTPOptions) { o.GiveUp = 200 * time.Millisecond })
	send(t, s, func(m *mail.Message) {
		m.To, m.Ref, m.Text = []string{"busy@example.org"}, "ref-2", "s3cr3t text"
	})
	eventually.True(t, "it is given up", func() bool { return s.metric(t, "mail_failed_total") == 1 })
	s.stop()
	if n := len(s.logs.lines("mail lost", "ref-2", "4.3.0")); n != 1 || strings.Contains(s.logs.String(), "s3cr3t") {
		t.Errorf("logged %d times, or with its body:\n%s", n, s.logs)
	}
}

// TestHang: a server that hangs on one message does not delay the others.
func TestHang(t *testing.T) {
	t.Parallel()
	d := serve(t)
	s := start(t, d.port, func(o *mail.SMTPOptions) { o.Timeout, o.MaxSenders = 300*time.Millisecond, 2 })
	for _, to := range []string{"hang@example.org", "ann@example.org", "bob@example.org", "eve@example.org"} {
		send(t, s, func(m *mail.Message) { m.To = []string{to} })
	}
	for range 3 {
		d.must(t)
	}
	eventually.True(t, "the hanging one is tried again", func() bool { return s.metric(t, "mail_retries_total") >= 2 })
}

// TestKilledInTheMiddle: a server that dies with the message in its hands gets
// it again, as the same message.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	d := serve(t)
	s := start(t, d.port)
	send(t, s, func(m *mail.Message) { m.To = []string{"die@example.org", "gone@example.org", "ann@example.org"} })
	if m, ok := d.next(t); ok {
		t.Fatalf("it was accepted: %+v", m)
	}
	if err := d.cmd.Wait(); err == nil || d.cmd.ProcessState.ExitCode() != 9 {
		t.Fatalf("the server ended with %v", err)
	}
	eventually.True(t, "it is tried again", func() bool { return s.metric(t, "mail_retries_total") >= 2 })
	if queued := s.metric(t, "mail_queued"); queued != 1 {
		t.Fatalf("%d wait, want 1", queued)
	}
	if lost := s.metric(t, "mail_failed_total") + s.metric(t, "mail_sent_total"); lost != 0 {
		t.Fatal("it is counted as sent or failed")
	}
	if n := len(s.logs.lines("mail refused")); n != 1 || len(s.logs.lines("mail refused", "recipients=gone@example.org ")) != 1 {
		t.Errorf("%d are logged as refused:\n%s", n, s.logs)
	}
}

// TestStop: at the stop every waiting message is tried once more, unsent messages are logged, and no more are
// accepted.
func TestStop(t *testing.T) {
	t.Parallel()
	d := serve(t)
	s := start(t, d.port, func(o *mail.SMTPOptions) { o.RetryFirst, o.MaxRetryWait = time.Hour, time.Hour })
	for _, to := range []string{"late@example.org", "ann@example.org", "busy@example.org", "bob@example.org"} {
		send(t, s, func(m *mail.Message) { m.To, m.Ref = []string{to}, "ref-"+to })
	}
	eventually.True(t, "all are tried", func() bool { return s.metric(t, "mail_sent_total") == 2 && s.metric(t, "mail_retries_total") == 2 })
	// late@ is accepted at the third attempt.
	_ = s.SendNow(t.Context(), message(func(m *mail.Message) { m.To = []string{"late@example.org"} }))
	s.stop()
	if sent, queued := s.metric(t, "mail_sent_total"), s.metric(t, "mail_queued"); sent != 3 || queued != 0 {
		t.Errorf("%d sent and %d waiting, want 3 and 0\n%s", sent, queued, s.logs)
	}
	if n := len(s.logs.lines("mail lost")); n != 1 || len(s.logs.lines("mail lost", "ref-busy@example.org")) != 1 {
		t.Errorf("%d are logged as lost:\n%s", n, s.logs)
	}
	if err := s.Send(t.Context(), message()); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Send after the stop: %v", err)
	}
	if err := s.SendNow(t.Context(), message()); err != nil {
		t.Errorf("SendNow after the stop: %v", err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a second Run: %v", err)
	}
}

// TestStopTogether: messages of another part that stops at the same time, such as the last digest of Faults,
// are sent.
func TestStopTogether(t *testing.T) {
	t.Parallel()
	d := serve(t)
	l := &logs{}
	s, err := mail.NewSMTP(options(d.port, l))
	if err != nil {
		t.Fatal(err)
	}
	s.Wait(2 * time.Second) // a slow machine may need that for the digest
	f, err := mail.NewFaults(mail.FaultsOptions{Sender: s, To: []string{"root@example.org"}, Logger: l.logger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() { _ = f.Run(ctx) })
	for range 3 {
		f.Report(mail.Fault{Err: errors.New("x")})
	}
	first := d.must(t)
	cancel()
	running.Wait()
	if last := d.must(t); !strings.Contains(first.header(t, "Subject"), ": x") || last.header(t, "Subject") != "2 more faults" {
		t.Errorf("mailed %q and %q\n%s", first.header(t, "Subject"), last.header(t, "Subject"), l)
	}
}

// TestStopIsBounded: a server that hangs does not keep the program from ending,
// and every message that it did not accept is logged.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	s := start(t, deaf(t), func(o *mail.SMTPOptions) { o.Timeout, o.Drain = time.Hour, 50*time.Millisecond })
	const n = 10
	for i := range n {
		send(t, s, func(m *mail.Message) { m.Ref = fmt.Sprintf("ref-%d.", i) })
	}
	s.stop() // fails the test if it takes too long
	for i := range n {
		if lost := len(s.logs.lines("mail lost", fmt.Sprintf("ref-%d.", i))); lost != 1 {
			t.Errorf("message %d is logged %d times", i, lost)
		}
	}
	if failed, queued := s.metric(t, "mail_failed_total"), s.metric(t, "mail_queued"); failed != n || queued != 0 {
		t.Errorf("%d failed and %d waiting, want %d and 0", failed, queued, n)
	}
}

// TestQueueIsFreed: sent messages free their space in the queue.
func TestQueueIsFreed(t *testing.T) {
	t.Parallel()
	d := serve(t)
	s := start(t, d.port, func(o *mail.SMTPOptions) { o.MaxQueue, o.MaxQueueBytes = 2, 4<<10 })
	// A message that is larger than the limit is accepted if it is alone.
	send(t, s, func(m *mail.Message) { m.Text = strings.Repeat("long ", 4<<10) })
	d.must(t)
	eventually.True(t, "the queue is empty", func() bool { return s.metric(t, "mail_queued") == 0 })
	send(t, s, func(m *mail.Message) { m.To = []string{"busy@example.org"} })
	for i := range 10 {
		if err := s.Send(t.Context(), message()); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		d.must(t)
		eventually.True(t, "the one before is out of the queue", func() bool { return s.metric(t, "mail_queued") == 1 })
	}
}

// TestQueueLimits: a full queue accepts no more messages.
func TestQueueLimits(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*mail.SMTPOptions){
		"messages": func(o *mail.SMTPOptions) { o.MaxQueue = 3 },
		"bytes":    func(o *mail.SMTPOptions) { o.MaxQueueBytes = 4 << 10 },
	} {
		o := options(1, &logs{})
		set(&o)
		s, err := mail.NewSMTP(o) // not running, so messages stay
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := s.Send(t.Context(), message()); err != nil {
				t.Fatalf("%s: message %d: %v", name, i, err)
			}
		}
		if err := s.Send(t.Context(), message()); !errors.Is(err, engine.ErrQueueFull) {
			t.Errorf("%s: over the limit: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := mail.NewSMTP(options(1, &logs{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(ctx, message()); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}
