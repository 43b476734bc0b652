package sqldriver

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/skerrydb/skerry/resp/wire"
)

// rowsAffected is the result field with the number of rows that a procedure changed.
const rowsAffected = "rows_affected"

// uncounted is the driver.Result of a procedure without that field.
type uncounted struct{ name string }

// LastInsertId implements driver.Result.
func (uncounted) LastInsertId() (int64, error) {
	return 0, errors.New("skerry: LastInsertId is not supported: a procedure returns new keys in its rows")
}

// RowsAffected implements driver.Result.
func (u uncounted) RowsAffected() (int64, error) {
	return 0, fmt.Errorf("skerry: the procedure %s does not report how many rows it changed: it would return an integer, or a struct with an integer %s", clip(u.name), rowsAffected)
}

// counted is the driver.Result of a procedure with it.
type counted struct {
	uncounted
	n int64
}

// RowsAffected implements driver.Result.
func (c *counted) RowsAffected() (int64, error) { return c.n, nil }

// resultOf makes a driver.Result from a reply.
func resultOf(st *statement, raw []byte) driver.Result {
	c := cursor{raw}
	it := c.next()
	if it.Kind == wire.KindInt {
		return &counted{uncounted{st.name}, it.Int}
	}
	if it.Kind == wire.KindMap {
		for range it.Len / 2 {
			name, ahead := c.next(), c.peek()
			if string(name.Str) == rowsAffected && ahead.Kind == wire.KindInt {
				return &counted{uncounted{st.name}, ahead.Int}
			}
			c.b, _ = wire.Skip(c.b)
		}
	}
	return &st.none
}
