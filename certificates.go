package skerry

import (
	"cmp"
	"crypto/x509"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/acme"
)

// DefaultPlainHTTP is Certificates.HTTP if that is empty and there are domains.
const DefaultPlainHTTP = ":80"

// Certificates names the domains whose certificates the server orders from a certificate authority (CA) by
// ACME; see package web/acme. The zero value orders none.
type Certificates struct {
	Domains []string       // host names or IP addresses; empty: HTTP uses Options.TLS
	Email   string         // where the CA can reach the operator; "": none
	CA      string         // URL of the ACME directory; "": Let's Encrypt
	Roots   *x509.CertPool // check the CA's own certificate; nil: the system's

	// HTTP is the address, HOST:PORT, of plain HTTP. It serves the challenges of the CA and redirects all other
	// requests to HTTPS. "" is DefaultPlainHTTP; Off turns it off.
	HTTP string

	// HTTPListener, if set, is used instead. The Server closes it, even when Open fails.
	HTTPListener net.Listener
}

// openCertificates opens the manager of certificates and the listener for challenges of the CA.
func (s *Server) openCertificates() (none capability, err error) {
	c := &s.o.Certificates
	switch {
	case len(c.Domains) == 0 && c.HTTPListener == nil:
		return none, nil
	case s.o.TLS != nil:
		return none, engine.Errorf(engine.CodeInvalid, "skerry: Certificates and TLS cannot both be set")
	case s.http == nil:
		return none, engine.Errorf(engine.CodeInvalid, "skerry: Certificates require HTTP, which is off")
	}
	if err := s.eng.Promises().Meets("ordering certificates", kv.Needs()); err != nil {
		return none, err
	}
	if s.plain, err = listen(FacePlainHTTP, s.plain, cmp.Or(c.HTTP, DefaultPlainHTTP)); err != nil {
		return none, err
	}
	m, err := acme.New(s.services.KV, acme.Options{
		Domains: c.Domains, Email: c.Email, CA: c.CA, Roots: c.Roots, Leads: acme.LeadsOn(s.eng),
		HTTPPort: portOf(s.plain), TLSPort: portOf(s.http), Logger: s.o.Logger,
	})
	if err != nil {
		return none, err
	}
	s.ordered = m.TLSConfig()
	s.addFace("plain HTTP", s.plain, m.ChallengeHandler(toHTTPS(c.Domains)))
	return capability{name: "certificates", run: m.Run}, nil
}

// portOf returns the port of a listener, acme.Off if there is none.
func portOf(l net.Listener) int {
	if l == nil {
		return acme.Off
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return acme.Off
	}
	return at.Port
}

// toHTTPS redirects to HTTPS at the same name, if that has a certificate.
func toHTTPS(domains []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
		if !slices.ContainsFunc(domains, func(d string) bool { return strings.EqualFold(d, host) }) {
			http.Error(w, "this server does not serve that host name", http.StatusMisdirectedRequest)
			return
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		http.Redirect(w, r, "https://"+host+r.URL.RequestURI(), http.StatusPermanentRedirect)
	})
}
