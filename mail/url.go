package mail

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// TLSMode is how the connection to a mail server is protected.
type TLSMode string

const (
	// StartTLS begins in plain text and then requires TLS. It is the default.
	StartTLS TLSMode = "starttls"
	// ImplicitTLS is TLS from the first byte, as on port 465.
	ImplicitTLS TLSMode = "tls"
	// NoTLS is for a server on the same machine or on a trusted network. A password is sent only to the same
	// machine.
	NoTLS TLSMode = "none"
)

// Defaults and limits of SMTPOptions.
const (
	// DefaultMaxQueue is the maximum number of messages that wait or are being
	// sent if SMTPOptions.MaxQueue is 0.
	DefaultMaxQueue = 1000
	// DefaultMaxQueueBytes is the maximum number of bytes of messages that wait or
	// are being sent if SMTPOptions.MaxQueueBytes is 0.
	DefaultMaxQueueBytes = 64 << 20
	// DefaultMaxSenders is how many connections send at once if
	// SMTPOptions.MaxSenders is 0.
	DefaultMaxSenders = 4
	// DefaultTimeout bounds one attempt, from dialling to the server's answer.
	DefaultTimeout = 30 * time.Second
	// DefaultRetryFirst is the wait before the second attempt; it doubles.
	DefaultRetryFirst = 2 * time.Second
	// DefaultMaxRetryWait is the longest wait between attempts.
	DefaultMaxRetryWait = 5 * time.Minute
	// DefaultGiveUp is how long a message is tried at most.
	DefaultGiveUp = time.Hour
	// DefaultDrain is how long Run keeps sending after it was asked to stop.
	DefaultDrain = 5 * time.Second
)

// SMTPOptions configures the mail server. Host and From are required; every other field has a default for its
// zero value.
type SMTPOptions struct {
	Host     string
	Port     int // 0: 587, and 465 with ImplicitTLS
	User     string
	Password string
	From     string      // of messages without a sender
	TLS      TLSMode     // "": StartTLS
	Config   *tls.Config // nil: the system's roots, Host as the name, TLS 1.2 and up
	Hello    string      // the name for HELO/EHLO; "": From's domain

	MaxQueue      int
	MaxQueueBytes int64
	MaxSenders    int
	Timeout       time.Duration
	RetryFirst    time.Duration
	MaxRetryWait  time.Duration
	GiveUp        time.Duration
	Drain         time.Duration

	Logger *slog.Logger // nil: slog.Default()
}

// String returns the URL of the server, without the password.
func (o SMTPOptions) String() string {
	scheme := "smtp"
	if o.TLS == ImplicitTLS {
		scheme = "smtps"
	}
	u := url.URL{Scheme: scheme, Host: net.JoinHostPort(o.Host, strconv.Itoa(o.port()))}
	if o.User != "" {
		u.User = url.User(o.User)
	}
	return u.String()
}

// GoString is String: %#v must not print the password either.
func (o SMTPOptions) GoString() string { return o.String() }

// LogValue is String, for slog.
func (o SMTPOptions) LogValue() slog.Value { return slog.StringValue(o.String()) }

func (o SMTPOptions) port() int {
	switch {
	case o.Port != 0:
		return o.Port
	case o.TLS == ImplicitTLS:
		return 465
	}
	return 587
}

// ParseURL parses smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS&tls=starttls|tls|none, or smtps:// for TLS from
// the first byte. Other parameters: hello. Mistakes are CodeInvalid. Errors never contain the URL, because it
// has a password.
func ParseURL(s string) (SMTPOptions, error) {
	u, err := url.Parse(s)
	if err != nil {
		// url.Error quotes its input.
		return SMTPOptions{}, badURL("it cannot be read; in user and password write %%40 for @, %%3A for :, %%2F for / and %%25 for %%")
	}
	o := SMTPOptions{Host: u.Hostname()}
	switch u.Scheme {
	case "smtp":
		o.TLS = StartTLS
	case "smtps":
		o.TLS = ImplicitTLS
	default:
		return SMTPOptions{}, badURL("it must begin with smtp:// or smtps://")
	}
	switch {
	case u.Opaque != "" || o.Host == "":
		return SMTPOptions{}, badURL("it names no host: write %s://HOST", u.Scheme)
	case strings.Trim(u.Path, "/") != "":
		return SMTPOptions{}, badURL("it has a path after the host; in a password write %%2F for /")
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return SMTPOptions{}, badURL("it has a #; in a password write %%23 for #")
	}
	if p := u.Port(); p != "" {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 {
			return SMTPOptions{}, badURL("the port must be a number from 1 to 65535")
		}
		o.Port = n
	}
	if u.User != nil {
		o.User = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if err := o.query(u); err != nil {
		return SMTPOptions{}, err
	}
	if err := o.check(); err != nil {
		return SMTPOptions{}, err
	}
	return o, nil
}

// query reads the parameters of the URL.
func (o *SMTPOptions) query(u *url.URL) error {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return badURL("its parameters cannot be parsed")
	}
	for name, values := range q {
		if len(values) > 1 {
			return badURL("the parameter %q is given more than once", name)
		}
		switch name {
		case "from":
			o.From = values[0]
		case "hello":
			o.Hello = values[0]
		case "tls":
			o.TLS = TLSMode(values[0])
			if u.Scheme == "smtps" && o.TLS != ImplicitTLS {
				return badURL("smtps:// is TLS from the first byte: write smtp:// for tls=%s", values[0])
			}
		default:
			return badURL("there is no parameter %q; there are from, tls and hello", name)
		}
	}
	return nil
}

func badURL(format string, args ...any) error {
	err := engine.Errorf(engine.CodeInvalid, format, args...)
	err.Msg = "the mail server's URL is wrong: " + err.Msg
	return err
}

// check returns what is wrong with the options.
func (o SMTPOptions) check() error {
	bad := func(format string, args ...any) error {
		return engine.Errorf(engine.CodeInvalid, "the mail server's settings: "+format, args...)
	}
	switch {
	case o.Host == "":
		return bad("there is no host")
	case o.Port < 0 || o.Port > 65535:
		return bad("port %d is not from 1 to 65535", o.Port)
	case o.TLS != "" && o.TLS != StartTLS && o.TLS != ImplicitTLS && o.TLS != NoTLS:
		return bad("tls must be starttls, tls or none, not %q", string(o.TLS))
	case (o.User == "") != (o.Password == ""):
		return bad("user and password must be given together: one of them is empty")
	case o.User != "" && o.TLS == NoTLS && !loopback(o.Host):
		return bad("tls=none would send the password unencrypted to %s: remove tls=none or the user", o.Host)
	case o.MaxQueue < 0 || o.MaxQueueBytes < 0 || o.MaxSenders < 0:
		return bad("a limit is negative")
	case o.Timeout < 0 || o.RetryFirst < 0 || o.MaxRetryWait < 0 || o.GiveUp < 0 || o.Drain < 0:
		return bad("a time is negative")
	}
	for _, s := range []string{o.Host, o.Hello} {
		if strings.ContainsAny(s, " \t\r\n\x00") {
			return bad("%q has a space or line break in it", s)
		}
	}
	if o.From == "" {
		return bad("there is no sender address: add ?from=ADDRESS")
	}
	if _, err := parseAddress("sender", o.From); err != nil {
		return bad("%w", err)
	}
	return nil
}

// loopback reports whether a host can only be this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// filled returns o with its defaults filled in.
func (o SMTPOptions) filled() SMTPOptions {
	o.Port = o.port()
	o.TLS = cmp.Or(o.TLS, StartTLS)
	o.MaxQueue = cmp.Or(o.MaxQueue, DefaultMaxQueue)
	o.MaxQueueBytes = cmp.Or(o.MaxQueueBytes, DefaultMaxQueueBytes)
	o.MaxSenders = cmp.Or(o.MaxSenders, DefaultMaxSenders)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.RetryFirst = cmp.Or(o.RetryFirst, DefaultRetryFirst)
	o.MaxRetryWait = cmp.Or(o.MaxRetryWait, DefaultMaxRetryWait)
	o.GiveUp = cmp.Or(o.GiveUp, DefaultGiveUp)
	o.Drain = cmp.Or(o.Drain, DefaultDrain)
	if o.Hello == "" {
		if a, err := parseAddress("sender", o.From); err == nil {
			o.Hello = domain(a.Address)
		}
	}
	if o.Config == nil {
		o.Config = &tls.Config{MinVersion: tls.VersionTLS12}
	} else {
		o.Config = o.Config.Clone()
	}
	if o.Config.ServerName == "" {
		o.Config.ServerName = o.Host
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}
