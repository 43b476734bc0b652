package cassandra

import (
	"context"
	"errors"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

const (
	selectAnyKeys   = `SELECT key FROM kv`
	selectAnySeries = `SELECT collection FROM series LIMIT 1`
	selectAnyDay    = `SELECT collection FROM series_days LIMIT 1`
)

// Empty implements engine.Emptier. It reads the table of keys up to the first row that is a key, since the stamps of
// partitions without keys stay for a day.
func (e *db) Empty(ctx context.Context) (bool, error) {
	rows := e.query(selectAnyKeys).Consistency(e.level.get).PageSize(samplePage).IterContext(ctx)
	found := false
	for !found {
		var key []byte
		if !rows.Scan(&key) {
			break
		}
		found = len(key) > 0 && string(key) != engine.FenceKey
	}
	if err := rows.Close(); err != nil || found {
		return false, e.fault(ctx, err)
	}
	for table, stmt := range map[string]string{"series": selectAnySeries, "series_days": selectAnyDay} {
		has, err := e.hasRows(ctx, table, stmt)
		if err != nil || has {
			return false, e.fault(ctx, err)
		}
	}
	return true, nil
}

// hasRows reports whether a table exists and a statement finds a row in it.
func (e *db) hasRows(ctx context.Context, table, stmt string) (bool, error) {
	found, err := e.exists(ctx, e.keyspace, table)
	if err != nil || !found {
		return false, err
	}
	var row string
	err = e.query(stmt).Consistency(e.level.get).ScanContext(ctx, &row)
	if errors.Is(err, gocql.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
