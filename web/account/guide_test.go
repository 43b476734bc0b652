package account_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/account"
)

// TestGuide: the program that docs/account.md shows is program_test.go, which is
// compiled and run here, but for the name of its package.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/account.md")
	must(t, "the guide", err)
	code, err := os.ReadFile("program_test.go")
	must(t, "the program", err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d pieces of Go, want the program only", len(blocks))
	}
	if want := strings.Replace(string(code), "\npackage account_test\n", "\npackage main\n", 1); blocks[0][1] != want {
		t.Errorf("docs/account.md does not have the program of program_test.go, which is\n%s", want)
	}
	_ = main // which would take over this process
}

// served serves the guide's program, and returns its address and a client with cookies.
// At the end the log must have the one email.
func served(t *testing.T) (string, *http.Client) {
	t.Helper()
	var logged bytes.Buffer
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, "open the engine", err)
	s, err := skerry.Open(db, skerry.Options{
		HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: skerry.Off, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		Web: skerry.Web{Application: application, Name: "greet", Debug: true},
	})
	must(t, "open the server", err)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		s.Close()
		must(t, "run the server", <-ended)
		must(t, "close the engine", db.Close())
		if got := logged.String(); strings.Count(got, `msg="mail kept in the outbox" id=1 to=[ann@example.org]`) != 1 {
			t.Errorf("the log does not say where the email is: %s", got)
		}
	})
	jar, err := cookiejar.New(nil)
	must(t, "cookies", err)
	return s.HTTPURL(), &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
}

// TestGuideRuns: with nothing but what debug mode gives somebody registers, confirms the
// address by the email in the outbox, logs in, and is greeted.
func TestGuideRuns(t *testing.T) {
	t.Parallel()
	at, client := served(t)
	ask := func(path string, form url.Values, want string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil)
		if form != nil {
			r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, at+path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		must(t, path, err)
		r.Header.Set("Accept", "text/html")
		resp, err := client.Do(r)
		must(t, path, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, path, err)
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Fatalf("%s: %d, want %q in\n%s", path, resp.StatusCode, want, body)
		}
		return string(body)
	}
	ask("/", nil, `href="/account/register"`)
	ask("/account/register", url.Values{"email": {"ann@example.org"}, "password": {good}}, "Check your email")
	ask("/_dev/outbox/", nil, "ann@example.org")
	token := regexp.MustCompile(regexp.QuoteMeta(at) + `/account/verify\?token=([A-Za-z0-9_-]+)`).FindStringSubmatch(ask("/_dev/outbox/1", nil, "Confirm"))
	if token == nil {
		t.Fatalf("no link to %s in the email", at)
	}
	ask("/account/verify", url.Values{"token": {token[1]}, "password": {good}}, "is confirmed")
	ask("/account/login", url.Values{"email": {"ann@example.org"}, "password": {good}, "next": {"/"}}, "Hello, ann@example.org")
}

// TestGuideSecret: only development does without the secret.
func TestGuideSecret(t *testing.T) {
	if key, err := secret(true); err != nil || key != nil {
		t.Errorf("development: %q, %v", key, err)
	}
	if _, err := secret(false); err == nil {
		t.Error("production without a secret")
	}
	t.Setenv("GREET_SECRET", base64.StdEncoding.EncodeToString(make([]byte, 31)))
	if _, err := secret(false); err == nil {
		t.Error("a secret of 31 bytes")
	}
	t.Setenv("GREET_SECRET", base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if key, err := secret(false); err != nil || len(key) != 32 {
		t.Errorf("a secret of 32 bytes: %q, %v", key, err)
	}
}

// TestWithoutMail: the log warns that nobody can register, unless the options ask for that.
func TestWithoutMail(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	const warning = `level=WARN msg="account: Options.Mail is not set: users cannot register, verify an address or reset a password"`
	for _, c := range []struct {
		o     account.Options
		lines int
	}{
		{account.Options{}, 1},
		{account.Options{Closed: true}, 0},
		{account.Options{Mail: w.outbox, BaseURL: base}, 0},
	} {
		var logged bytes.Buffer
		app, err := web.New(web.Options{Sessions: w.sessions, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		must(t, "an application", err)
		c.o.Sessions = w.sessions
		_, err = account.New(app, w.users, c.o)
		must(t, "accounts", err)
		if got := logged.String(); strings.Count(got, "\n") != c.lines || strings.Count(got, warning) != c.lines {
			t.Errorf("%+v: logged %q", c.o, got)
		}
	}
}
