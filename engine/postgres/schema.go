package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
)

// formatVersion is the newest version of the tables. migrations[i] takes them from version i
// to i+1. Do not change those that were released.
const formatVersion = 1

// SCHEMA. and OURS stand for the quoted schema.
var migrations = [formatVersion]string{`
CREATE TABLE SCHEMA.format (one bool PRIMARY KEY DEFAULT true CHECK (one), version int NOT NULL);
INSERT INTO SCHEMA.format (version) VALUES (0);
CREATE TABLE SCHEMA.kv (k bytea PRIMARY KEY, v bytea NOT NULL) WITH (fillfactor = 85);
CREATE TABLE SCHEMA.pos (
	one bool PRIMARY KEY DEFAULT true CHECK (one),
	pos bigint NOT NULL,      -- of the last commit; its upper 16 bits are the epoch
	at bigint NOT NULL,       -- its time, in microseconds since 1970
	bytes bigint NOT NULL,    -- of all changes ever
	server bigint NOT NULL,   -- identifier of the cluster of databases that committed it
	timeline bigint NOT NULL  -- and its timeline
) WITH (fillfactor = 20);
INSERT INTO SCHEMA.pos (pos, at, bytes, server, timeline) VALUES (0, 0, 0, 0, 0);
CREATE TABLE SCHEMA.epoch (
	first bigint PRIMARY KEY, -- the position with which the epoch begins
	fork bigint NOT NULL,     -- the last position before it that was kept
	at bigint NOT NULL
);
CREATE TABLE SCHEMA.change (
	pos bigint PRIMARY KEY,
	at bigint NOT NULL,
	bytes bigint NOT NULL,    -- of all changes up to this one
	batch bytea NOT NULL,     -- identifies the batch
	writes bytea NOT NULL
);
COMMENT ON SCHEMA OURS IS 'Data of a Skerry server. Reading is harmless; do not write to the tables.';
`}

// columns are those that the engine uses, by table.
var columns = map[string][]string{
	"format": {"version integer"},
	"kv":     {"k bytea", "v bytea"},
	"pos":    {"pos bigint", "at bigint", "bytes bigint", "server bigint", "timeline bigint"},
	"epoch":  {"first bigint", "fork bigint", "at bigint"},
	"change": {"pos bigint", "at bigint", "bytes bigint", "batch bytea", "writes bytea"},
}

// rewrite puts the schema into SQL.
func (d *DB) rewrite(sql string) string {
	return strings.NewReplacer("SCHEMA.", d.ident+".", "OURS", d.ident).Replace(sql)
}

// migrate creates the schema and its tables, or brings them to the newest version. Several
// processes may do so at the same time.
func (d *DB) migrate(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return d.fault(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after Commit it does nothing
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "skerry "+d.schema); err != nil {
		return d.fault(err)
	}
	version, err := d.version(ctx, tx)
	if err != nil {
		return err
	}
	for ; version < formatVersion; version++ {
		_, err := tx.Exec(ctx, d.rewrite(migrations[version])+fmt.Sprintf("UPDATE %s.format SET version = %d", d.ident, version+1), pgx.QueryExecModeSimpleProtocol)
		if sqlState(err) == stateNoRight {
			return engine.Errorf(engine.CodeInvalid, "postgres: role %s may not create tables in schema %s. An owner can run: GRANT USAGE, CREATE ON SCHEMA %s TO %s",
				d.server.user, d.schema, d.ident, quoteIdent(d.server.user))
		}
		if err != nil {
			return d.fault(err)
		}
	}
	for _, sql := range d.o.Setup {
		_, err := tx.Exec(ctx, sql)
		if sqlState(err) == stateNoRight {
			return engine.Errorf(engine.CodeInvalid, "postgres: role %s may not run %q in database %s. Its owner can run: GRANT CREATE ON DATABASE %s TO %s",
				d.server.user, sql, d.server.database, quoteIdent(d.server.database), quoteIdent(d.server.user))
		}
		if err != nil {
			return d.fault(err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return d.fault(err)
	}
	return nil
}

// version returns that of the tables, or 0 if there are none, and creates the schema.
func (d *DB) version(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var schema, table bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
		EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'format')`,
		d.schema).Scan(&schema, &table); err != nil {
		return 0, d.fault(err)
	}
	if !schema {
		_, err := tx.Exec(ctx, "CREATE SCHEMA "+d.ident)
		if sqlState(err) == stateNoRight {
			return 0, engine.Errorf(engine.CodeInvalid, "postgres: role %s may not create schema %s in database %s. A superuser can run: CREATE SCHEMA %s AUTHORIZATION %s",
				d.server.user, d.schema, d.server.database, d.ident, quoteIdent(d.server.user))
		}
		return 0, d.fault(err)
	}
	if !table {
		return 0, nil
	}
	if err := tx.QueryRow(ctx, d.rewrite("SELECT version FROM SCHEMA.format")).Scan(&version); err != nil {
		return 0, d.noRight(err)
	}
	return version, d.newer(version)
}

// newer refuses tables of a newer version.
func (d *DB) newer(version int) error {
	if version <= formatVersion {
		return nil
	}
	return engine.Errorf(engine.CodeFormatNewer, "postgres: the tables in schema %s are of version %d, which a newer Skerry made; this one knows up to %d",
		d.schema, version, formatVersion)
}

// noRight makes an error that says which rights to grant.
func (d *DB) noRight(err error) error {
	if sqlState(err) != stateNoRight {
		return d.fault(err)
	}
	who := quoteIdent(d.server.user)
	return engine.Errorf(engine.CodeInvalid,
		"postgres: role %s lacks rights on schema %s. Its owner can run: GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %s",
		d.server.user, d.schema, d.ident, who, d.ident, who)
}

// checkSchema refuses tables of a newer version, tables that somebody has changed, and missing
// rights.
func (d *DB) checkSchema(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, tablesSQL, d.schema)
	if err != nil {
		return d.fault(err)
	}
	have := map[string]*table{}
	list, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[table])
	if err != nil {
		return d.fault(err)
	}
	for _, t := range list {
		have[t.Name] = t
	}
	if len(have) == 0 && d.server.standby {
		return engine.Errorf(engine.CodeInvalid, "postgres: the standby has no schema %s: open the primary first", d.schema)
	}
	denied := false
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		wrong := "does not exist"
		if t := have[name]; t != nil {
			wrong = t.changed(columns[name])
			denied = denied || !t.Allowed
		}
		if wrong != "" {
			return engine.Errorf(engine.CodeCorrupt, "postgres: table %s.%s %s: somebody has changed Skerry's tables. Undo that, or restore the schema from a backup", d.schema, name, wrong)
		}
	}
	if denied {
		return d.noRight(errDenied)
	}
	var version int
	if err := conn.QueryRow(ctx, d.rewrite("SELECT version FROM SCHEMA.format")).Scan(&version); err != nil {
		return d.noRight(err)
	}
	return d.newer(version)
}

// table is a table of the engine as it is in the database.
type table struct {
	Name    string
	Columns []string // with their types
	Extra   []string // columns that an INSERT must name
	Unique  []string // columns with a valid unique index of their own
	Hooks   []string // triggers and rules that can replace or suppress writes
	Logged  bool
	Secure  bool // row level security is on
	Allowed bool // the role has the rights that it needs
}

const tablesSQL = `SELECT c.relname::text,
		ARRAY(SELECT a.attname || ' ' || format_type(a.atttypid, -1) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
		ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND NOT a.atthasdef),
		ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
			WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL),
		ARRAY(SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 3 = 3
			UNION ALL SELECT 'rule ' || rulename FROM pg_rewrite WHERE ev_class = c.oid),
		c.relpersistence = 'p', c.relrowsecurity,
		has_table_privilege(c.oid, 'SELECT') AND (pg_is_in_recovery() OR
			has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
			AND has_schema_privilege(n.oid, 'USAGE')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1 AND c.relkind = 'r'`

// keyOf are the columns that must be unique, by table.
var keyOf = map[string]string{"kv": "k", "change": "pos", "epoch": "first"}

// changed says what is wrong with a table that has to have some columns, or returns "".
func (t *table) changed(want []string) string {
	for _, column := range want {
		if !slices.Contains(t.Columns, column) {
			return fmt.Sprintf("has no column %q", column)
		}
	}
	for _, extra := range t.Extra {
		if !slices.ContainsFunc(want, func(c string) bool { return strings.HasPrefix(c, extra+" ") }) {
			return fmt.Sprintf("has a column %q, which must not be null", extra)
		}
	}
	switch key := keyOf[t.Name]; {
	case key != "" && !slices.Contains(t.Unique, key):
		return fmt.Sprintf("has no unique index on column %q", key)
	case len(t.Hooks) > 0:
		return fmt.Sprintf("has the %s, which can suppress writes", t.Hooks[0])
	case !t.Logged:
		return "is UNLOGGED, so a crash of the server would empty it"
	case t.Secure:
		return "has row level security, which can hide rows"
	}
	return ""
}

// quoteIdent returns s as an identifier of SQL.
func quoteIdent(s string) string { return pgx.Identifier{s}.Sanitize() }
