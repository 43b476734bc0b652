package cassandra

import (
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/engine"
)

// refused opens a URL, which must fail with a code and a text.
func refused(t *testing.T, raw string, code engine.Code, text string) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := Open(t.Context(), u, Options{Logger: slog.New(slog.DiscardHandler), patience: time.Second})
	if err == nil {
		_ = eng.Close()
	}
	if engine.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("open %s: error is %v, want %s with %q", raw, err, code, text)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("an error shows the password: %v", err)
	}
}

func TestURL(t *testing.T) {
	for raw, text := range map[string]string{
		"cassandra:///k": "host", "cassandra://h": "keyspace", "cassandra://h/K-1": "keyspace", "cassandra://h/k?x=1": `"x" is unknown`,
		"cassandra://h/k?dc=a&dc=b": "repeated", "cassandra://h/k?consistency=two": "quorum, local_quorum",
		"cassandra://h/k?tls=maybe": "true or false", "cassandra://h/k?ca=f": "without tls=true", "redis://h/k": "scheme",
	} {
		refused(t, raw, engine.CodeInvalid, text)
	}
	u, _ := url.Parse("cassandra://user:secret@h1,h2:7000,h3:9/k?consistency=local_quorum&dc=x&rack=y")
	got, err := parse(u, Options{})
	if err != nil || strings.Join(got.hosts, " ") != "h1:9 h2:7000 h3:9" || got.dc != "x" || got.rack != "y" || !got.level.local || got.password != "secret" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRefusals opens what cannot be opened.
func TestRefusals(t *testing.T) {
	s := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t)
	defer done()
	at := s.URL(keyspace)
	refused(t, "cassandra://"+ports.Addr(t)+"/k", engine.CodeUnavailable, "cannot reach")
	refused(t, at+"?dc=mars", engine.CodeInvalid, `no datacenter "mars" (dc= in the URL); there are: dc1`)
	refused(t, at+"?rack=mars", engine.CodeInvalid, "it has: rack1")

	one := open1(t, at+"?consistency=one", Options{})
	if one.Promises().Durable {
		t.Error("consistency one is durable")
	}
	e := one.(*db)
	refused(t, at+"?consistency=local_quorum", engine.CodeInvalid, "transactions of all datacenters")
	if err := e.c.Query("UPDATE meta SET val = '2' WHERE name = 'format' IF EXISTS").Exec(); err != nil {
		t.Fatal(err)
	}
	refused(t, at, engine.CodeFormatNewer, "format 2")
	if err := one.Close(); err != nil {
		t.Error(err)
	}
}

// TestLocal opens data whose transactions are those of one datacenter.
func TestLocal(t *testing.T) {
	s := cassandraserver.Shared(t)
	keyspace, done := cassandraserver.Keyspace(t)
	defer done()
	eng := open1(t, s.URL(keyspace)+"?consistency=local_quorum", Options{})
	defer eng.Close()
	p := &pairs{eng: eng}
	if err := p.add(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if n, err := p.look(t.Context(), engine.Read{}, 0); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	refused(t, s.URL(keyspace), engine.CodeInvalid, "transactions of datacenter dc1")
}

// TestGuarded opens a node that asks for TLS and a password, and whose commits are not durable.
func TestGuarded(t *testing.T) {
	cert := certs.New(t, "127.0.0.1")
	dir := t.TempDir()
	certFile, _ := cert.Write(t, dir)
	pem := filepath.Join(dir, "both.pem")
	if err := os.WriteFile(pem, slices.Concat(cert.Key, cert.Cert), 0o600); err != nil {
		t.Fatal(err)
	}
	s := cassandraserver.Start(t, "commitlog_sync: periodic", "commitlog_sync_period: 10000ms",
		"authenticator: PasswordAuthenticator", "client_encryption_options: { enabled: true, optional: false, keystore: "+pem+
			", ssl_context_factory: { class_name: org.apache.cassandra.security.PEMBasedSslContextFactory } }")
	with := func(user, query string) string {
		return "cassandra://" + user + s.Addr() + "/guarded?" + query
	}
	secure := "tls=true&ca=" + certFile
	refused(t, with("cassandra:secret@", secure), engine.CodeUnauthenticated, "the user or the password")
	refused(t, with("", secure), engine.CodeUnauthenticated, "asks for a password")
	refused(t, with("cassandra:cassandra@", "tls=true"), engine.CodeUnauthenticated, "ca=")
	eng := open1(t, with("cassandra:cassandra@", secure), Options{})
	defer eng.Close()
	if eng.Promises().Durable {
		t.Error("commitlog_sync periodic is durable")
	}
	if err := (&pairs{eng: eng}).add(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// TestNoLongerDurable restarts a node with settings that no longer keep what was promised.
func TestNoLongerDurable(t *testing.T) {
	if testing.Short() {
		t.Skip("a node starts twice")
	}
	s := cassandraserver.Start(t)
	eng := open1(t, s.URL("k"), Options{})
	defer eng.Close()
	p := &pairs{eng: eng}
	if err := p.add(t.Context(), 0); err != nil || !eng.Promises().Durable {
		t.Errorf("durable %t, %v", eng.Promises().Durable, err)
	}
	s.Kill(t)
	s.Restart(t, "commitlog_sync: periodic", "commitlog_sync_period: 10000ms")
	eventually.True(t, "writes are refused", func() bool {
		err := p.add(t.Context(), 0)
		return err != nil && strings.Contains(err.Error(), "no longer durable")
	})
	if n, err := p.look(t.Context(), engine.Read{}, 0); err != nil || n != p.acked[0].Load() {
		t.Errorf("%d, %v, want %d", n, err, p.acked[0].Load())
	}
}
