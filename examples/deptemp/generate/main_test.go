package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry/ci/pgserver"
)

// TestGenerate: the generator makes what it was asked for, continues, and says how far it is.
func TestGenerate(t *testing.T) {
	t.Parallel()
	url := pgserver.Shared(t).Database(t)
	for _, step := range []struct{ n, want string }{{"7000", "5000 of 7000"}, {"12000", "] 100 %  12000 of 12000 departments"}} {
		var out bytes.Buffer
		if code := run(t.Context(), []string{"-postgres", url, "-departments", step.n}, &out, true); code != 0 || !strings.Contains(out.String(), step.want) {
			t.Fatalf("exit code %d, output %q; want %q", code, out.String(), step.want)
		}
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	var depts, emps int
	if err := db.QueryRow(t.Context(), "select (select count(*) from dept), (select count(*) from emp)").Scan(&depts, &emps); err != nil || depts != 12000 || emps != 120000 {
		t.Errorf("there are %d departments and %d employees (%v)", depts, emps, err)
	}
}

// TestUsage: wrong arguments are explained.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"-postgres", "x", "-departments", "0"}, {"-nonsense"}} {
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, false); code != 2 || out.Len() == 0 {
			t.Errorf("%q: exit code %d, output %q", args, code, out.String())
		}
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"-postgres", "postgres://127.0.0.1:1/x"}, &out, false); code != 1 || !strings.Contains(out.String(), "connect to PostgreSQL") {
		t.Errorf("without a server: exit code %d, output %q", code, out.String())
	}
}
