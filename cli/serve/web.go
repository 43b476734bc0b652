package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	stdmail "net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/mail"
)

// maxDrain bounds --drain: no load balancer takes longer to notice that a server is not ready.
const maxDrain = 10 * time.Minute

// maxURLFile bounds the bytes of the smtp-url-file.
const maxURLFile = 4 << 10

// webOptions are the settings of a server that only a web application needs, and how such a server stops.
type webOptions struct {
	debug       bool
	source      string
	baseURL     string
	smtpFile    string
	superadmins []string
	proxies     []netip.Prefix
	drain       time.Duration

	smtp *mail.SMTPOptions // from smtpFile, after check
}

func (o *webOptions) settings() []verb.Setting {
	return []verb.Setting{
		{Name: "debug", Help: "show error causes and stack traces in pages, and keep mail in an outbox; for development", Server: true, Set: verb.Toggle(&o.debug)},
		{Name: "source", Arg: "DIR", Help: "read pages and assets from the program's source folder on every request; for development", Server: true, Set: verb.Text(&o.source)},
		{Name: "base-url", Arg: "URL", Help: "public URL of the web application, https://HOST[:PORT], for links in email (default https:// and the first of acme-domains; with debug, the HTTP address)", Server: true, Set: origin(&o.baseURL)},
		{Name: "smtp-url-file", Arg: "FILE", Help: "file with the URL of the mail server: smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS", Server: true, Set: verb.Text(&o.smtpFile)},
		{Name: "superadmins", Arg: "ADDRESSES", Help: "comma-separated email addresses of users with all permissions in the web application; they also get its error reports", Server: true, Set: mailAddresses(&o.superadmins)},
		{Name: "trusted-proxies", Arg: "NETWORKS", Help: "comma-separated networks, like 10.0.0.0/8, or addresses of proxies whose X-Forwarded-For header is trusted", Server: true, Set: networks(&o.proxies)},
		{Name: "drain", Arg: "TIME", Help: "how long /readyz fails before a stopping server refuses connections, for load balancers to notice (default 0)", Server: true, Set: verb.Duration(&o.drain, 0, maxDrain)},
	}
}

// check reads the files of the settings, and refuses settings that app would ignore.
func (o *webOptions) check(app verb.App) error {
	var wrong []error
	if app.Web == nil {
		for _, s := range []struct {
			name  string
			given bool
		}{{"base-url", o.baseURL != ""}, {"smtp-url-file", o.smtpFile != ""}, {"superadmins", o.superadmins != nil}} {
			if s.given {
				wrong = append(wrong, fmt.Errorf("%s: only for web applications, and this program has none", s.name))
			}
		}
	}
	if o.source != "" {
		if info, err := os.Stat(o.source); err != nil {
			wrong = append(wrong, fmt.Errorf("source: %w", err))
		} else if !info.IsDir() {
			wrong = append(wrong, fmt.Errorf("source: %s is not a folder", o.source))
		}
	}
	if o.smtpFile != "" {
		at, err := readMailServer(o.smtpFile)
		o.smtp = at
		wrong = append(wrong, err)
	}
	return verb.Mistakes(wrong...)
}

// readMailServer reads the smtp-url-file. Errors never contain its contents.
func readMailServer(file string) (*mail.SMTPOptions, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("smtp-url-file: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxURLFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("smtp-url-file: %w", err)
	case len(content) > maxURLFile:
		return nil, fmt.Errorf("smtp-url-file: %s is longer than %d bytes", file, maxURLFile)
	}
	line := strings.TrimSpace(string(content))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return nil, fmt.Errorf("smtp-url-file: %s must contain one line, the URL", file)
	}
	at, err := mail.ParseURL(line)
	if err != nil {
		return nil, fmt.Errorf("smtp-url-file: %s: %w", file, err)
	}
	return &at, nil
}

// of returns the server's options for app's web application.
func (o *webOptions) of(app verb.App, log *slog.Logger) (skerry.Web, error) {
	w := skerry.Web{Application: app.Web, Name: app.Name, BaseURL: o.baseURL, Debug: o.debug, Superadmins: o.superadmins, TrustedProxies: o.proxies}
	if o.source != "" {
		dir, err := filepath.Abs(o.source)
		if err != nil {
			return w, fmt.Errorf("source: %w", err)
		}
		w.Source = dir
	}
	if o.smtp != nil {
		at := *o.smtp
		at.Logger = log
		sender, err := mail.NewSMTP(at)
		if err != nil {
			return w, fmt.Errorf("smtp-url-file: %w", err)
		}
		w.Mail = sender
	}
	return w, nil
}

// origin parses the scheme, the host and the port of a web site.
func origin(p *string) func(string) error {
	return func(v string) error {
		u, err := url.Parse(v)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.TrimSuffix(v, "/") != u.Scheme+"://"+u.Host {
			return fmt.Errorf("%q is not https://HOST[:PORT]", v)
		}
		*p = strings.TrimSuffix(v, "/")
		return nil
	}
}

// mailAddresses parses addresses without names.
func mailAddresses(p *[]string) func(string) error {
	return func(v string) error {
		if err := verb.List(p)(v); err != nil {
			return err
		}
		for _, a := range *p {
			if read, err := stdmail.ParseAddress(a); err != nil || read.Address != a {
				return fmt.Errorf("%q is not an email address like anna@example.org", a)
			}
		}
		return nil
	}
}

// networks parses networks in CIDR notation; a single address is a network too.
func networks(p *[]netip.Prefix) func(string) error {
	return func(v string) error {
		var words []string
		if err := verb.List(&words)(v); err != nil {
			return err
		}
		*p = nil
		for _, w := range words {
			n, err := network(w)
			if err != nil {
				return err
			}
			*p = append(*p, n)
		}
		return nil
	}
}

func network(word string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(word); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	n, err := netip.ParsePrefix(word)
	switch {
	case err != nil:
		return n, fmt.Errorf("%q is neither a network like 10.0.0.0/8 nor an address", word)
	case n.Bits() == 0:
		return n, errors.New("a network of all addresses cannot be trusted: any client could forge its address")
	case n != n.Masked():
		return n, fmt.Errorf("%q names an address, not a network: write %v", word, n.Masked())
	}
	return n, nil
}
