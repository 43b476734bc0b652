package cli

import (
	"cmp"
	"context"
	"net/url"

	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/postgres/tables"
	"github.com/skerrydb/skerry/engine/redis"
	"github.com/skerrydb/skerry/record/keys"
)

// engines has every engine, by the scheme of its URL.
func engines() verb.Engines {
	return verb.Engines{
		verb.Embedded: openEmbedded,
		"postgres":    openPostgres, "postgresql": openPostgres,
		cassandra.Scheme: openCassandra,
		redis.Scheme:     openRedis, redis.SchemeTLS: openRedis, redis.SchemeCluster: openRedis, redis.SchemeClusterTLS: openRedis,
	}
}

// openPostgres opens the PostgreSQL database that u names. Its parameter records says where new collections are stored:
// in tables, which is the default, or in keys as on other engines. Collections that exist stay where they are.
func openPostgres(ctx context.Context, u *url.URL, o verb.EngineOptions) (engine.Engine, error) {
	where, bare := postgres.Cut(u, "records")
	where = cmp.Or(where, "tables")
	if where != "keys" && where != "tables" {
		return nil, engine.Errorf(engine.CodeInvalid, "postgres: records=%s in the URL must be keys or tables", where)
	}
	schema, _ := postgres.Cut(u, "schema")
	own := tables.New(cmp.Or(schema, postgres.DefaultSchema))
	opt := postgres.Options{Logger: o.Logger, Attached: keys.Native{Driver: own, Create: where == "tables"}}
	if where == "tables" {
		opt.Setup = own.Setup()
	}
	db, err := postgres.Open(ctx, bare, opt)
	if err != nil {
		return nil, err // not db, a nil pointer that would make a non-nil interface
	}
	return db, nil
}

// openEmbedded opens the data folder that u names. Without o.Cluster it refuses a node of
// a cluster, which would begin to take part.
func openEmbedded(_ context.Context, u *url.URL, o verb.EngineOptions) (engine.Engine, error) {
	dir, err := verb.Folder(u)
	if err != nil {
		return nil, verb.Mistakes(err)
	}
	opt := embedded.Options{MemoryBytes: serve.MemoryLimit(o.MemoryBytes), SpillBytes: o.SpillBytes, Logger: o.Logger}
	if o.Cluster != nil {
		opt.Cluster = *o.Cluster
	} else if _, err := embedded.OpenAdmin(dir, ""); err == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "%s is a node of a cluster: only `skerry serve` can open it", dir)
	}
	db, err := embedded.Open(dir, opt)
	if err != nil {
		return nil, err // not db, a nil pointer that would make a non-nil interface
	}
	return db, nil
}

// openRedis opens the data in Redis that u names.
func openRedis(ctx context.Context, u *url.URL, o verb.EngineOptions) (engine.Engine, error) {
	return redis.Open(ctx, u, redis.Options{Logger: o.Logger})
}

// openCassandra opens the keyspace in Cassandra that u names.
func openCassandra(ctx context.Context, u *url.URL, o verb.EngineOptions) (engine.Engine, error) {
	return cassandra.Open(ctx, u, cassandra.Options{Logger: o.Logger})
}
