package cassandra

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// minMajor is the oldest version of Cassandra: it has virtual tables.
const minMajor = 4

// config returns the configuration of the driver.
func config(t target, o Options, policy gocql.HostSelectionPolicy, keyspace string) *gocql.ClusterConfig {
	cfg := gocql.NewCluster(t.hosts...)
	cfg.Port, cfg.Keyspace = t.port, keyspace
	cfg.Consistency, cfg.SerialConsistency = t.level.commit, t.level.serial
	cfg.Timeout, cfg.ConnectTimeout, cfg.WriteTimeout = requestTimeout, requestTimeout, requestTimeout
	if !t.bulk {
		cfg.WriteCoalesceWaitTime = 0 // it would add up to 200 µs to each request
	}
	cfg.DefaultTimestamp = false // transactions have the time of their ballot
	cfg.ReconnectInterval = time.Second
	cfg.MaxWaitSchemaAgreement = schemaTimeout
	if keyspace == "" {
		cfg.Timeout = schemaTimeout // the session changes the schema
	}
	cfg.Metadata.CacheMode = gocql.KeyspaceOnly
	cfg.PoolConfig.HostSelectionPolicy = policy
	cfg.SslOpts = t.tls
	cfg.Logger = driverLog{o.Logger}
	if o.dialer != nil {
		cfg.Dialer = o.dialer
	}
	if t.user != "" || t.password != "" {
		cfg.Authenticator = gocql.PasswordAuthenticator{Username: t.user, Password: t.password}
	}
	if o.watch != nil {
		cfg.QueryObserver, cfg.BatchObserver = o.watch, o.watch
	}
	return cfg
}

// connect opens a session. The driver takes no ctx for that, so a session that comes too late is closed.
func connect(ctx context.Context, t target, o Options, policy gocql.HostSelectionPolicy, keyspace string) (*gocql.Session, error) {
	cfg := config(t, o, policy, keyspace)
	type opened struct {
		c   *gocql.Session
		err error
	}
	out := make(chan opened, 1)
	go func() {
		c, err := cfg.CreateSession()
		out <- opened{c, err}
	}()
	select {
	case got := <-out:
		return got.c, fault(ctx, got.err)
	case <-ctx.Done():
		go func() {
			if got := <-out; got.err == nil {
				got.c.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// locate completes the target's datacenter and rack, and checks them and the versions of the nodes.
func locate(ctx context.Context, t *target, hosts []*gocql.HostInfo) error {
	racks := map[string]map[string]bool{} // by datacenter
	for _, h := range hosts {
		if v := h.Version(); v.Major < minMajor {
			return engine.Errorf(engine.CodeUnsupported, "cassandra: the node %s is version %s, and this engine needs %d.0 or later", h.ConnectAddress(), v, minMajor)
		}
		if racks[h.DataCenter()] == nil {
			racks[h.DataCenter()] = map[string]bool{}
		}
		racks[h.DataCenter()][h.Rack()] = true
	}
	if t.dc == "" {
		t.dc = nearest(ctx, t.hosts, hosts).DataCenter()
	}
	switch {
	case racks[t.dc] == nil:
		return invalid("there is no datacenter %q (dc= in the URL); there are: %s", t.dc, list(racks))
	case t.rack != "" && !racks[t.dc][t.rack]:
		return invalid("the datacenter %s has no rack %q (rack= in the URL); it has: %s", t.dc, t.rack, list(racks[t.dc]))
	}
	return nil
}

func list[V any](set map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), ", ")
}

// nearest returns the first of the URL's hosts that is a node.
func nearest(ctx context.Context, names []string, hosts []*gocql.HostInfo) *gocql.HostInfo {
	for _, name := range names {
		host, _, _ := net.SplitHostPort(name)
		addrs, _ := net.DefaultResolver.LookupIPAddr(ctx, host) // none: the next one
		for _, a := range addrs {
			for _, h := range hosts {
				if h.ConnectAddress().Equal(a.IP) {
					return h
				}
			}
		}
	}
	return hosts[0]
}

// policy returns how nodes are chosen: replicas first, those of the own rack and datacenter before others.
func policy(t target) gocql.HostSelectionPolicy {
	near := gocql.DCAwareRoundRobinPolicy(t.dc)
	if t.rack != "" {
		near = gocql.RackAwareRoundRobinPolicy(t.dc, t.rack)
	}
	return gocql.TokenAwareHostPolicy(near, gocql.NonLocalReplicasFallback())
}

// driverLog hands the driver's messages over, which are for those who look for a fault.
type driverLog struct{ l *slog.Logger }

func (d driverLog) Error(msg string, fields ...gocql.LogField)   { d.log(msg, fields) }
func (d driverLog) Warning(msg string, fields ...gocql.LogField) { d.log(msg, fields) }
func (d driverLog) Info(msg string, fields ...gocql.LogField)    { d.log(msg, fields) }
func (d driverLog) Debug(msg string, fields ...gocql.LogField)   { d.log(msg, fields) }

func (d driverLog) log(msg string, fields []gocql.LogField) {
	if !d.l.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	args := make([]any, 0, len(fields))
	for _, f := range fields {
		args = append(args, slog.String(f.Name, f.Value.String()))
	}
	d.l.Debug("cassandra: driver: "+msg, args...)
}
