package tables

import (
	"crypto/sha256"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

var _ keys.Converter = (*Driver)(nil)

// Prepare implements keys.Converter.
func (d *Driver) Prepare(tx engine.Tx) error {
	encoding := ""
	if err := rowsOf(tx, "SELECT current_setting('server_encoding')", nil, []any{&encoding}, func() bool { return false }); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return engine.Errorf(engine.CodeUnsupported, "the database has encoding %s, which cannot hold every text; records in tables need UTF8", encoding)
	}
	for _, sql := range d.Setup() {
		if err := queue(tx, sql); err != nil {
			return err
		}
	}
	n := 0 // what comes next is prepared before anything of the same round trip runs
	return rowsOf(tx, "SELECT 1", nil, []any{&n}, func() bool { return false })
}

// Quietly implements keys.Converter.
func (d *Driver) Quietly(tx engine.Tx, fn func() error) error {
	t, err := on(tx)
	if err != nil {
		return err
	}
	return t.Quietly(fn)
}

// Moment implements keys.Converter.
func (d *Driver) Moment(tx engine.Tx) (xid string, err error) {
	err = rowsOf(tx, "SELECT pg_current_xact_id()::xid::text", nil, []any{&xid}, func() bool { return false })
	return xid, err
}

// Passed implements keys.Converter. A snapshot in which the tables are still used must not outlive them: it would find those of
// the next conversion under their names, empty.
func (d *Driver) Passed(tx engine.Tx, moment string) error {
	n := 0
	sql := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL AND age(backend_xmin) >= age($1::text::xid)"
	if err := rowsOf(tx, sql, []any{moment}, []any{&n}, func() bool { return false }); err != nil || n == 0 {
		return err
	}
	return engine.Errorf(engine.CodeUnavailable, "record: what was converted may still be being read, and is removed afterwards")
}

// unused returns an error that will pass if somebody reads the tables of a collection that are to be dropped: all who write
// would wait for him together with DROP TABLE.
func (d *Driver) unused(tx engine.Tx, relation string) error {
	n := 0
	sql := "SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND relation IN (to_regclass($1), to_regclass($2))"
	args := []any{quote(d.documents, relation), quote(d.changes, relation)}
	if err := rowsOf(tx, sql, args, []any{&n}, func() bool { return false }); err != nil || n == 0 {
		return err
	}
	return engine.Errorf(engine.CodeUnavailable, "record: the tables %s are still being read, and are dropped afterwards", relation)
}

// appendRedacted is Append for a change that was redacted before it was copied.
func (d *Driver) appendRedacted(t writer, c *keys.Collection, ch *keys.Change, hash [sha256.Size]byte) error {
	return t.Queue("INSERT INTO "+d.log(c)+` (id, rev, seq, op, at, "by", request, sum, redacted_at, redacted_by, link) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		ch.ID, int64(ch.Rev), int64(ch.Seq), ch.Op.String(), ch.At, ch.By, ch.Request, ch.Sum[:], ch.Redaction.At, ch.Redaction.By, hash[:keys.LinkBytes])
}
