package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// site is a program with a web application and a procedure, for tests.
func site() verb.App {
	return verb.App{Name: "site", Version: "v3", Procedures: []proc.Procedure{
		proc.DefineRead("twice", func(_ *proc.Tx, in struct {
			N int `json:"n"`
		}) (int, error) {
			return 2 * in.N, nil
		}),
	}, Web: func(s *skerry.Services) (http.Handler, error) {
		app, err := web.New(s.Web)
		if err != nil {
			return nil, err
		}
		files := s.Files(fstest.MapFS{"assets/a.txt": {Data: []byte("embedded")}}, "assets")
		app.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(files)))
		app.Get("/", func(c *web.Context) error { return c.Text(http.StatusOK, "home") })
		app.Get("/slow", func(c *web.Context) error {
			c.Writer.WriteHeader(http.StatusOK)
			fmt.Fprintln(c.Writer, "begun")
			if err := http.NewResponseController(c.Writer).Flush(); err != nil {
				return err
			}
			<-time.After(time.Second)
			_, err := fmt.Fprintln(c.Writer, "ended")
			return err
		})
		if s.Users, err = auth.New(s.KV, auth.Options{Sessions: s.Sessions, Argon2: auth.Params{MemoryKiB: 64, Passes: 1}}); err != nil {
			return nil, err
		}
		if err := siteNotes(s); err != nil {
			return nil, err
		}
		if err := siteCache(s, app); err != nil {
			return nil, err
		}
		app.Get("/from", func(c *web.Context) error {
			return c.Text(http.StatusOK, fmt.Sprint(s.Web.Superadmins, s.Mail != nil, s.Web.TrustedProxies, s.BaseURL))
		})
		return app, nil
	}}
}

// siteCache opens a cache of texts if $SITE_CACHE is set.
func siteCache(s *skerry.Services, app *web.App) error {
	if os.Getenv("SITE_CACHE") == "" {
		return nil
	}
	texts, err := s.Cache(cache.Options{Name: "texts", TTL: time.Hour, Source: cache.Func(func(_ context.Context, key string) (cache.Entry, error) {
		if key == "none" {
			return cache.Entry{}, engine.ErrNotFound
		}
		return cache.Entry{Body: []byte("text " + key), Type: "text/plain"}, nil
	})})
	if err == nil {
		app.Cached("/text/{id}", texts, web.CachedOptions{})
	}
	return err
}

// siteNotes defines the collection notes in its first form, with three records, or in a later one, as $SITE_NOTES says.
func siteNotes(s *skerry.Services) error {
	form := os.Getenv("SITE_NOTES")
	if form == "" {
		return nil
	}
	c := schema.Collection{Name: "notes", Rules: schema.Rules{View: `by = @auth.email || n > 2 && @auth.verified`}, Fields: []schema.Field{{Name: "n", Type: schema.Int}, {Name: "by", Type: schema.Text}, {Name: "old", Type: schema.Text}}}
	if form == "2" {
		c.Fields[1] = schema.Field{Name: "author", Type: schema.Text, Was: []string{"by"}}
		c.Fields, c.Rules.View = c.Fields[:2], ""
		c.Indexes = []schema.Index{{Name: "by_author", Unique: true, Fields: []schema.IndexField{{Name: "author"}}}}
	}
	if err := s.Records.Define(c); err != nil || form != "1" {
		if n, _ := strconv.Atoi(os.Getenv("SITE_EVE")); n > 0 {
			eveWrites(s, n)
		}
		return err
	}
	if os.Getenv("SITE_TREE") != "" {
		if err := s.Records.Define(tree()); err != nil {
			return err
		}
	}
	s.OnStart(func(ctx context.Context) error {
		_, err := s.Records.Update(ctx, record.Program(), func(tx *record.Tx) error {
			for i := range 3 {
				if _, err := tx.Create("notes", fmt.Sprint("note", i), fmt.Appendf(nil, `{"n":%d,"by":"u%d@example.org","old":"x"}`, i+1, i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, err = s.Records.Update(ctx, record.Actor{ID: "ann", System: true}, func(tx *record.Tx) error {
			_, err := tx.Update("notes", "note1", []byte(`{"old":"y"}`), 0)
			return err
		})
		return err
	})
	return nil
}

// tree is a collection whose records refer to each other, and to notes.
func tree() schema.Collection {
	return schema.Collection{Name: "tree", Fields: []schema.Field{
		{Name: "parent", Type: schema.Reference, Collection: "tree"}, {Name: "note", Type: schema.Reference, Collection: "notes"}, {Name: "n", Type: schema.Int},
	}}
}

// eveWrites lets the user eve create n notes in one transaction, if there are none of hers.
func eveWrites(s *skerry.Services, n int) {
	s.OnStart(func(ctx context.Context) error {
		_, err := s.Records.Update(ctx, record.Actor{ID: "eve", System: true}, func(tx *record.Tx) error {
			for i := range n {
				if _, err := tx.Create("notes", fmt.Sprint("eve", i), []byte(`{"n":1}`)); err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, record.ErrExists) {
			return nil
		}
		return err
	})
}

// newSite returns a shell in which site is the program.
func newSite(t *testing.T) *shell {
	s := newShell(t)
	s.env = append(s.env, "SKERRY_TEST_MAIN=site")
	return s
}

// TestServeApplication: the application is on HTTP, everything else on the admin
// listener, and the verbs that ask a server say so where they are led astray.
func TestServeApplication(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if err := os.WriteFile(filepath.Join(s.dir, "smtp"), []byte("smtp://anna:secret%40x@127.0.0.1:2525?from=a@b.example&tls=none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.serve("--admin", "127.0.0.1:0", "--smtp-url-file", "smtp", "--superadmins", "a@b.example,c@d.example", "--trusted-proxies", "10.0.0.0/8,::1", "--base-url", "https://x.example/")
	p.waitReady()
	if _, body := get(t, p.HTTP+"/from"); body != "[a@b.example c@d.example] true [10.0.0.0/8 ::1/128]https://x.example" {
		t.Errorf("the application is told %s", body)
	}
	if code, _ := get(t, p.HTTP+"/metrics"); code != http.StatusNotFound {
		t.Errorf("/metrics beside the application: %d", code)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/cmdline"} {
		if code, body := get(t, p.Admin+path); code != http.StatusOK {
			t.Errorf("admin %s: %d %s", path, code, body)
		}
	}
	if out := s.run("site call twice 21 --url " + p.Admin); out != "42\n" {
		t.Errorf("call at the admin address: %s", out)
	}
	for _, verb := range []string{"call twice 21 --url ", "procedures --url ", "backup --to b --from "} {
		out := s.run("site " + verb + p.HTTP)
		if !strings.Contains(out, "use the server's admin address (default http://127.0.0.1:7201)") || !strings.HasSuffix(out, "[1]\n") {
			t.Errorf("%s at the application: %s", verb, out)
		}
	}
	if out := s.run("site help call; site help procedures; site help backup"); strings.Count(out, "http://127.0.0.1:7201") != 3 {
		t.Errorf("the verbs ask elsewhere:\n%s", out)
	}
	out := s.run("site serve --data other --http 127.0.0.1:0 --resp off --admin " + strings.TrimPrefix(p.Admin, "http://"))
	if !strings.Contains(out, "admin: ") || !strings.Contains(out, "address already in use; --admin chooses another address") {
		t.Errorf("an admin port that is taken: %s", out)
	}
	if out := s.run("site serve --base-url x.example"); !strings.Contains(out, `--base-url: "x.example" is not https://HOST[:PORT]`) {
		t.Errorf("a base that is none: %s", out)
	}
	if strings.Contains(p.log(), "secret") || strings.Contains(p.log(), "no mail server") {
		t.Errorf("the log has the mail server's password: %s", p.log())
	}
}

// TestServeSource: files come from the source folder as they are now, and the
// announcement says from which.
func TestServeSource(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	name := filepath.Join(s.dir, "src", "assets", "a.txt")
	if err := os.MkdirAll(filepath.Join(s.dir, "src", "server"), 0o700); err != nil {
		t.Fatal(err)
	}
	const noMail = "no mail server (--smtp-url-file): the application cannot send email"
	p := s.serve("--admin", "off", "--source", "src/server")
	if strings.Count(p.log(), noMail) != 1 {
		t.Errorf("no mail server, and it says\n%s", p.log())
	}
	if _, body := get(t, p.HTTP+"/assets/a.txt"); body != "embedded" || p.Live != nil {
		t.Errorf("without the folder: %q, live %q", body, p.Live)
	}
	p.stop(syscall.SIGTERM)
	for _, f := range []string{name, filepath.Join(s.dir, "src", "go.mod")} {
		os.MkdirAll(filepath.Dir(f), 0o700)
		if err := os.WriteFile(f, []byte("on disk"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p = s.serve("--admin", "off", "--source", "src/server", "--debug")
	if strings.Contains(p.log(), noMail) {
		t.Errorf("debug mode has an outbox, and it says\n%s", p.log())
	}
	if want := []string{filepath.Dir(name)}; !slices.Equal(p.Live, want) || p.Outbox != p.HTTP+"/_dev/outbox" {
		t.Errorf("live %q, want %q; outbox %s", p.Live, want, p.Outbox)
	}
	for _, text := range []string{"on disk", "changed"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, body := get(t, p.HTTP+"/assets/a.txt"); body != text {
			t.Errorf("got %q, want %q", body, text)
		}
	}
}

// TestDrain: a stopping server first reports that it is not ready, while it still serves requests; then
// requests in flight end, and only then are new ones refused.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.serve("--admin", "off", "--drain", "2s")
	p.waitReady()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "not ready after the signal", func() bool {
		code, _ := get(t, p.HTTP+"/readyz") // fails the test if there is no response: nothing is refused yet
		return code == http.StatusServiceUnavailable
	})
	resp, err := http.Get(p.HTTP + "/slow")
	if err != nil {
		t.Fatalf("while it drains: %v", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "begun" {
		t.Fatalf("while it drains: %q, %v", lines.Text(), lines.Err())
	}
	eventually.True(t, "no more connections after the signal", func() bool { return !accepts(p.httpAddr()) })
	if !lines.Scan() || lines.Text() != "ended" {
		t.Errorf("the request in flight: %q, %v", lines.Text(), lines.Err())
	}
	if code := p.exit(); code != verb.ExitOK {
		t.Errorf("exit code %d\n%s", code, p.log())
	}
}

// TestWebSettings: mistakes in the settings of a web application are reported.
func TestWebSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, text := range map[string]string{"bad": "smtp://anna:hunter2@h", "empty": "\n", "two": "a\nb\n", "long": strings.Repeat("x", 4<<10+1)} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"--smtp-url-file none":                           "smtp-url-file: open none: no such file",
		"--smtp-url-file bad":                            "smtp-url-file: bad: the mail server's settings: there is no sender address",
		"--smtp-url-file empty":                          "smtp-url-file: empty must contain one line",
		"--smtp-url-file two":                            "smtp-url-file: two must contain one line",
		"--smtp-url-file long":                           "smtp-url-file: long is longer than 4096 bytes",
		"--superadmins anna":                             `--superadmins: "anna" is not an email address`,
		"--superadmins 'Anna <a@b>'":                     "is not an email address",
		"--trusted-proxies 10.0.0.1/8":                   "write 10.0.0.0/8",
		"--trusted-proxies 0.0.0.0/0":                    "a network of all addresses cannot be trusted",
		"--trusted-proxies here":                         `"here" is neither a network`,
		"--drain 11m":                                    `--drain: "11m" is not a duration from 0s to 10m0s`,
		"--drain -1s":                                    "is not a duration",
		"--source none":                                  "source: stat none: no such file",
		"--source bad":                                   "source: bad is not a folder",
		"--acme-domains a.example":                       "acme-domains: HTTP at 127.0.0.1:7001 is reachable only from this machine",
		"--acme-domains a.example --http off --resp off": "acme-domains: http is off",
		"--acme-http :80":                                "acme-http: needs --acme-domains",
		"--acme-domains a.example,foo --http :443":       `acme-domains: "foo" has no dot, so no public authority issues a certificate for it`,
		"--acme-ca http://ca.example/dir":                "is not a URL like https://",
		"--acme-domains a.example --acme-email a@b.example,c@d.example --http :443": "acme-email: takes one address",
		"--acme-domains a.example --http :443 --tls-cert x":                         "acme-domains, tls-cert: set only one of them",
		"--http :0 --admin :0 --resp 0.0.0.0:0":                                     "admin: :0 is reachable from other machines",
	} {
		out := s.run("site serve " + args)
		if !strings.Contains(out, want) || !strings.HasSuffix(out, "[2]\n") || strings.Contains(out, "hunter2") {
			t.Errorf("%s: want %q, got\n%s", args, want, out)
		}
		if strings.Contains(out, "serve: http: ") {
			t.Errorf("%s: the application's address is refused: %s", args, out)
		}
	}
	out := s.run("SKERRY_TEST_MAIN=1 skerry serve --superadmins a@b.example --smtp-url-file two")
	if strings.Count(out, "only for web applications, and this program has none") != 2 {
		t.Errorf("without an application: %s", out)
	}
}

// TestPublicApplication: an application may be public without a password.
func TestPublicApplication(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.serve("--http", "0.0.0.0:0", "--admin", "off")
	_, port, err := net.SplitHostPort(p.httpAddr())
	if err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, "http://127.0.0.1:"+port+"/"); code != http.StatusOK || body != "home" {
		t.Errorf("%d %s", code, body)
	}
}
