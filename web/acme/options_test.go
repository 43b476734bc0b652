package acme_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/acme"
)

// TestOptions: mistakes are reported before the CA is contacted.
func TestOptions(t *testing.T) {
	t.Parallel()
	_, store := open(t, t.TempDir())
	many := make([]string, acme.MaxDomains+1)
	for i := range many {
		many[i] = "example.org"
	}
	for name, c := range map[string]struct {
		o    acme.Options
		want error
		text string
	}{
		"no domain":   {acme.Options{}, engine.ErrInvalid, "no domain"},
		"too many":    {acme.Options{Domains: many}, engine.ErrLimit, "100"},
		"wildcard":    {acme.Options{Domains: []string{"*.example.org"}}, engine.ErrInvalid, "wildcard"},
		"URL":         {acme.Options{Domains: []string{"https://example.org"}}, engine.ErrInvalid, "leave out https://"},
		"port":        {acme.Options{Domains: []string{"example.org:443"}}, engine.ErrInvalid, "leave out https://"},
		"path":        {acme.Options{Domains: []string{"example.org/x"}}, engine.ErrInvalid, "leave out https://"},
		"empty":       {acme.Options{Domains: []string{""}}, engine.ErrInvalid, "not a host name"},
		"empty label": {acme.Options{Domains: []string{"a..b"}}, engine.ErrInvalid, "not a host name"},
		"hyphen":      {acme.Options{Domains: []string{"-a.org"}}, engine.ErrInvalid, "not a host name"},
		"long":        {acme.Options{Domains: []string{strings.Repeat("a", 64) + ".org"}}, engine.ErrInvalid, "not a host name"},
		"script":      {acme.Options{Domains: []string{"exämple.org"}}, engine.ErrInvalid, "xn--"},
		"line break":  {acme.Options{Domains: []string{"a.org\nb.org"}}, engine.ErrInvalid, "not a host name"},
		"email":       {acme.Options{Domains: []string{"a.org"}, Email: "me"}, engine.ErrInvalid, "email"},
		"two emails":  {acme.Options{Domains: []string{"a.org"}, Email: "a@b.c,d@e.f"}, engine.ErrInvalid, "email"},
		"CA":          {acme.Options{Domains: []string{"a.org"}, CA: "http://ca.example/dir"}, engine.ErrInvalid, "https://"},
		"CA password": {acme.Options{Domains: []string{"a.org"}, CA: "https://me:s3cr3t@ca.example/dir"}, engine.ErrInvalid, "https://"},
		"all off":     {acme.Options{Domains: []string{"a.org"}, HTTPPort: acme.Off, TLSPort: acme.Off}, engine.ErrInvalid, "both challenges"},
		"big port":    {acme.Options{Domains: []string{"a.org"}, HTTPPort: 65536}, engine.ErrInvalid, "65536"},
		"time":        {acme.Options{Domains: []string{"a.org"}, Refresh: -1}, engine.ErrInvalid, "negative"},
		"lease":       {acme.Options{Domains: []string{"a.org"}, Lease: time.Microsecond}, engine.ErrInvalid, "lease"},
	} {
		_, err := acme.New(store, c.o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v, want %v with %q", name, err, c.want, c.text)
		}
	}
}

// site is the folder of a name's files for a CA at ca.example.
func site(name string) (cert, key string) {
	issuer := (&certmagic.ACMEIssuer{CA: "https://ca.example/dir"}).IssuerKey()
	return certmagic.StorageKeys.SiteCert(issuer, name), certmagic.StorageKeys.SitePrivateKey(issuer, name)
}

// TestServed: a certificate in kv is served soon after it was stored; a pair that does not match, or is gone,
// does not replace the last good one.
func TestServed(t *testing.T) {
	t.Parallel()
	eng, store := open(t, t.TempDir())
	s := storage(t, store, acme.StorageOptions{})
	n := &node{out: &output{}}
	var err error
	l := &looked{Engine: follower{eng}}
	n.Manager, err = acme.New(keys(t, l), acme.Options{
		Domains: []string{"a.example"}, CA: "https://ca.example/dir", Refresh: time.Millisecond, Logger: n.out.logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newMachine(t, "127.0.0.1")
	n.serve(t, c)
	if _, err := hello(c.tls, "a.example", nil); err == nil {
		t.Error("a connection without a certificate")
	}
	certFile, keyFile := site("a.example")
	put := func(name string, text []byte) {
		t.Helper()
		if err := s.Store(t.Context(), name, text); err != nil {
			t.Fatal(err)
		}
	}
	first, second := certs.New(t, "a.example"), certs.New(t, "a.example")
	put(certFile, first.Cert)
	put(keyFile, first.Key)
	eventually.True(t, "the certificate is served", func() bool { _, err := hello(c.tls, "a.example", first.Pool); return err == nil })

	put(keyFile, second.Key) // as between two writes of a renewal
	before := l.n.Load()
	eventually.True(t, "half of a renewal is read", func() bool {
		if _, err := hello(c.tls, "a.example", first.Pool); err != nil {
			t.Fatalf("with half of a renewal: %v", err)
		}
		return l.n.Load() >= before+5
	})
	put(certFile, second.Cert)
	eventually.True(t, "the new one is served", func() bool { _, err := hello(c.tls, "a.example", second.Pool); return err == nil })
	if err := s.Delete(t.Context(), certFile); err != nil {
		t.Fatal(err)
	}
	if _, err := hello(c.tls, "A.Example", second.Pool); err != nil {
		t.Errorf("after its files are gone: %v", err)
	}
}

// TestChallengeOfAnotherNode: any node answers the CA's challenges.
func TestChallengeOfAnotherNode(t *testing.T) {
	t.Parallel()
	eng, store := open(t, t.TempDir())
	s := storage(t, store, acme.StorageOptions{})
	m, err := acme.New(keys(t, follower{eng}), acme.Options{
		Domains: []string{"c.example"}, CA: "https://ca.example/dir", Logger: (&output{}).logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	// What certmagic stores on the node that orders.
	token := `{"type":"http-01","token":"tok","keyAuthorization":"tok.thumb","identifier":{"type":"dns","value":"c.example"}}`
	if err := s.Store(t.Context(), "acme/ca.example-dir/challenge_tokens/c.example.json", []byte(token)); err != nil {
		t.Fatal(err)
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for target, want := range map[string]string{
		"http://c.example/.well-known/acme-challenge/tok":     "200 tok.thumb",
		"http://c.example/.well-known/acme-challenge/other":   "418 ",
		"http://other.example/.well-known/acme-challenge/tok": "418 ",
		"http://c.example/": "418 ",
	} {
		w := httptest.NewRecorder()
		m.ChallengeHandler(next).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if got := strings.TrimRight(strings.Join([]string{http.StatusText(w.Code), w.Body.String()}, " "), "\n"); got != strings.Replace(strings.Replace(want, "200", "OK", 1), "418", "I'm a teapot", 1) {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

// looked counts the snapshots that are read.
type looked struct {
	engine.Engine
	n atomic.Int64
}

func (l *looked) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	l.n.Add(1)
	return l.Engine.View(ctx, r, fn)
}

// TestHalfStored: files that are still being stored, under certmagic's lock, are not
// removed as torn.
func TestHalfStored(t *testing.T) {
	t.Parallel()
	eng, store := open(t, t.TempDir())
	s := storage(t, store, acme.StorageOptions{Lease: time.Hour})
	if err := s.Lock(t.Context(), "issue_cert_a.example"); err != nil {
		t.Fatal(err)
	}
	certFile, _ := site("a.example")
	if err := s.Store(t.Context(), certFile, certs.New(t, "a.example").Cert); err != nil {
		t.Fatal(err)
	}
	l := &looked{Engine: eng}
	c := newMachine(t, "127.0.0.1")
	n := run(t, keys(t, l), &pebble{directory: "https://ca.example/dir"}, c, func(o *acme.Options) {
		o.Domains, o.RenewCheck = []string{"a.example"}, time.Millisecond
	})
	eventually.True(t, "kv was read often", func() bool { return l.n.Load() > 30 })
	n.stop()
	if _, err := s.Load(t.Context(), certFile); err != nil {
		t.Errorf("half of a certificate that is being stored: %v", err)
	}
}

// TestTornCertificate: a certificate whose files do not match, as a crash between two
// writes leaves them, is ordered again.
func TestTornCertificate(t *testing.T) {
	t.Parallel()
	c := newMachine(t, "127.0.0.6")
	p := c.ca().start(t)
	_, store := open(t, t.TempDir())
	n := run(t, store, p, c)
	n.serve(t, c)
	first := certified(t, c.tls, c.ip, p)
	n.stop()
	key := certs.New(t, c.ip).Key
	page, _, err := store.List(t.Context(), engine.Read{}, acme.DefaultSpace, kv.ListOptions{Prefix: []byte("f/certificates/")})
	if err != nil {
		t.Fatal(err)
	}
	torn := 0
	for _, item := range page.Items {
		if strings.HasSuffix(string(item.Key), ".key") {
			torn++
			if _, _, err := store.Set(t.Context(), acme.DefaultSpace, item.Key, key, kv.SetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if torn != 1 {
		t.Fatalf("%d private keys", torn)
	}
	c2 := &machine{ip: c.ip, http: c.http, tls: listen(t, c.ip)}
	n = run(t, store, p, c2, func(o *acme.Options) { o.TLSPort = acme.Off })
	n.serve(t, c2)
	if second := certified(t, c2.tls, c.ip, p); second == first || p.orders() != 2 {
		t.Errorf("%s is served after %s, %d ordered", second, first, p.orders())
	}
}
