package tables

import (
	"crypto/sha256"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

var _ keys.Converter = (*Driver)(nil)

// Prepare implements keys.Converter.
func (d *Driver) Prepare(tx engine.Tx) error {
	for _, sql := range d.Setup() {
		if err := queue(tx, sql); err != nil {
			return err
		}
	}
	return nil
}

// Quietly implements keys.Converter.
func (d *Driver) Quietly(tx engine.Tx, fn func() error) error {
	t, err := on(tx)
	if err != nil {
		return err
	}
	return t.Quietly(fn)
}

// appendRedacted is Append for a change that was redacted before it was copied.
func (d *Driver) appendRedacted(t writer, c *keys.Collection, ch *keys.Change, hash [sha256.Size]byte) error {
	return t.Queue("INSERT INTO "+d.log(c)+` (id, rev, seq, op, at, "by", request, sum, redacted_at, redacted_by, link) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		ch.ID, int64(ch.Rev), int64(ch.Seq), ch.Op.String(), ch.At, ch.By, ch.Request, ch.Sum[:], ch.Redaction.At, ch.Redaction.By, hash[:keys.LinkBytes])
}
