package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
)

// create returns the statements that create the tables of a collection.
func (d *Driver) create(c *keys.Collection) []string {
	return []string{
		"CREATE TABLE " + d.table(c) + ` (
			id text COLLATE "C" PRIMARY KEY,
			rev bigint NOT NULL,
			created_at timestamptz, created_by text COLLATE "C",
			updated_at timestamptz, updated_by text COLLATE "C",
			deleted_at timestamptz, deleted_by text COLLATE "C",
			restored_at timestamptz, restored_by text COLLATE "C",
			is_deleted boolean NOT NULL DEFAULT false,
			data jsonb NOT NULL,
			stored bytea NOT NULL,
			pending int NOT NULL DEFAULT 0)`,
		"CREATE TABLE " + d.log(c) + ` (
			id text COLLATE "C" NOT NULL,
			rev bigint NOT NULL,
			seq bigint NOT NULL UNIQUE,
			op text NOT NULL,
			at timestamptz NOT NULL,
			"by" text NOT NULL,
			request text NOT NULL,
			body json,
			"full" bytea,
			redacted_at timestamptz, redacted_by text,
			sum bytea,
			link bytea NOT NULL,
			PRIMARY KEY (id, rev))`,
	}
}

// Describe implements keys.Driver. A description that changes the form of data writes the column data of all rows.
func (d *Driver) Describe(tx engine.Tx, c *keys.Collection) error {
	var form int64
	same := false
	args := []any{int64(c.ID), spec(c)}
	err := rowsOf(tx, "SELECT form, spec = $2::text::jsonb FROM "+d.registry()+" WHERE id = $1", args, []any{&form, &same}, func() bool { return false })
	if err != nil {
		return err
	}
	if form == 0 {
		if err := d.add(tx, c); err != nil {
			return err
		}
		return d.build(tx, c)
	}
	if !same || form != int64(c.Form()) {
		if err := d.lock(tx, c); err != nil {
			return err
		}
		if err := queue(tx, "UPDATE "+d.registry()+" SET spec = $2::text::jsonb WHERE id = $1", args...); err != nil {
			return err
		}
	}
	if form != int64(c.Form()) {
		if err := d.show(tx, c); err != nil {
			return err
		}
	}
	return d.build(tx, c)
}

// lock waits for the transactions of other programs that have changed the collection, and keeps others out until the end.
func (d *Driver) lock(tx engine.Tx, c *keys.Collection) error {
	return queue(tx, "SELECT pg_advisory_xact_lock(hashtext($1), $2)", d.documents, int32(c.ID))
}

// add creates the tables of a new collection. Those of another one with its name, which is being dropped, get another name.
func (d *Driver) add(tx engine.Tx, c *keys.Collection) error {
	var old int64
	err := rowsOf(tx, "SELECT id FROM "+d.registry()+" WHERE relation = $1", []any{c.Name}, []any{&old}, func() bool { return false })
	if err != nil {
		return err
	}
	if old != 0 {
		to := fmt.Sprintf("_dropped_%d", old)
		for _, in := range []string{d.documents, d.changes} {
			if err := queue(tx, "ALTER TABLE "+quote(in, c.Name)+" RENAME TO "+quote(to)); err != nil {
				return err
			}
		}
		if err := queue(tx, "UPDATE "+d.registry()+" SET relation = $2 WHERE id = $1", old, to); err != nil {
			return err
		}
	}
	for _, sql := range append(d.create(c), d.watch(c)...) {
		if err := queue(tx, sql); err != nil {
			return err
		}
	}
	return queue(tx, "INSERT INTO "+d.registry()+" (id, relation, form, spec) VALUES ($1, $2, $3, $4::text::jsonb)", int64(c.ID), c.Name, int64(c.Form()), spec(c))
}

// show writes the data of all rows in the form of the description.
func (d *Driver) show(tx engine.Tx, c *keys.Collection) error {
	if err := keys.TakeAll(tx, c); err != nil {
		return err
	}
	for x, err := range d.Documents(tx, c, "") {
		if err != nil {
			return err
		}
		r, err := c.Read(x)
		if err != nil {
			return err
		}
		if err := queue(tx, "UPDATE "+d.table(c)+" SET data = $2::text::jsonb WHERE id = $1", x.ID, string(c.AppendPublic(nil, r.Data))); err != nil {
			return err
		}
	}
	return queue(tx, "UPDATE "+d.registry()+" SET form = $2 WHERE id = $1", int64(c.ID), int64(c.Form()))
}

// build creates the indexes that are ready and not there, or there with another definition.
func (d *Driver) build(tx engine.Tx, c *keys.Collection) error {
	have := map[uint16]string{}
	var id int32
	var text string
	err := rowsOf(tx, "SELECT id, definition FROM "+d.indexes()+" WHERE collection = $1", []any{int64(c.ID)}, []any{&id, &text}, func() bool {
		have[uint16(id)] = text
		return true
	})
	if err != nil {
		return err
	}
	for _, x := range c.Stored() { // before the first statement: the transaction goes on after this error
		if x.Ready && x.Unique && have[x.ID] == "" {
			if err := d.duplicate(tx, c, x.Index); err != nil {
				return err
			}
		}
	}
	for id := range have { // a unique one must not refuse anything any more
		if !slices.ContainsFunc(c.Stored(), func(x keys.Index) bool { return x.ID == id }) {
			if err := d.dropIndex(tx, c.ID, id); err != nil {
				return err
			}
		}
	}
	for _, x := range c.Stored() {
		want := definition(c, x.Index)
		if !x.Ready || have[x.ID] == want {
			continue
		}
		if have[x.ID] != "" {
			if err := d.dropIndex(tx, c.ID, x.ID); err != nil {
				return err
			}
		}
		if err := d.buildIndex(tx, c, x, want); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) buildIndex(tx engine.Tx, c *keys.Collection, x keys.Index, definition string) error {
	create := "CREATE INDEX "
	if x.Unique {
		create = "CREATE UNIQUE INDEX "
	}
	if err := queue(tx, create+quote(indexName(c.ID, x.ID))+" ON "+d.table(c)+" "+definition); err != nil {
		return err
	}
	return queue(tx, "INSERT INTO "+d.indexes()+" (collection, id, definition) VALUES ($1, $2, $3)", int64(c.ID), int32(x.ID), definition)
}

func indexName(collection uint32, index uint16) string {
	return fmt.Sprintf("_index_%d_%d", collection, index)
}

// duplicate returns a *keys.DuplicateError if two records have the same values for an index.
func (d *Driver) duplicate(tx engine.Tx, c *keys.Collection, x schema.Index) error {
	var all []string
	terms := []string{"NOT is_deleted"}
	for _, f := range x.Fields {
		sql, _ := expression(c, f.Name)
		all = append(all, sql)
		terms = append(terms, sql+" IS NOT NULL")
	}
	var first, last string
	sql := "SELECT min(id), max(id) FROM " + d.table(c) + " WHERE " + strings.Join(terms, " AND ") + " GROUP BY " + strings.Join(all, ", ") + " HAVING count(*) > 1 LIMIT 1"
	if err := rowsOf(tx, sql, nil, []any{&first, &last}, func() bool { return false }); err != nil || last == "" {
		return err
	}
	return &keys.DuplicateError{Index: x, ID: first, Of: last}
}

// Build implements keys.Driver: Describe builds indexes as a whole.
func (d *Driver) Build(_ engine.Tx, c *keys.Collection, x *keys.Doc) error {
	for i := range c.Stored() {
		if c.Stored()[i].Ready {
			continue
		}
		if err := c.Stored()[i].CheckLength(x); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) dropIndex(tx engine.Tx, collection uint32, index uint16) error {
	if err := queue(tx, "DROP INDEX IF EXISTS "+quote(d.documents, indexName(collection, index))); err != nil {
		return err
	}
	return queue(tx, "DELETE FROM "+d.indexes()+" WHERE collection = $1 AND id = $2", int64(collection), int32(index))
}

// Sweep implements keys.Driver.
func (d *Driver) Sweep(tx engine.Tx, collection uint32, index uint16) (int, error) {
	return 0, d.dropIndex(tx, collection, index)
}

// Drop implements keys.Driver.
func (d *Driver) Drop(tx engine.Tx, collection uint32) (int, error) {
	var relation string
	err := rowsOf(tx, "SELECT relation FROM "+d.registry()+" WHERE id = $1", []any{int64(collection)}, []any{&relation}, func() bool { return false })
	if err != nil || relation == "" {
		return 0, err
	}
	if err := d.unused(tx, relation); err != nil {
		return 0, err
	}
	for _, sql := range []string{"DROP TABLE " + quote(d.documents, relation), "DROP TABLE " + quote(d.changes, relation)} {
		if err := queue(tx, sql); err != nil {
			return 0, err
		}
	}
	for _, sql := range []string{"DELETE FROM " + d.registry() + " WHERE id = $1", "DELETE FROM " + d.indexes() + " WHERE collection = $1", "DELETE FROM " + d.outbox() + " WHERE collection = $1"} {
		if err := queue(tx, sql, int64(collection)); err != nil {
			return 0, err
		}
	}
	return 1, nil
}

// Indexed implements keys.Driver. PostgreSQL keeps the indexes; what they are made of is the column data.
func (d *Driver) Indexed(tx engine.Tx, c *keys.Collection, x *keys.Doc) error {
	same := false
	sql := "SELECT data = $2::text::jsonb AND rev = $3 AND is_deleted = $4 FROM " + d.table(c) + " WHERE id = $1"
	args := []any{x.ID, string(c.AppendPublic(nil, x.Data)), int64(x.Rev), x.Deleted}
	if err := rowsOf(tx, sql, args, []any{&same}, func() bool { return false }); err != nil || same {
		return err
	}
	return &keys.Fault{Collection: c.Name, ID: x.ID, Rev: x.Rev, Text: "the columns of the record are not what is stored of it: another program has changed them"}
}

// Inspect implements keys.Driver: the indexes that the description asks for must be there and valid.
func (d *Driver) Inspect(tx engine.Tx, c *keys.Collection, p keys.Part, _ []byte, _ int) (looked int, next []byte, err error) {
	if p != keys.Indexes {
		return 0, nil, d.Guarded(tx, c) // changes are stored once
	}
	var have []string
	var name string
	err = rowsOf(tx, "SELECT i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = $1 AND t.relname = $2 AND x.indisvalid AND x.indisready",
		[]any{d.documents, c.Name}, []any{&name}, func() bool { have = append(have, name); return true })
	if err != nil {
		return 0, nil, err
	}
	for _, x := range c.Stored() {
		if !x.Ready {
			continue
		}
		looked++
		if !slices.Contains(have, indexName(c.ID, x.ID)) {
			return looked, nil, &keys.Fault{Collection: c.Name, Text: "the table has lost its index " + x.Name}
		}
	}
	return looked, nil, nil
}
