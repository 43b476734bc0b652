package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/skerrydb/skerry"
)

// acmeOptions are the settings of certificates that a certificate authority gives out.
type acmeOptions struct {
	domains []string
	email   []string
	ca      string
	http    string
}

func (o *acmeOptions) settings() []setting {
	return []setting{
		{"acme-domains", "NAMES", "", "host names, with commas between them, for which HTTP gets certificates from a certificate authority; its terms of service are agreed to", true, list(&o.domains)},
		{"acme-email", "ADDRESS", "", "how that authority can reach you", true, mailAddresses(&o.email)},
		{"acme-ca", "URL", "", "its ACME directory (default that of Let's Encrypt)", true, directory(&o.ca)},
		{"acme-http", "ADDR", "", "address of plain HTTP, for that authority's questions and to send browsers on to HTTPS, or " + off + " (default " + skerry.DefaultPlainHTTP + " with --acme-domains)", true, address(&o.http)},
	}
}

// directory reads the URL of an ACME directory.
func directory(p *string) func(string) error {
	return func(v string) error {
		if u, err := url.Parse(v); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fmt.Errorf("%q is not an address like https://HOST/directory", v)
		}
		*p = v
		return nil
	}
}

// check finds what does not fit together, or to the rest of the server.
func (o *acmeOptions) check(serve *serveOptions) error {
	if o.domains == nil {
		for name, given := range map[string]bool{"acme-email": o.email != nil, "acme-ca": o.ca != "", "acme-http": o.http != ""} {
			if given {
				return fmt.Errorf("%s: needs --acme-domains", name)
			}
		}
		return nil
	}
	var wrong []error
	if len(o.email) > 1 {
		wrong = append(wrong, errors.New("acme-email: takes one address"))
	}
	if serve.tlsCert != "" || serve.tlsKey != "" {
		wrong = append(wrong, errors.New("acme-domains, tls-cert: one of them says which certificates there are, not both"))
	}
	switch serve.http {
	case skerry.DefaultHTTP:
		wrong = append(wrong, fmt.Errorf("acme-domains: HTTP at %s is for this machine alone: say where browsers come, like --http :443", serve.http))
	case off:
		wrong = append(wrong, errors.New("acme-domains: http is off"))
	}
	for _, name := range o.domains {
		if _, err := netip.ParseAddr(name); err != nil && o.ca == "" && !strings.Contains(strings.TrimSuffix(name, "."), ".") {
			wrong = append(wrong, fmt.Errorf("acme-domains: %q has no dot, so no public authority gives out a certificate for it; --acme-ca names one of your own", name))
		}
	}
	return mistakes(wrong...)
}

// of returns what the server needs to know.
func (o *acmeOptions) of() skerry.Certificates {
	c := skerry.Certificates{Domains: o.domains, CA: o.ca, HTTP: o.http}
	if o.email != nil {
		c.Email = o.email[0]
	}
	return c
}
