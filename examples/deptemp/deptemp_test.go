package deptemp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/deptemp"
	"github.com/skerrydb/skerry/examples/exampletest"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestDepartments: departments come from the cache, and what another program changes with SQL is seen.
func TestDepartments(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, "wal_level=logical")
	server.Exec(t, "create database deptemp")
	url := server.URL("deptemp")
	if err := deptemp.Generate(t.Context(), url, 10_000, func(deptemp.Progress) {}); err != nil {
		t.Fatal(err)
	}
	s := exampletest.Serve(t, embedded.Options{}, skerry.Options{Web: skerry.Web{Name: "deptemp", Application: deptemp.Application(deptemp.Options{URL: url, Cache: cache.Options{Staleness: time.Minute}})}})
	code, text := get(t, s.HTTPURL()+"/dept/7")
	var dept struct {
		ID        int
		Name      string
		Employees []struct {
			Name   string
			Salary int
		}
	}
	if err := json.Unmarshal([]byte(text), &dept); code != http.StatusOK || err != nil || dept.ID != 7 || len(dept.Employees) != deptemp.Employees || len(text) < 1500 || len(text) > 2200 {
		t.Fatalf("%d, %d bytes: %s (%v)", code, len(text), text, err)
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(path, want string) {
		t.Helper()
		eventually.True(t, path+" has "+want, func() bool {
			_, text := get(t, s.HTTPURL()+path)
			return strings.Contains(text, want)
		})
	}
	exec("update emp set salary = 123456 where dept_id = 7 and no = 3")
	expect("/dept/7", "123456")
	exec("update dept set name = 'Renamed' where id = 7")
	expect("/dept/7", "Renamed")
	exec("insert into dept values (10001, 'New', 'Cork')")
	expect("/dept/10001", "New")
	exec("delete from dept where id = 10001")
	expect("/dept/10001", "there is nothing at this address")
	for _, bad := range []string{"x", "0", "007", "-1", "99999999999999999999"} {
		if code, text := get(t, s.HTTPURL()+"/dept/"+bad); code != http.StatusBadRequest || !strings.Contains(text, "is not the number of a department") {
			t.Errorf("/dept/%s: %d %s", bad, code, text)
		}
	}
	if code, text := get(t, s.HTTPURL()+"/"); code != http.StatusOK || !strings.Contains(text, "departments loaded") {
		t.Errorf("%d %s", code, text)
	}
}
