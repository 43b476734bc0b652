package acme_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/acme"
)

// open opens a folder's engine and its keys.
func open(t *testing.T, dir string) (*embedded.DB, *kv.Store) {
	t.Helper()
	eng, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	return eng, keys(t, eng)
}

func keys(t *testing.T, eng engine.Engine) *kv.Store {
	t.Helper()
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// follower is an engine as a node that does not lead shows it: it has all data,
// and writes nothing.
type follower struct{ engine.Engine }

func (follower) Update(context.Context, func(engine.Tx) error) (engine.Position, error) {
	return 0, engine.ErrNotLeader
}

// machine has the listeners for the CA's challenges and for clients.
type machine struct {
	ip        string
	http, tls net.Listener
}

// newMachine returns one at an address of its own. Each test that orders has
// another one, which is also the name on its certificate: certmagic keeps the
// proofs that are under way in one list for the whole process, by name.
func newMachine(t *testing.T, ip string) *machine {
	return &machine{ip: ip, http: listen(t, ip), tls: listen(t, ip)}
}

// everywhere returns l and, where this machine calls ::1 localhost too, a listener
// at the same port there: the CA takes the first address that it finds.
func everywhere(t *testing.T, l net.Listener) []net.Listener {
	t.Helper()
	if l.Addr().(*net.TCPAddr).IP.String() != "127.0.0.1" {
		return []net.Listener{l}
	}
	six, err := net.Listen("tcp", net.JoinHostPort("::1", strconv.Itoa(port(l))))
	if err != nil {
		return []net.Listener{l}
	}
	t.Cleanup(func() { _ = six.Close() })
	return []net.Listener{l, six}
}

func (c *machine) ca() ca { return ca{httpPort: port(c.http), tlsPort: port(c.tls)} }

// node is a running Manager.
type node struct {
	*acme.Manager
	out  *output
	stop func()
}

// run starts a Manager that uses p, and nothing else yet.
func run(t *testing.T, store *kv.Store, p *pebble, c *machine, change ...func(*acme.Options)) *node {
	t.Helper()
	n := &node{out: &output{}}
	o := acme.Options{
		Domains: []string{c.ip}, Email: "ops@example.org", CA: p.directory, Roots: p.trust,
		Host: c.ip, HTTPPort: port(c.http), TLSPort: port(c.tls),
		Refresh: 20 * time.Millisecond, RenewCheck: 100 * time.Millisecond, Logger: n.out.logger(),
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if n.Manager, err = acme.New(store, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(n.stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node's log:\n%s\nthe CA's:\n%s", n.out, &p.out)
		}
	})
	return n
}

// serve makes a node serve a machine's listeners, until the test ends.
func (n *node) serve(t *testing.T, c *machine) {
	t.Helper()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page of "+r.Host) })
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	plain := &http.Server{Handler: n.ChallengeHandler(page), ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	secure := &http.Server{Handler: page, TLSConfig: n.TLSConfig(), ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	for _, l := range everywhere(t, c.http) {
		go func() { _ = plain.Serve(l) }()
	}
	for _, l := range everywhere(t, c.tls) {
		go func() { _ = secure.ServeTLS(l, "", "") }()
	}
	t.Cleanup(func() { _ = plain.Close(); _ = secure.Close() })
}

// hello greets a TLS server as a client does and returns its certificate.
func hello(l net.Listener, name string, roots *x509.CertPool) (*x509.Certificate, error) {
	d := tls.Dialer{Config: &tls.Config{ServerName: name, RootCAs: roots, MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// certified waits for a certificate that the CA stands for, and returns its serial number.
func certified(t *testing.T, l net.Listener, name string, p *pebble) (serial string) {
	t.Helper()
	var cert *x509.Certificate
	var err error
	if !eventually.Within(patience, func() bool { cert, err = hello(l, name, p.issued); return err == nil }) {
		t.Fatalf("%s has no certificate: %v", name, err)
	}
	return cert.SerialNumber.String()
}

// TestIssue: by each kind of proof, certificates are ordered once, served, and
// there after a restart without the CA. It is not parallel: both kinds prove the same names.
func TestIssue(t *testing.T) {
	for name, off := range map[string]func(*acme.Options){
		"HTTP-01":     func(o *acme.Options) { o.TLSPort = acme.Off },
		"TLS-ALPN-01": func(o *acme.Options) { o.HTTPPort = acme.Off },
	} {
		t.Run(name, func(t *testing.T) {
			both := func(o *acme.Options) { o.Domains = []string{"LocalHost.", "127.0.0.1"} }
			dir, c := t.TempDir(), newMachine(t, "127.0.0.1")
			p := c.ca().start(t)
			eng, store := open(t, dir)
			n := run(t, store, p, c, off, both)
			n.serve(t, c)
			serials := map[string]string{}
			for _, domain := range []string{"localhost", "127.0.0.1"} {
				serials[domain] = certified(t, c.tls, domain, p)
			}
			if got := p.orders(); got != 2 {
				t.Errorf("%d certificates were ordered, want 2", got)
			}
			if _, err := hello(c.tls, "other.example", p.issued); err == nil || !strings.Contains(err.Error(), "remote error") {
				t.Errorf("another name gets a certificate: %v", err)
			}
			n.stop()
			locks(t, store, 0)
			if err := eng.Close(); err != nil {
				t.Fatal(err)
			}
			p.stop()

			_, store = open(t, dir)
			c = newMachine(t, "127.0.0.1")
			n = run(t, store, p, c, off, both)
			n.serve(t, c)
			for domain, want := range serials {
				cert, err := hello(c.tls, domain, p.issued)
				if err != nil || cert.SerialNumber.String() != want {
					t.Errorf("after the restart %s has %v, %v; want %s", domain, cert, err, want)
				}
			}
		})
	}
}

// locks counts the locks in kv.
func locks(t *testing.T, store *kv.Store, want int) {
	t.Helper()
	page, _, err := store.List(t.Context(), engine.Read{}, acme.DefaultSpace, kv.ListOptions{Prefix: []byte("l/")})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != want {
		t.Errorf("%d locks are left, want %d", len(page.Items), want)
	}
}

// TestTwoManagers: if two nodes lead, as can happen briefly in a cluster, one orders and
// both serve.
func TestTwoManagers(t *testing.T) {
	t.Parallel()
	c, c2 := newMachine(t, "127.0.0.2"), newMachine(t, "127.0.0.2")
	p := c.ca().start(t)
	_, store := open(t, t.TempDir())
	a, b := run(t, store, p, c), run(t, store, p, c)
	a.serve(t, c)
	b.serve(t, c2)
	first, second := certified(t, c.tls, c.ip, p), certified(t, c2.tls, c.ip, p)
	a.stop()
	b.stop()
	if got := p.orders(); got != 1 || first != second {
		t.Errorf("%d certificates were ordered, want 1; %s and %s are served", got, first, second)
	}
	locks(t, store, 0)
}

// TestFollower: a node that does not lead orders nothing, serves what the leader
// has stored, and orders once it leads.
func TestFollower(t *testing.T) {
	t.Parallel()
	c, c2 := newMachine(t, "127.0.0.3"), newMachine(t, "127.0.0.3")
	p := c.ca().start(t)
	eng, store := open(t, t.TempDir())
	var leads atomic.Bool
	var asked atomic.Int32
	leader := run(t, store, p, c, func(o *acme.Options) {
		o.Leads = func() bool { asked.Add(1); return leads.Load() }
	})
	other := run(t, keys(t, follower{eng}), p, c, func(o *acme.Options) { o.Leads = func() bool { return false } })
	leader.serve(t, c)
	other.serve(t, c2)
	for range 3 {
		if _, err := hello(c2.tls, c.ip, p.issued); err == nil {
			t.Fatal("there is a certificate before any node leads")
		}
	}
	eventually.True(t, "the node asked twice whether it leads", func() bool { return asked.Load() >= 2 })
	if got := p.orders(); got != 0 || strings.Contains(leader.out.String(), "acquiring lock") {
		t.Fatalf("%d certificates were ordered by nodes that do not lead", got)
	}
	leads.Store(true)
	if a, b := certified(t, c.tls, c.ip, p), certified(t, c2.tls, c.ip, p); a != b {
		t.Errorf("the leader serves %s, the other node %s", a, b)
	}
	if got := p.orders(); got != 1 {
		t.Errorf("%d certificates were ordered, want 1", got)
	}
}

// TestRenewal: a certificate is replaced before it expires, while clients connect.
func TestRenewal(t *testing.T) {
	t.Parallel()
	c := newMachine(t, "127.0.0.4")
	authority := c.ca()
	authority.validity = 15 * time.Second
	p := authority.start(t)
	_, store := open(t, t.TempDir())
	n := run(t, store, p, c)
	n.serve(t, c)
	first := certified(t, c.tls, c.ip, p)
	if !eventually.Within(patience, func() bool {
		cert, err := hello(c.tls, c.ip, p.issued)
		if late, ok := errors.AsType[x509.CertificateInvalidError](err); ok && late.Reason == x509.Expired {
			return false // this machine is so slow that it ended first
		}
		if err != nil {
			t.Fatalf("a client is rejected: %v", err)
		}
		return cert.SerialNumber.String() != first
	}) {
		t.Errorf("%s is still served", first)
	}
}

// TestNoCA: without its CA the server continues, and logs the error.
func TestNoCA(t *testing.T) {
	t.Parallel()
	c := newMachine(t, "127.0.0.5")
	p := c.ca().start(t)
	p.stop()
	_, store := open(t, t.TempDir())
	n := run(t, store, p, c)
	n.serve(t, c)
	eventually.True(t, "the failure is logged", func() bool {
		return strings.Contains(n.out.String(), "level=ERROR msg=\"certificates: could not get certificate from issuer\"") &&
			strings.Contains(n.out.String(), "retrying_in=1m0s")
	})
	_, err := hello(c.tls, c.ip, p.issued)
	if err == nil {
		t.Error("a client gets a connection")
	}
	n.stop()
	locks(t, store, 0)
	if strings.Contains(n.out.String(), "PRIVATE KEY") {
		t.Error("a private key is in the log")
	}
}
