package mail_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
)

// faults is a running mail.Faults whose mails go into an outbox.
type faults struct {
	*mail.Faults
	box  *mail.Outbox
	logs *logs
	stop func()
}

func startFaults(t *testing.T, change ...func(*mail.FaultsOptions)) *faults {
	t.Helper()
	f := &faults{box: mail.NewOutbox(1000), logs: &logs{}}
	o := mail.FaultsOptions{
		Sender: f.box, To: []string{"root@example.org"}, Name: "todo", Node: "node-2", Version: "v1.2.3",
		Every: time.Minute, Logger: f.logs.logger(),
	}
	for _, c := range change {
		c(&o)
	}
	var err error
	if f.Faults, err = mail.NewFaults(o); err != nil {
		t.Fatal(err)
	}
	f.stop = running(t, f.Run)
	return f
}

// subjects returns those of the mails, oldest first.
func (f *faults) subjects() (all []string) {
	for _, k := range f.box.List() {
		all = append([]string{k.Message.Subject}, all...)
	}
	return all
}

// caught panics and returns what a web layer would report.
func caught(ref string, panics func()) (fault mail.Fault) {
	defer func() {
		p := recover()
		fault = mail.Fault{Ref: ref, Err: fmt.Errorf("panic: %v", p), Stack: debug.Stack(), Route: "GET /x"}
	}()
	panics()
	return fault
}

func panicA(i int) { panic(fmt.Sprint("a ", i)) }

func panicB(a []int, i int) int { return a[i] }

// TestFaultsOnce: each distinct fault is mailed once, then digests count them.
func TestFaultsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFaults(t)
		reportA := func(i int) { f.Report(caught(fmt.Sprintf("a-%d", i), func() { panicA(i) })) }
		for i := range 20 {
			reportA(i)
			f.Report(caught(fmt.Sprintf("b-%d", i), func() { panicB(nil, i) }))
		}
		f.Report(mail.Fault{Ref: "c-1", Err: fmt.Errorf("read record 17 of %q failed", "x"), Route: "GET /y"})
		f.Report(mail.Fault{Ref: "c-2", Err: fmt.Errorf("read record 18 of %q failed", "y"), Route: "GET /y"})
		f.Report(mail.Fault{Ref: "d-1", Err: fmt.Errorf("read record 18 of %q failed", "y"), Route: "GET /z"})
		f.Report(mail.Fault{Ref: "e-1", Err: engine.Errorf(engine.CodeCorrupt, "read record 18 of %q failed", "y"), Route: "GET /z"})
		synctest.Wait()
		got := strings.Join(f.subjects(), "\n")
		want := "[todo] fault a-0: panic: a 0\n[todo] fault b-0: panic: runtime error: index out of range [0] with length 0\n" +
			"[todo] fault c-1: read record 17 of \"x\" failed\n[todo] fault d-1: read record 18 of \"y\" failed\n[todo] fault e-1: read record 18 of \"y\" failed [corrupt]"
		if got != want {
			t.Fatalf("mails:\n%s\nwant:\n%s", got, want)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		all := f.box.List()
		if len(all) != 6 || all[0].Message.Subject != "[todo] 39 more faults" {
			t.Fatalf("mails: %q", f.subjects())
		}
		text := all[0].Message.Text
		for _, want := range []string{"19 × panic: a 19", "20 in all", "19 × panic: runtime error", "1 × read record 18", "references: a-15 a-16 a-17 a-18 a-19\n", "panicA (faults_test.go:", "node-2", "v1.2.3"} {
			if !strings.Contains(text, want) {
				t.Errorf("the digest has no %q:\n%s", want, text)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(f.box.List()); n != 6 {
			t.Errorf("%d mails, although nothing happened: %q", n, f.subjects())
		}
		if n := len(f.logs.lines("level=ERROR", "msg=fault")); n != 44 {
			t.Errorf("%d faults are logged, want 44", n)
		}
		reportA(20)
		f.Report(mail.Fault{Ref: "f-1", Err: errors.New("at the end")})
		f.stop() // mails what was not mailed yet
		if s := f.subjects(); len(s) != 8 || s[6] != "[todo] fault f-1: at the end" || s[7] != "[todo] 1 more faults" {
			t.Errorf("mails: %q", s)
		}
	})
}

// TestFaultsBounded: many distinct faults fill neither the mailbox nor the memory,
// and are all counted.
func TestFaultsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFaults(t, func(o *mail.FaultsOptions) { o.MaxFaults = 20 })
		const n = 100
		for i := range n {
			f.Report(mail.Fault{Err: errors.New("x"), Route: fmt.Sprintf("GET /%d", i)})
			synctest.Wait()
		}
		if got := len(f.box.List()); got != mail.MaxFirstMails {
			t.Errorf("%d mails at once, want %d", got, mail.MaxFirstMails)
		}
		for m := range f.Metrics() {
			if m.Name == "faults_distinct" && m.Value != 20 || m.Name == "faults_total" && m.Value != n {
				t.Errorf("%s is %v", m.Name, m.Value)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		all := f.box.List()
		if want := fmt.Sprintf("[todo] %d more faults", n-mail.MaxFirstMails); all[0].Message.Subject != want {
			t.Errorf("the digest is %q, want %q", all[0].Message.Subject, want)
		}
		if want := fmt.Sprintf("%d of faults that are no longer remembered", n-mail.MaxFirstMails-20); !strings.Contains(all[0].Message.Text, want) {
			t.Errorf("the digest has no %q:\n%s", want, all[0].Message.Text)
		}
		f.Report(mail.Fault{Err: errors.New("x"), Route: "GET /new"})
		synctest.Wait()
		if got := len(f.box.List()); got != mail.MaxFirstMails+2 {
			t.Errorf("after the digest a new fault is not mailed at once: %q", f.subjects())
		}
	})
}

// failing is a sender that is down for the first so many messages.
type failing struct {
	down int
	to   mail.Sender
}

func (s *failing) Send(ctx context.Context, m mail.Message) error {
	if s.down--; s.down >= 0 {
		return engine.Errorf(engine.CodeQueueFull, "the queue is full; password=hunter2")
	}
	return s.to.Send(ctx, m)
}

// TestFaultsWithoutMail: a fault that could not be emailed is logged and counted, and reported once email
// works again.
func TestFaultsWithoutMail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFaults(t, func(o *mail.FaultsOptions) { o.Sender = &failing{down: 2, to: o.Sender} })
		f.Report(mail.Fault{Ref: "ref-1", Err: errors.New("one")})
		time.Sleep(time.Minute + time.Second) // the first digest fails too
		synctest.Wait()
		if n := len(f.box.List()); n != 0 {
			t.Fatalf("%d mails", n)
		}
		if len(f.logs.lines("msg=fault", "ref=ref-1", "one")) != 1 || len(f.logs.lines("was not accepted", "queue_full")) != 2 {
			t.Errorf("the log:\n%s", f.logs)
		}
		if strings.Contains(f.logs.String(), "hunter2") {
			t.Error("a secret is in the log")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := f.subjects(); len(s) != 1 || s[0] != "[todo] 1 more faults" || !strings.Contains(f.box.List()[0].Message.Text, "references: ref-1\n") {
			t.Errorf("mails: %q", s)
		}
	})
}

// TestReportNeverWaits: Report never blocks, even if Run is not running.
func TestReportNeverWaits(t *testing.T) {
	t.Parallel()
	l := &logs{}
	f, err := mail.NewFaults(mail.FaultsOptions{Sender: mail.NewOutbox(0), To: []string{"root@example.org"}, Logger: l.logger()})
	if err != nil {
		t.Fatal(err)
	}
	const n = 3 * mail.MaxFaultQueue
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range n {
				if f.Report(mail.Fault{Err: errors.New("x"), Route: fmt.Sprintf("/%d", i)}) == "" {
					t.Error("no reference")
				}
			}
		})
	}
	all.Wait()
	if got := len(l.lines("msg=fault")); got != 4*n {
		t.Errorf("%d are logged, want %d", got, 4*n)
	}
	if ref := mail.NewRef(); len(ref) != 10 || ref == mail.NewRef() {
		t.Errorf("reference %q", ref)
	}
}

// TestFaultMail: the mail says what happened and where, and contains no secret.
func TestFaultMail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFaults(t)
		fault := caught("ref-9", func() { panic("dial postgres://app:hunter2@db/x: password=hunter2 refused") })
		fault.Method, fault.Path, fault.Route = "POST", "/reset/hunter2?token=hunter2&page=3&%74oken=hunter2&next=https%3A%2F%2Fa%3Ahunter2%40b%2F", "POST /reset/{token}"
		fault.RequestID = "req-1"
		fault.Stack = append(fault.Stack, "\nAuthorization: Bearer hunter2hunter2\n"...)
		for _, name := range []string{
			"Authorization", "authorization", "Cookie", "Set-Cookie", "X-Api-Key", "Proxy-Authorization", "password", "new_password", "pwd",
			"client_secret", "access_token", "csrf_token", "api_key", "X-CSRF-Token", "private-key", "otp", "__Host-session", "code",
		} {
			fault.Fields = append(fault.Fields, mail.Field{Name: name, Value: "hunter2"})
		}
		fault.Fields = append(fault.Fields,
			mail.Field{Name: "User-Agent", Value: "curl/8"},
			mail.Field{Name: "Referer", Value: "https://ann:hunter2@example.org/?token=hunter2&x=1"},
			mail.Field{Name: "note", Value: "Bearer hunter2hunter2"},
			mail.Field{Name: "body", Value: `{"name":"ann","password":"hunter2 \"x\" hunter2","n":1}`},
			mail.Field{Name: "line", Value: "a\r\nb"},
		)
		for i := range mail.MaxFaultFields {
			fault.Fields = append(fault.Fields, mail.Field{Name: fmt.Sprint("f", i), Value: strings.Repeat("v", 2*mail.MaxFaultValueBytes)})
		}
		if ref := f.Report(fault); ref != "ref-9" {
			t.Errorf("reference %q", ref)
		}
		synctest.Wait()
		all := f.box.List()
		if len(all) != 1 {
			t.Fatalf("%d mails", len(all))
		}
		text := all[0].Message.Text
		for _, want := range []string{
			"reference:  ref-9", "node:       node-2", "version:    v1.2.3", "route:      POST /reset/{token}", "request id: req-1",
			"request:    POST /reset/[redacted]?token=[redacted]&page=3&%74oken=[redacted]&next=[redacted]\n",
			"postgres://[redacted]@db/x", "code:       internal", "User-Agent: curl/8", "goroutine ", "faults_test.go:", "line: a  b\n",
			"&x=1\n", `,"n":1}`, "and 23 more", "bytes more)",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the mail has no %q", want)
			}
		}
		if t.Failed() {
			t.Log(text[:4000])
		}
		for what, s := range map[string]string{"mail": text, "subject": all[0].Message.Subject, "log": f.logs.String()} {
			if i := strings.Index(s, "hunter2"); i >= 0 {
				t.Errorf("a secret is in the %s: …%s…", what, s[max(0, i-60):min(len(s), i+20)])
			}
		}
		if got := len(text); got > mail.MaxFaultFields*(mail.MaxFaultValueBytes+100)+2*mail.MaxFaultStackBytes {
			t.Errorf("the mail has %d bytes", got)
		}
	})
}

// odd is an error whose Error method panics.
type odd struct{}

func (odd) Error() string { panic("odd") }

// TestFaultsBadInput: malformed faults are reported safely.
func TestFaultsBadInput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFaults(t)
		f.Report(mail.Fault{})
		f.Report(mail.Fault{Err: odd{}, Route: "/odd"})
		f.Report(mail.Fault{Ref: "a b\r\nBcc: x", Err: errors.New("a\r\nBcc: eve@example.org\xff\x00" + strings.Repeat("ü", 10000)), Route: "\xff{", Path: "%zz?%zz=%zz&;=", Stack: []byte("panic(\n\t\nx(\n\t")})
		f.Report(mail.Fault{Err: errors.New("a\u2028b\u2029c\u0085d"), Route: "/lines"})
		synctest.Wait()
		if s := f.subjects(); len(s) != 4 || strings.ContainsAny(strings.Join(s, ""), "\r\n") {
			t.Errorf("mails: %q\n%s", s, f.logs)
		}
	})
	for name, o := range map[string]mail.FaultsOptions{
		"address": {Sender: mail.NewOutbox(0), To: []string{"root"}},
		"name":    {Name: "a\nb"},
		"time":    {Every: -1},
	} {
		if _, err := mail.NewFaults(o); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
