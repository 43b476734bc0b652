package cassandra

import (
	"context"
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

// The table of access paths. Its columns are the format: do not change them.
const createPaths = `CREATE TABLE IF NOT EXISTS %s.record_paths (partition blob, key blob, PRIMARY KEY (partition, key))
	WITH comment = 'Skerry: the access paths of records; the timestamps of its rows are made of revisions'`

const (
	insertPath = `INSERT INTO record_paths (partition, key) VALUES (?, ?)`
	deletePath = `DELETE FROM record_paths WHERE partition = ? AND key = ?`
	selectPath = `SELECT key FROM record_paths WHERE partition = ? AND key >= ? AND key < ? ORDER BY key ASC LIMIT ?`
	selectBack = `SELECT key FROM record_paths WHERE partition = ? AND key >= ? AND key < ? ORDER BY key DESC LIMIT ?`
	selectRest = `SELECT key FROM record_paths WHERE partition = ? AND key >= ? ORDER BY key ASC LIMIT ?`
	selectTail = `SELECT key FROM record_paths WHERE partition = ? AND key >= ? ORDER BY key DESC LIMIT ?`
)

const pathsAtOnce = 16 // requests of one call that run together

// paths is the table of access paths.
type paths struct{ e *db }

// Paths implements engine.PathStore.
func (e *db) Paths(ctx context.Context) (engine.Paths, error) {
	found, err := e.exists(ctx, e.keyspace, "record_paths")
	if err == nil && !found {
		err = create(ctx, e.c, e.c.GetHosts(), fmt.Sprintf(createPaths, e.keyspace))
	}
	if err == nil {
		err = e.c.AwaitSchemaAgreement(ctx) // another process may have just created it
	}
	if err != nil {
		return nil, e.fault(ctx, err)
	}
	return &paths{e}, nil
}

// Insert implements engine.Paths.
func (p *paths) Insert(ctx context.Context, list []engine.PathEntry) error {
	return p.write(ctx, insertPath, list)
}

// Remove implements engine.Paths.
func (p *paths) Remove(ctx context.Context, list []engine.PathEntry) error {
	return p.write(ctx, deletePath, list)
}

// write runs a statement for each entry. They are in different partitions, so a batch would only burden its coordinator.
func (p *paths) write(ctx context.Context, stmt string, list []engine.PathEntry) error {
	return inParallel(ctx, len(list), pathsAtOnce, func(ctx context.Context, i int) error {
		return p.e.write(ctx, p.e.c.Query(stmt, list[i].Partition, list[i].Key).WithTimestamp(list[i].Stamp))
	})
}

// Range implements engine.Paths.
func (p *paths) Range(ctx context.Context, partition, lo, hi []byte, back bool, limit int, r engine.Read) (keys [][]byte, err error) {
	at, err := p.e.plainLevel(r)
	if err != nil {
		return nil, err
	}
	if lo == nil {
		lo = []byte{}
	}
	stmt, values := selectPath, []any{partition, lo, hi, limit}
	switch {
	case hi == nil && back:
		stmt, values = selectTail, []any{partition, lo, limit}
	case hi == nil:
		stmt, values = selectRest, []any{partition, lo, limit}
	case back:
		stmt = selectBack
	}
	err = p.e.patiently(ctx, func() error {
		keys = nil
		rows := p.e.query(stmt, values...).Consistency(at).PageSize(limit).IterContext(ctx)
		var key []byte
		for rows.Scan(&key) {
			keys = append(keys, key)
			key = nil
		}
		return rows.Close()
	})
	return keys, p.e.fault(ctx, err)
}
