package skerry

import (
	"cmp"
	"crypto/x509"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/acme"
)

// DefaultPlainHTTP is where the CA asks for proof, and browsers are sent on to HTTPS,
// if Certificates has names and says nothing else.
const DefaultPlainHTTP = ":80"

// Certificates say which names HTTP has certificates for that a certificate authority
// gives out by ACME; see package web/acme. The zero value: there are none.
type Certificates struct {
	Domains []string       // host names or IP addresses; empty: HTTP is as Options.TLS says
	Email   string         // the CA's way to reach the operator; "": none
	CA      string         // URL of the ACME directory; "": Let's Encrypt
	Roots   *x509.CertPool // that the CA's own certificate is checked with; nil: the system's

	// HTTP is the address, HOST:PORT, of plain HTTP, which is for the CA's questions
	// and sends everybody else on to HTTPS. "" is DefaultPlainHTTP; Off leaves it out.
	HTTP string

	// HTTPListener, if set, is used instead. The Server closes it, also when Open fails.
	HTTPListener net.Listener
}

// openCertificates opens what orders certificates, and what answers the CA.
func (s *Server) openCertificates() (none capability, err error) {
	c := &s.o.Certificates
	switch {
	case len(c.Domains) == 0 && c.HTTPListener == nil:
		return none, nil
	case s.o.TLS != nil:
		return none, engine.Errorf(engine.CodeInvalid, "skerry: Certificates and TLS both say which certificates HTTP has")
	case s.http == nil:
		return none, engine.Errorf(engine.CodeInvalid, "skerry: Certificates need HTTP, which is off")
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

// portOf is the port that a listener has; acme.Off if there is none.
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

// toHTTPS sends browsers on to HTTPS at the same name, if that has a certificate.
func toHTTPS(domains []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
		if !slices.ContainsFunc(domains, func(d string) bool { return strings.EqualFold(d, host) }) {
			http.Error(w, "there is nothing of that name here", http.StatusMisdirectedRequest)
			return
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		http.Redirect(w, r, "https://"+host+r.URL.RequestURI(), http.StatusPermanentRedirect)
	})
}
