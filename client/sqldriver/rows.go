package sqldriver

import (
	"database/sql"
	"database/sql/driver"
	"io"
	"math"
	"reflect"
	"time"
)

// rows iterates over one result, which is completely in memory. The memory of a
// connection's rows is reused after Close.
type rows struct {
	lay   *layout
	at    cursor
	left  int            // rows after first
	first []driver.Value // the first row, read to check whether it matches the schema
	begun bool           // first was returned
	open  bool           // not closed
}

// start sets r to the rows of a reply, or returns errMisfit.
func (r *rows) start(lay *layout, raw []byte) error {
	at, n, err := lay.begin(raw)
	if err != nil {
		return err
	}
	r.lay, r.at, r.left, r.begun, r.open = lay, at, n, true, true
	if n == 0 {
		return nil
	}
	if cap(r.first) < len(lay.names) {
		r.first = make([]driver.Value, len(lay.names))
	}
	r.first = r.first[:len(lay.names)]
	r.begun = false
	r.left--
	return lay.row(&r.at, r.first)
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string { return r.lay.names }

// Next implements driver.Rows.
func (r *rows) Next(dest []driver.Value) error {
	if !r.begun {
		r.begun = true
		copy(dest, r.first)
		return nil
	}
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	return r.lay.row(&r.at, dest)
}

// Close implements driver.Rows.
func (r *rows) Close() error {
	clear(r.first)
	r.at, r.left, r.begun, r.open = cursor{}, 0, true, false
	return nil
}

// ColumnTypeScanType implements driver.RowsColumnTypeScanType.
func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	t := r.lay.types[i]
	if t == nil {
		return reflect.TypeFor[any]()
	}
	switch t.Kind {
	case kindBool:
		return scanType[bool, sql.NullBool](t)
	case kindInt:
		return intType(t)
	case kindUint:
		return uintType(t)
	case kindFloat:
		if t.Bits == 32 && !t.Nullable {
			return reflect.TypeFor[float32]()
		}
		return scanType[float64, sql.NullFloat64](t)
	case kindString:
		return scanType[string, sql.NullString](t)
	case kindTime:
		return scanType[time.Time, sql.NullTime](t)
	}
	return reflect.TypeFor[[]byte]()
}

func scanType[T, Null any](t *typ) reflect.Type {
	if t.Nullable {
		return reflect.TypeFor[Null]()
	}
	return reflect.TypeFor[T]()
}

func intType(t *typ) reflect.Type {
	switch t.Bits {
	case 8:
		return scanType[int8, sql.NullInt16](t)
	case 16:
		return scanType[int16, sql.NullInt16](t)
	case 32:
		return scanType[int32, sql.NullInt32](t)
	}
	return scanType[int64, sql.NullInt64](t)
}

func uintType(t *typ) reflect.Type {
	switch t.Bits {
	case 8:
		return scanType[uint8, sql.NullByte](t)
	case 16:
		return scanType[uint16, sql.Null[uint16]](t)
	case 32:
		return scanType[uint32, sql.Null[uint32]](t)
	}
	return scanType[uint64, sql.Null[uint64]](t)
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName. It returns
// names that tools know from other databases.
func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	t := r.lay.types[i]
	if t == nil {
		return "ANY"
	}
	switch t.Kind {
	case kindBool:
		return "BOOLEAN"
	case kindInt:
		return intName(t.Bits)
	case kindUint:
		return intName(t.Bits) + " UNSIGNED"
	case kindFloat:
		if t.Bits == 32 {
			return "REAL"
		}
		return "DOUBLE"
	case kindString:
		return "TEXT"
	case kindBytes:
		return "BLOB"
	case kindTime:
		return "TIMESTAMP"
	}
	return "JSON"
}

func intName(bits int) string {
	switch bits {
	case 8:
		return "TINYINT"
	case 16:
		return "SMALLINT"
	case 32:
		return "INTEGER"
	}
	return "BIGINT"
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable. A type with its own JSON
// encoding may be null even if the schema does not say so.
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	t := r.lay.types[i]
	if t == nil || t.Kind == kindJSON {
		return true, t != nil
	}
	return t.Nullable, true
}

// ColumnTypeLength implements driver.RowsColumnTypeLength. Text, bytes and JSON have no
// fixed length.
func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if t := r.lay.types[i]; t != nil {
		switch t.Kind {
		case kindString, kindBytes, kindJSON, kindObject, kindList, kindMap:
			return math.MaxInt64, true
		}
	}
	return 0, false
}
