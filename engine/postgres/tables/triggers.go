package tables

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Triggers catch the changes that other programs make to the tables of documents. They do nothing for the executors of
// package postgres, which it marks with the setting skerry.executor.
//
//   - catch runs before a change. It checks what everything above relies on (ids, and values of the types of their
//     fields), sets the columns that say who changed the record and when, and adds 1 to pending. A DELETE moves the record
//     into the trash.
//   - note runs after it, when the row is locked, and adds the change to the outbox.
//   - stale refuses a write of an executor to a row of which it has not seen a change that waits. The executor then runs
//     the transaction again.
//   - refuse refuses TRUNCATE.
//
// The functions have the rights of their owner, because a program may have rights on one table only. So nobody else may
// execute them, and their search_path is empty.
var functions = []string{`CREATE OR REPLACE FUNCTION RECORDS._catch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $catch$
DECLARE
	spec jsonb;
	name text;
	val jsonb;
	kind text;
	str text;
	good boolean;
	who text := coalesce(nullif(current_setting('skerry.actor', true), ''), 'sql:' || session_user);
BEGIN
	IF TG_OP = 'DELETE' THEN
		IF NOT OLD.is_deleted THEN
			EXECUTE format('UPDATE %I.%I SET is_deleted = true WHERE id = $1', TG_TABLE_SCHEMA, TG_TABLE_NAME) USING OLD.id;
		END IF;
		RETURN NULL;
	END IF;
	NEW.data := coalesce(NEW.data, '{}');
	IF TG_OP = 'UPDATE' THEN
		IF NEW.id IS DISTINCT FROM OLD.id THEN
			RAISE EXCEPTION 'the id of record % of % cannot be changed', OLD.id, TG_TABLE_NAME USING ERRCODE = 'check_violation';
		END IF;
		NEW.is_deleted := coalesce(NEW.is_deleted, false);
		IF NEW.data = OLD.data AND NEW.is_deleted = OLD.is_deleted THEN
			RETURN OLD;
		END IF;
		IF OLD.is_deleted AND NEW.is_deleted THEN
			RAISE EXCEPTION 'record % of % is in the trash', OLD.id, TG_TABLE_NAME
				USING ERRCODE = 'check_violation', HINT = 'Set is_deleted to false to restore it.';
		END IF;
	ELSE
		NEW.id := coalesce(NEW.id, gen_random_uuid()::text);
		IF NEW.id !~ 'IDPATTERN' THEN
			RAISE EXCEPTION 'the id % of a record of % is not valid', quote_literal(left(NEW.id, 100)), TG_TABLE_NAME
				USING ERRCODE = 'check_violation', HINT = 'An id has 1 to MAXID letters a to z and A to Z, digits, _ and -.';
		END IF;
	END IF;

	PERFORM pg_advisory_xact_lock_shared(hashtext(TG_TABLE_SCHEMA), TG_ARGV[0]::int); -- the description stays until the end
	SELECT c.spec INTO spec FROM RECORDS._collections c WHERE c.id = TG_ARGV[0]::bigint;
	IF NOT (spec -> 'open')::boolean IS TRUE THEN
		RAISE EXCEPTION 'the records of % are being moved from or to this table, or were dropped', TG_TABLE_NAME
			USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Write to them through Skerry until that is done.';
	END IF;
	IF jsonb_typeof(NEW.data) <> 'object' THEN
		RAISE EXCEPTION 'the data of record % of % must be a JSON object', NEW.id, TG_TABLE_NAME USING ERRCODE = 'check_violation';
	END IF;
	IF octet_length(NEW.data::text) > MAXDATA THEN
		RAISE EXCEPTION 'the data of record % of % has more than MAXDATA bytes', NEW.id, TG_TABLE_NAME USING ERRCODE = 'check_violation';
	END IF;
	FOR name, val IN SELECT e.key, e.value FROM jsonb_each(NEW.data) e LOOP
		CONTINUE WHEN TG_OP = 'UPDATE' AND OLD.data -> name = val OR val = 'null';
		kind := spec #>> ARRAY['fields', name];
		str := val #>> '{}';
		good := CASE kind
			WHEN 'text' THEN jsonb_typeof(val) = 'string'
			WHEN 'bool' THEN jsonb_typeof(val) = 'boolean'
			WHEN 'int' THEN jsonb_typeof(val) = 'number' AND trunc(str::numeric) = str::numeric AND str::numeric BETWEEN -9223372036854775808 AND 9223372036854775807
			WHEN 'float' THEN jsonb_typeof(val) = 'number' AND abs(str::numeric) < 1.797e308
			WHEN 'decimal' THEN (jsonb_typeof(val) = 'number' OR jsonb_typeof(val) = 'string' AND str ~ '^-?[0-9]+(\.[0-9]+)?$') AND length(str) <= MAXDECIMAL
			WHEN 'time' THEN jsonb_typeof(val) = 'string' AND str ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[-+][0-9]{2}(:?[0-9]{2})?))?$'
			WHEN 'json' THEN true
			WHEN 'secret' THEN false
		END;
		IF kind IS NULL AND NOT (spec -> 'extra')::boolean THEN
			RAISE EXCEPTION 'collection % has no field %', TG_TABLE_NAME, name USING ERRCODE = 'check_violation';
		ELSIF kind = 'secret' THEN
			RAISE EXCEPTION 'field % of % is a password, which SQL cannot set', name, TG_TABLE_NAME USING ERRCODE = 'check_violation';
		ELSIF NOT good THEN
			RAISE EXCEPTION 'field % of record % of % cannot be %: it is a field of type %', name, NEW.id, TG_TABLE_NAME, left(val::text, 100), kind
				USING ERRCODE = 'check_violation',
					HINT = CASE kind WHEN 'time' THEN 'Write times as to_jsonb(now()) does, with their zone.' WHEN 'decimal' THEN 'Write decimals as strings of digits.' ELSE '' END;
		ELSIF kind = 'time' THEN
			str := CASE WHEN length(str) = 10 THEN str || 'T00:00:00Z' ELSE str END;
			NEW.data := jsonb_set(NEW.data, ARRAY[name], to_jsonb(to_char(str::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')));
		END IF;
	END LOOP;
	IF TG_OP = 'UPDATE' AND NEW.data = OLD.data AND NEW.is_deleted = OLD.is_deleted THEN
		RETURN OLD; -- it was only written in another form
	END IF;

	IF TG_OP = 'INSERT' THEN
		NEW.stored := '';
		NEW.pending := 1;
		NEW.is_deleted := false;
		EXECUTE format('SELECT coalesce(max(rev), 0) + 1 FROM %I.%I WHERE id = $1', 'HISTORYNAME', TG_TABLE_NAME) INTO NEW.rev USING NEW.id;
		NEW.created_at := clock_timestamp(); NEW.created_by := who;
		NEW.updated_at := NULL; NEW.updated_by := NULL;
		NEW.deleted_at := NULL; NEW.deleted_by := NULL;
		NEW.restored_at := NULL; NEW.restored_by := NULL;
		RETURN NEW;
	END IF;
	NEW.stored := OLD.stored;
	NEW.rev := OLD.rev + 1;
	NEW.pending := OLD.pending + 1;
	NEW.created_at := OLD.created_at; NEW.created_by := OLD.created_by;
	NEW.updated_at := OLD.updated_at; NEW.updated_by := OLD.updated_by;
	NEW.deleted_at := OLD.deleted_at; NEW.deleted_by := OLD.deleted_by;
	NEW.restored_at := OLD.restored_at; NEW.restored_by := OLD.restored_by;
	IF NEW.is_deleted = OLD.is_deleted THEN
		NEW.updated_at := clock_timestamp(); NEW.updated_by := who;
	ELSIF NEW.is_deleted THEN
		NEW.deleted_at := clock_timestamp(); NEW.deleted_by := who;
	ELSE
		NEW.restored_at := clock_timestamp(); NEW.restored_by := who;
	END IF;
	RETURN NEW;
END
$catch$`, `CREATE OR REPLACE FUNCTION RECORDS._note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $note$
BEGIN
	IF TG_OP = 'UPDATE' THEN
		IF NEW.pending = OLD.pending THEN
			RETURN NULL;
		END IF;
	END IF;
	INSERT INTO RECORDS._outbox (collection, id, is_deleted, data, "by", request)
		VALUES (TG_ARGV[0]::bigint, NEW.id, NEW.is_deleted, NEW.data,
			coalesce(nullif(current_setting('skerry.actor', true), ''), 'sql:' || session_user), coalesce(current_setting('skerry.request', true), ''));
	RETURN NULL;
END
$note$`, `CREATE OR REPLACE FUNCTION RECORDS._stale() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $stale$
BEGIN
	RAISE EXCEPTION 'another program has changed record % of %', OLD.id, TG_TABLE_NAME USING ERRCODE = 'serialization_failure';
END
$stale$`, `CREATE OR REPLACE FUNCTION RECORDS._refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $refuse$
BEGIN
	RAISE EXCEPTION 'records of % cannot be truncated', TG_TABLE_NAME USING ERRCODE = 'check_violation', HINT = 'DELETE moves records into the trash.';
END
$refuse$`,
	`REVOKE ALL ON FUNCTION RECORDS._catch() FROM PUBLIC`,
	`REVOKE ALL ON FUNCTION RECORDS._note() FROM PUBLIC`,
	`REVOKE ALL ON FUNCTION RECORDS._stale() FROM PUBLIC`,
	`REVOKE ALL ON FUNCTION RECORDS._refuse() FROM PUBLIC`,
}

// outbox has the changes of other programs that wait, in the order in which they took the lock on their row.
var outbox = []string{`CREATE TABLE IF NOT EXISTS RECORDS._outbox (
	n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	collection bigint NOT NULL,
	id text COLLATE "C" NOT NULL,
	is_deleted boolean NOT NULL,
	data jsonb NOT NULL,
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	"by" text NOT NULL,
	request text NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS _outbox_record ON RECORDS._outbox (collection, id, n)`,
}

// triggers are those of a table: their names, and what they do. TABLE, COLLECTION and EXECUTOR stand for the table, the
// number of its collection, and the value of skerry.executor.
var triggers = [][2]string{
	{"_skerry_catch", `BEFORE INSERT OR UPDATE OR DELETE ON TABLE FOR EACH ROW
		WHEN (current_setting('skerry.executor', true) IS DISTINCT FROM EXECUTOR) EXECUTE FUNCTION RECORDS._catch(COLLECTION)`},
	{"_skerry_note", `AFTER INSERT OR UPDATE ON TABLE FOR EACH ROW
		WHEN (current_setting('skerry.executor', true) IS DISTINCT FROM EXECUTOR) EXECUTE FUNCTION RECORDS._note(COLLECTION)`},
	{"_skerry_stale_update", `BEFORE UPDATE ON TABLE FOR EACH ROW
		WHEN (OLD.pending > 0 AND NEW.pending = OLD.pending AND current_setting('skerry.executor', true) = EXECUTOR) EXECUTE FUNCTION RECORDS._stale()`},
	{"_skerry_stale_delete", `BEFORE DELETE ON TABLE FOR EACH ROW
		WHEN (OLD.pending > 0 AND current_setting('skerry.executor', true) = EXECUTOR) EXECUTE FUNCTION RECORDS._stale()`},
	{"_skerry_truncate", `BEFORE TRUNCATE ON TABLE FOR EACH STATEMENT EXECUTE FUNCTION RECORDS._refuse()`},
}

// fill puts names and limits into SQL.
func (d *Driver) fill(sql string, more ...string) string {
	return strings.NewReplacer(append(more,
		"RECORDS.", quote(d.documents)+".", "HISTORYNAME", strings.ReplaceAll(d.changes, "'", "''"),
		"IDPATTERN", schema.IDPattern, "MAXID", strconv.Itoa(keys.MaxIDBytes), "MAXDATA", strconv.Itoa(schema.MaxDataBytes), "MAXDECIMAL", strconv.Itoa(value.MaxDecimalDigits+2))...).Replace(sql)
}

// watch returns the statements that create the triggers of a table.
func (d *Driver) watch(c *keys.Collection) (all []string) {
	for _, t := range triggers {
		all = append(all, "CREATE TRIGGER "+t[0]+" "+d.fill(t[1], "TABLE", d.table(c), "COLLECTION", strconv.Itoa(int(c.ID)), "EXECUTOR", "'"+strings.ReplaceAll(d.name, "'", "''")+"'"))
	}
	return all
}

// spec returns what catch must know of a collection.
func spec(c *keys.Collection) string {
	kinds := map[string]string{}
	for i := range c.Fields {
		f := &c.Fields[i]
		kinds[f.Name] = kindNames[c.Kind(i)]
		if f.Type == schema.Password {
			kinds[f.Name] = "secret"
		}
	}
	text, err := json.Marshal(map[string]any{"fields": kinds, "extra": c.Extra, "open": c.InTables() && !c.Converting()})
	if err != nil {
		panic("BUG: " + err.Error()) // of texts and a bool
	}
	return string(text)
}

var kindNames = map[value.Kind]string{
	value.Text: "text", value.Int: "int", value.Float: "float", value.Decimal: "decimal", value.Bool: "bool", value.Time: "time", value.JSON: "json",
}
