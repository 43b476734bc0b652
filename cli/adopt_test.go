package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// Customers is what TestAdopt expects the verb to print.
type Customers struct {
	record.Meta
	Name  string  `record:"name,required"`
	Email *string `record:"email,max=80,unique"`
	Owed  *string `record:"owed,scale=2"`
	Kind  *string `record:"kind,options=new|old"`
}

// TestAdopt puts a table under records, serves them, and changes both sides.
func TestAdopt(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	sql := func(text string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	sql(`CREATE TYPE kind AS ENUM ('new', 'old');
		CREATE TABLE customers (id serial PRIMARY KEY, name text NOT NULL, email varchar(80) UNIQUE, owed numeric(10,2), kind kind NOT NULL DEFAULT 'new', photo bytea);
		INSERT INTO customers (name, email, owed) VALUES ('Anna', 'anna@example.org', 12.5), ('Ben', NULL, NULL)`)
	s := newShell(t)
	s.env = append(s.env, "FROM="+at+"&options=-c%20geqo%3Doff&records=keys")

	if out := s.run("skerry adopt --from $FROM --table customers"); !strings.Contains(out, "column photo of table customers is a bytea, which no field can hold; skip it") {
		t.Errorf("a bytea: %s", out)
	}
	if out := s.run("skerry adopt --table customers --from embedded:x"); !strings.Contains(out, "needs --from postgres://") {
		t.Errorf("another engine: %s", out)
	}
	adopt := "skerry adopt --from $FROM --table customers --skip photo"
	if out := s.run(adopt + " --dry-run"); !strings.Contains(out, "would be adopted") {
		t.Errorf("a dry run: %s", out)
	}
	for range 2 { // the second time changes nothing
		out := s.run(adopt)
		for _, want := range []string{"is adopted, with 2 rows", "// column photo: as asked", "type Customers struct {", "Email *string `record:\"email,max=80,unique\"`", "Name string `record:\"name,required\"`"} {
			if !strings.Contains(out, want) {
				t.Fatalf("the output lacks %q:\n%s", want, out)
			}
		}
	}
	c, err := schema.Of[Customers]("customers")
	if err != nil {
		t.Fatal(err)
	}
	c.Hint = "table public.customers"
	p := s.serve("--engine", at+"&records=tables")
	var stored struct{ Collections []schema.Collection }
	if _, body := get(t, p.HTTP+"/api/collections"); json.Unmarshal([]byte(body), &stored) != nil || len(stored.Collections) != 1 {
		t.Fatalf("the collections are %s", body)
	}
	if steps, err := schema.Diff(stored.Collections[0], c); err != nil || len(steps) > 0 {
		t.Errorf("the printed struct differs from the collection: %v, %v", steps, err)
	}
	sql("UPDATE customers SET owed = 1 WHERE id = 1")
	eventually.True(t, "the change is in the history", func() bool {
		code, body := get(t, p.HTTP+"/api/customers/1/history")
		return code == http.StatusOK && strings.Contains(body, `"by":"sql:skerry"`) && strings.Contains(body, `"old":"12.50"`)
	})
	if out := s.run("curl -s -X PATCH -H 'Content-Type: application/merge-patch+json' -d '{\"data\":{\"name\":\"Bob\"}}' " + p.HTTP + "/api/customers/2"); !strings.Contains(out, `"name":"Bob"`) {
		t.Errorf("a change over REST: %s", out)
	}
	var name string
	if err := conn.QueryRow(t.Context(), "SELECT name FROM customers WHERE id = 2").Scan(&name); err != nil || name != "Bob" {
		t.Errorf("the table has %q, %v", name, err)
	}
	if out := s.run("skerry adopt --from $FROM --table customers --release"); !strings.Contains(out, "is released") {
		t.Errorf("release: %s", out)
	}
}
