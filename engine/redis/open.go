// Package redis is an engine on a Redis server, or on the slots of a Redis Cluster.
//
// It knows the contract, Redis's commands and scripts; it must not know any capability. On
// one primary it makes all promises of the contract but durability, which depends on how the
// server is configured; in a cluster only those about one partition. See DESIGN.md.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/engine"
)

// The schemes of URLs. Those that end in s use TLS.
const (
	Scheme           = "redis"
	SchemeTLS        = "rediss"
	SchemeCluster    = "redis+cluster"
	SchemeClusterTLS = "rediss+cluster"
)

// Limits. Do not raise them without thinking of the scripts, during which the server does
// nothing else.
const (
	MaxKeyBytes      = 2600        // of one key
	MaxValBytes      = 16<<20 + 64 // of one value
	MaxTxBytes       = 32 << 20    // of keys and values that one transaction writes
	MaxTxWrites      = 64 << 10    // Put and Delete in one transaction
	maxReplaced      = 256 << 20   // bytes of values that one script replaces or deletes
	maxBatchCalls    = 256         // calls that are begun together
	maxBatchBytes    = 4 << 20     // written by one script, unless one transaction is larger
	maxBatchWrites   = 16 << 10    // likewise
	defaultHistory   = 64 << 20    // Options.HistoryBytes
	marks            = 16          // into which the history is divided
	queueLength      = 4096        // calls that wait
	formatVersion    = "1"         // of the keys in Redis; do not change
	defaultPrefix    = "skerry:"
	defaultPort      = "6379"
	patience         = 5 * time.Second // for a server that cannot be reached or is loading
	silence          = 5 * time.Second // of a server that was asked: then the connection is given up
	maxConflicts     = 100             // tries of one batch, or of one transaction in a cluster
	minServerVersion = 7
)

// Options configures Open. The zero value works.
type Options struct {
	// HistoryBytes bounds the changes that are kept for Changes, with what they replaced. All
	// processes on the same data should give the same. 0: 64 MiB.
	HistoryBytes int64

	// TLS is used with the schemes for TLS. nil: the system's roots and the host's name.
	TLS *tls.Config

	Now    func() time.Time // the clock; nil: time.Now
	Logger *slog.Logger     // nil: slog.Default()

	// 0: the constants; tests have less.
	patience, silence time.Duration
	replaced          int
}

// target is what a URL names.
type target struct {
	addrs   []string
	cluster bool
	prefix  string
	client  rueidis.ClientOption
}

// Open opens the data at u, and creates it if there is none:
//
//	redis://user:password@host:6379/0?prefix=skerry:
//	redis+cluster://user:password@host:7001,host:7002?prefix=skerry:
//
// The first names one primary, the second nodes of a Redis Cluster. rediss and
// rediss+cluster use TLS. All keys begin with the prefix. No error shows the password.
func Open(ctx context.Context, u *url.URL, o Options) (engine.Engine, error) {
	o.patience, o.silence = cmp.Or(o.patience, patience), cmp.Or(o.silence, silence)
	o.replaced = cmp.Or(o.replaced, maxReplaced)
	t, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	if o.HistoryBytes == 0 {
		o.HistoryBytes = defaultHistory
	}
	if o.HistoryBytes < marks {
		return nil, engine.Errorf(engine.CodeInvalid, "redis: the history has %d bytes, want at least %d", o.HistoryBytes, marks)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if t.cluster {
		return openSlots(ctx, t, o)
	}
	return openPrimary(ctx, t, o)
}

func parse(u *url.URL, o Options) (t target, err error) {
	bad := func(format string, args ...any) (target, error) {
		return target{}, engine.Errorf(engine.CodeInvalid, "redis: "+format, args...)
	}
	useTLS := false
	switch u.Scheme {
	case Scheme:
	case SchemeTLS:
		useTLS = true
	case SchemeCluster:
		t.cluster = true
	case SchemeClusterTLS:
		t.cluster, useTLS = true, true
	default:
		return bad("the scheme %q is none of redis, rediss, redis+cluster and rediss+cluster", u.Scheme)
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), defaultPort
		}
		if name == "" {
			return bad("the URL names no host")
		}
		t.addrs = append(t.addrs, net.JoinHostPort(name, port))
	}
	if len(t.addrs) > 1 && !t.cluster {
		return bad("the URL names %d hosts, and only redis+cluster takes more than one", len(t.addrs))
	}
	db := 0
	if path := strings.Trim(u.Path, "/"); path != "" {
		if db, err = strconv.Atoi(path); err != nil || db < 0 {
			return bad("the path %q is not the number of a database", path)
		}
		if t.cluster && db != 0 {
			return bad("a cluster has only database 0")
		}
	}
	t.prefix = defaultPrefix
	for name, vals := range u.Query() {
		if name != "prefix" || len(vals) != 1 {
			return bad("the parameter %q is unknown or repeated; there is only prefix", name)
		}
		t.prefix = vals[0]
	}
	if strings.ContainsAny(t.prefix, "{}") || len(t.prefix) > 64 {
		return bad("the prefix must have no braces and at most 64 bytes")
	}
	password, _ := u.User.Password()
	t.client = rueidis.ClientOption{
		InitAddress: t.addrs, Username: u.User.Username(), Password: password, SelectDB: db, ClientName: "skerry",
		ForceSingleClient: !t.cluster, DisableRetry: true, DisableCache: true,
		Dialer: net.Dialer{Timeout: o.silence, KeepAlive: time.Second}, ConnWriteTimeout: o.silence,
	}
	if useTLS {
		t.client.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS != nil {
			t.client.TLSConfig = o.TLS.Clone()
		}
	}
	return t, nil
}
