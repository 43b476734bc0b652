// Package acme gets certificates from a certificate authority (CA) by the ACME protocol and renews them. It
// stores everything in kv: all nodes of a cluster serve the same certificates, one of them orders them.
//
// It knows certmagic, its files and locks as plain keys, and which certificate belongs to a connection; it
// must not know routes, listeners, sessions or which engine runs. The private keys of the account and the
// certificates are stored in kv unencrypted: anyone who can read the data folder, a backup or the key space
// can read them.
package acme

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Limits and defaults of Options.
const (
	// MaxDomains is the maximum number of names that one Manager has certificates
	// for; more is CodeLimit.
	MaxDomains = 100
	// DefaultRefresh is how long a node may serve a certificate after another
	// one has been stored.
	DefaultRefresh = 10 * time.Second
	// DefaultRenewCheck is how often it is looked whether a certificate has to
	// be renewed.
	DefaultRenewCheck = 10 * time.Minute
	// Off in place of a port: that challenge is not used.
	Off = -1
)

// challengeProtocol is the only protocol that the CA's TLS-ALPN-01 connections offer (RFC 8737).
const challengeProtocol = "acme-tls/1"

// leadsEvery is how often Run checks whether this node leads.
const leadsEvery = time.Second

// Options configures the certificates. Domains is required; every other field has a default for its zero
// value.
type Options struct {
	Domains []string       // host names or IP addresses, one certificate each; no wildcards
	Email   string         // where the CA can reach the operator; "": none
	CA      string         // URL of the ACME directory; "": Let's Encrypt
	Roots   *x509.CertPool // check the CA's own HTTPS certificate; nil: the system's
	Space   uint8          // 0: DefaultSpace

	// Leads reports whether this node leads its cluster: only the leader orders certificates. nil: always. It
	// is called about once a second. See LeadsOn.
	Leads func() bool

	// The CA sends challenges to port 80 (HTTP-01) and port 443 (TLS-ALPN-01). These are the ports of this
	// machine where they arrive; 0: the same, Off: never. The program should listen there before Run begins;
	// otherwise a listener is opened for the duration of each challenge.
	Host     string // the address of such a listener; "": all
	HTTPPort int
	TLSPort  int

	Refresh    time.Duration
	RenewCheck time.Duration
	Lease      time.Duration // see StorageOptions
	Logger     *slog.Logger  // nil: slog.Default()
}

// Manager manages the certificates for a fixed list of names. It is safe for concurrent use.
type Manager struct {
	o       Options
	store   *kv.Store
	storage *Storage
	zap     *zap.Logger
	config  *certmagic.Config     // answers challenges, on every node; manages nothing
	issuer  *certmagic.ACMEIssuer // of config
	sites   map[string]*site      // by name; fixed
	running atomic.Bool
}

// site is one name and the certificate that is served for it.
type site struct {
	name string

	mu     sync.Mutex // guards what follows; one reader of kv at a time
	cert   *tls.Certificate
	rev    [2]kv.Revision // of the files of cert
	looked time.Time      // when kv was last read
	reason error          // why there is no newer one
}

// New checks the options. It contacts nobody before Run. Mistakes are CodeInvalid, too many names CodeLimit.
func New(store *kv.Store, o Options) (*Manager, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Space = cmp.Or(o.Space, DefaultSpace)
	o.Refresh = cmp.Or(o.Refresh, DefaultRefresh)
	o.RenewCheck = cmp.Or(o.RenewCheck, DefaultRenewCheck)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.CA = cmp.Or(o.CA, certmagic.LetsEncryptProductionCA)
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	storage, err := NewStorage(store, StorageOptions{Space: o.Space, Lease: o.Lease, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	m := &Manager{o: o, store: store, storage: storage, zap: zapLogger(o.Logger), sites: map[string]*site{}}
	for _, name := range o.Domains {
		name = normal(name)
		m.sites[name] = &site{name: name}
	}
	cache, config := m.magic()
	cache.Stop() // it manages nothing, so it has nothing to maintain
	m.config, m.issuer = config, config.Issuers[0].(*certmagic.ACMEIssuer)
	return m, nil
}

// LeadsOn returns a function for Options.Leads that reports whether the node of an engine leads. An engine
// that runs alone always does.
func LeadsOn(eng engine.Engine) func() bool {
	if c, ok := eng.(engine.Clustered); ok {
		if cluster := c.Cluster(); cluster != nil {
			return func() bool {
				state := cluster.State()
				return state.Leader == state.Self
			}
		}
	}
	return func() bool { return true }
}

// check returns what is wrong with the options.
func (o *Options) check() error {
	bad := func(format string, args ...any) error {
		return engine.Errorf(engine.CodeInvalid, "certificates: "+format, args...)
	}
	switch {
	case len(o.Domains) == 0:
		return bad("no domain is given")
	case len(o.Domains) > MaxDomains:
		return engine.Errorf(engine.CodeLimit, "certificates: %d domains are over the limit of %d", len(o.Domains), MaxDomains)
	case o.HTTPPort == Off && o.TLSPort == Off:
		return bad("both challenges are off, so the CA cannot verify that the domains are yours")
	case o.Refresh < 0 || o.RenewCheck < 0:
		return bad("a time is negative")
	}
	for _, port := range []int{o.HTTPPort, o.TLSPort} {
		if port < Off || port > 65535 {
			return bad("port %d is not from 1 to 65535", port)
		}
	}
	for _, name := range o.Domains {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if o.CA != "" {
		u, err := url.Parse(o.CA)
		if err != nil || u.Host == "" || u.Scheme != "https" || u.User != nil {
			return bad("the CA must be the URL of an ACME directory, https://HOST/PATH")
		}
	}
	if strings.ContainsAny(o.Email, " \t\r\n,") || o.Email != "" && !strings.Contains(o.Email, "@") {
		return bad("%q is not an email address", o.Email)
	}
	return nil
}

// checkName refuses names that cannot have a certificate.
func checkName(name string) error {
	bad := func(why string) error {
		return engine.Errorf(engine.CodeInvalid, "certificates: %q %s", name, why)
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	n := normal(name)
	switch {
	case n == "" || len(n) > 253:
		return bad("is not a host name")
	case strings.Contains(n, "*"):
		return bad("is a wildcard: wildcards need a DNS challenge, which is not supported; name each host")
	case strings.ContainsAny(n, ":/"):
		return bad("is not a bare host name: leave out https://, the port and the path")
	}
	for _, label := range strings.Split(n, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return bad("is not a host name")
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return bad("is not a host name: write names in other scripts in their xn-- form")
			}
		}
	}
	return nil
}

// normal returns the form of a name in sites and in kv.
func normal(name string) string {
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// magic returns a new cache and configuration of certmagic for m's names. The caller must stop the cache.
func (m *Manager) magic() (*certmagic.Cache, *certmagic.Config) {
	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil },
		RenewCheckInterval: m.o.RenewCheck,
		Logger:             m.zap,
	})
	config = certmagic.New(cache, certmagic.Config{
		Storage: m.storage, Logger: m.zap, OnEvent: m.event,
		OCSP: certmagic.OCSPConfig{DisableStapling: true}, // certificates are served from m's own cache
		// Without an issuer certmagic would make one for Let's Encrypt.
		Issuers: []certmagic.Issuer{&certmagic.ACMEIssuer{}},
	})
	config.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(config, certmagic.ACMEIssuer{
		CA: m.o.CA, Email: m.o.Email, Agreed: true, TrustedRoots: m.o.Roots, Logger: m.zap,
		ListenHost:              m.o.Host,
		DisableHTTPChallenge:    m.o.HTTPPort == Off,
		DisableTLSALPNChallenge: m.o.TLSPort == Off,
		AltHTTPPort:             max(m.o.HTTPPort, 0),
		AltTLSALPNPort:          max(m.o.TLSPort, 0),
	})}
	return cache, config
}

// event logs successes that operators want to see. certmagic logs failures itself, with the time of the next
// try.
func (m *Manager) event(_ context.Context, name string, data map[string]any) error {
	if name == "cert_obtained" {
		m.o.Logger.Info("certificate obtained", "domain", data["identifier"], "renewal", data["renewal"], "ca", m.o.CA)
	}
	return nil
}

// TLSConfig returns a configuration that serves the certificates, and proves to the CA that the names belong
// to this server. It offers HTTP/2 and HTTP/1.1. A client that asks for another name gets no connection.
func (m *Manager) TLSConfig() *tls.Config {
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: m.certificate,
	}
	if m.o.TLSPort != Off {
		c.NextProtos = append(c.NextProtos, challengeProtocol)
	}
	return c
}

// ChallengeHandler answers the CA's challenges, on any node, and passes all other requests to next. It belongs
// on the listener at port 80.
func (m *Manager) ChallengeHandler(next http.Handler) http.Handler {
	return m.issuer.HTTPChallengeHandler(next)
}

// certificate returns the certificate for a ClientHello.
func (m *Manager) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == challengeProtocol {
		return m.config.GetCertificate(hello)
	}
	name := normal(hello.ServerName)
	if name == "" && hello.Conn != nil { // clients send no IP address as a name
		if at, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok {
			name = at.AddrPort().Addr().Unmap().String()
		}
	}
	s := m.sites[name]
	if s == nil {
		return nil, engine.Errorf(engine.CodeNotFound, "no certificate is configured for %q", name)
	}
	return m.serve(hello.Context(), s, time.Now())
}

// Run orders and renews the certificates while this node leads, until ctx ends. It returns nil; failures are
// logged and retried after increasing pauses, the first one of a minute. It can be called once.
func (m *Manager) Run(ctx context.Context) error {
	if m.running.Swap(true) {
		return engine.Errorf(engine.CodeInvalid, "the manager is already running")
	}
	tick := time.NewTicker(leadsEvery)
	defer tick.Stop()
	end := func() {}
	leading := false
	defer func() { end() }()
	for {
		if leads := m.o.Leads(); leads != leading {
			end()
			end = func() {}
			if leading = leads; leads {
				end = m.lead(ctx)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// lead manages the certificates until the function that it returns is called.
func (m *Manager) lead(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	cache, config := m.magic()
	var looking sync.WaitGroup
	looking.Go(func() { m.look(ctx, cache, config) })
	return func() {
		cancel()
		looking.Wait()
		m.storage.settle()
		// It may be contacting the CA, with its own context.
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			cache.Stop()
		}()
		select {
		case <-stopped:
		case <-time.After(unlockWithin):
		}
	}
}

// look hands names to certmagic, which orders their certificates with retries and renews those in its cache.
// certmagic gives up a name when it cannot read a file, so look hands over a name only once kv works, and
// again if certmagic dropped it.
func (m *Manager) look(ctx context.Context, cache *certmagic.Cache, config *certmagic.Config) {
	begun, failing := map[string]bool{}, false
	for ctx.Err() == nil {
		wait, failed := m.o.RenewCheck, false
		for name := range m.sites {
			if len(cache.AllMatchingCertificates(name)) > 0 {
				continue
			}
			found, removed, err := m.mend(ctx, name)
			if err == nil && (found == whole || found == missing && (removed || !begun[name])) {
				begun[name] = true
				err = config.ManageAsync(ctx, []string{name})
			}
			if err != nil || found == torn { // another node is storing it: complete soon
				wait = min(wait, leadsEvery)
			}
			if err != nil {
				failed = true
				if !failing && ctx.Err() == nil {
					m.o.Logger.Warn("certificate cannot be managed yet", "domain", name, "error", err)
				}
			}
		}
		failing = failed
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}
