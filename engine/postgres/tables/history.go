package tables

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/keys"
)

// changeColumns are what row reads.
const changeColumns = `id, rev, seq, op, at, "by", request, body::text, "full", sum, redacted_at, redacted_by, link`

// row is a change as a row.
type row struct {
	id, op, by, request string
	rev, seq            int64
	at                  time.Time
	body                *string
	full, sum, link     []byte
	redactedAt          *time.Time
	redactedBy          *string
}

func (r *row) into() []any {
	return []any{&r.id, &r.rev, &r.seq, &r.op, &r.at, &r.by, &r.request, &r.body, &r.full, &r.sum, &r.redactedAt, &r.redactedBy, &r.link}
}

// change returns the change of a row.
func (r *row) change(c *keys.Collection) (*keys.Change, error) {
	ch := &keys.Change{ID: r.id, Rev: uint64(r.rev), Seq: uint64(r.seq), At: r.at.UTC(), By: r.by, Request: r.request}
	for op := keys.Create; op <= keys.Purge; op++ {
		if op.String() == r.op {
			ch.Op = op
		}
	}
	if r.body != nil {
		ch.Body, ch.Full = []byte(*r.body), r.full
	} else {
		copy(ch.Sum[:], r.sum)
		if r.redactedAt != nil {
			ch.Redaction.At = r.redactedAt.UTC()
		}
		if r.redactedBy != nil {
			ch.Redaction.By = *r.redactedBy
		}
	}
	if ch.Op == 0 || r.body == nil && len(r.sum) != len(ch.Sum) || len(r.link) != keys.LinkBytes {
		return nil, engine.Errorf(engine.CodeCorrupt, "read the history of %s: change %d of record %s: damaged", c.Name, r.rev, r.id)
	}
	return ch, nil
}

// Change implements keys.Driver.
func (d *Driver) Change(tx engine.Tx, c *keys.Collection, id string, rev uint64) (*keys.Change, error) {
	for e, err := range d.read(tx, c, "id = $1 AND rev >= $2 AND rev < $3", "rev", rev, rev+1, false, id) {
		return e.Change, err
	}
	return nil, nil
}

// ChangesOf implements keys.Driver.
func (d *Driver) ChangesOf(tx engine.Tx, c *keys.Collection, id string, from, to uint64, back bool) iter.Seq2[*keys.Change, error] {
	return func(yield func(*keys.Change, error) bool) {
		for e, err := range d.read(tx, c, "id = $1 AND rev >= $2 AND rev < $3", "rev", from, to, back, id) {
			if !yield(e.Change, err) || err != nil {
				return
			}
		}
	}
}

// Log implements keys.Driver.
func (d *Driver) Log(tx engine.Tx, c *keys.Collection, from, to uint64, back bool) iter.Seq2[keys.LogEntry, error] {
	return d.read(tx, c, "seq >= $1 AND seq < $2", "seq", from, to, back)
}

// read yields the changes that meet a condition on a number and perhaps a record, in the order of that number. It reads
// few rows at first: most callers need one, or those up to a full copy.
func (d *Driver) read(tx engine.Tx, c *keys.Collection, where, number string, from, to uint64, back bool, id ...any) iter.Seq2[keys.LogEntry, error] {
	order := "ASC"
	if back {
		order = "DESC"
	}
	lo, hi := int64(from), int64(to)
	if to == 0 {
		hi = math.MaxInt64
	}
	return func(yield func(keys.LogEntry, error) bool) {
		lo, hi := lo, hi
		for size := 8; lo < hi; size = min(2*size, chunk) {
			sql := fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s %s LIMIT %d", changeColumns, d.log(c), where, number, order, size)
			var all []keys.LogEntry
			var r row
			var damaged error
			err := rowsOf(tx, sql, append(id[:len(id):len(id)], lo, hi), r.into(), func() bool {
				var ch *keys.Change
				if ch, damaged = r.change(c); damaged != nil {
					return false
				}
				all = append(all, keys.LogEntry{Seq: ch.Seq, Rev: ch.Rev, ID: ch.ID, Link: string(r.link), Change: ch})
				r = row{}
				return true
			})
			for _, e := range all {
				if err == nil && !yield(e, nil) {
					return
				}
			}
			if err == nil {
				err = damaged
			}
			if err != nil {
				yield(keys.LogEntry{}, err)
				return
			}
			if len(all) < size {
				return
			}
			last := int64(all[len(all)-1].Seq)
			if number == "rev" {
				last = int64(all[len(all)-1].Rev)
			}
			if back {
				hi = last
			} else {
				lo = last + 1
			}
		}
	}
}
