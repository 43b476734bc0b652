package client

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/suggest"
)

// ParseURL parses options from a URL such as
//
//	skerry://user:password@host1:6380,host2/0?tls=true&timeout=5s
//
// A host without a port gets DefaultPort; the path is the database. The parameters are tls
// (true, false, or skip-verify, which does not verify the server's certificate), ca, cert
// and key (PEM files, which imply tls=true), server_name, name, conns, max_in_flight, full
// (block or fail), timeout, dial_timeout, dead_after, max_backoff (durations with a unit,
// for example 500ms; off for none), max_reply_bytes, read_from (leader, any or followers),
// read_level and cache_bytes. The schemes are skerry and redis, and skerrys and rediss for
// TLS. Every error is ErrInvalid and names what is wrong.
func ParseURL(text string) (Options, error) {
	p := urlParser{}
	o, err := p.parse(text)
	if err != nil {
		return Options{}, err
	}
	if _, err := o.withDefaults(); err != nil {
		return Options{}, err
	}
	return o, nil
}

type urlParser struct {
	o              Options
	ca, cert, key  string
	serverName     string
	tls, tlsIsSaid bool
	skip           bool
}

func (p *urlParser) parse(text string) (Options, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return p.o, errorf(CodeInvalid, "the URL does not begin with skerry://")
	}
	switch scheme {
	case "skerry", "redis":
	case "skerrys", "rediss":
		p.tls = true
	default:
		return p.o, errorf(CodeInvalid, "the scheme %q is none of skerry, skerrys, redis and rediss", scheme)
	}
	if strings.Contains(rest, "#") {
		return p.o, errorf(CodeInvalid, "the URL has a #; write %%23 if it is part of the password")
	}
	if i := strings.IndexAny(rest, "/?"); i >= 0 && strings.Contains(rest[i:], "@") { // otherwise errors would show a part of the password
		return p.o, errorf(CodeInvalid, "the URL has an @ after its first / or ?; those are %%2F and %%3F in a password, and @ is %%40 in a parameter")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, database, slash := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		if err := p.userInfo(hosts[:i]); err != nil {
			return p.o, err
		}
		hosts = hosts[i+1:]
	}
	for _, h := range strings.Split(hosts, ",") {
		if h == "" {
			return p.o, errorf(CodeInvalid, "the URL has an empty host")
		}
		a, err := address(h)
		if err != nil {
			return p.o, err
		}
		p.o.Addrs = append(p.o.Addrs, a)
	}
	if slash && database != "" {
		if p.o.Database, ok = number(database); !ok {
			return p.o, errorf(CodeInvalid, "the path %q is not the number of a database", "/"+database)
		}
	}
	if err := p.parameters(query); err != nil {
		return p.o, err
	}
	return p.o, p.secure()
}

func (p *urlParser) userInfo(s string) error {
	user, password, ok := strings.Cut(s, ":")
	if !ok {
		return errorf(CodeInvalid, "the URL has a user without a password; write user:password@, or :password@")
	}
	var err error
	if p.o.User, err = url.PathUnescape(user); err != nil {
		return errorf(CodeInvalid, "the user of the URL has a %% without two hexadecimal digits")
	}
	if p.o.Password, err = url.PathUnescape(password); err != nil {
		return errorf(CodeInvalid, "the password of the URL has a %% without two hexadecimal digits")
	}
	if p.o.Password == "" {
		return errorf(CodeInvalid, "the password of the URL is empty")
	}
	return nil
}

func (p *urlParser) parameters(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errorf(CodeInvalid, "the parameters of the URL cannot be read: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return errorf(CodeInvalid, "the parameter %s is given twice", name)
		}
		if err := p.parameter(name, values[name][0]); err != nil {
			return err
		}
	}
	return nil
}

func (p *urlParser) parameter(name, value string) error {
	o := &p.o
	switch name {
	case "conns":
		return count(name, value, &o.Conns)
	case "max_in_flight":
		return count(name, value, &o.MaxInFlight)
	case "max_reply_bytes":
		return count(name, value, &o.MaxReplyBytes)
	case "cache_bytes":
		return count(name, value, &o.CacheBytes)
	case "timeout":
		return span(name, value, &o.Timeout)
	case "dial_timeout":
		return span(name, value, &o.DialTimeout)
	case "dead_after":
		return span(name, value, &o.DeadAfter)
	case "max_backoff":
		return span(name, value, &o.MaxBackoff)
	case "full":
		return oneOf(name, value, &o.Full, "block", "fail")
	case "read_from":
		return oneOf(name, value, &o.ReadFrom, "leader", "any", "followers")
	case "tls":
		return p.tlsParameter(value)
	}
	into := map[string]*string{"name": &o.Name, "read_level": &o.ReadLevel, "server_name": &p.serverName,
		"ca": &p.ca, "cert": &p.cert, "key": &p.key}[name]
	if into == nil {
		return unknownParameter(name)
	}
	if value == "" {
		return errorf(CodeInvalid, "the parameter %s is empty", name)
	}
	*into = value
	return nil
}

func (p *urlParser) tlsParameter(value string) error {
	switch value {
	case "true", "skip-verify":
		p.skip = value == "skip-verify"
	case "false":
		if p.tls {
			return errorf(CodeInvalid, "tls=false contradicts the scheme, which requires TLS")
		}
		p.tlsIsSaid = true
		return nil
	default:
		return errorf(CodeInvalid, "tls=%s is none of true, false and skip-verify", value)
	}
	p.tls, p.tlsIsSaid = true, true
	return nil
}

// parameters are the names that ParseURL accepts, for the error about a mistyped one.
var parameters = [...]string{"ca", "cache_bytes", "cert", "conns", "dead_after", "dial_timeout", "full", "key", "max_backoff", "max_in_flight",
	"max_reply_bytes", "name", "read_from", "read_level", "server_name", "timeout", "tls"}

// unknownParameter returns an error that names the likely intended parameter, or else all
// of them.
func unknownParameter(name string) error {
	if like := suggest.Nearest(name, parameters[:]); like != "" {
		return errorf(CodeInvalid, "there is no parameter %.40q; did you mean %s?", name, like)
	}
	return errorf(CodeInvalid, "there is no parameter %.40q; there are %s", name, strings.Join(parameters[:], ", "))
}

// secure builds the TLS configuration.
func (p *urlParser) secure() error {
	files := p.ca != "" || p.cert != "" || p.key != "" || p.serverName != ""
	if files && p.tlsIsSaid && !p.tls {
		return errorf(CodeInvalid, "ca, cert, key and server_name require TLS, but tls=false disables it")
	}
	if !files && !p.tls {
		return nil
	}
	if (p.cert == "") != (p.key == "") {
		return errorf(CodeInvalid, "cert and key must be given together")
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.serverName, InsecureSkipVerify: p.skip}
	if p.ca != "" {
		pem, err := os.ReadFile(p.ca)
		if err != nil {
			return errorf(CodeInvalid, "ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return errorf(CodeInvalid, "ca: %s has no certificate", p.ca)
		}
	}
	if p.cert != "" {
		pair, err := tls.LoadX509KeyPair(p.cert, p.key)
		if err != nil {
			return errorf(CodeInvalid, "cert and key: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	p.o.TLS = conf
	return nil
}

// count parses a number that is not 0.
func count(name, value string, into *int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return errorf(CodeInvalid, "%s=%s is not a positive number", name, value)
	}
	*into = n
	return nil
}

// span parses a duration. off is stored as -1, which means none.
func span(name, value string, into *time.Duration) error {
	if value == "off" && (name == "timeout" || name == "dead_after") {
		*into = -1
		return nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return errorf(CodeInvalid, "%s=%s is not a duration with a unit, such as 500ms", name, value)
	}
	*into = d
	return nil
}

func oneOf[T ~int](name, value string, into *T, names ...string) error {
	i := slices.Index(names, value)
	if i < 0 {
		return errorf(CodeInvalid, "%s=%s is none of %s", name, value, strings.Join(names, ", "))
	}
	*into = T(i)
	return nil
}
