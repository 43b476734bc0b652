package acme_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/ci/ports"
)

// patience is how long a test waits for a certificate. An order that fails is tried
// again after a minute.
const patience = 3 * time.Minute

// output collects what several goroutines write.
type output struct{ logbuf.Buffer }

func (o *output) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// pebble is a running certificate authority.
type pebble struct {
	directory string         // its URL
	trust     *x509.CertPool // of its own HTTPS
	issued    *x509.CertPool // of the certificates that it issues
	out       output
	stop      func()
}

// orders returns how many certificates it has issued.
func (p *pebble) orders() int { return strings.Count(p.out.String(), "Issued certificate serial") }

// ca configures pebble.
type ca struct {
	httpPort, tlsPort int           // where it looks for proof
	validity          time.Duration // of certificates; 0: 90 days
}

// binary builds the ACME server for tests that Let's Encrypt keeps, as tools/pebble.mod pins it.
func binary(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "tool", "-modfile=../../tools/pebble.mod", "-n", "pebble").Output()
	path := strings.TrimSpace(string(out))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		var why string
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			why = string(e.Stderr)
		}
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatalf("pebble cannot be built, and SKERRY_REQUIRE_SERVERS=1: %v\n%s", err, why)
		}
		t.Skipf("pebble cannot be built: %v\n%s", err, why)
	}
	return path
}

// start starts pebble.
func (c ca) start(t *testing.T) *pebble {
	t.Helper()
	program, dir := binary(t), t.TempDir()
	p := &pebble{}
	own := certs.New(t)
	p.trust = own.Pool
	cert, key := own.Write(t, dir)
	listen, manage := ports.Addr(t), ports.Addr(t)
	if c.validity == 0 {
		c.validity = 90 * 24 * time.Hour
	}
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress":           listen,
		"managementListenAddress": manage,
		"certificate":             cert, "privateKey": key,
		"httpPort": c.httpPort, "tlsPort": c.tlsPort, "keyAlgorithm": "ecdsa",
		"profiles": map[string]any{"default": map[string]any{"description": "test", "validityPeriod": int(c.validity.Seconds())}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pebble.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-config", file)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	p.stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); <-ended })
	t.Cleanup(p.stop)
	p.directory = "https://" + listen + "/dir"
	root := "https://" + manage + "/roots/0"
	eventually.True(t, "pebble is ready", func() bool {
		select {
		case <-ended:
			t.Fatalf("pebble ended: %s", p.out.String())
		default:
		}
		pem, ok := fetch(p.trust, root)
		if _, listens := fetch(p.trust, p.directory); !ok || !listens {
			return false
		}
		p.issued = x509.NewCertPool()
		return p.issued.AppendCertsFromPEM(pem)
	})
	return p
}

// fetch gets a URL.
func fetch(trust *x509.CertPool, url string) ([]byte, bool) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, false
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, false
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return b, err == nil && res.StatusCode == http.StatusOK
}

// listen listens on some port of one of this machine's own addresses.
func listen(t *testing.T, ip string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil && ip != "127.0.0.1" && runtime.GOOS != "linux" {
		t.Skipf("only Linux has all of 127.0.0.0/8: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
