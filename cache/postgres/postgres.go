// Package postgres makes tables of PostgreSQL the source of a cache: entries by SQL, and the changes of any program by
// logical replication or by LISTEN and NOTIFY.
//
// It knows the replication protocol, snapshots and LSNs. It must not know what the tables are about, or how entries are
// kept. docs/cache-postgres.md is the guide, and decision 0069 says why its feeds keep the contract of cache.Sink.
package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
)

// MaxTables is how many tables one feed can follow.
const MaxTables = 100

// Table says which entries a row belongs to.
type Table struct {
	// Name is the table, with its schema unless that is in the search path: dept, or app.dept.
	Name string

	// Columns are the columns that tell which entries a row belongs to. For Replication they must be part of the
	// table's replica identity, which is its primary key by default: only those are reported when a row is deleted.
	Columns []string

	// Keys returns the keys of the entries that a row belongs to, from its values of Columns as PostgreSQL writes them
	// as text. A value that is null is "". Nil is the value of the only column.
	Keys func(values []string) []string
}

func checkTables(tables []Table) error {
	if len(tables) == 0 || len(tables) > MaxTables {
		return engine.Errorf(engine.CodeLimit, "cache/postgres: a feed follows 1 to %d tables, not %d", MaxTables, len(tables))
	}
	seen := map[string]bool{}
	for _, t := range tables {
		if t.Name == "" || len(t.Columns) == 0 || seen[t.Name] {
			return engine.Errorf(engine.CodeInvalid, "cache/postgres: the table %q has no name or no columns, or is there twice", t.Name)
		}
		if len(t.Columns) != 1 && t.Keys == nil {
			return engine.Errorf(engine.CodeInvalid, "cache/postgres: the table %s has several columns: Table.Keys must say which key they make", t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}

// keys returns the keys of a row.
func (t *Table) keys(values []string) []string {
	if t.Keys == nil {
		return values
	}
	return t.Keys(values)
}

// quoted returns a name that may have a schema as an identifier of SQL.
func quoted(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }

// parseLSN reads an LSN as PostgreSQL writes it: 16/B374D848.
func parseLSN(s string) (cache.Position, error) {
	high, low, ok := strings.Cut(s, "/")
	h, err1 := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, engine.Errorf(engine.CodeInternal, "cache/postgres: %q is not an LSN", s)
	}
	return cache.Position(h<<32 | l), nil
}

func formatLSN(pos cache.Position) string {
	return fmt.Sprintf("%X/%X", uint64(pos)>>32, uint32(pos))
}
