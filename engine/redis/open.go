// Package redis is an engine on a Redis server, or on the slots of a Redis Cluster.
//
// It knows the contract, Redis's commands and scripts; it must not know any capability. On
// one primary it makes all promises of the contract but durability, which depends on how the
// server is configured; in a cluster only those about one partition. See DESIGN.md.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
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
		Dialer: net.Dialer{Timeout: patience, KeepAlive: time.Second},
	}
	if useTLS {
		t.client.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS != nil {
			t.client.TLSConfig = o.TLS.Clone()
		}
	}
	return t, nil
}

// connect opens a client and checks the server that it reaches.
func connect(ctx context.Context, t target) (rueidis.Client, server, error) {
	o := t.client
	o.ForceSingleClient, o.InitAddress = true, o.InitAddress[:1]
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, server{}, fault(err)
	}
	s, err := inspect(ctx, c)
	if err == nil {
		err = s.check(t.cluster)
	}
	if err != nil {
		c.Close()
		return nil, server{}, err
	}
	return c, s, nil
}

// server is what one says about itself.
type server struct {
	version  string
	cluster  bool
	role     string
	evicts   string // its policy, if it may evict keys
	volatile string // why its commits are not durable; "": they are
}

func inspect(ctx context.Context, c rueidis.Client) (s server, err error) {
	info, err := c.Do(ctx, c.B().Info().Section("everything").Build()).ToString()
	if err != nil {
		return s, fault(err)
	}
	facts := map[string]string{}
	for line := range strings.Lines(info) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[k] = v
		}
	}
	s.version, s.cluster, s.role = facts["redis_version"], facts["cluster_enabled"] == "1", facts["role"]
	if p := facts["maxmemory_policy"]; p != "" && p != "noeviction" {
		s.evicts = p
	}
	conf, err := c.Do(ctx, c.B().ConfigGet().Parameter("append*").Build()).AsStrMap()
	switch {
	case err != nil && isServers(err):
		s.volatile = "its configuration cannot be read (" + fault(err).Error() + ")"
	case err != nil:
		return s, fault(err)
	case conf["appendonly"] != "yes":
		s.volatile = "appendonly is " + strconv.Quote(conf["appendonly"]) + ", not \"yes\""
	case conf["appendfsync"] != "always":
		s.volatile = "appendfsync is " + strconv.Quote(conf["appendfsync"]) + ", not \"always\""
	}
	return s, nil
}

// check refuses servers that cannot hold data, or are of the other kind.
func (s server) check(cluster bool) error {
	unfit := func(format string, args ...any) error {
		return engine.Errorf(engine.CodeUnsupported, "redis: "+format, args...)
	}
	major, _, _ := strings.Cut(s.version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err != nil || n < minServerVersion:
		return unfit("the server is version %q, and this engine needs 7.0 or later", s.version)
	case s.cluster && !cluster:
		return unfit("the server is a node of a cluster: use the scheme redis+cluster")
	case !s.cluster && cluster:
		return unfit("the server is not a node of a cluster: use the scheme redis")
	case s.evicts != "":
		return s.evicting()
	case s.role != "master" && !cluster:
		return engine.Errorf(engine.CodeUnavailable, "redis: the server is a replica and takes no writes: name its primary")
	}
	return nil
}

// evicting returns an error if the server may evict data.
func (s server) evicting() error {
	if s.evicts == "" {
		return nil
	}
	return engine.Errorf(engine.CodeUnsupported, "redis: the server may evict data, because its maxmemory-policy is %q: set it to noeviction", s.evicts)
}

// isServers reports whether the server answered err, so that the connection works.
func isServers(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// refusals maps the first word of Redis's errors.
var refusals = map[string]refusal{
	"NOAUTH":     {engine.CodeUnauthenticated, "the server asks for a password: give user:password in the URL", false},
	"WRONGPASS":  {engine.CodeUnauthenticated, "the server refuses the user or the password of the URL", false},
	"NOPERM":     {engine.CodeUnsupported, noRight, false},
	"OOM":        {engine.CodeMemoryFull, "the server has reached its maxmemory", false},
	"MISCONF":    {engine.CodeDiskFull, "the server refuses writes, because its last snapshot or append failed: its disk is full, or it may not write to its folder", false},
	"READONLY":   {engine.CodeUnavailable, "the server is no longer the primary: it was demoted", false},
	"LOADING":    {engine.CodeUnavailable, "the server is loading its data", true},
	"BUSY":       {engine.CodeUnavailable, "the server is busy with a script", true},
	"MASTERDOWN": {engine.CodeUnavailable, "the server has lost its primary", true},
	"WRONGTYPE":  {engine.CodeCorrupt, "a key below the prefix is not one of Skerry's: another program uses the same prefix", false},

	"CLUSTERDOWN":   {engine.CodeUnavailable, "the cluster does not serve the slot", true},
	"TRYAGAIN":      {engine.CodeUnavailable, "the slot is being moved", true},
	"SKERRYCORRUPT": {engine.CodeCorrupt, "the data in Redis is damaged", false},
}

// refusal is what an error of the server means.
type refusal struct {
	code engine.Code
	text string
	wait bool // it may soon be over
}

const noRight = "the user lacks a right. An administrator can run: ACL SETUSER name +@all -@dangerous +info +config|get ~prefix* &prefix*"

// refused returns what an error of the server means.
func refused(err *rueidis.RedisError) refusal {
	text := strings.TrimPrefix(err.Error(), "-")
	word, _, _ := strings.Cut(text, " ")
	r, ok := refusals[word]
	switch {
	case ok:
		return r
	case strings.Contains(text, "Script killed by user"):
		return refusal{engine.CodeUnavailable, "a script was killed", true}
	case strings.Contains(text, "max number of clients"):
		return refusal{engine.CodeUnavailable, "the server has as many clients as its maxclients allows", true}
	case strings.Contains(text, "ACL failure"), strings.Contains(text, "no permissions"):
		return refusal{engine.CodeUnsupported, noRight, false}
	}
	return refusal{engine.CodeInternal, "the server refused a command", false}
}

// fault returns an error of the client as one of the engine.
func fault(err error) error {
	if err == nil {
		return nil
	}
	// A dial that takes too long matches DeadlineExceeded, but is not the caller's.
	if _, ok := errors.AsType[*net.OpError](err); !ok && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	if _, ok := errors.AsType[*engine.Error](err); ok {
		return err
	}
	re, ok := rueidis.IsRedisErr(err)
	if !ok {
		return engine.Errorf(engine.CodeUnavailable, "redis: cannot reach the server: %w", err)
	}
	r := refused(re)
	return engine.Errorf(r.code, "redis: %s: %w", r.text, err)
}

// passing reports whether a refusal by the server may soon be over.
func passing(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && refused(re).wait
}
