package serve

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/verb"
)

// acmeOptions are the settings of certificates from a certificate authority.
type acmeOptions struct {
	domains []string
	email   []string
	ca      string
	http    string
}

func (o *acmeOptions) settings() []verb.Setting {
	return []verb.Setting{
		{Name: "acme-domains", Arg: "NAMES", Help: "comma-separated host names for which to get certificates by ACME; you agree to the authority's terms of service", Server: true, Set: verb.List(&o.domains)},
		{Name: "acme-email", Arg: "ADDRESS", Help: "contact address for the certificate authority", Server: true, Set: mailAddresses(&o.email)},
		{Name: "acme-ca", Arg: "URL", Help: "URL of the ACME directory (default Let's Encrypt)", Server: true, Set: directory(&o.ca)},
		{Name: "acme-http", Arg: "ADDR", Help: "address of plain HTTP, for ACME challenges and redirects to HTTPS, or " + verb.Off + " (default " + skerry.DefaultPlainHTTP + " with --acme-domains)", Server: true, Set: verb.Address(&o.http)},
	}
}

// directory parses the URL of an ACME directory.
func directory(p *string) func(string) error {
	return func(v string) error {
		if u, err := url.Parse(v); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fmt.Errorf("%q is not a URL like https://HOST/directory", v)
		}
		*p = v
		return nil
	}
}

// check returns an error if settings contradict each other or the rest of the server.
func (o *acmeOptions) check(serve *Options) error {
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
		wrong = append(wrong, errors.New("acme-domains, tls-cert: set only one of them"))
	}
	switch serve.http {
	case skerry.DefaultHTTP:
		wrong = append(wrong, fmt.Errorf("acme-domains: HTTP at %s is reachable only from this machine: set a public address, like --http :443", serve.http))
	case verb.Off:
		wrong = append(wrong, errors.New("acme-domains: http is off"))
	}
	for _, name := range o.domains {
		if _, err := netip.ParseAddr(name); err != nil && o.ca == "" && !strings.Contains(strings.TrimSuffix(name, "."), ".") {
			wrong = append(wrong, fmt.Errorf("acme-domains: %q has no dot, so no public authority issues a certificate for it; --acme-ca sets your own", name))
		}
	}
	return verb.Mistakes(wrong...)
}

// of returns the options for the server.
func (o *acmeOptions) of() skerry.Certificates {
	c := skerry.Certificates{Domains: o.domains, CA: o.ca, HTTP: o.http}
	if o.email != nil {
		c.Email = o.email[0]
	}
	return c
}
