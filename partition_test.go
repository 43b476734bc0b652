package skerry_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

// openPartitions returns an engine that is atomic over one partition, and has no scans, feed, positions or clock.
func openPartitions(t *testing.T) engine.Engine {
	t.Helper()
	return enginetest.Within(openEngine(t), engine.OnePartition)
}

// TestOnePartition serves keys over both protocols on an engine that promises as little as Redis Cluster. What it
// cannot carry is refused by name.
func TestOnePartition(t *testing.T) {
	t.Parallel()
	s, cancel, ended := start(t, openPartitions(t), skerry.Options{})
	for _, c := range []struct{ command, want string }{
		{"SET n 41", "+OK"},
		{"INCR n", ":42"},
		{"EXPIRE n 10999", ":1"},
		{"TTL n", ":109"},
		{"GET n", "$2"},
		{"SET n 1 NX", "$-1"},
		{"MSET {42}a 1 {42}b 2", "+OK"},
		{"MGET {42}a n none", "*3"},
		{"DEL n", ":1"},
		{"GET n", "$-1"},
		{"PING", "+PONG"},
		{"INFO", "$"},
		{"FUNCTION LIST", "*0"},
		{"MSET a 1 b 2", "-ERR key"},
		{"DBSIZE", "-ERR listing, counting and flushing keys needs transactions over all keys"},
		{"SCAN 0", "-ERR listing"},
		{"KEYS *", "-ERR listing"},
		{"RANDOMKEY", "-ERR listing"},
		{"FLUSHALL", "-ERR listing"},
		{"CLIENT TRACKING ON", "-ERR CLIENT TRACKING needs a change feed"},
	} {
		if got := ask(t, s, c.command); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.command, got, c.want)
		}
	}
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"PUT", "/db/k", "v", http.StatusCreated},
		{"GET", "/db/k", "", http.StatusOK},
		{"DELETE", "/db/k", "", http.StatusNoContent},
		{"GET", "/db/k", "", http.StatusNotFound},
		{"GET", "/metrics", "", http.StatusOK},
		{"GET", "/readyz", "", http.StatusOK},
		{"GET", "/api/procedures", "", http.StatusOK},
		{"GET", "/db/", "", http.StatusNotImplemented},
		{"POST", "/api/call/none", "{}", http.StatusNotFound},
	} {
		if code, text := request(t, c.method, s.HTTPURL()+c.path, strings.NewReader(c.body)); code != c.code {
			t.Errorf("%s %s: %d %.300s, want %d", c.method, c.path, code, text, c.code)
		}
	}
	cancel()
	if err := wait(t, ended); err != nil {
		t.Errorf("run: %v", err)
	}
}

// TestOnePartitionRefuses checks that a program that uses what the engine cannot carry fails at start with the
// name of the promise.
func TestOnePartitionRefuses(t *testing.T) {
	t.Parallel()
	app := func(use func(s *skerry.Services) error) skerry.Options {
		return skerry.Options{Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
			return http.NotFoundHandler(), use(s)
		}}}
	}
	for name, c := range map[string]struct {
		o    skerry.Options
		want string
	}{
		"procedures": {skerry.Options{Procedures: []proc.Procedure{proc.Define("p", func(*proc.Tx, int) (int, error) { return 0, nil })}}, "proc needs transactions over all keys"},
		"records": {app(func(s *skerry.Services) error {
			return s.Records.Define(schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "text", Type: schema.Text}}})
		}), "records needs transactions over all keys"},
		"a record": {app(func(s *skerry.Services) error {
			_, err := s.Records.View(t.Context(), engine.Read{}, record.Program(), func(*record.Tx) error { return nil })
			return err
		}), "records needs"},
		"users": {app(func(s *skerry.Services) (err error) {
			s.Users, err = auth.New(s.KV, auth.Options{Sessions: s.Sessions})
			return err
		}), "auth needs transactions over all keys"},
		"certificates": {skerry.Options{Certificates: skerry.Certificates{Domains: []string{"example.org"}, HTTP: "127.0.0.1:0"}}, "ordering certificates needs"},
	} {
		c.o.HTTP, c.o.RESP, c.o.Admin = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		s, err := skerry.Open(openPartitions(t), c.o)
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestOnePartitionSessions logs in, and reads and writes the session, in an application on such an engine.
func TestOnePartitionSessions(t *testing.T) {
	t.Parallel()
	visits := session.NewKey[int]("visits")
	o := skerry.Options{Admin: skerry.Off, Web: skerry.Web{Debug: true, Application: func(s *skerry.Services) (http.Handler, error) {
		app, err := web.New(s.Web)
		if err != nil {
			return nil, err
		}
		app.Post("/visit", func(c *web.Context) error {
			if err := visits.Update(c, c.Session(), func(n int, _ bool) (int, error) { return n + 1, nil }); err != nil {
				return err
			}
			n, _, err := visits.Get(c.Session())
			return errors.Join(err, c.JSON(http.StatusOK, map[string]any{"user": c.Session().User(), "visits": n}))
		})
		app.Post("/login", func(c *web.Context) error {
			c.Session().Login("7")
			return c.Text(http.StatusOK, "in")
		})
		app.Post("/revoke", func(c *web.Context) error {
			_, _, err := s.Sessions.RevokeAll(c, "7")
			return errors.Join(err, c.Text(http.StatusOK, "revoked"))
		})
		return app, nil
	}}}
	s, _, _ := start(t, openPartitions(t), o)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Jar: jar}
	for _, c := range []struct{ path, want string }{
		{"/visit", `{"user":"","visits":1}`},
		{"/login", "in"},
		{"/visit", `{"user":"7","visits":2}`},
		{"/visit", `{"user":"7","visits":3}`},
		{"/revoke", "revoked"},
		{"/visit", `{"user":"","visits":1}`},
	} {
		resp, err := client.Post(s.HTTPURL()+c.path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%s: %d %s %v, want %s", c.path, resp.StatusCode, got, err, c.want)
		}
	}
}
