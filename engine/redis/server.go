package redis

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/engine"
)

// connect opens a client and checks the server that it reaches.
func connect(ctx context.Context, t target) (rueidis.Client, server, error) {
	o := t.client
	o.ForceSingleClient, o.InitAddress = true, o.InitAddress[:1]
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, server{}, hinted(o, err, fault(ctx, err))
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

// hinted adds to the fault of a server that was reached and does not answer what the reason may be.
func hinted(o rueidis.ClientOption, err, fault error) error {
	if isServers(err) || unsent(err) || engine.CodeOf(fault) != engine.CodeUnavailable {
		return fault
	}
	hint := "if its port is for TLS, use the scheme rediss"
	if o.TLSConfig != nil {
		hint = "if its port is not for TLS, use the scheme redis"
	}
	return engine.Errorf(engine.CodeUnavailable, "redis: %s does not answer as expected (%s): %w", o.InitAddress[0], hint, fault)
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
		return s, fault(ctx, err)
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
	case err != nil && isServers(err) && !passing(err):
		s.volatile = "its configuration cannot be read (" + fault(ctx, err).Error() + ")"
	case err != nil:
		return s, fault(ctx, err)
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

// unfit returns why the server must take no writes, or nil. durable says that commits were promised to be.
func (s server) unfit(durable bool) error {
	if err := s.evicting(); err != nil {
		return err
	}
	if durable && s.volatile != "" {
		return engine.Errorf(engine.CodeUnavailable, "redis: commits are no longer durable, but that was promised when the engine was opened: %s", s.volatile)
	}
	return nil
}
