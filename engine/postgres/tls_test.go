package postgres

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
)

// tlsCase is a URL, and what comes of it.
type tlsCase struct {
	user, host, query string
	secure            bool
	code              engine.Code
	text              string
}

// TestTLS opens the engine with each sslmode, on servers with and without TLS and with certificates of several CAs.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, other := certs.New(t, "127.0.0.1"), certs.New(t)
	trusted, _ := cert.Write(t, t.TempDir())
	wrong, _ := other.Write(t, t.TempDir())
	s := pgserver.Start(t)
	s.Restart(t, "ssl=on", "ssl_cert_file="+s.File(t, "cert.pem", cert.Cert), "ssl_key_file="+s.File(t, "key.pem", cert.Key),
		"hba_file="+s.File(t, "hba", []byte("host all "+pgserver.Owner+" 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 trust\n")))
	s.Exec(t, "CREATE ROLE alice LOGIN SUPERUSER")
	for name, c := range map[string]tlsCase{
		"default":               {query: "", secure: true},
		"disable":               {query: "sslmode=disable"},
		"prefer":                {query: "sslmode=prefer", secure: true},
		"require":               {query: "sslmode=require", secure: true},
		"verify-ca":             {query: "sslmode=verify-ca&sslrootcert=" + trusted, secure: true},
		"verify-full":           {query: "sslmode=verify-full&sslrootcert=" + trusted, secure: true},
		"another CA":            {query: "sslmode=verify-full&sslrootcert=" + wrong, code: engine.CodeUnavailable, text: "check sslmode and sslrootcert"},
		"verify-ca, another CA": {query: "sslmode=verify-ca&sslrootcert=" + wrong, code: engine.CodeUnavailable, text: "check sslmode and sslrootcert"},
		"the system's CAs":      {query: "sslmode=verify-full", code: engine.CodeUnavailable, text: "check sslmode and sslrootcert"},
		"another name":          {host: "localhost", query: "sslmode=verify-full&sslrootcert=" + trusted, code: engine.CodeUnavailable, text: "the name in the server's certificate"},
		"no such file":          {query: "sslmode=verify-full&sslrootcert=/no/such/file", code: engine.CodeInvalid, text: "/no/such/file"},
		"no such mode":          {query: "sslmode=yes", code: engine.CodeInvalid, text: "sslmode is invalid"},
		"only with TLS":         {user: "alice", query: "sslmode=disable", code: engine.CodeUnauthenticated, text: "or only with another sslmode"},
		"also with TLS":         {user: "alice", query: "sslmode=require", secure: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.run(t, name, s.URL("postgres"))
		})
	}
	u, err := url.Parse(pgserver.Shared(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = "sslmode=require"
	d, err := Open(t.Context(), u, Options{})
	if err == nil {
		_ = d.Close()
	}
	wantCode(t, err, engine.CodeUnavailable, "server refused TLS connection")
	wantCode(t, err, engine.CodeUnavailable, "check sslmode")
}

// run opens the engine on the server with a URL, as the case says.
func (c *tlsCase) run(t *testing.T, name, at string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if u.RawQuery = c.query + "&application_name=" + url.PathEscape(name); c.user != "" {
		u.User = url.User(c.user)
	}
	if c.host != "" {
		u.Host = strings.Replace(u.Host, "127.0.0.1", c.host, 1)
	}
	d, err := Open(t.Context(), u, Options{})
	if c.code != "" {
		if err == nil {
			_ = d.Close()
		}
		wantCode(t, err, c.code, c.text)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	sessions := 0 // also those of the executor and of the listener
	put(t, d, "a", "1")
	_, err = d.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		rows, err := tx.(Querier).Query("SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = $1", name)
		if err != nil {
			return err
		}
		var secure bool
		_, err = pgx.ForEachRow(rows, []any{&secure}, func() error {
			if sessions++; secure != c.secure {
				t.Errorf("a session with TLS: %t", secure)
			}
			return nil
		})
		return err
	})
	if err != nil || sessions < 3 {
		t.Errorf("%d sessions, %v", sessions, err)
	}
}
