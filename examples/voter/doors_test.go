package voter_test

import (
	"database/sql"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/client/sqldriver"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/voter"
)

// serve runs a server with the vote inside.
func serve(t *testing.T) *skerry.Server {
	t.Helper()
	return exampletest.Serve(t, embedded.Options{}, skerry.Options{Procedures: voter.Procedures()})
}

// TestDoors votes from one phone over every protocol in turn, and then once too often
// over each.
func TestDoors(t *testing.T) {
	t.Parallel()
	srv, ctx := serve(t), t.Context()
	addr := strings.TrimPrefix(srv.RESPURL(), "redis://")
	c, err := client.Open(client.Options{Addrs: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if res, err := c.Call(ctx, "initialize", 3); err != nil || string(res.Raw()) != ":3\r\n" {
		t.Fatalf("initialize: %q, %v", res.Raw(), err)
	}
	db := sql.OpenDB(sqldriver.NewConnector(c, sqldriver.Options{}))
	defer db.Close()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	const phone, doors = 212_555_0123, 5
	cast := map[string]func() (int64, error){
		"client": func() (int64, error) {
			res, err := c.Call(ctx, "vote", phone, 2, doors)
			if err != nil {
				return 0, err
			}
			return res.Int()
		},
		"database/sql": func() (n int64, err error) {
			err = db.QueryRowContext(ctx, "CALL vote(?, ?, ?)", phone, 2, doors).Scan(&n)
			return n, err
		},
		"FCALL": func() (int64, error) { return rdb.FCall(ctx, "vote", nil, phone, 2, doors).Int64() },
		"CALL":  func() (int64, error) { return rdb.Do(ctx, "CALL", "vote", phone, 2, doors).Int64() },
		"HTTP": func() (int64, error) {
			resp, err := http.Post(srv.HTTPURL()+"/api/call/vote", "application/json", strings.NewReader(`{"phone":2125550123,"contestant":2,"max_votes":5}`))
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK {
				err = errors.Join(err, errors.New(string(body)))
			}
			n := int64(0)
			for _, digit := range strings.TrimSpace(string(body)) {
				n = n*10 + int64(digit-'0')
			}
			return n, err
		},
	}
	want := int64(0)
	for door, vote := range cast {
		want++
		if n, err := vote(); n != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", door, n, err, want)
		}
	}
	for door, vote := range cast {
		if _, err := vote(); err == nil || !strings.Contains(err.Error(), string(voter.CodeTooManyVotes)) {
			t.Errorf("%s, once too often: %v", door, err)
		}
	}
	var totals voter.Totals
	res, err := c.CallRead(ctx, "check")
	if err == nil {
		err = res.Scan(&totals)
	}
	if want := (voter.Totals{Phones: 1, ByPhone: doors, ByContestant: doors, ByState: doors}); totals != want || err != nil {
		t.Errorf("%+v, %v, want %+v", totals, err, want)
	}
}

// TestResultsAsRows: a list of structs is rows with the fields as columns.
func TestResultsAsRows(t *testing.T) {
	t.Parallel()
	srv, ctx := serve(t), t.Context()
	c, err := client.Open(client.Options{Addrs: []string{strings.TrimPrefix(srv.RESPURL(), "redis://")}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	db := sql.OpenDB(sqldriver.NewConnector(c, sqldriver.Options{}))
	defer db.Close()
	for _, statement := range []string{"CALL initialize(3)", "CALL vote(2125550123, 3, 1)"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	rows, err := db.QueryContext(ctx, "CALL results()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if names, err := rows.Columns(); strings.Join(names, " ") != "contestant name votes best_state" || err != nil {
		t.Errorf("columns %v, %v", names, err)
	}
	var got []voter.Result
	for rows.Next() {
		var r voter.Result
		if err := rows.Scan(&r.Contestant, &r.Name, &r.Votes, &r.BestState); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if err := rows.Err(); err != nil || len(got) != 3 || got[0] != (voter.Result{Contestant: 3, Name: "Cato Holm", Votes: 1, BestState: "NY"}) {
		t.Errorf("%+v, %v", got, err)
	}
}
