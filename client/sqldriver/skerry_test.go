package sqldriver_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/client/sqldriver"
)

// openDB opens a pool by its DSN until the test ends.
func openDB(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(sqldriver.Name, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// TestSuite runs the suite on a real server.
func TestSuite(t *testing.T) {
	s := newServer(t)
	o := offer{
		open: func(t *testing.T) *sql.DB { return openDB(t, s.dsn("")) },
		echo: map[string]string{
			"int": "CALL echo_int(?)", "float": "CALL echo_float($1)", "bool": "SELECT * FROM echo_bool(?);",
			"text": "{CALL echo_text(?)}", "bytes": "call echo_bytes(?)", "time": "CALL echo_time(v => ?) -- by name",
		},
		count: "SELECT * FROM count(?)", pair: "CALL pair(?, ?)", none: "CALL nothing()", add: "CALL add(?, ?)", sum: "CALL sum(?)",
		fail: "CALL fail('too_many')", wait: "CALL wait()", named: "CALL pair(@a, :b)",
		wrong: []string{"", "CALL", "CALL f(", "SELECT 1", "CALL f(?, $1)", "CALL f(); CALL f()", "/* open", "INSERT INTO t VALUES (1)", "CALL f(" + strings.Repeat("1,", sqldriver.MaxArguments) + "1)"},
		hold:  s.gate.hold, free: s.gate.free,
		restart: func(t *testing.T) { s.end(); s.start(t) },
	}
	suite(t, o)
}

// TestArgumentForms checks that all forms of the arguments of one call are equivalent.
func TestArgumentForms(t *testing.T) {
	t.Parallel()
	db := openDB(t, newServer(t).dsn(""))
	for _, c := range []struct {
		query string
		args  []any
	}{
		{"CALL pair('x', 'y')", nil},
		{"CALL pair(?, ?)", []any{"x", "y"}},
		{"CALL pair($2, $1)", []any{"y", "x"}},
		{"CALL pair(?, 'y')", []any{"x"}},
		{"CALL pair(?, b => ?)", []any{"x", "y"}},
		{"CALL pair(b => ?, a => ?)", []any{"y", "x"}},
		{"CALL pair(b => 'y', a => :first)", []any{sql.Named("first", "x")}},
		{"CALL pair(@b, @a)", []any{sql.Named("a", "y"), sql.Named("b", "x")}},
		{"CALL pair(?, ?)", []any{sql.Named("b", "y"), sql.Named("a", "x")}},
		{"CALL pair", []any{"x", "y"}},
		{"CALL pair", []any{sql.Named("b", "y"), sql.Named("a", "x")}},
		{"CALL pair", []any{"x", sql.Named("b", "y")}},
		{"SELECT * FROM pair(b => ?, a => ?)", []any{"y", "x"}},
	} {
		var a, b string
		if err := db.QueryRowContext(t.Context(), c.query, c.args...).Scan(&a, &b); err != nil || a != "x" || b != "y" {
			t.Errorf("%s %v: %q, %q, %v", c.query, c.args, a, b, err)
		}
	}
	for query, args := range map[string][]any{
		"CALL pair(a => ?, a => 'x')": {"x"}, "CALL pair(?, a => ?)": {"x", "y"}, "CALL pair(b => ?)": {sql.Named("a", "x")},
		"CALL pair(:a, :b)": {"x", "y"}, "CALL pair": {sql.Named("a", "x"), "y"}, "CALL pair(?)": {sql.Named("c", "x")},
		"CALL echo_int('seven')": nil, "CALL echo_float(?)": {math.Inf(1)}, "CALL echo_float(v => ?)": {math.NaN()}, "CALL echo_int(v => 'seven')": nil, "CALL plain_text(NULL)": nil, "CALL pair(?, ?, ?)": {"x", nil, "z"},
		"CALL fail()": nil, "CALL only_text(w => 'x')": nil, "CALL only_text('x', NULL)": nil, "CALL pair(?, NULL)": {"no UTF-8: \xff"}, "CALL Pair('x', 'y')": nil, "CALL echo_int(?)": {sql.Out{}},
	} {
		if _, err := db.ExecContext(t.Context(), query, args...); err == nil {
			t.Errorf("%s %v: no error", query, args)
		}
	}
}

// TestDetails checks that a float32 is sent with its own digits, and that rows that can be
// NULL as a whole have nullable columns.
func TestDetails(t *testing.T) {
	t.Parallel()
	db := openDB(t, newServer(t).dsn(""))
	var text string
	if err := db.QueryRowContext(t.Context(), "CALL echo_float(?)", float32(0.1)).Scan(&text); err != nil || text != "0.1" {
		t.Errorf("%s, %v", text, err)
	}
	rows, err := db.QueryContext(t.Context(), "CALL echo_objects('[null]')")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil || len(types) != 2 {
		t.Fatal(err)
	}
	for _, c := range types {
		if nullable, known := c.Nullable(); !nullable || !known {
			t.Errorf("column %s of a list of pointers cannot be NULL", c.Name())
		}
	}
}

// TestEverything: one struct with every kind, by position and by name.
func TestEverything(t *testing.T) {
	t.Parallel()
	db := openDB(t, newServer(t).dsn(""))
	in := everything{
		Yes: true, Small: -8, Int: -1 << 60, Uint: 1<<64 - 1, Float: -2.5, Text: "naïve {\"", Bytes: []byte{0, 255, '{'}, Time: moment,
		Some: new(string), Object: inner{7, []string{"<a>", "b"}}, List: []inner{{1, nil}, {2, []string{}}}, Map: map[string]int64{"a": 1, "b": -2}, JSON: json.RawMessage(`{"any":[1,null]}`),
	}
	args := []any{in.Yes, in.Small, in.Int, in.Uint, in.Float, in.Text, in.Bytes, in.Time, in.None, in.Some, in.Object, in.List, in.Map, in.JSON}
	names := strings.Fields("yes small int uint float text bytes time none some object list map json")
	byName := make([]any, len(args))
	for i := range args {
		byName[i] = sql.Named(names[i], args[i])
	}
	for _, args := range [][]any{args, byName} {
		rows, err := db.QueryContext(t.Context(), "CALL everything", args...)
		if err != nil {
			t.Fatal(err)
		}
		types, err := rows.ColumnTypes()
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for i, c := range types {
			length, limited := c.Length()
			nullable, known := c.Nullable()
			if c.Name() != names[i] || !known || limited != (length > 0) {
				t.Errorf("column %d is %s, nullable known: %t, length %d", i, c.Name(), known, length)
			}
			text.WriteString(c.DatabaseTypeName() + " " + c.ScanType().String() + " " + strconv.FormatBool(nullable) + "\n")
		}
		want := "BOOLEAN bool false\nTINYINT int8 false\nBIGINT int64 false\nBIGINT UNSIGNED uint64 false\nDOUBLE float64 false\nTEXT string false\nBLOB []uint8 false\n" +
			"TIMESTAMP time.Time false\nBIGINT sql.NullInt64 true\nTEXT sql.NullString true\nJSON []uint8 false\nJSON []uint8 false\nJSON []uint8 false\nJSON []uint8 true\n"
		if text.String() != want {
			t.Errorf("column types\n%snot\n%s", text.String(), want)
		}
		var out everything
		var object, list, pairs, raw []byte
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
		if err := rows.Scan(&out.Yes, &out.Small, &out.Int, &out.Uint, &out.Float, &out.Text, &out.Bytes, &out.Time, &out.None, &out.Some, &object, &list, &pairs, &raw); err != nil {
			t.Fatal(err)
		}
		rows.Close()
		for dest, text := range map[any][]byte{&out.Object: object, &out.List: list, &out.Map: pairs, &out.JSON: raw} {
			if err := json.Unmarshal(text, dest); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		in.List[0].Y = []string{} // a nil list arrives as an empty one
		if !reflect.DeepEqual(out, in) {
			t.Errorf("%+v\ncame back as\n%+v", in, out)
		}
	}
}

// TestShapes checks how results become rows.
func TestShapes(t *testing.T) {
	t.Parallel()
	db := openDB(t, newServer(t).dsn(""))
	for query, want := range map[string]string{
		"CALL echo_int(5)":                                                  "result | 5",
		"CALL echo_int(NULL)":                                               "result | NULL",
		"CALL echo_uint(18446744073709551615)":                              "result | 18446744073709551615",
		"CALL echo_float(-0.5e1)":                                           "result | -5",
		"CALL plain_text('{')":                                              "result | {",
		"CALL plain_text('{\"v\":\"all of them\"}')":                        "result | {\"v\":\"all of them\"}",
		"CALL echo_text('{\"v\":\"all of them\"}')":                         "result | {\"v\":\"all of them\"}",
		"CALL echo_text('')":                                                "result | ",
		"CALL plain_bytes(X'0aff')":                                         "result | \n\xff",
		"CALL echo_json('[1, {\"a\":null}]')":                               "result | [1,{\"a\":null}]",
		"CALL echo_object('{\"x\":1,\"y\":[\"a\"]}')":                       "x, y | 1, [\"a\"]",
		"CALL echo_object(NULL)":                                            "x, y",
		"CALL echo_list('[1,2,3]')":                                         "result | 1 | 2 | 3",
		"CALL echo_list('[]')":                                              "result",
		"CALL echo_map('{\"b\":2,\"a\":1}')":                                "key, value | a, 1 | b, 2",
		"CALL echo_objects('[{\"x\":1,\"y\":[]},null,{\"x\":3,\"y\":[]}]')": "x, y | 1, [] | NULL, NULL | 3, []",
		"CALL nothing()":                                                    "",
		"CALL count(3)":                                                     "n | 0 | 1 | 2",
		"CALL pair('5', NULL)":                                              "a, b | 5, NULL",
		"CALL pair('true', b => '{}')":                                      "a, b | true, {}",
		"CALL pair('a', NULL)":                                              "a, b | a, NULL",
	} {
		if got, err := table(t.Context(), db, query); err != nil || got != want {
			t.Errorf("%s\n is: %q\nnot: %q (%v)", query, got, want, err)
		}
	}
}

// table formats the rows of a query.
func table(ctx context.Context, db *sql.DB, query string, args ...any) (string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	lines := []string{strings.Join(names, ", ")}
	for rows.Next() {
		cells, dest := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			dest[i] = &cells[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return "", err
		}
		texts := make([]string, len(names))
		for i, c := range cells {
			if texts[i] = c.String; !c.Valid {
				texts[i] = "NULL"
			}
		}
		lines = append(lines, strings.Join(texts, ", "))
	}
	return strings.Join(lines, " | "), rows.Err()
}

func TestResult(t *testing.T) {
	t.Parallel()
	db := openDB(t, newServer(t).dsn(""))
	for query, want := range map[string]int64{"CALL add('k', 5)": 5, "CALL touch(1)": 3} {
		res, err := db.ExecContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); err != nil || n != want {
			t.Errorf("%s: %d rows, %v", query, n, err)
		}
		if _, err := res.LastInsertId(); err == nil {
			t.Errorf("%s: there is a LastInsertId", query)
		}
	}
	for _, query := range []string{"CALL nothing()", "CALL plain_text('5')", "CALL pair('a', 'b')", "CALL count(3)"} {
		res, err := db.ExecContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); err == nil {
			t.Errorf("%s: %d rows are reported without a count", query, n)
		}
	}
}

// TestErrors checks that errors of the server and its procedures arrive with their codes.
func TestErrors(t *testing.T) {
	t.Parallel()
	db := openDB(t, newServer(t).dsn(""))
	for query, code := range map[string]string{
		"CALL fail('too_many_votes', 'text')": "too_many_votes", "CALL pear('a', 'b')": "unknown_procedure", "SELECT * FROM pear()": "unknown_procedure",
		"CALL echo_int('x')": "invalid", "CALL add('k')": "invalid",
	} {
		_, err := db.ExecContext(t.Context(), query)
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != code || !errors.Is(err, &client.Error{Code: code}) {
			t.Errorf("%s: %v, not of code %s", query, err, code)
		}
	}
	if _, err := db.ExecContext(t.Context(), "CALL pear('a', 'b')"); !strings.Contains(err.Error(), "pair") {
		t.Errorf("the error does not suggest pair: %v", err)
	}
	if _, err := db.QueryContext(t.Context(), "SELECT * FROM add('k', 1)"); err == nil || !strings.Contains(err.Error(), "CALL add") {
		t.Errorf("SELECT of a procedure that writes: %v", err)
	}
	var n int64
	if err := db.QueryRowContext(t.Context(), "CALL sum('k')").Scan(&n); err != nil || n != 0 {
		t.Errorf("a rejected SELECT wrote %d (%v)", n, err)
	}
}

// TestDriverContract checks that a connection implements every interface that database/sql
// uses.
func TestDriverContract(t *testing.T) {
	t.Parallel()
	var d driver.Driver = sqldriver.Driver{}
	if _, ok := d.(driver.DriverContext); !ok {
		t.Error("no driver.DriverContext")
	}
	c, err := d.Open(newServer(t).dsn(""))
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		"QueryerContext": is[driver.QueryerContext](c), "ExecerContext": is[driver.ExecerContext](c), "ConnPrepareContext": is[driver.ConnPrepareContext](c),
		"Pinger": is[driver.Pinger](c), "Validator": is[driver.Validator](c), "SessionResetter": is[driver.SessionResetter](c),
		"NamedValueChecker": is[driver.NamedValueChecker](c), "ConnBeginTx": is[driver.ConnBeginTx](c),
	} {
		if !ok {
			t.Errorf("no driver.%s", name)
		}
	}
	st, err := c.Prepare("CALL pair(?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	old := st.(interface { // methods that database/sql no longer uses work too
		Query([]driver.Value) (driver.Rows, error)
		Exec([]driver.Value) (driver.Result, error)
	})
	rows, err := old.Query([]driver.Value{"x", "y"})
	if err != nil || !reflect.DeepEqual(rows.Columns(), []string{"a", "b"}) {
		t.Errorf("%v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Prepare("CALL f()"); !errors.Is(err, driver.ErrBadConn) {
		t.Errorf("a closed connection: %v", err)
	}
	if _, err := old.Exec(nil); !errors.Is(err, driver.ErrBadConn) {
		t.Errorf("a statement of a closed connection: %v", err)
	}
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// TestRowsOnOneConn checks that several rows can be open on one connection.
func TestRowsOnOneConn(t *testing.T) {
	t.Parallel()
	db := openDB(t, newServer(t).dsn(""))
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var open [3]*sql.Rows
	for round := range 2 {
		for i := range open {
			if open[i], err = conn.QueryContext(t.Context(), "CALL count(?)", 3+i); err != nil {
				t.Fatal(err)
			}
		}
		for want := range 3 + len(open) - 1 {
			for i, rows := range open {
				var n int
				if more := rows.Next(); more != (want < 3+i) || more && (rows.Scan(&n) != nil || n != want) {
					t.Errorf("round %d, rows %d: %d, not %d (%v)", round, i, n, want, rows.Err())
				}
			}
		}
		for _, rows := range open {
			rows.Close()
		}
	}
}
