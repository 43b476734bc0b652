package tables

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// documentColumns are what document reads. The last is null unless another program has changed the record.
const documentColumns = `id, stored, CASE WHEN pending > 0 THEN json_build_object('rev', rev, 'deleted', is_deleted, 'data', data, 'at', json_build_array(` +
	`round(extract(epoch FROM created_at) * 1000000), round(extract(epoch FROM updated_at) * 1000000), ` +
	`round(extract(epoch FROM deleted_at) * 1000000), round(extract(epoch FROM restored_at) * 1000000)), ` +
	`'by', json_build_array(created_by, updated_by, deleted_by, restored_by))::text END`

// document is a row of a table of documents.
type document struct {
	id      string
	stored  []byte
	waiting *string
}

func (r *document) into() []any { return []any{&r.id, &r.stored, &r.waiting} }

// form returns the row as a document in its stored form.
func (r *document) form(c *keys.Collection) ([]byte, error) {
	if r.waiting == nil {
		return r.stored, nil
	}
	var now struct {
		Rev     uint64
		Deleted bool
		Data    json.RawMessage
		At      [keys.Stamps]*float64 // microseconds since 1970
		By      [keys.Stamps]*string
	}
	if err := json.Unmarshal([]byte(*r.waiting), &now); err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "record %s of %s, which another program has changed: %w", r.id, c.Name, err)
	}
	d := &keys.Doc{ID: r.id, Rev: now.Rev, Deleted: now.Deleted}
	for i, at := range now.At {
		if at != nil {
			d.Marks[i].At = time.UnixMicro(int64(*at)).UTC()
		}
		if by := now.By[i]; by != nil {
			d.Marks[i].By = *by
		}
	}
	return c.AppendWaiting(nil, d, now.Data, r.stored)
}

// documentsOf reads the documents of a statement, at least one and then as long as they have at most so many bytes.
func (d *Driver) documentsOf(tx engine.Tx, c *keys.Collection, sql string, args []any, most int) (all []keys.Document, err error) {
	var r document
	var ferr error
	size := 0
	err = rowsOf(tx, sql, args, r.into(), func() bool {
		var val []byte
		if val, ferr = r.form(c); ferr != nil {
			return false
		}
		all = append(all, keys.Document{ID: r.id, Val: val})
		size += len(val)
		r = document{} // so that the next row does not reuse the bytes
		return size <= most
	})
	if err == nil {
		err = ferr
	}
	return all, err
}

func (d *Driver) outbox() string { return quote(d.documents, "_outbox") }

// maxWaiting is how many changes Waiting looks at.
const maxWaiting = 1000

// Waiting implements keys.Inbox.
func (d *Driver) Waiting(tx engine.Tx) (all []uint32, err error) {
	var id int64
	sql := "SELECT DISTINCT collection FROM (SELECT collection FROM " + d.outbox() + " ORDER BY n LIMIT " + strconv.Itoa(maxWaiting) + ") x"
	err = rowsOf(tx, sql, nil, []any{&id}, func() bool { all = append(all, uint32(id)); return true })
	return all, err
}

// Foreign implements keys.Inbox. Rows that are locked wait for another time, so that a program that keeps a lock does not
// stop everybody.
func (d *Driver) Foreign(tx engine.Tx, c *keys.Collection, id string, n int) (all []keys.Foreign, err error) {
	if _, err := on(tx); err != nil {
		return nil, err
	}
	sql := `WITH r AS MATERIALIZED (SELECT id, stored, pending FROM ` + d.table(c) + ` WHERE pending > 0 AND id `
	args := []any{int64(c.ID), id}
	if id != "" {
		sql += `= $2`
	} else {
		sql += `IN (SELECT id FROM ` + d.outbox() + ` WHERE collection = $1 AND id > $2 ORDER BY n LIMIT ` + strconv.Itoa(n) + `) FOR UPDATE SKIP LOCKED`
	}
	sql += `) SELECT o.n, o.id, o.is_deleted, o.data::text, o."by", o.request, r.stored, r.pending
		FROM r JOIN ` + d.outbox() + ` o ON o.collection = $1 AND o.id = r.id ORDER BY o.n LIMIT ` + strconv.Itoa(n)
	var f keys.Foreign
	var data string
	done := map[string]int{}
	err = rowsOf(tx, sql, args, []any{&f.N, &f.ID, &f.Deleted, &data, &f.By, &f.Request, &f.Known, &f.Left}, func() bool {
		f.Data = []byte(data)
		f.Left -= done[f.ID]
		done[f.ID]++
		all = append(all, f)
		f.Known = nil
		return true
	})
	return all, err
}

// Take implements keys.Inbox. If another change of the record has arrived since Foreign, the trigger stale refuses what it
// writes: pending is not what it should be, and stays as it is.
func (d *Driver) Take(tx engine.Tx, c *keys.Collection, f *keys.Foreign, after *keys.Doc, val []byte) error {
	t, err := on(tx)
	if err != nil {
		return err
	}
	if f.Left > 1 {
		err = t.Queue("UPDATE "+d.table(c)+" SET stored = $2, pending = pending - 1 WHERE id = $1", after.ID, val)
	} else {
		err = t.Queue(d.upsert(c)+", pending = CASE WHEN "+d.table(c)+".pending = 1 THEN 0 ELSE "+d.table(c)+".pending END", rowOf(c, after, val)...)
	}
	if err == nil {
		err = t.Queue("DELETE FROM "+d.outbox()+" WHERE n = $1", f.N)
	}
	if err != nil {
		return err
	}
	return t.Publish(engine.Write{Key: keys.DocumentKey(c, after.ID), Val: val})
}

// Again implements keys.Inbox.
func (d *Driver) Again(tx engine.Tx) bool {
	t, ok := tx.(writer)
	return ok && t.Again()
}

// Guarded implements keys.Inbox.
func (d *Driver) Guarded(tx engine.Tx, c *keys.Collection) error {
	var have []string
	var name string
	err := rowsOf(tx, "SELECT g.tgname FROM pg_trigger g JOIN pg_class t ON t.oid = g.tgrelid JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = $1 AND t.relname = $2 AND g.tgenabled IN ('O', 'A')",
		[]any{d.documents, c.Name}, []any{&name}, func() bool { have = append(have, name); return true })
	if err != nil {
		return err
	}
	for _, t := range triggers {
		if !slices.Contains(have, t[0]) {
			return &keys.Fault{Collection: c.Name, Text: "trigger " + t[0] + " of table " + d.table(c) + " is missing or disabled: changes that other programs make with SQL are not recorded"}
		}
	}
	return nil
}
