package sqldriver_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// offer is a database for the suite. Apart from it, the tests of this file and of
// suite_pool_test.go depend only on database/sql.
type offer struct {
	// open returns a new pool on the same database. The suite closes it.
	open func(t *testing.T) *sql.DB

	// Statements. Those of echo have one argument and return it as one row with one column,
	// by kind: int, float, bool, text, bytes, time. Each kind must accept NULL.
	echo  map[string]string
	count string // n: n rows with the column n, 0 to n-1
	pair  string // a, b of text: one row with the columns a and b
	none  string // no rows
	add   string // name, n: adds n to the counter with that name
	sum   string // name: one row with one column, the counter
	fail  string // the database rejects it when it runs
	wait  string // blocks until its context ends, if hold was called and free was not

	named   string   // :a and :b of text, given by name: one row a, b; "": not supported
	wrong   []string // statements that cannot be parsed
	hold    func()   // nil: not needed
	free    func()   // releases what wait blocks on the server; nil: not needed
	restart func(t *testing.T)
	begins  bool // transactions are supported
}

// suite tests everything that a driver must support.
func suite(t *testing.T, o offer) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, offer, *sql.DB)
	}{
		{"ping", o.testPing}, {"echo", o.testEcho}, {"scan", o.testScan}, {"null", o.testNull},
		{"scan error", o.testScanError}, {"raw bytes", o.testRawBytes}, {"named", o.testNamed},
		{"argument count", o.testArgumentCount}, {"wrong", o.testWrong}, {"fail", o.testFail},
		{"no rows", o.testNoRows}, {"rows", o.testRows}, {"columns", o.testColumns},
		{"rows closed early", o.testClosedEarly}, {"many open rows", o.testManyOpen}, {"exec", o.testExec},
		{"prepared", o.testPrepared}, {"prepared reconnects", o.testPreparedReconnects},
		{"concurrent", o.testConcurrent}, {"cancel", o.testCancel}, {"cancel rows", o.testCancelRows}, {"deadline", o.testDeadline},
		{"pool limit", o.testPoolLimit}, {"conn", o.testConn}, {"closed", o.testClosed},
		{"transactions", o.testTransactions}, {"leaks", o.testLeaks}, {"restart", o.testRestart},
	} {
		if o.hold == nil {
			o.hold, o.free = func() {}, func() {}
		}
		t.Run(part.name, func(t *testing.T) {
			db := o.open(t)
			part.run(t, o, db)
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if n := db.Stats().InUse; n != 0 {
				t.Errorf("%d connections are in use after Close", n)
			}
		})
	}
}

func (offer) testPing(t *testing.T, _ offer, db *sql.DB) {
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.PingContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ping with a context that is over: %v", err)
	}
}

// moment has the microsecond precision that every database stores.
var moment = time.Date(2026, 11, 21, 15, 4, 5, 123456000, time.UTC)

// testEcho checks that values are returned unchanged, scanned into their own type.
func (offer) testEcho(t *testing.T, o offer, db *sql.DB) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for kind, list := range map[string][]any{
		"int":   {int64(0), int64(1), int64(-1), int64(math.MaxInt64), int64(math.MinInt64)},
		"float": {0.0, 1.5, -2.25e-300, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e21, 123456789.125},
		"bool":  {true, false},
		"text":  {"", "a", "naïve ✓ 🙂", "it's \"quoted\" \\ `b`", "{\"a\":1}", "{", "NULL", "two\nlines\t", strings.Repeat("long ", 20000)},
		"bytes": {[]byte{}, []byte{0}, all, []byte("{}"), bytes.Repeat(all, 400)},
		"time":  {moment, time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
	} {
		for _, want := range list {
			got := reflect.New(reflect.TypeOf(want))
			if err := db.QueryRowContext(t.Context(), o.echo[kind], want).Scan(got.Interface()); err != nil {
				t.Errorf("%s %.40v: %v", kind, want, err)
				continue
			}
			if at, ok := want.(time.Time); ok {
				if back := got.Elem().Interface().(time.Time); !back.Equal(at) {
					t.Errorf("%s: %v came back as %v", kind, at, back)
				}
			} else if !reflect.DeepEqual(got.Elem().Interface(), want) {
				t.Errorf("%s: %.40v came back as %.40v", kind, want, got.Elem().Interface())
			}
		}
	}
	zone := time.FixedZone("east", 5*3600)
	var back time.Time
	if err := db.QueryRowContext(t.Context(), o.echo["time"], moment.In(zone)).Scan(&back); err != nil || !back.Equal(moment) {
		t.Errorf("a time in another zone came back as %v, %v", back, err)
	}
}

type named string

// testScan scans every kind into every type that it fits, and passes arguments of every Go
// type that database/sql supports.
func (offer) testScan(t *testing.T, o offer, db *sql.DB) {
	seven, text := 7, "text"
	for _, c := range []struct {
		kind string
		in   any
		want any // has the type of the destination
	}{
		{"int", 7, int(7)}, {"int", int8(-7), int8(-7)}, {"int", int16(7), int16(7)}, {"int", int32(7), int32(7)},
		{"int", uint8(7), uint8(7)}, {"int", uint16(7), uint16(7)}, {"int", uint32(7), uint32(7)}, {"int", uint64(7), uint64(7)},
		{"int", 7, "7"}, {"int", 7, []byte("7")}, {"int", 7, 7.0}, {"int", 1, true}, {"int", 7, any(int64(7))},
		{"int", &seven, 7}, {"int", sql.NullInt64{Int64: 7, Valid: true}, sql.NullInt64{Int64: 7, Valid: true}},
		{"int", sql.Null[int64]{V: 7, Valid: true}, sql.NullInt32{Int32: 7, Valid: true}}, {"int", 7, sql.NullString{String: "7", Valid: true}},
		{"int", time.Minute, time.Minute},
		{"float", 1.5, 1.5}, {"float", float32(0.1), float32(0.1)}, {"float", 1.5, "1.5"}, {"float", 1.5, sql.NullFloat64{Float64: 1.5, Valid: true}}, {"float", 1.5, any(1.5)},
		{"bool", true, true}, {"bool", false, "false"}, {"bool", true, sql.NullBool{Bool: true, Valid: true}}, {"bool", true, any(true)},
		{"text", "text", []byte("text")}, {"text", named("text"), named("text")}, {"text", "7", 7}, {"text", "1.5", 1.5}, {"text", "true", true},
		{"text", &text, "text"}, {"text", "text", sql.NullString{String: "text", Valid: true}}, {"text", "text", sql.Null[string]{V: "text", Valid: true}},
		{"text", []byte("text"), "text"}, {"text", "text", any("text")},
		{"bytes", []byte("text"), "text"}, {"bytes", []byte("text"), any([]byte("text"))},
		{"time", moment, sql.NullTime{Time: moment, Valid: true}},
	} {
		got := reflect.New(reflect.TypeOf(c.want))
		if err := db.QueryRowContext(t.Context(), o.echo[c.kind], c.in).Scan(got.Interface()); err != nil {
			t.Errorf("%s: %T into %T: %v", c.kind, c.in, c.want, err)
			continue
		}
		back := got.Elem().Interface()
		if at, ok := back.(sql.NullTime); ok {
			at.Time = at.Time.UTC()
			back = at
		}
		if !reflect.DeepEqual(back, c.want) {
			t.Errorf("%s: %T %v into %T: %v, not %v", c.kind, c.in, c.in, c.want, back, c.want)
		}
	}
	for kind, want := range map[string]any{"int": int64(7), "float": 1.5, "bool": true, "text": "x", "bytes": []byte("x")} {
		var got any
		if err := db.QueryRowContext(t.Context(), o.echo[kind], want).Scan(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s into any: %T %v, not %T (%v)", kind, got, got, want, err)
		}
	}
}

// testNull checks that NULL is returned unchanged, and that it cannot be scanned into types
// without NULL.
func (offer) testNull(t *testing.T, o offer, db *sql.DB) {
	var (
		none *int64
		text *string
	)
	for kind, query := range o.echo {
		for _, in := range []any{nil, none, text, sql.NullString{}, sql.Null[int64]{}} {
			for _, dest := range []any{new(*string), new(*int64), new(sql.NullString), new(sql.NullInt64), new(sql.NullBool), new(sql.NullFloat64), new(sql.NullTime), new(any), new([]byte), new(*time.Time)} {
				if err := db.QueryRowContext(t.Context(), query, in).Scan(dest); err != nil {
					t.Errorf("%s: NULL as %T into %T: %v", kind, in, dest, err)
				} else if !reflect.ValueOf(dest).Elem().IsZero() {
					t.Errorf("%s: NULL as %T into %T is %v", kind, in, dest, reflect.ValueOf(dest).Elem())
				}
			}
		}
		for _, dest := range []any{new(int64), new(string), new(bool), new(float64), new(time.Time)} {
			if err := db.QueryRowContext(t.Context(), query, nil).Scan(dest); err == nil {
				t.Errorf("%s: NULL fits into %T", kind, dest)
			}
		}
	}
	var a, b sql.NullString
	if err := db.QueryRowContext(t.Context(), o.pair, "", nil).Scan(&a, &b); err != nil || !a.Valid || a.String != "" || b.Valid {
		t.Errorf("an empty text and NULL came back as %v and %v, %v", a, b, err)
	}
}

func (offer) testScanError(t *testing.T, o offer, db *sql.DB) {
	var n int64
	var small int8
	var a string
	for _, c := range []struct {
		query string
		in    []any
		dest  []any
	}{
		{o.echo["text"], []any{"seven"}, []any{&n}},
		{o.echo["int"], []any{300}, []any{&small}},
		{o.pair, []any{"x", "y"}, []any{&a}},
		{o.echo["int"], []any{3}, []any{&n, &a}},
		{o.echo["int"], []any{3}, []any{n}},
	} {
		if err := db.QueryRowContext(t.Context(), c.query, c.in...).Scan(c.dest...); err == nil {
			t.Errorf("%s %v into %d destinations: no error", c.query, c.in, len(c.dest))
		}
	}
	if err := db.QueryRowContext(t.Context(), o.echo["int"], 5).Scan(&n); err != nil || n != 5 {
		t.Errorf("after errors: %d, %v", n, err)
	}
}

func (offer) testRawBytes(t *testing.T, o offer, db *sql.DB) {
	rows, err := db.QueryContext(t.Context(), o.pair, "first", "second")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Fatalf("no row: %v", rows.Err())
	}
	var a, b sql.RawBytes
	if err := rows.Scan(&a, &b); err != nil || string(a) != "first" || string(b) != "second" {
		t.Errorf("%q, %q, %v", a, b, err)
	}
}

func (offer) testNamed(t *testing.T, o offer, db *sql.DB) {
	if o.named == "" {
		t.Skip("this database has no arguments by name")
	}
	var a, b string
	for _, args := range [][]any{
		{sql.Named("a", "x"), sql.Named("b", "y")},
		{sql.Named("b", "y"), sql.Named("a", "x")},
	} {
		if err := db.QueryRowContext(t.Context(), o.named, args...).Scan(&a, &b); err != nil || a != "x" || b != "y" {
			t.Errorf("%v: %q, %q, %v", args, a, b, err)
		}
	}
	for _, args := range [][]any{
		{sql.Named("a", "x")},
		{sql.Named("a", "x"), sql.Named("c", "y")},
		{sql.Named("a", "x"), sql.Named("b", "y"), sql.Named("c", "z")},
		{sql.Named("a", "x"), sql.Named("a", "y")},
		{sql.Named("", "x"), sql.Named("b", "y")},
	} {
		if err := db.QueryRowContext(t.Context(), o.named, args...).Scan(&a, &b); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func (offer) testArgumentCount(t *testing.T, o offer, db *sql.DB) {
	st, err := db.PrepareContext(t.Context(), o.pair)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for _, args := range [][]any{{}, {"a"}, {"a", "b", "c"}, {"a", "b", "c", "d", "e"}} {
		var a, b string
		if err := db.QueryRowContext(t.Context(), o.pair, args...).Scan(&a, &b); err == nil {
			t.Errorf("query with %d arguments instead of 2: no error", len(args))
		}
		if _, err := db.ExecContext(t.Context(), o.pair, args...); err == nil {
			t.Errorf("exec with %d arguments instead of 2: no error", len(args))
		}
		if err := st.QueryRowContext(t.Context(), args...).Scan(&a, &b); err == nil {
			t.Errorf("prepared, with %d arguments instead of 2: no error", len(args))
		}
	}
	var a, b string
	if err := st.QueryRowContext(t.Context(), "x", "y").Scan(&a, &b); err != nil || a != "x" || b != "y" {
		t.Errorf("after errors: %q, %q, %v", a, b, err)
	}
	if _, err := db.ExecContext(t.Context(), o.pair, make(chan int), "b"); err == nil {
		t.Error("a channel is accepted as an argument")
	}
}

func (offer) testWrong(t *testing.T, o offer, db *sql.DB) {
	for _, query := range o.wrong {
		if rows, err := db.QueryContext(t.Context(), query); err == nil {
			t.Errorf("query %q: no error", query)
			rows.Close()
		}
		if _, err := db.ExecContext(t.Context(), query); err == nil {
			t.Errorf("exec %q: no error", query)
		}
		if st, err := db.PrepareContext(t.Context(), query); err == nil {
			t.Errorf("prepare %q: no error", query)
			st.Close()
		}
	}
}

// testFail checks that an error of the database is an error of the call, not of the
// connection.
func (offer) testFail(t *testing.T, o offer, db *sql.DB) {
	db.SetMaxOpenConns(1)
	for range 5 {
		if _, err := db.ExecContext(t.Context(), o.fail); err == nil {
			t.Error("exec: no error")
		}
		rows, err := db.QueryContext(t.Context(), o.fail)
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			rows.Close()
		}
		if err == nil {
			t.Error("query: no error")
		}
	}
	if n := db.Stats().MaxIdleClosed + db.Stats().MaxLifetimeClosed; n != 0 || db.Stats().OpenConnections != 1 {
		t.Errorf("the connection was closed: %+v", db.Stats())
	}
}
