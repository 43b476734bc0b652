package mail_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	netmail "net/mail"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/mail"
)

// patience is how long a test waits for an event.
const patience = time.Minute

// taken is a message that the mail server accepted.
type taken struct {
	From string
	To   []string
	Data string
	TLS  bool
	User string
	Port int // of the line that says where it listens
}

func (m taken) header(t *testing.T, name string) string {
	t.Helper()
	msg, err := netmail.ReadMessage(strings.NewReader(m.Data))
	if err != nil {
		t.Fatalf("%v in %q", err, m.Data)
	}
	return msg.Header.Get(name)
}

// smtpd is a running mail server.
type smtpd struct {
	port  int
	mails chan taken // closed when it has ended
	cmd   *exec.Cmd
}

// serve starts a real mail server, aiosmtpd of Debian's python3-aiosmtpd.
func serve(t *testing.T, args ...string) *smtpd {
	t.Helper()
	cmd := exec.Command(python(t), append([]string{"testdata/smtpd.py"}, args...)...)
	var mistakes bytes.Buffer
	cmd.Stderr = &mistakes
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &smtpd{mails: make(chan taken, 1000), cmd: cmd}
	go func() {
		defer close(s.mails)
		lines := json.NewDecoder(bufio.NewReader(out))
		for {
			var m taken
			if lines.Decode(&m) != nil {
				return
			}
			s.mails <- m
		}
	}()
	t.Cleanup(s.kill)
	first, ok := s.next(t)
	if !ok {
		s.kill()
		t.Fatalf("the mail server did not start: %s", mistakes.String())
	}
	s.port = first.Port
	return s
}

// kill ends the server as a crash does.
func (s *smtpd) kill() {
	_ = s.cmd.Process.Kill()
	for range s.mails { // until it has ended
	}
	_ = s.cmd.Wait()
}

// next returns the next message that the server accepted, or false if the server has ended.
func (s *smtpd) next(t *testing.T) (taken, bool) {
	t.Helper()
	select {
	case m, ok := <-s.mails:
		return m, ok
	case <-time.After(patience):
		t.Fatal("the mail server got no message")
		return taken{}, false
	}
}

// must is next of a server that has not ended.
func (s *smtpd) must(t *testing.T) taken {
	t.Helper()
	m, ok := s.next(t)
	if !ok {
		t.Fatal("the mail server has ended")
	}
	return m
}

// python is the interpreter that has aiosmtpd: that of its own command.
func python(t *testing.T) string {
	t.Helper()
	command, err := exec.LookPath("aiosmtpd")
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatal("aiosmtpd is not installed, and SKERRY_REQUIRE_SERVERS=1")
		}
		t.Skip("aiosmtpd is not installed (ci/servers installs it)")
	}
	f, err := os.Open(command)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	first, err := bufio.NewReader(f).ReadString('\n')
	interpreter, found := strings.CutPrefix(strings.TrimSpace(first), "#!")
	if err != nil || !found {
		t.Fatalf("%s begins with %q, not with its interpreter", command, first)
	}
	return interpreter
}

// logs collects log lines.
type logs struct{ logbuf.Buffer }

// lines returns the lines that have all of the words.
func (l *logs) lines(words ...string) (found []string) {
next:
	for line := range strings.Lines(l.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// sender is a running mail.SMTP.
type sender struct {
	*mail.SMTP
	logs *logs
	stop func() // and wait until Run has returned
}

// options are those of tests: impatient.
func options(port int, l *logs) mail.SMTPOptions {
	return mail.SMTPOptions{
		Host: "127.0.0.1", Port: port, From: "app@example.org", TLS: mail.NoTLS,
		RetryFirst: 10 * time.Millisecond, MaxRetryWait: 100 * time.Millisecond,
		Drain: 10 * time.Second, Logger: l.logger(),
	}
}

// start makes a sender and runs it.
func start(t *testing.T, port int, change ...func(*mail.SMTPOptions)) *sender {
	t.Helper()
	s := &sender{logs: &logs{}}
	o := options(port, s.logs)
	for _, c := range change {
		c(&o)
	}
	var err error
	if s.SMTP, err = mail.NewSMTP(o); err != nil {
		t.Fatal(err)
	}
	s.stop = running(t, s.Run)
	return s
}

// running calls run with a context that stop, or else the end of the test, cancels.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// metric returns one of the sender's metrics.
func (s *sender) metric(t *testing.T, name string) int {
	t.Helper()
	for m := range s.Metrics() {
		if m.Name == name {
			return int(m.Value)
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// deaf listens on a port and never says a word.
func deaf(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []io.Closer
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// trust makes a sender use TLS and trust a certificate.
func trust(mode mail.TLSMode, c *certs.Certificate) func(*mail.SMTPOptions) {
	return func(o *mail.SMTPOptions) { o.TLS, o.Config = mode, c.Client() }
}

func login(user, password string) func(*mail.SMTPOptions) {
	return func(o *mail.SMTPOptions) { o.User, o.Password = user, password }
}

func portFlag(port int) []string { return []string{"--port", strconv.Itoa(port)} }
