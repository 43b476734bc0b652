package redis

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/engine"
)

// TestTLS opens a server with TLS and a user of its own, rightly and wrongly. Neither errors nor logs show the password.
func TestTLS(t *testing.T) {
	cert, other := certs.New(t), certs.New(t)
	args, addr := redisserver.TLS(t, cert.Write)
	s := redisserver.Start(t, append(args, "--databases", "2")...)
	s.Do(t, "ACL", "SETUSER", "someone", "on", ">s3cret", "~t:*", "&t:*", "+@all", "-@dangerous", "+info", "+config|get")
	var log logbuf.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for name, c := range map[string]struct {
		scheme, addr, user, password, path string
		trust                              *certs.Certificate
		code                               engine.Code
		text                               string
	}{
		"right":               {SchemeTLS, addr, "someone", "s3cret", "/1", cert, "", ""},
		"another CA":          {SchemeTLS, addr, "someone", "s3cret", "", other, engine.CodeUnauthenticated, "certificate"},
		"the system's CAs":    {SchemeTLS, addr, "someone", "s3cret", "", nil, engine.CodeUnauthenticated, "SSL_CERT_FILE"},
		"no TLS":              {Scheme, addr, "someone", "s3cret", "", nil, engine.CodeUnavailable, "scheme rediss"},
		"TLS to another port": {SchemeTLS, s.Addr(), "someone", "s3cret", "", cert, engine.CodeUnavailable, "scheme redis"},
		"wrong password":      {SchemeTLS, addr, "someone", "s3cret!", "", cert, engine.CodeUnauthenticated, "password"},
		"wrong user":          {SchemeTLS, addr, "nobody", "s3cret", "", cert, engine.CodeUnauthenticated, "password"},
		"no such database":    {SchemeTLS, addr, "someone", "s3cret", "/2", cert, engine.CodeInvalid, "no database of that number"},
		"not a database":      {SchemeTLS, addr, "someone", "s3cret", "/x", cert, engine.CodeInvalid, "not the number"},
	} {
		o := Options{Logger: logger, silence: 2 * time.Second}
		if c.trust != nil {
			o.TLS = c.trust.Client()
		}
		u := &url.URL{
			Scheme: c.scheme, Host: c.addr, Path: c.path, User: url.UserPassword(c.user, c.password), RawQuery: "prefix=t:",
		}
		eng, err := Open(t.Context(), u, o)
		if err == nil {
			if _, err = add(eng); err == nil && count(t, eng) != 1 {
				t.Errorf("%s: the number is not 1", name)
			}
			eng.Close()
		}
		if engine.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: %v, want %q with %q", name, err, c.code, c.text)
		}
		if strings.Contains(fmt.Sprint(err), c.password) {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("the log shows the password: %s", log.String())
	}
}

// TestTLSCluster opens a cluster with TLS, whose nodes name each other by their addresses.
func TestTLSCluster(t *testing.T) {
	cert := certs.New(t)
	var addrs [2]string
	redisserver.ClusterOf(t, len(addrs), func(i int) (args []string) {
		args, addrs[i] = redisserver.TLS(t, cert.Write)
		return append(args, "--tls-cluster", "yes")
	})
	u := &url.URL{Scheme: SchemeClusterTLS, Host: strings.Join(addrs[:], ","), RawQuery: "prefix=t:"}
	eng := open(t, u, Options{TLS: cert.Client()})
	defer eng.Close()
	p := &pairs{eng: eng}
	for part := range p.acked {
		if err := p.change(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	p.check(t, false)
}

// TestURL opens URLs that name nothing. No error shows the password.
func TestURL(t *testing.T) {
	for _, c := range []struct{ url, text string }{
		{"redis://:s3cret@", "no host"},
		{"redis://:s3cret@a,b", "2 hosts"},
		{"redis://:s3cret@a/-1", "number"},
		{"redis://:s3cret@a/0/1", "number"},
		{"redis+cluster://:s3cret@a/1", "only database 0"},
		{"redis://:s3cret@a?password=s3cret", "only prefix"},
		{"redis://:s3cret@a?prefix=a&prefix=b", "repeated"},
		{"redis://:s3cret@a?prefix={a}", "braces"},
		{"redis://:s3cret@a?prefix=" + strings.Repeat("a", 65), "64 bytes"},
		{"http://:s3cret@a", "scheme"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		eng, err := Open(t.Context(), u, Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
		if err == nil {
			eng.Close()
		}
		refusedWith(t, err, engine.CodeInvalid, c.text)
		if strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("%s: the error shows the password: %v", u.Redacted(), err)
		}
	}
}
