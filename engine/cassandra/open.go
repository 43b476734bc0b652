// Package cassandra is an engine on Apache Cassandra.
//
// It knows the contract, CQL and lightweight transactions; it must not know any capability. It is
// atomic over one partition, and promises nothing beyond. See DESIGN.md.
package cassandra

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// Scheme is the scheme of URLs.
const Scheme = "cassandra"

// Limits. A transaction is one mutation of Cassandra, which by default has at most half of a
// segment of the commit log: 16 MiB.
const (
	MaxKeyBytes = 2600    // of one key
	MaxValBytes = 4 << 20 // of one value
	MaxTxBytes  = 8 << 20 // of keys and values that one transaction writes
	MaxTxKeys   = 8 << 10 // that one transaction reads or writes

	formatVersion  = "1" // of the tables; do not change
	defaultPort    = 9042
	readKeys       = 16                     // of one SELECT, so that its result is one page
	readAtOnce     = 16                     // SELECTs of one view that run together
	patience       = 10 * time.Second       // for servers that do not answer or refuse work
	requestTimeout = 5 * time.Second        // of one request
	schemaTimeout  = 30 * time.Second       // of a change of the schema, and until all nodes have it
	speculateAfter = 250 * time.Millisecond // then a read is also sent to another node
	maxConflicts   = 100                    // tries of one transaction
	maxReplicas    = 3                      // of a new keyspace in each datacenter
)

// Options configures Open. The zero value works.
type Options struct {
	// TLS is used if the URL asks for TLS; what the URL names is added. nil: the system's
	// roots and the host's name.
	TLS *tls.Config

	Now    func() time.Time // the clock; nil: time.Now
	Logger *slog.Logger     // nil: slog.Default()

	// For tests.
	patience time.Duration                 // 0: the constant
	dialer   gocql.Dialer                  // nil: the driver's
	watch    watcher                       // sees all requests; nil: nobody
	through  func(send func() error) error // sends a batch; nil: that is all
}

// watcher sees requests.
type watcher interface {
	gocql.QueryObserver
	gocql.BatchObserver
}

// target is what a URL names.
type target struct {
	hosts          []string // HOST:PORT
	port           int      // of the first host
	keyspace       string
	dc, rack       string // "": that of the node which answers first
	level          level
	user, password string
	tls            *gocql.SslOptions
	bulk           bool // a request may wait for others that go out in the same packet
}

// level is a consistency of commits, and those of reads that belong to it.
type level struct {
	name                string
	commit, serial, get gocql.Consistency
	local               bool // only one datacenter takes part in transactions
	quorum              bool // commits are on a majority of the replicas when they are acknowledged
	more                bool // than a serial read can confirm
}

// levels has the values of the URL's parameter consistency.
func levels() []level {
	return []level{
		{name: "quorum", commit: gocql.Quorum, serial: gocql.Serial, get: gocql.Quorum, quorum: true},
		{name: "local_quorum", commit: gocql.LocalQuorum, serial: gocql.LocalSerial, get: gocql.LocalQuorum, local: true, quorum: true},
		{name: "each_quorum", commit: gocql.EachQuorum, serial: gocql.Serial, get: gocql.LocalQuorum, quorum: true, more: true},
		{name: "all", commit: gocql.All, serial: gocql.Serial, get: gocql.LocalOne, quorum: true, more: true},
		{name: "one", commit: gocql.One, serial: gocql.Serial, get: gocql.Serial},
	}
}

// Open opens the data at u, and creates the keyspace and its tables if there are none:
//
//	cassandra://user:password@host1,host2:9042/keyspace?dc=dc1&rack=r1&consistency=quorum
//
// The datacenter is the one whose nodes are asked first, consistency that of commits. The
// parameters tls=true, ca, cert and key, which name files, are for TLS. No error shows the
// password.
func Open(ctx context.Context, u *url.URL, o Options) (engine.Engine, error) {
	t, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	o.patience = cmp.Or(o.patience, patience)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return open(ctx, t, o)
}

var keyspaceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

func invalid(format string, args ...any) error {
	return engine.Errorf(engine.CodeInvalid, "cassandra: "+format, args...)
}

func parse(u *url.URL, o Options) (t target, err error) {
	if u.Scheme != Scheme {
		return t, invalid("the scheme is %q, want %s", u.Scheme, Scheme)
	}
	if t.hosts, t.port, err = parseHosts(u.Host); err != nil {
		return t, err
	}
	if t.keyspace = strings.Trim(u.Path, "/"); !keyspaceName.MatchString(t.keyspace) {
		return t, invalid("the keyspace %q in the URL's path must match %s", t.keyspace, keyspaceName)
	}
	t.user = u.User.Username()
	t.password, _ = u.User.Password()
	t.level = levels()[0]
	secure := false
	var files gocql.SslOptions
	for name, vals := range u.Query() {
		val := vals[0]
		switch {
		case len(vals) > 1:
			return t, invalid("the parameter %q is repeated", name)
		case name == "dc":
			t.dc = val
		case name == "rack":
			t.rack = val
		case name == "consistency":
			if t.level, err = parseLevel(val); err != nil {
				return t, err
			}
		case name == "tls":
			if secure, err = strconv.ParseBool(val); err != nil {
				return t, invalid("tls=%s in the URL must be true or false", val)
			}
		case name == "ca":
			files.CaPath = val
		case name == "cert":
			files.CertPath = val
		case name == "key":
			files.KeyPath = val
		default:
			return t, invalid("the parameter %q is unknown; there are ca, cert, consistency, dc, key, rack and tls", name)
		}
	}
	switch {
	case !secure && files != (gocql.SslOptions{}):
		return t, invalid("the URL names files for TLS without tls=true")
	case secure:
		files.Config, files.EnableHostVerification = &tls.Config{MinVersion: tls.VersionTLS12}, true
		if o.TLS != nil {
			files.Config = o.TLS.Clone()
		}
		t.tls = &files
	}
	return t, nil
}

// parseHosts parses a list of hosts. The port may be at each of them or only at the last.
func parseHosts(list string) (hosts []string, port int, err error) {
	names := strings.Split(list, ",")
	last := strconv.Itoa(defaultPort)
	if _, p, err := net.SplitHostPort(names[len(names)-1]); err == nil {
		last = p
	}
	for i, host := range names {
		name, p, err := net.SplitHostPort(host)
		if err != nil {
			name, p = strings.Trim(host, "[]"), last
		}
		n, err := strconv.ParseUint(p, 10, 16)
		if name == "" || err != nil {
			return nil, 0, invalid("the URL's host %q is not HOST or HOST:PORT", host)
		}
		if i == 0 {
			port = int(n)
		}
		hosts = append(hosts, net.JoinHostPort(name, p))
	}
	return hosts, port, nil
}

func parseLevel(name string) (level, error) {
	var names []string
	for _, l := range levels() {
		if l.name == name {
			return l, nil
		}
		names = append(names, l.name)
	}
	return level{}, invalid("consistency=%s in the URL must be one of %s", name, strings.Join(names, ", "))
}
