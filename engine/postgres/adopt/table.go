// Package adopt puts tables of other programs under record. The table stays where it is and those programs go on using
// it: triggers copy their changes into the table of a collection, and the changes of records back. In the collection they
// have a history, rules and a REST API.
//
// It knows how columns and fields correspond, and the triggers between two tables. It must not know how records are
// stored, or how a transaction of the engine commits.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/postgres"
	"github.com/skerrydb/skerry/engine/postgres/tables"
	"github.com/skerrydb/skerry/record/schema"
)

// Table is a table of another program.
type Table struct {
	Schema, Name string
	Key          Column   // the primary key, which becomes the id of records
	Columns      []Column // those that become fields
	Skipped      []string // those that do not, each with the reason

	indexes []schema.Index
}

// Column is a column of a Table.
type Column struct {
	Name  string
	Type  string // as SQL, such as numeric(10,2)
	Field schema.Field

	kind  kind
	value string // SQL of its default; "" if there is none
}

// kind says how values of a column become JSON, and how they come back.
type kind byte

const (
	plain     kind = iota // as to_jsonb has it
	asText                // as its text
	timestamp             // a time without a zone, taken for UTC
	date
	document // json or jsonb
	array    // of one dimension
)

// A simple type of PostgreSQL, by its name in pg_type.
type simple struct {
	field schema.Type
	kind  kind
}

var simples = map[string]simple{
	"int2": {schema.Int, plain}, "int4": {schema.Int, plain}, "int8": {schema.Int, plain},
	"float4": {schema.Float, plain}, "float8": {schema.Float, plain}, "numeric": {schema.Decimal, asText},
	"bool": {schema.Bool, plain}, "text": {schema.Text, asText}, "varchar": {schema.Text, asText}, "bpchar": {schema.Text, asText},
	"citext": {schema.Text, asText}, "uuid": {schema.Text, asText}, "name": {schema.Text, asText},
	"timestamptz": {schema.Time, plain}, "timestamp": {schema.Time, timestamp}, "date": {schema.Time, date},
	"json": {schema.JSON, document}, "jsonb": {schema.JSON, document},
}

// keyTypes are the types that a primary key may have.
var keyTypes = []string{"int2", "int4", "int8", "text", "varchar", "citext", "uuid"}

// Session is a connection to the database of a table. It is not safe for concurrent use.
type Session struct {
	conn    *pgx.Conn
	records string // the schema of the tables of collections
}

// Open connects to the database that u names, as postgres.Open does.
func Open(ctx context.Context, u *url.URL) (*Session, error) {
	conn, name, err := postgres.Dial(ctx, u)
	if err != nil {
		return nil, err
	}
	return &Session{conn, tables.New(name).Schema()}, nil
}

// Close ends the connection.
func (s *Session) Close() error { return s.conn.Close(context.Background()) }

// find returns the identity of a table.
func find(ctx context.Context, conn *pgx.Conn, name string) (oid uint32, t *Table, err error) {
	t = &Table{}
	if _, err := conn.Exec(ctx, "RESET search_path"); err != nil {
		return 0, nil, failed("look for table "+name, err)
	}
	var kind string
	err = conn.QueryRow(ctx, `SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text || CASE WHEN c.relispartition THEN 'p' ELSE '' END
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)`, name).Scan(&oid, &t.Schema, &t.Name, &kind)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, nil, engine.Errorf(engine.CodeInvalid, "there is no table %s, or the role has no rights on its schema; write SCHEMA.TABLE if it is not in the search_path", name)
	case err != nil:
		return 0, nil, failed("look for table "+name, err)
	case kind != "r":
		return 0, nil, engine.Errorf(engine.CodeInvalid, "%s is not an ordinary table: views, foreign tables and partitioned tables cannot be adopted", name)
	}
	return oid, t, nil
}

// Find returns the identity of a table, named as in SQL, without its columns, for Link.Release.
func (s *Session) Find(ctx context.Context, name string) (*Table, error) {
	_, t, err := find(ctx, s.conn, name)
	return t, err
}

// Read describes a table, named as in SQL. Columns named in skip do not become fields.
func (s *Session) Read(ctx context.Context, name string, skip []string) (*Table, error) {
	conn := s.conn
	oid, t, err := find(ctx, conn, name)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SET search_path = pg_catalog"); err != nil { // types and defaults are then printed with their schemas
		return nil, failed("read table "+name, err)
	}
	if err := t.readColumns(ctx, conn, oid, skip); err != nil {
		return nil, err
	}
	for _, s := range skip {
		if !slices.ContainsFunc(t.Skipped, func(x string) bool { return strings.HasPrefix(x, s+":") }) {
			return nil, engine.Errorf(engine.CodeInvalid, "table %s has no column %s to skip, or it is the primary key", name, s)
		}
	}
	if len(t.Columns) > schema.MaxFields {
		return nil, engine.Errorf(engine.CodeLimit, "table %s has %d columns; a collection can have %d fields: skip some columns", name, len(t.Columns), schema.MaxFields)
	}
	return t, t.readIndexes(ctx, conn, oid)
}

// attribute is a row of the catalog.
type attribute struct {
	name, typ, base, def string
	kind                 string // of the type
	mod                  int32
	notNull, generated   bool
	options              []string
	key                  bool
	keys                 int // columns of the primary key
}

const attributesSQL = `SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), coalesce(b.typname, t.typname)::text,
		CASE WHEN coalesce(b.typcategory, t.typcategory) = 'A' THEN 'A' ELSE coalesce(b.typtype, t.typtype) END::text,
		CASE WHEN t.typbasetype <> 0 THEN t.typtypmod ELSE a.atttypmod END, a.attnotnull OR t.typnotnull, coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attgenerated <> '',
		coalesce((SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = coalesce(b.oid, t.oid)), '{}'),
		coalesce(a.attnum = ANY (i.indkey::int2[]), false), coalesce(i.indnkeyatts, 0)::int
	FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
		LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
	WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

func (t *Table) readColumns(ctx context.Context, conn *pgx.Conn, oid uint32, skip []string) error {
	rows, err := conn.Query(ctx, attributesSQL, oid)
	if err != nil {
		return failed("read the columns of "+t.Name, err)
	}
	var all []attribute
	var a attribute
	into := []any{&a.name, &a.typ, &a.base, &a.kind, &a.mod, &a.notNull, &a.def, &a.generated, &a.options, &a.key, &a.keys}
	if _, err := pgx.ForEachRow(rows, into, func() error {
		all = append(all, a)
		a.options = nil
		return nil
	}); err != nil {
		return failed("read the columns of "+t.Name, err)
	}
	used := map[string]bool{}
	for _, x := range all {
		if err := t.add(x, skip, used); err != nil {
			return err
		}
	}
	if t.Key.Name == "" {
		return engine.Errorf(engine.CodeInvalid, "table %s has no primary key, which would be the id of its records: add one", t.Name)
	}
	return nil
}

// add adds a column.
func (t *Table) add(a attribute, skip []string, used map[string]bool) error {
	s, known := simples[a.base]
	switch {
	case a.key && a.keys > 1:
		return engine.Errorf(engine.CodeInvalid, "the primary key of table %s has %d columns; only a key of one column can be the id of a record", t.Name, a.keys)
	case a.key && !slices.Contains(keyTypes, a.base):
		return engine.Errorf(engine.CodeInvalid, "the primary key of table %s is a %s; it must be an integer, a text or a uuid", t.Name, a.typ)
	case a.key:
		t.Key = Column{Name: a.name, Type: a.typ}
		return nil
	case a.generated:
		t.Skipped = append(t.Skipped, a.name+": the database generates it")
		return nil
	case slices.Contains(skip, a.name):
		if a.notNull && a.def == "" {
			return engine.Errorf(engine.CodeInvalid, "column %s of table %s cannot be skipped: it is NOT NULL and has no default, so that no record could be created", a.name, t.Name)
		}
		t.Skipped = append(t.Skipped, a.name+": as asked")
		return nil
	case a.kind == "A":
		s = simple{schema.JSON, array}
	case a.kind == "e":
		s = simple{schema.Select, asText}
	case !known:
		return engine.Errorf(engine.CodeUnsupported, "column %s of table %s is a %s, which no field can hold; skip it", a.name, t.Name, a.typ)
	}
	f := schema.Field{Name: fieldName(a.name, used), Type: s.field, Required: a.notNull && a.def == "", Options: a.options}
	if f.Name != a.name {
		f.Hint = "column " + a.name
	}
	switch {
	case a.base == "varchar" && a.mod > 4, a.base == "bpchar" && a.mod > 4:
		f.Max = strconv.Itoa(int(a.mod) - 4)
	case a.base == "numeric" && a.mod > 4:
		f.Scale = int((a.mod - 4) & 0x7ff)
	}
	t.Columns = append(t.Columns, Column{Name: a.name, Type: a.typ, Field: f, kind: s.kind, value: a.def})
	return nil
}

// fieldName returns a name for the field of a column that no other field has.
func fieldName(column string, used map[string]bool) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, column)
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = "c_" + name
	}
	reserved := func(name string) bool {
		columns := schema.Columns()
		return used[name] || slices.ContainsFunc(columns[:], func(c schema.Column) bool { return c.Name == name })
	}
	free := name
	for n := 1; reserved(cut(free)); n++ {
		if free = "c_" + name; n > 1 {
			free = fmt.Sprintf("c%d_%s", n, name)
		}
	}
	used[cut(free)] = true
	return cut(free)
}

// cut shortens a name, which is ASCII, to what a field may have.
func cut(name string) string { return name[:min(len(name), schema.MaxNameBytes)] }

// readIndexes takes over the indexes on plain columns, first those that are unique.
func (t *Table) readIndexes(ctx context.Context, conn *pgx.Conn, oid uint32) error {
	rows, err := conn.Query(ctx, `SELECT i.indexrelid::regclass::text, i.indisunique,
			(SELECT array_agg(a.attname::text ORDER BY k.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
				WHERE k.n <= i.indnkeyatts),
			(SELECT array_agg(o::int & 1 = 1) FROM unnest(i.indoption::int2[]) o)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
		WHERE i.indrelid = $1 AND NOT i.indisprimary AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND m.amname = 'btree'
		ORDER BY NOT i.indisunique, i.indexrelid`, oid)
	if err != nil {
		return failed("read the indexes of "+t.Name, err)
	}
	var name string
	var unique bool
	var columns []string
	var desc []bool
	_, err = pgx.ForEachRow(rows, []any{&name, &unique, &columns, &desc}, func() error {
		x := schema.Index{Name: fmt.Sprint("index_", len(t.indexes)+1), Unique: unique}
		for i, column := range columns {
			at := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })
			if at < 0 || t.Columns[at].Field.Type == schema.JSON {
				return nil // of a column that is no field, or cannot be sorted
			}
			x.Fields = append(x.Fields, schema.IndexField{Name: t.Columns[at].Field.Name, Desc: desc[i]})
		}
		if len(x.Fields) == 1 && !x.Fields[0].Desc {
			x.Name = "by_" + x.Fields[0].Name // as a tag names it
		}
		same := func(y schema.Index) bool { return slices.Equal(x.Fields, y.Fields) }
		if len(x.Fields) <= schema.MaxIndexFields && len(t.indexes) < schema.MaxIndexes && !slices.ContainsFunc(t.indexes, same) {
			t.indexes = append(t.indexes, x)
		}
		return nil
	})
	if err != nil {
		return failed("read the indexes of "+t.Name, err)
	}
	return nil
}

// Collection returns the description of the collection, without rules.
func (t *Table) Collection(name string) schema.Collection {
	c := schema.Collection{Name: name, Hint: "table " + t.Schema + "." + t.Name, Indexes: t.indexes}
	for _, x := range t.Columns {
		c.Fields = append(c.Fields, x.Field)
	}
	return c
}

// failed returns the error for a statement.
func failed(what string, err error) error {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		code := engine.CodeInvalid
		if pe.Code[:2] == "08" || pe.Code[:2] == "53" || pe.Code[:2] == "57" {
			code = engine.CodeUnavailable
		}
		if pe.Hint != "" {
			return engine.Errorf(code, "%s: %w. %s", what, err, pe.Hint)
		}
		return engine.Errorf(code, "%s: %w", what, err)
	}
	return engine.Errorf(engine.CodeUnavailable, "%s: %w", what, err)
}
