package adopt

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
)

// The setting skerry.syncing is on in a transaction while one of the two functions below writes, so that the trigger of
// the other table does not write back. A change of a record that another program has made, and that is only taken in,
// is already in both tables.

// fromSQL copies changes of the table into the collection.
const fromSQL = `CREATE OR REPLACE FUNCTION FROMFUNCTION() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $from$
BEGIN
	PERFORM set_config('skerry.syncing', 'on', true);
	IF TG_OP = 'TRUNCATE' THEN
		DELETE FROM RECORDS;
	ELSE
		IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND NEW.KEY IS DISTINCT FROM OLD.KEY THEN
			DELETE FROM RECORDS WHERE id = OLD.KEY::text;
		END IF;
		IF TG_OP <> 'DELETE' THEN
			INSERT INTO RECORDS AS r (id, data) VALUES (NEW.KEY::text, NEWDATA)
				ON CONFLICT (id) DO UPDATE SET data = r.data || EXCLUDED.data, is_deleted = false;
		END IF;
	END IF;
	PERFORM set_config('skerry.syncing', '', true);
	RETURN NULL;
END
$from$`

// toSQL copies changes of records into the table.
const toSQL = `CREATE OR REPLACE FUNCTION TOFUNCTION() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $to$
BEGIN
	IF TG_OP = 'UPDATE' THEN
		IF OLD.pending > NEW.pending OR NEW.data = OLD.data AND NEW.is_deleted = OLD.is_deleted THEN
			RETURN NULL;
		END IF;
	END IF;
	PERFORM set_config('skerry.syncing', 'on', true);
	IF TG_OP = 'DELETE' THEN
		IF NOT OLD.is_deleted THEN
			DELETE FROM TABLE WHERE KEY = OLD.id::KEYTYPE;
		END IF;
	ELSIF NEW.is_deleted THEN
		DELETE FROM TABLE WHERE KEY = NEW.id::KEYTYPE;
	ELSE
		BEGIN
			IF NEW.id::KEYTYPE::text IS DISTINCT FROM NEW.id THEN
				RAISE invalid_text_representation;
			END IF;
		EXCEPTION WHEN data_exception THEN
			RAISE EXCEPTION 'the id % of a new record of % is not a value of the primary key of table %, a %: give the record such an id',
				quote_literal(NEW.id), TG_TABLE_NAME, TABLENAME, KEYNAME USING ERRCODE = 'check_violation';
		END;
		INSERT INTO TABLE (COLUMNS) OVERRIDING SYSTEM VALUE VALUES (VALUES) ON CONFLICT (KEY) DO SETS;
	END IF;
	PERFORM set_config('skerry.syncing', '', true);
	RETURN NULL;
END
$to$`

// lockSQL locks the row of the table before that of the collection, as the programs of the table do, so that they do not
// wait for each other.
const lockSQL = `CREATE OR REPLACE FUNCTION LOCKFUNCTION() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $lock$
BEGIN
	PERFORM FROM TABLE WHERE KEY = NEW.id::KEYTYPE FOR UPDATE;
	RETURN NEW;
EXCEPTION WHEN data_exception THEN
	RETURN NEW; -- an id that cannot be there
END
$lock$`

const triggersSQL = `
COMMENT ON table RECORDS IS MARK;
CREATE TRIGGER _skerry_lock BEFORE INSERT ON RECORDS FOR EACH ROW
	WHEN (current_setting('skerry.syncing', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION LOCKFUNCTION();
CREATE TRIGGER _skerry_from AFTER INSERT OR UPDATE OR DELETE ON TABLE FOR EACH ROW
	WHEN (current_setting('skerry.syncing', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION FROMFUNCTION();
CREATE TRIGGER _skerry_from_truncate AFTER TRUNCATE ON TABLE FOR EACH STATEMENT EXECUTE FUNCTION FROMFUNCTION();
CREATE TRIGGER _skerry_to AFTER INSERT OR UPDATE OR DELETE ON RECORDS FOR EACH ROW
	WHEN (current_setting('skerry.syncing', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION TOFUNCTION();
REVOKE ALL ON FUNCTION FROMFUNCTION() FROM PUBLIC;
REVOKE ALL ON FUNCTION TOFUNCTION() FROM PUBLIC;
REVOKE ALL ON FUNCTION LOCKFUNCTION() FROM PUBLIC;`

const dropSQL = `
SET LOCAL lock_timeout = '5s';
DROP TRIGGER IF EXISTS _skerry_from ON TABLE;
DROP TRIGGER IF EXISTS _skerry_from_truncate ON TABLE;
DROP TRIGGER IF EXISTS _skerry_to ON RECORDS;
DROP TRIGGER IF EXISTS _skerry_lock ON RECORDS;
DROP FUNCTION IF EXISTS FROMFUNCTION();
DROP FUNCTION IF EXISTS TOFUNCTION();
DROP FUNCTION IF EXISTS LOCKFUNCTION();`

// Link is a table and the collection that it is adopted by.
type Link struct {
	*Session
	Table      *Table
	Collection string
}

// Link returns the Link of a table and a collection, which may have been made before.
func (s *Session) Link(t *Table, collection string) *Link { return &Link{s, t, collection} }

func quote(names ...string) string { return pgx.Identifier(names).Sanitize() }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// fill puts the names into SQL.
func (l *Link) fill(sql string) string {
	t := l.Table
	columns, values, sets := []string{quote(t.Key.Name)}, []string{"NEW.id::" + t.Key.Type}, []string{}
	for _, c := range t.Columns {
		columns, values = append(columns, quote(c.Name)), append(values, c.back())
		sets = append(sets, quote(c.Name)+" = EXCLUDED."+quote(c.Name))
	}
	set := "NOTHING"
	if len(sets) > 0 {
		set = "UPDATE SET " + strings.Join(sets, ", ")
	}
	return strings.NewReplacer("FROMFUNCTION", quote(l.records, "_from_"+l.Collection), "TOFUNCTION", quote(l.records, "_to_"+l.Collection), "LOCKFUNCTION", quote(l.records, "_lock_"+l.Collection),
		"RECORDS", quote(l.records, l.Collection), "TABLENAME", literal(t.Name), "KEYNAME", literal(t.Key.Type), "KEYTYPE", t.Key.Type,
		"KEY", quote(t.Key.Name), "NEWDATA", t.data("NEW"), " TABLE ", " "+quote(t.Schema, t.Name)+" ", " TABLE;", " "+quote(t.Schema, t.Name)+";",
		"(COLUMNS)", "("+strings.Join(columns, ", ")+")", "(VALUES)", "("+strings.Join(values, ", ")+")", "SETS", set, "MARK", literal(l.mark())).Replace(sql)
}

// maxPairs is how many members one call of jsonb_build_object makes: it has at most 100 arguments.
const maxPairs = 50

// data returns the SQL of the data of a row.
func (t *Table) data(row string) string {
	var objects []string
	for i := 0; i < len(t.Columns); i += maxPairs {
		var pairs []string
		for _, c := range t.Columns[i:min(i+maxPairs, len(t.Columns))] {
			pairs = append(pairs, literal(c.Field.Name)+", "+c.json(row))
		}
		objects = append(objects, "jsonb_build_object("+strings.Join(pairs, ", ")+")")
	}
	if objects == nil {
		return "'{}'::jsonb"
	}
	return strings.Join(objects, " || ")
}

// json returns the SQL of the value as JSON.
func (c *Column) json(row string) string {
	name := row + "." + quote(c.Name)
	switch c.kind {
	case asText, date:
		return "to_jsonb(" + name + "::text)"
	case timestamp:
		return "to_jsonb(" + name + " AT TIME ZONE 'UTC')"
	}
	return "to_jsonb(" + name + ")"
}

// back returns the SQL of the value for the column.
func (c *Column) back() string {
	field := literal(c.Field.Name)
	text := "(NEW.data->>" + field + ")"
	sql := text + "::" + c.Type
	switch c.kind {
	case timestamp:
		sql = "(" + text + "::timestamptz AT TIME ZONE 'UTC')::" + c.Type
	case date:
		sql = "(" + text + "::timestamptz AT TIME ZONE 'UTC')::" + c.Type
	case document:
		sql = "nullif(NEW.data->" + field + ", 'null')::" + c.Type
	case array:
		sql = "CASE WHEN jsonb_typeof(NEW.data->" + field + ") = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(NEW.data->" + field + "))::" + c.Type + " END"
	}
	if c.value != "" {
		return "coalesce(" + sql + ", " + c.value + ")"
	}
	return sql
}

// Connect creates the triggers, in one transaction. It replaces those of an earlier adoption by the same collection.
func (l *Link) Connect(ctx context.Context) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	tx, err := l.conn.Begin(ctx)
	if err != nil {
		return failed("adopt table "+l.Table.Name, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after Commit it does nothing
	for _, sql := range []string{dropSQL, fromSQL, toSQL, lockSQL, triggersSQL} {
		if _, err := tx.Exec(ctx, l.fill(sql), pgx.QueryExecModeSimpleProtocol); err != nil {
			return failed("create the triggers of table "+l.Table.Name, err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return failed("adopt table "+l.Table.Name, err)
	}
	return nil
}

// mark is the comment on the table of a collection that says which table it has adopted.
func (l *Link) mark() string { return "The rows of " + quote(l.Table.Schema, l.Table.Name) }

// check refuses a table that another collection has adopted, rights that are missing, and keys that can be no ids.
func (l *Link) check(ctx context.Context) error {
	name := quote(l.Table.Schema, l.Table.Name)
	var by, user string
	var may bool
	err := l.conn.QueryRow(ctx, `SELECT coalesce((SELECT p.proname::text FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid WHERE g.tgrelid = $1::text::regclass AND g.tgname = '_skerry_from'), ''),
			current_user::text, has_table_privilege($1::text, 'SELECT') AND has_table_privilege($1::text, 'INSERT') AND has_table_privilege($1::text, 'UPDATE') AND has_table_privilege($1::text, 'DELETE') AND has_table_privilege($1::text, 'TRIGGER')`,
		name).Scan(&by, &user, &may)
	switch {
	case err != nil:
		return failed("adopt table "+l.Table.Name, err)
	case by != "" && by != "_from_"+l.Collection:
		return engine.Errorf(engine.CodeConflict, "collection %s has adopted table %s: release it there first", strings.TrimPrefix(by, "_from_"), l.Table.Name)
	case !may:
		return engine.Errorf(engine.CodeInvalid, "role %s lacks rights on table %s. Its owner can run: GRANT SELECT, INSERT, UPDATE, DELETE, TRIGGER ON %s TO %s", user, l.Table.Name, name, quote(user))
	}
	var there bool
	if err := l.conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", quote(l.records, l.Collection)).Scan(&there); err != nil {
		return failed("adopt table "+l.Table.Name, err)
	}
	if !there {
		return engine.Errorf(engine.CodeInvalid, "the records of collection %s are in keys; only a collection in tables can adopt a table: choose another name for it", l.Collection)
	}
	var of string
	var records bool
	if err := l.conn.QueryRow(ctx, "SELECT coalesce(obj_description($1::text::regclass, 'pg_class'), ''), EXISTS (SELECT FROM "+quote(l.records, l.Collection)+")", quote(l.records, l.Collection)).Scan(&of, &records); err != nil {
		return failed("adopt table "+l.Table.Name, err)
	}
	if records && of != l.mark() {
		return engine.Errorf(engine.CodeConflict, "collection %s has records that are not of table %s: choose another name for the collection", l.Collection, l.Table.Name)
	}
	var id *string
	err = l.conn.QueryRow(ctx, "SELECT (SELECT k FROM (SELECT "+quote(l.Table.Key.Name)+"::text k FROM "+name+") x WHERE k !~ "+literal(schema.IDPattern)+" LIMIT 1)").Scan(&id)
	if err != nil {
		return failed("read table "+l.Table.Name, err)
	}
	if id != nil {
		return engine.Errorf(engine.CodeInvalid, "%.80q, a primary key of table %s, cannot be the id of a record: an id has 1 to 64 letters a to z and A to Z, digits, _ and -", *id, l.Table.Name)
	}
	return nil
}

// copyRows is how many rows one transaction copies. They are locked meanwhile.
const copyRows = 500

// Copy copies the next rows of the table whose keys come after a key, "" for the first rows. It returns how many rows it
// looked at and the last of their keys. If there are none left, it moves records that have no row into the trash, as
// after a time in which the table was released.
func (l *Link) Copy(ctx context.Context, after string) (n int, last string, err error) {
	t := l.Table
	key, where, args := quote(t.Key.Name), "", []any{}
	if after != "" {
		where, args = " WHERE "+key+" > $1::text::"+t.Key.Type, []any{after}
	}
	sql := fmt.Sprintf(`WITH x AS MATERIALIZED (SELECT * FROM %s%s ORDER BY %s LIMIT %d FOR SHARE),
			done AS (INSERT INTO %s AS r (id, data) SELECT x.%s::text, %s FROM x
				ON CONFLICT (id) DO UPDATE SET data = r.data || EXCLUDED.data, is_deleted = false WHERE r.is_deleted OR r.data || EXCLUDED.data <> r.data)
		SELECT count(*)::int, coalesce((array_agg(%s ORDER BY %s DESC))[1]::text, '') FROM x`,
		quote(t.Schema, t.Name), where, key, copyRows, quote(l.records, l.Collection), key, t.data("x"), key, key)
	tx, err := l.conn.Begin(ctx)
	if err != nil {
		return 0, "", failed("copy table "+t.Name, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after Commit it does nothing
	if _, err = tx.Exec(ctx, "SELECT set_config('skerry.syncing', 'on', true), set_config('skerry.request', 'adopt', true)"); err == nil {
		err = tx.QueryRow(ctx, sql, args...).Scan(&n, &last)
	}
	if err == nil && n == 0 {
		_, err = tx.Exec(ctx, fmt.Sprintf("DELETE FROM %s r WHERE NOT is_deleted AND NOT EXISTS (SELECT FROM %s x WHERE x.%s::text = r.id)",
			quote(l.records, l.Collection), quote(t.Schema, t.Name), key))
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return 0, "", failed("copy table "+t.Name, err)
	}
	return n, last, nil
}

// Rows returns about how many rows the table has.
func (l *Link) Rows(ctx context.Context) (n int64) {
	_ = l.conn.QueryRow(ctx, "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = $1::text::regclass", quote(l.Table.Schema, l.Table.Name)).Scan(&n)
	return n
}

// Release removes the triggers. The collection keeps its records, and the table its rows.
func (l *Link) Release(ctx context.Context) error {
	if _, err := l.conn.Exec(ctx, l.fill(dropSQL), pgx.QueryExecModeSimpleProtocol); err != nil {
		return failed("release table "+l.Table.Name, err)
	}
	return nil
}
