// Package tables stores records in tables of PostgreSQL, which people can read and join with psql: one table of documents
// and one of changes for each collection.
//
// A Driver is given to package record/keys, which decides what a record means. It works in transactions of package postgres.
// Values are always parameters; identifiers come from names that package schema has checked, and are quoted.
//
// It knows SQL and the tables. It must not know who may do what, or how a transaction commits.
package tables

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/value"
)

// reader is the Tx of View and of Update; postgres.Querier documents it.
type reader interface {
	Query(sql string, args ...any) (pgx.Rows, error)
}

// writer is the Tx of Update; postgres.SQL documents it.
type writer interface {
	reader
	Queue(sql string, args ...any) error
	Publish(writes ...engine.Write) error
	Quietly(fn func() error) error
	Again() bool
}

// Driver is a keys.Driver that stores records in tables. It has no state but its name, and is safe for concurrent use.
type Driver struct{ name, documents, changes string }

// New returns the Driver whose tables are in the schemas NAME_records and NAME_history. NAME is the schema of the engine.
func New(name string) *Driver { return &Driver{name, name + "_records", name + "_history"} }

var _ keys.Inbox = (*Driver)(nil)

// Schema returns the schema of the tables of documents.
func (d *Driver) Schema() string { return d.documents }

// Setup returns the statements that create the schemas and what is in them besides the tables of collections. They may run
// again.
func (d *Driver) Setup() []string {
	all := []string{
		"CREATE SCHEMA IF NOT EXISTS " + quote(d.documents),
		"CREATE SCHEMA IF NOT EXISTS " + quote(d.changes),
		"CREATE TABLE IF NOT EXISTS " + d.registry() + ` (id bigint PRIMARY KEY, relation text COLLATE "C" NOT NULL UNIQUE, form bigint NOT NULL, spec jsonb NOT NULL)`,
		"CREATE TABLE IF NOT EXISTS " + d.indexes() + ` (collection bigint, id int, definition text NOT NULL, PRIMARY KEY (collection, id))`,
	}
	for _, sql := range slices.Concat(outbox, functions) {
		all = append(all, d.fill(sql))
	}
	return all
}

// quote quotes an identifier.
func quote(names ...string) string { return pgx.Identifier(names).Sanitize() }

// The tables of the Driver itself have names that no collection can have.
func (d *Driver) registry() string { return quote(d.documents, "_collections") }
func (d *Driver) indexes() string  { return quote(d.documents, "_indexes") }

func (d *Driver) table(c *keys.Collection) string { return quote(d.documents, c.Name) }
func (d *Driver) log(c *keys.Collection) string   { return quote(d.changes, c.Name) }

// on returns the transaction as one of Update.
func on(tx engine.Tx) (writer, error) {
	if t, ok := tx.(writer); ok {
		return t, nil
	}
	return nil, engine.ErrReadOnly
}

// rowsOf calls each for the rows of a statement, of which it scans one into into, until each returns false.
func rowsOf(tx engine.Tx, sql string, args, into []any, each func() bool) error {
	t, ok := tx.(reader)
	if !ok {
		return engine.Errorf(engine.CodeUnsupported, "record: the engine offers tables but no SQL")
	}
	rows, err := t.Query(sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if !each() {
			return nil
		}
	}
	return rows.Err()
}

func queue(tx engine.Tx, sql string, args ...any) error {
	t, err := on(tx)
	if err != nil {
		return err
	}
	return t.Queue(sql, args...)
}

// Document implements keys.Driver. In a transaction that writes, other programs cannot change the record from then on.
func (d *Driver) Document(tx engine.Tx, c *keys.Collection, id string) (val []byte, ok bool, err error) {
	if valid := keys.CheckID(id) == nil; !valid {
		return nil, false, nil // PostgreSQL refuses texts with NUL or bytes that are not UTF-8
	}
	var r document
	sql := "SELECT " + documentColumns + " FROM " + d.table(c) + " WHERE id = $1"
	if _, ok := tx.(writer); ok {
		sql += " FOR NO KEY UPDATE"
	}
	if err = rowsOf(tx, sql, []any{id}, r.into(), func() bool { ok = true; return false }); err == nil && ok {
		val, err = r.form(c)
	}
	return val, ok, err
}

// chunk is how many rows are read at once.
const chunk = 256

// Documents implements keys.Driver.
func (d *Driver) Documents(tx engine.Tx, c *keys.Collection, after string) iter.Seq2[keys.Document, error] {
	sql := fmt.Sprintf("SELECT %s FROM %s WHERE id > $1 ORDER BY id LIMIT %d", documentColumns, d.table(c), chunk)
	return func(yield func(keys.Document, error) bool) {
		for {
			all, err := d.documentsOf(tx, c, sql, []any{after}, math.MaxInt)
			if err != nil {
				yield(keys.Document{}, err)
				return
			}
			for _, x := range all {
				if !yield(x, nil) {
					return
				}
			}
			if len(all) < chunk {
				return
			}
			after = all[len(all)-1].ID
		}
	}
}

// Put implements keys.Driver.
func (d *Driver) Put(tx engine.Tx, c *keys.Collection, before, after *keys.Doc, val []byte) error {
	t, err := on(tx)
	if err != nil {
		return err
	}
	if after == nil {
		if err := t.Queue("DELETE FROM "+d.table(c)+" WHERE id = $1", before.ID); err != nil {
			return err
		}
		return t.Publish(engine.Write{Key: keys.DocumentKey(c, before.ID), Deleted: true})
	}
	if err := d.check(tx, c, before, after); err != nil {
		return err
	}
	if err := t.Queue(d.upsert(c), rowOf(c, after, val)...); err != nil {
		return err
	}
	return t.Publish(engine.Write{Key: keys.DocumentKey(c, after.ID), Val: val})
}

// rowOf returns the columns of a record.
func rowOf(c *keys.Collection, x *keys.Doc, val []byte) []any {
	return append([]any{x.ID, int64(x.Rev), x.Deleted, string(c.AppendPublic(nil, x.Data)), val}, marks(x)...)
}

func (d *Driver) upsert(c *keys.Collection) string {
	return "INSERT INTO " + d.table(c) + ` (id, rev, is_deleted, data, stored, created_at, created_by, updated_at, updated_by, deleted_at, deleted_by, restored_at, restored_by)
		VALUES ($1, $2, $3, $4::text::jsonb, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (id) DO UPDATE SET rev = EXCLUDED.rev, is_deleted = EXCLUDED.is_deleted, data = EXCLUDED.data, stored = EXCLUDED.stored,
			created_at = EXCLUDED.created_at, created_by = EXCLUDED.created_by, updated_at = EXCLUDED.updated_at, updated_by = EXCLUDED.updated_by,
			deleted_at = EXCLUDED.deleted_at, deleted_by = EXCLUDED.deleted_by, restored_at = EXCLUDED.restored_at, restored_by = EXCLUDED.restored_by`
}

// marks returns the times and actors of a record, null where there are none.
func marks(x *keys.Doc) (all []any) {
	for _, m := range x.Marks {
		all = append(all, at(m.At), by(m))
	}
	return all
}

func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func by(m keys.Mark) *string {
	if m.At.IsZero() || m.By == "" {
		return nil
	}
	return &m.By
}

// check returns the error of Put about the values of a record.
func (d *Driver) check(tx engine.Tx, c *keys.Collection, before, after *keys.Doc) error {
	for i := range c.Stored() {
		x := &c.Stored()[i]
		if err := x.CheckLength(after); err != nil {
			return err
		}
		// One that is not ready holds too, or what is written while it is being built could make that fail. Until it is there
		// the search reads the table.
		if !x.Unique || after.Deleted || before != nil && !before.Deleted && same(x.Values(before), x.Values(after)) {
			continue
		}
		w := &where{c: c}
		w.add("NOT is_deleted AND id <> " + w.arg(after.ID))
		null := false
		for i, v := range x.Values(after) {
			null = null || v.IsNull()
			w.add(w.compare(x.Fields[i].Name, "=", v))
		}
		if null {
			continue
		}
		var id string
		err := rowsOf(tx, "SELECT id FROM "+d.table(c)+w.text()+" LIMIT 1", w.args, []any{&id}, func() bool { return false })
		if err != nil {
			return err
		}
		if id != "" {
			return &keys.DuplicateError{Index: x.Index, ID: id}
		}
	}
	return nil
}

func same(a, b []value.Value) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// recorder turns what the driver for keys writes into writes that are only published.
type recorder struct {
	engine.Tx
	to writer
}

func (r recorder) Put(key, val []byte) error { return r.to.Publish(engine.Write{Key: key, Val: val}) }
func (r recorder) Delete(key []byte) error {
	return r.to.Publish(engine.Write{Key: key, Deleted: true})
}

// Append implements keys.Driver.
func (d *Driver) Append(tx engine.Tx, c *keys.Collection, ch *keys.Change, hash [sha256.Size]byte) error {
	t, err := on(tx)
	if err != nil {
		return err
	}
	if ch.Redacted() {
		return d.appendRedacted(t, c, ch, hash)
	}
	err = t.Queue("INSERT INTO "+d.log(c)+` (id, rev, seq, op, at, "by", request, body, "full", link) VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::json, $9, $10)`,
		ch.ID, int64(ch.Rev), int64(ch.Seq), ch.Op.String(), ch.At, ch.By, ch.Request, string(ch.Body), ch.Full, hash[:keys.LinkBytes])
	if err != nil {
		return err
	}
	return keys.Ordered().Append(recorder{tx, t}, c, ch, hash)
}

// Replace implements keys.Driver.
func (d *Driver) Replace(tx engine.Tx, c *keys.Collection, ch *keys.Change) error {
	t, err := on(tx)
	if err != nil {
		return err
	}
	err = t.Queue("UPDATE "+d.log(c)+` SET body = NULL, "full" = NULL, sum = $3, redacted_at = $4, redacted_by = $5 WHERE id = $1 AND rev = $2`,
		ch.ID, int64(ch.Rev), ch.Sum[:], ch.Redaction.At, ch.Redaction.By)
	if err != nil {
		return err
	}
	return keys.Ordered().Replace(recorder{tx, t}, c, ch)
}

// Forget implements keys.Driver.
func (d *Driver) Forget(tx engine.Tx, c *keys.Collection, ch *keys.Change) error {
	t, err := on(tx)
	if err != nil {
		return err
	}
	if err := t.Queue("DELETE FROM "+d.log(c)+" WHERE id = $1 AND rev = $2", ch.ID, int64(ch.Rev)); err != nil {
		return err
	}
	return keys.Ordered().Forget(recorder{tx, t}, c, ch)
}
