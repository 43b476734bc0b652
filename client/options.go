package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"
)

// Limits and defaults.
const (
	// DefaultMaxInFlight is Options.MaxInFlight if that is 0.
	DefaultMaxInFlight = 1 << 17
	// MaxInFlight is the maximum of Options.MaxInFlight.
	MaxInFlight = 1 << 24
	// DefaultMaxReplyBytes is Options.MaxReplyBytes if that is 0.
	DefaultMaxReplyBytes = 64 << 20
	// MaxRequestBytes is the maximum bytes of one command with its arguments; more is
	// ErrLimit.
	MaxRequestBytes = 64 << 20
	// MaxConns is the maximum number of connections to one node.
	MaxConns = 64
	// MaxAddrs is the maximum number of addresses, including those learned from the
	// servers.
	MaxAddrs = 64
	// MaxBrokenSends is how many connections may break after a call was sent over them and
	// before its reply arrives. Then the call is not sent again, because it may be what
	// crashes the servers.
	MaxBrokenSends = 2
	// MaxProcedures is how many names have their own statistics on one node; the others
	// share those of "…".
	MaxProcedures = 4096

	// DefaultAddr is the address used if Options.Addrs is empty.
	DefaultAddr = "127.0.0.1:6380"
	// DefaultPort is the port of an address without one.
	DefaultPort = "6380"
	// DefaultTimeout is Options.Timeout if that is 0.
	DefaultTimeout = 10 * time.Second
	// DefaultDialTimeout is Options.DialTimeout if that is 0.
	DefaultDialTimeout = 5 * time.Second
	// DefaultDeadAfter is Options.DeadAfter if that is 0.
	DefaultDeadAfter = 15 * time.Second
	// DefaultMaxBackoff is Options.MaxBackoff if that is 0.
	DefaultMaxBackoff = time.Second
)

// Full selects what a call does when MaxInFlight calls are in flight.
type Full int

const (
	// Block waits for a permit until the call times out. In a callback it acts like Fail,
	// because the permit may be released only when this callback returns.
	Block Full = iota
	// Fail returns ErrTooManyInFlight at once.
	Fail
)

// ReadFrom selects the node for calls that only read.
type ReadFrom int

const (
	// ReadLeader sends them to the node that receives writes.
	ReadLeader ReadFrom = iota
	// ReadAny sends them to all connected nodes in turn.
	ReadAny
	// ReadFollowers is ReadAny without the leader, as long as another node is connected.
	ReadFollowers
)

// Options configures a Client. The zero value connects to a server on this machine.
type Options struct {
	// Addrs are the addresses of the nodes, HOST:PORT or HOST. Nodes that they report are
	// added.
	Addrs []string

	// User and Password are for AUTH; User "" is "default". Without a Password, AUTH is not
	// sent.
	User, Password string

	// Name is shown by CLIENT LIST. It must not contain spaces.
	Name string

	// Database is selected with SELECT on every connection.
	Database int

	// TLS, if not nil, configures TLS on every connection, optionally with a client
	// certificate. If ServerName is "", it is the host that is dialled.
	TLS *tls.Config

	// Conns is the number of connections per node; 0 means 1. One is the fastest in most
	// cases. With more, calls made one after another may be reordered.
	Conns int

	// MaxInFlight bounds the calls that wait for their reply, including those that were
	// given up; see Full.
	MaxInFlight int
	Full        Full

	// Timeout bounds every call from its start to its reply, to within about 10 ms, in
	// addition to the deadline of its context. Negative means no timeout.
	Timeout time.Duration

	// DialTimeout bounds one attempt to connect, including the greeting.
	DialTimeout time.Duration

	// DeadAfter is how long a node may send nothing while calls wait for it before its
	// connection is considered dead. Negative means forever.
	DeadAfter time.Duration

	// MaxBackoff is the longest pause between two attempts to connect. Pauses start at 10
	// ms and double; each is drawn at random from its upper half.
	MaxBackoff time.Duration

	// MaxReplyBytes bounds one reply. The client cannot skip a larger reply: the call fails
	// with ErrLimit and the connection is closed.
	MaxReplyBytes int

	// ReadFrom selects the node for CallRead and Cached.
	ReadFrom ReadFrom

	// ReadLevel is the consistency level of reads on every connection: "linearizable",
	// "session" or "local". "" leaves it to the server.
	ReadLevel string

	// CacheBytes bounds the memory for Cached; 0 disables caching.
	CacheBytes int

	// Dial, if not nil, makes connections in place of a net.Dialer. TLS is added on top.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// withDefaults returns a checked copy of o with its own list of addresses.
func (o Options) withDefaults() (Options, error) {
	o.Conns = cmp.Or(o.Conns, 1)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.MaxReplyBytes = cmp.Or(o.MaxReplyBytes, DefaultMaxReplyBytes)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.DeadAfter = cmp.Or(o.DeadAfter, DefaultDeadAfter)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, DefaultMaxBackoff)
	if len(o.Addrs) == 0 {
		o.Addrs = []string{DefaultAddr}
	}
	addrs := make([]string, len(o.Addrs))
	for i, a := range o.Addrs {
		var err error
		if addrs[i], err = address(a); err != nil {
			return o, err
		}
	}
	o.Addrs = addrs
	return o, o.check()
}

// check returns an error for the first field whose value is out of range.
func (o *Options) check() error {
	for _, f := range [...]struct {
		name               string
		value, least, most int
	}{
		{"Addrs", len(o.Addrs), 1, MaxAddrs},
		{"Conns", o.Conns, 1, MaxConns},
		{"MaxInFlight", o.MaxInFlight, 1, MaxInFlight},
		{"MaxReplyBytes", o.MaxReplyBytes, 64, 1 << 30},
		{"CacheBytes", o.CacheBytes, 0, 1 << 40},
		{"Database", o.Database, 0, 1 << 20},
		{"Full", int(o.Full), int(Block), int(Fail)},
		{"ReadFrom", int(o.ReadFrom), int(ReadLeader), int(ReadFollowers)},
	} {
		if f.value < f.least || f.value > f.most {
			return errorf(CodeInvalid, "%s is %d, must be %d to %d", f.name, f.value, f.least, f.most)
		}
	}
	if o.DialTimeout < 0 || o.MaxBackoff < 0 {
		return errorf(CodeInvalid, "DialTimeout and MaxBackoff must not be negative")
	}
	if o.User != "" && o.Password == "" {
		return errorf(CodeInvalid, "the user %q has no password", o.User)
	}
	for _, c := range []byte(o.Name) {
		if c <= ' ' || c > '~' {
			return errorf(CodeInvalid, "Name %q has a character that is not printable ASCII", o.Name)
		}
	}
	switch o.ReadLevel {
	case "", "linearizable", "session", "local":
	default:
		return errorf(CodeInvalid, "ReadLevel %q is none of linearizable, session and local", o.ReadLevel)
	}
	return nil
}

// address completes and checks one address.
func address(a string) (string, error) {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		bare := strings.TrimSuffix(strings.TrimPrefix(a, "["), "]")
		if strings.Contains(a, ":") && net.ParseIP(bare) == nil {
			return "", errorf(CodeInvalid, "the address %q is not HOST:PORT", shown(a))
		}
		host, port = bare, DefaultPort
	}
	if host == "" {
		return "", errorf(CodeInvalid, "the address %q has no host", shown(a))
	}
	if n, ok := number(port); !ok || n < 1 || n > 65535 {
		return "", errorf(CodeInvalid, "the port of the address %q is not a number from 1 to 65535", shown(a))
	}
	return net.JoinHostPort(host, port), nil
}

// shown returns an address for an error message. If only digits follow its colons, it is
// returned whole; otherwise it is cut at the first colon, because user:password may stand
// in place of an address.
func shown(a string) string {
	host, rest, ok := strings.Cut(a, ":")
	if !ok || strings.Trim(rest, "0123456789:") == "" || strings.HasPrefix(a, "[") {
		return a
	}
	return host + ":…"
}

// number parses a decimal number of at most nine digits.
func number(s string) (n int, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, s != "" && len(s) <= 9
}
