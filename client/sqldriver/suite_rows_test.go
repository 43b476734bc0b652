package sqldriver_test

import (
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

func (offer) testNoRows(t *testing.T, o offer, db *sql.DB) {
	var n int64
	if err := db.QueryRowContext(t.Context(), o.none).Scan(&n); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("QueryRow: %v", err)
	}
	if err := db.QueryRowContext(t.Context(), o.count, 0).Scan(&n); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("QueryRow of no rows: %v", err)
	}
	rows, err := db.QueryContext(t.Context(), o.none)
	if err != nil {
		t.Fatal(err)
	}
	if rows.Next() || rows.Err() != nil || rows.NextResultSet() {
		t.Errorf("there is a row: %v", rows.Err())
	}
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
	if _, err := db.ExecContext(t.Context(), o.none); err != nil {
		t.Error(err)
	}
}

func (offer) testRows(t *testing.T, o offer, db *sql.DB) {
	for _, n := range []int{0, 1, 2, 100, 5000} {
		rows, err := db.QueryContext(t.Context(), o.count, n)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for rows.Next() {
			var v int
			if err := rows.Scan(&v); err != nil || v != got {
				t.Fatalf("row %d of %d: %d, %v", got, n, v, err)
			}
			got++
		}
		if err := rows.Err(); err != nil || got != n {
			t.Errorf("%d rows of %d: %v", got, n, err)
		}
		if err := rows.Scan(new(int)); err == nil {
			t.Error("Scan after the last row: no error")
		}
		if rows.Next() || rows.NextResultSet() {
			t.Error("there is a row after the last one")
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
		if err := rows.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	}
}

func (offer) testColumns(t *testing.T, o offer, db *sql.DB) {
	for query, want := range map[string][]string{o.pair: {"a", "b"}, o.count: {"n"}} {
		args := []any{"2", "2"}[:len(want)]
		if len(want) == 1 {
			args[0] = 2
		}
		rows, err := db.QueryContext(t.Context(), query, args...)
		if err != nil {
			t.Fatal(err)
		}
		if names, err := rows.Columns(); err != nil || !reflect.DeepEqual(names, want) {
			t.Errorf("%s: columns %q, %v", query, names, err)
		}
		types, err := rows.ColumnTypes()
		if err != nil || len(types) != len(want) {
			t.Fatalf("%s: %d column types, %v", query, len(types), err)
		}
		dest := make([]any, len(types))
		for i, c := range types {
			if c.Name() != want[i] || c.DatabaseTypeName() == "" {
				t.Errorf("%s: column %d is %q of type %q", query, i, c.Name(), c.DatabaseTypeName())
			}
			dest[i] = reflect.New(c.ScanType()).Interface()
		}
		for rows.Next() {
			if err := rows.Scan(dest...); err != nil {
				t.Errorf("%s: what ScanType says does not fit: %v", query, err)
			}
		}
		if err := rows.Err(); err != nil {
			t.Error(err)
		}
		rows.Close()
		if _, err := rows.Columns(); err == nil {
			t.Error("Columns after Close: no error")
		}
	}
	for kind, query := range o.echo {
		rows, err := db.QueryContext(t.Context(), query, nil)
		if err != nil {
			t.Fatal(err)
		}
		types, err := rows.ColumnTypes()
		if err != nil {
			t.Fatal(err)
		}
		dest := reflect.New(types[0].ScanType()).Interface()
		if nullable, known := types[0].Nullable(); known && nullable && rows.Next() {
			if err := rows.Scan(dest); err != nil {
				t.Errorf("%s: NULL does not fit into ScanType %v: %v", kind, types[0].ScanType(), err)
			}
		}
		rows.Close()
	}
}

func (offer) testClosedEarly(t *testing.T, o offer, db *sql.DB) {
	db.SetMaxOpenConns(1)
	for i := range 20 {
		rows, err := db.QueryContext(t.Context(), o.count, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for range i {
			if !rows.Next() {
				t.Fatalf("%v", rows.Err())
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		var s string
		if err := db.QueryRowContext(t.Context(), o.echo["text"], fmt.Sprint(i)).Scan(&s); err != nil || s != fmt.Sprint(i) {
			t.Fatalf("after rows that were closed early: %q, %v", s, err)
		}
	}
}

func (offer) testManyOpen(t *testing.T, o offer, db *sql.DB) {
	const many, each = 50, 20
	var open [many]*sql.Rows
	for i := range open {
		rows, err := db.QueryContext(t.Context(), o.count, each)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		open[i] = rows
	}
	if n := db.Stats().InUse; n != many {
		t.Errorf("%d connections are in use by %d open rows", n, many)
	}
	for want := range each {
		for i, rows := range open {
			var v int
			if !rows.Next() || rows.Scan(&v) != nil || v != want {
				t.Fatalf("rows %d: %d, not %d: %v", i, v, want, rows.Err())
			}
		}
	}
	for i, rows := range open {
		if rows.Next() || rows.Err() != nil {
			t.Errorf("rows %d: one too many: %v", i, rows.Err())
		}
	}
}

func (offer) testExec(t *testing.T, o offer, db *sql.DB) {
	name := t.Name() + fmt.Sprint(seed.Of(t))
	for range 3 {
		if _, err := db.ExecContext(t.Context(), o.add, name, 5); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := db.QueryRowContext(t.Context(), o.sum, name).Scan(&n); err != nil || n != 15 {
		t.Errorf("3 × 5 is %d, %v", n, err)
	}
}

func (offer) testPrepared(t *testing.T, o offer, db *sql.DB) {
	st, err := db.PrepareContext(t.Context(), o.echo["text"])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		var s string
		if err := st.QueryRowContext(t.Context(), fmt.Sprint(i)).Scan(&s); err != nil || s != fmt.Sprint(i) {
			t.Fatalf("%q, %v", s, err)
		}
	}
	rows, err := st.QueryContext(t.Context(), "open")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	var s string
	if !rows.Next() || rows.Scan(&s) != nil || s != "open" {
		t.Errorf("rows that are open while their statement is closed: %q, %v", s, rows.Err())
	}
	rows.Close()
	if err := st.QueryRowContext(t.Context(), "x").Scan(&s); err == nil {
		t.Error("a closed statement works")
	}
	add, err := db.PrepareContext(t.Context(), o.add)
	if err != nil {
		t.Fatal(err)
	}
	defer add.Close()
	name := t.Name() + fmt.Sprint(seed.Of(t))
	for range 10 {
		if _, err := add.ExecContext(t.Context(), name, 2); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := db.QueryRowContext(t.Context(), o.sum, name).Scan(&n); err != nil || n != 20 {
		t.Errorf("10 × 2 is %d, %v", n, err)
	}
}
