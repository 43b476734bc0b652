package cassandra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// The tables. Their columns are the format: do not change them.
const (
	createKV = `CREATE TABLE IF NOT EXISTS %s.kv (partition blob, key blob, val blob, stamp blob, PRIMARY KEY (partition, key))
		WITH comment = 'Skerry: the keys of a partition; the row with the empty key has its stamp'`
	createMeta = `CREATE TABLE IF NOT EXISTS %s.meta (name text PRIMARY KEY, val text) WITH comment = 'Skerry: format and settings'`
)

// lookAgain is how often the durability of nodes is looked at.
const lookAgain = 5 * time.Second

func open(ctx context.Context, t target, o Options) (engine.Engine, error) {
	scout, err := connect(ctx, t, o, gocql.RoundRobinHostPolicy(), "")
	if err != nil {
		return nil, err
	}
	durableWrites, err := prepare(ctx, &t, o, scout)
	scout.Close()
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, t, o, policy(t), t.keyspace)
	if err != nil {
		return nil, err
	}
	e := &db{o: o, target: t, level: t.level, keyspace: t.keyspace, c: c, turns: turns{all: map[string]*turn{}}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	volatile, err := e.begin(ctx, t)
	if err != nil {
		_ = e.Close() // it returns nil
		return nil, err
	}
	switch {
	case !t.level.quorum:
		volatile = "consistency " + t.level.name + " is no quorum"
	case !durableWrites:
		volatile = "the keyspace has durable_writes = false"
	}
	if volatile != "" {
		o.Logger.Warn("cassandra: commits are not durable", "reason", volatile)
	}
	e.promises = engine.Promises{
		Atomic: engine.OnePartition, Serializable: true, Durable: volatile == "",
		MaxKeyBytes: MaxKeyBytes, MaxValBytes: MaxValBytes, MaxTxBytes: MaxTxBytes,
	}
	if e.promises.Durable {
		e.bg.Go(e.keep)
	}
	return e, nil
}

// prepare creates the keyspace and the tables if they do not exist.
func prepare(ctx context.Context, t *target, o Options, c *gocql.Session) (durableWrites bool, err error) {
	hosts := c.GetHosts()
	if err := locate(ctx, t, hosts); err != nil {
		return false, err
	}
	replication, durableWrites, err := keyspace(ctx, c, t.keyspace)
	if errors.Is(err, gocql.ErrNotFound) {
		if err := create(ctx, c, hosts, newKeyspace(t.keyspace, hosts)); err != nil {
			return false, fault(ctx, err)
		}
		replication, durableWrites, err = keyspace(ctx, c, t.keyspace)
	}
	if err != nil {
		return false, fault(ctx, err)
	}
	if !strings.HasSuffix(replication["class"], "NetworkTopologyStrategy") {
		return false, engine.Errorf(engine.CodeUnsupported, "cassandra: the keyspace %s has replication %s, want NetworkTopologyStrategy", t.keyspace, replication["class"])
	}
	if t.level.local && replication[t.dc] == "" {
		delete(replication, "class")
		return false, invalid("the keyspace %s has no replicas in the datacenter %s, which consistency %s needs; it has some in: %s", t.keyspace, t.dc, t.level.name, list(replication))
	}
	for name, stmt := range map[string]string{"kv": createKV, "meta": createMeta} {
		var found string
		err := c.Query(selectTable, t.keyspace, name).Consistency(gocql.LocalOne).Idempotent(true).ScanContext(ctx, &found)
		if errors.Is(err, gocql.ErrNotFound) {
			err = create(ctx, c, hosts, fmt.Sprintf(stmt, t.keyspace))
		}
		if err != nil {
			return false, fault(ctx, err)
		}
	}
	return durableWrites, fault(ctx, c.AwaitSchemaAgreement(ctx))
}

func keyspace(ctx context.Context, c *gocql.Session, name string) (replication map[string]string, durableWrites bool, err error) {
	err = c.Query(selectKeyspace, name).Consistency(gocql.LocalOne).Idempotent(true).ScanContext(ctx, &replication, &durableWrites)
	return replication, durableWrites, err
}

// newKeyspace returns the statement that creates a keyspace with replicas in every datacenter.
func newKeyspace(name string, hosts []*gocql.HostInfo) string {
	nodes := map[string]int{}
	for _, h := range hosts {
		nodes[h.DataCenter()]++
	}
	var b strings.Builder
	for _, dc := range strings.Split(list(nodes), ", ") {
		fmt.Fprintf(&b, ", '%s': %d", strings.ReplaceAll(dc, "'", "''"), min(nodes[dc], maxReplicas))
	}
	return fmt.Sprintf("CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy'%s}", name, b.String())
}

// create changes the schema. All processes do that by the same node, as long as they see the same nodes, because two nodes
// would create the same table twice. It waits until all nodes agree.
func create(ctx context.Context, c *gocql.Session, hosts []*gocql.HostInfo, stmt string) error {
	up := slices.DeleteFunc(slices.Clone(hosts), func(h *gocql.HostInfo) bool { return !h.IsUp() })
	if len(up) == 0 {
		return gocql.ErrNoConnections
	}
	first := slices.MinFunc(up, func(a, b *gocql.HostInfo) int { return cmp.Compare(a.HostID(), b.HostID()) })
	if err := c.Query(stmt).SetHostID(first.HostID()).ExecContext(ctx); err != nil {
		return err
	}
	return c.AwaitSchemaAgreement(ctx)
}

// begin checks the format, and returns why commits are not durable, "" if they are.
func (e *db) begin(ctx context.Context, t target) (volatile string, err error) {
	format, err := e.setting(ctx, "format", formatVersion)
	switch {
	case err != nil:
		return "", e.fault(ctx, err)
	case format != formatVersion:
		return "", engine.Errorf(engine.CodeFormatNewer, "cassandra: the data in the keyspace %s has format %s, and this program knows format %s", t.keyspace, format, formatVersion)
	}
	// Transactions of one datacenter and those of all do not exclude each other.
	mine := "of all datacenters"
	if t.level.local {
		mine = "of datacenter " + t.dc
	}
	theirs, err := e.setting(ctx, "transactions", mine)
	switch {
	case err != nil:
		return "", e.fault(ctx, err)
	case theirs != mine:
		return "", invalid("the keyspace %s was created for transactions %s, and this URL asks for those %s: only local_quorum in dc= is for one datacenter", t.keyspace, theirs, mine)
	}
	if e.scylla, err = e.exists(ctx, "system", "scylla_local"); err != nil {
		return "", e.fault(ctx, err)
	}
	return e.survey(ctx), nil
}

// exists reports whether there is a table.
func (e *db) exists(ctx context.Context, keyspace, table string) (bool, error) {
	var found string
	err := e.query(selectTable, keyspace, table).Consistency(gocql.LocalOne).ScanContext(ctx, &found)
	if errors.Is(err, gocql.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// setting returns the value in table meta, which is val if there was none.
func (e *db) setting(ctx context.Context, name, val string) (string, error) {
	got := ""
	err := e.patiently(ctx, func() error {
		err := e.query(selectMeta, name).Consistency(e.level.serial).ScanContext(ctx, &got)
		if !errors.Is(err, gocql.ErrNotFound) {
			return err
		}
		// To do it twice is harmless, since the value is the same.
		var was string
		applied, err := e.c.Query(insertMeta, name, val).SerialConsistency(e.level.serial).ScanCASContext(ctx, nil, &was)
		if got = was; applied {
			got = val
		}
		return err
	})
	return got, err
}

// survey asks every node that can be reached how it keeps commits. It returns why they are not durable on one, or "". A node
// that cannot be reached is asked by keep when it is back.
func (e *db) survey(ctx context.Context) (volatile string) {
	ctx, cancel := context.WithTimeout(ctx, e.o.patience)
	defer cancel()
	for _, h := range e.c.GetHosts() {
		if !h.IsUp() {
			continue
		}
		var sync string
		err := e.c.Query(selectSetting, "commitlog_sync").Consistency(gocql.One).SetHostID(h.HostID()).ScanContext(ctx, &sync)
		_, refused := errors.AsType[gocql.RequestError](err)
		switch {
		case refused && !passing(err), errors.Is(err, gocql.ErrNotFound):
			volatile = fmt.Sprintf("the node %s does not tell its commitlog_sync: %v", h.ConnectAddress(), err)
		case err != nil:
			e.o.Logger.Debug("cassandra: a node cannot be asked", "node", h.ConnectAddress().String(), "error", err)
		case sync != "batch" && sync != "group":
			volatile = fmt.Sprintf("the node %s has commitlog_sync %s, not batch or group", h.ConnectAddress(), sync)
		}
	}
	return volatile
}

// keep finds out that a node no longer keeps what was promised, because it was restarted or is new.
func (e *db) keep() {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		var unfit error
		if why := e.survey(e.ctx); why != "" {
			unfit = engine.Errorf(engine.CodeUnavailable, "cassandra: commits are no longer durable, but that was promised when the engine was opened: %s", why)
		}
		e.mu.Lock()
		e.unfit = unfit
		e.mu.Unlock()
	}
}
