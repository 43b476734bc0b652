package sqldriver_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/client/sqldriver"
)

// schemaOf is a reply to PROC SCHEMA.
func schemaOf(name string, readOnly bool, args, result string) string {
	return bulk(fmt.Sprintf(`[{"name":%q,"read_only":%t,"args":[%s],"result":%s}]`, name, readOnly, args, result))
}

const (
	anInt   = `{"kind":"int","bits":64}`
	intArg  = `{"name":"n","type":` + anInt + `}`
	oneInt  = `{"kind":"object","fields":[{"name":"a","type":` + anInt + `}]}`
	twoInts = `{"kind":"object","fields":[{"name":"a","type":` + anInt + `},{"name":"b","type":` + anInt + `}]}`
)

// readAndAdd starts a server with the procedures read and add. It returns pools without
// and with once=auto.
func readAndAdd(t *testing.T) (s *canned, db, once *sql.DB) {
	t.Helper()
	s = newCanned(t)
	s.set("PROC", "read", schemaOf("read", true, intArg, anInt))
	s.set("FCALL_RO", "read", ":5\r\n")
	s.set("CALLONCE", "add", ":6\r\n")
	return s, openDB(t, s.dsn()), openDB(t, s.dsn()+"?once=auto")
}

// TestCommands checks which command a statement becomes, and when the schema is requested.
func TestCommands(t *testing.T) {
	t.Parallel()
	s, db, once := readAndAdd(t)
	keyed := sqldriver.WithKey(t.Context(), "my-key")
	for _, c := range []struct {
		db    *sql.DB
		ctx   context.Context
		query string
		want  string
	}{
		{db, t.Context(), "CALL add('k', 1)", "PROC SCHEMA add, CALL add k 1"},
		{db, t.Context(), "CALL add('k', 2)", "CALL add k 2"},
		{db, t.Context(), "CALL add(n => 3, name => 'k')", `CALL add {"n":3,"name":"k"}`},
		{db, t.Context(), "CALL add(NULL, 1)", `CALL add {"name":null,"n":1}`},
		{db, keyed, "CALL add('k', 4)", "CALLONCE my-key add k 4"},
		{db, t.Context(), "SELECT * FROM read(1)", "PROC SCHEMA read, FCALL_RO read 0 1"},
		{db, keyed, "CALL read(1)", "FCALL_RO read 0 1"},
		{once, keyed, "CALL add('k', 5)", "PROC SCHEMA add, CALLONCE my-key add k 5"},
		{once, t.Context(), "CALL add('k', 6)", "CALLONCE ? add k 6"},
		{once, t.Context(), "CALL read(2)", "PROC SCHEMA read, FCALL_RO read 0 2"},
	} {
		s.hear()
		var n int
		if err := c.db.QueryRowContext(c.ctx, c.query).Scan(&n); err != nil {
			t.Errorf("%s: %v", c.query, err)
		}
		heard := s.hear()
		if words := strings.Fields(heard[len(heard)-1]); strings.Contains(c.want, "?") && len(words[1]) == len(client.NewKey()) {
			heard[len(heard)-1] = strings.Replace(heard[len(heard)-1], words[1], "?", 1)
		}
		if got := strings.Join(heard, ", "); got != c.want {
			t.Errorf("%s: sent %s, not %s", c.query, got, c.want)
		}
	}
}

// TestBrokenConnection checks that a call that was sent before the connection broke has an
// unknown outcome and is not sent again, unless it has a key or only reads.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	s, db, once := readAndAdd(t)
	var n int
	for _, c := range []struct {
		db      *sql.DB
		query   string
		command string
	}{{db, "CALL read(1)", "FCALL_RO"}, {once, "CALL add('k', 1)", "CALLONCE"}} {
		s.dropNext(c.command) // the connection is closed in place of a reply
		s.hear()
		if err := c.db.QueryRowContext(t.Context(), c.query).Scan(&n); err != nil {
			t.Errorf("%s: %v", c.query, err)
		}
		sent := s.hear()
		if strings.Count(strings.Join(sent, ","), c.command) != 2 {
			t.Errorf("%s is not sent again: %v", c.query, sent)
		}
		keys := map[string]bool{}
		for _, words := range sent {
			if strings.HasPrefix(words, c.command) {
				keys[words] = true
			}
		}
		if len(keys) != 1 {
			t.Errorf("%s was sent in different ways: %v", c.query, keys)
		}
	}
	if err := db.QueryRowContext(t.Context(), "CALL add('k', 0)").Scan(&n); err != nil {
		t.Fatal(err)
	}
	s.set("CALL", "add", "")
	s.hear()
	_, err := db.ExecContext(t.Context(), "CALL add('k', 7)")
	if !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("a call that was cut off: %v", err)
	}
	if sent := s.hear(); len(sent) != 1 {
		t.Errorf("a call without a key was sent %d times: %q", len(sent), sent)
	}
}

// TestSchemaChanges replaces the program on the server.
func TestSchemaChanges(t *testing.T) {
	t.Parallel()
	s := newCanned(t)
	s.set("PROC", "p", schemaOf("p", false, "", oneInt))
	s.set("CALL", "p", "%1\r\n$1\r\na\r\n:1\r\n")
	db := openDB(t, s.dsn())
	for _, c := range []struct{ schema, reply, want, asked string }{
		{"", "", "a | 1", "PROC SCHEMA p, CALL p"},
		{"", "", "a | 1", "CALL p"},
		{schemaOf("p", false, "", twoInts), "%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n", "a, b | 1, 2", "CALL p, PROC SCHEMA p"},
		{"", "", "a, b | 1, 2", "CALL p"},
		{schemaOf("p", false, "", anInt), ":7\r\n", "result | 7", "CALL p, PROC SCHEMA p"},
		// Nodes of two versions: the schema stays wrong, so the reply determines the
		// columns.
		{"", "$1\r\nx\r\n", "result | x", "CALL p, PROC SCHEMA p"},
		{"", "%1\r\n$1\r\nz\r\n*2\r\n:1\r\n_\r\n", "z | [1,null]", "CALL p, PROC SCHEMA p"},
		{"", "*2\r\n%1\r\n$1\r\nz\r\n,1.5\r\n%1\r\n$1\r\nz\r\n#t\r\n", "z | 1.5 | true", "CALL p, PROC SCHEMA p"},
		{"", "*2\r\n%1\r\n$1\r\nz\r\n:1\r\n%1\r\n$1\r\ny\r\n:2\r\n", `result | {"z":1} | {"y":2}`, "CALL p, PROC SCHEMA p"},
		{"", "_\r\n", "result | NULL", "CALL p"},
		{schemaOf("p", false, "", `{"kind":"object","fields":[{"name":"a","type":`+oneInt+`}]}`), "%1\r\n$1\r\na\r\n%1\r\n$1\r\na\r\n:1\r\n", `a | {"a":1}`, "CALL p, PROC SCHEMA p"},
		{"", "%1\r\n$1\r\na\r\n%1\r\n$1\r\nb\r\n:1\r\n", `a | {"b":1}`, "CALL p, PROC SCHEMA p"},
		{bulk("[]"), "$1\r\nx\r\n", "result | x", "CALL p, PROC SCHEMA p"},
	} {
		if c.schema != "" {
			s.set("PROC", "p", c.schema)
		}
		if c.reply != "" {
			s.set("CALL", "p", c.reply)
		}
		s.hear()
		got, err := table(t.Context(), db, "CALL p()")
		if asked := strings.Join(s.hear(), ", "); err != nil || got != c.want || asked != c.asked {
			t.Errorf("%q: %q after %q, not %q after %q (%v)", c.reply, got, asked, c.want, c.asked, err)
		}
	}
}

// TestUnknownHere checks that a procedure that the queried node does not know is still
// called, because the leader may know it.
func TestUnknownHere(t *testing.T) {
	t.Parallel()
	s := newCanned(t)
	s.set("PROC", "new", "-ERR there is no procedure new [unknown_procedure]\r\n")
	s.set("CALL", "new", "%1\r\n$1\r\na\r\n:1\r\n")
	db := openDB(t, s.dsn())
	if got, err := table(t.Context(), db, "CALL new(?, x => ?)", 1, 2); err == nil {
		t.Errorf("an argument without a known name: %s", got)
	}
	s.hear()
	got, err := table(t.Context(), db, "CALL new(?)", 1)
	if err != nil || got != "a | 1" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := table(t.Context(), db, "CALL new(x => ?, y => X'00', z => 'text')", 1); err != nil {
		t.Error(err)
	}
	want := []string{"PROC SCHEMA new", "CALL new 1", "PROC SCHEMA new", "PROC SCHEMA new", `CALL new {"x":1,"y":"AA==","z":"text"}`, "PROC SCHEMA new"}
	if heard := s.hear(); !reflect.DeepEqual(heard, want) {
		t.Errorf("sent %q, not %q", heard, want)
	}
	s.set("PROC", "new", "-ERR the disk is on fire [internal]\r\n")
	if _, err := db.ExecContext(t.Context(), "CALL new(1)"); err == nil || !strings.Contains(err.Error(), "fire") {
		t.Errorf("a schema that cannot be read: %v", err)
	}
}

// TestSharedClient checks that the caller's own client outlives the pool.
func TestSharedClient(t *testing.T) {
	t.Parallel()
	co, _, err := sqldriver.ParseDSN(newCanned(t).dsn())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Open(co)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	connector := sqldriver.NewConnector(c, sqldriver.Options{})
	db := sql.OpenDB(connector)
	if connector.Client() != c || db.Driver() != (sqldriver.Driver{}) {
		t.Error("the client or the driver is another one")
	}
	if _, err := db.ExecContext(t.Context(), "CALL add('k', 1)"); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("the pool closed a client that is not its own: %v", err)
	}
}

// TestNoBytes checks that a list, a struct or a map is rejected for a bytes argument,
// because its JSON would be stored as the bytes. Bytes and JSON text are accepted.
func TestNoBytes(t *testing.T) {
	t.Parallel()
	s := newCanned(t)
	s.set("PROC", "book", schemaOf("book", false, `{"name":"show","type":{"kind":"string"}},{"name":"seats","type":{"kind":"bytes"}}`, `{"kind":"int","bits":64}`))
	s.set("CALL", "book", ":1\r\n")
	s.set("PROC", "one", schemaOf("one", false, `{"name":"seats","type":{"kind":"bytes","nullable":true}}`, `{"kind":"int","bits":64}`))
	s.set("CALL", "one", ":1\r\n")
	db := openDB(t, s.dsn())
	const list, object = "skerry: argument seats is bytes, not a list", "skerry: argument seats is bytes, not an object"
	for _, c := range []struct {
		query string
		args  []any
		want  string
	}{
		{"CALL book(?, ?)", []any{"x", []int{1, 2}}, list},
		{"CALL book", []any{"x", []int{1, 2}}, list},
		{"CALL book(show => ?, seats => ?)", []any{"x", []int{1}}, list},
		{"CALL book(?, ?)", []any{sql.Named("show", "x"), sql.Named("seats", []string{})}, list},
		{"CALL book('x', $1)", []any{map[string]int{"a": 1}}, object},
		{"CALL one(?)", []any{struct{ A int }{1}}, object},
		{"CALL one(seats => ?)", []any{[2]int{}}, list},
		{"CALL book(?, ?)", []any{"x", []byte("[1,2]")}, ""},
		{"CALL book(?, ?)", []any{"x", json.RawMessage("[1,2]")}, ""},
		{"CALL book(?, ?)", []any{[]int{1}, []byte{}}, ""},
		{"CALL one(?)", []any{nil}, ""},
	} {
		_, err := db.ExecContext(t.Context(), c.query, c.args...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s %v: %v, want %q", c.query, c.args, err, c.want)
		}
	}
}
