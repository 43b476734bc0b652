package postgres_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/cache/postgres"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
)

// TestQuery: bodies of all types, ETags, missing keys, and several keys at once.
func TestQuery(t *testing.T) {
	t.Parallel()
	s := newSite(t, pgserver.Shared(t))
	s.exec("insert into item values ('a', 1), ('b', 2)")
	for name, c := range map[string]struct{ sql, body, etag string }{
		"text":    {"select id, v::text from item where id = any($1)", "1", ""},
		"json":    {"select id, json_build_object('v', v) from item where id = any($1)", `{"v" : 1}`, ""},
		"jsonb":   {"select id, jsonb_build_object('v', v) from item where id = any($1)", `{"v": 1}`, ""},
		"bytea":   {"select id, '\\x0001'::bytea from item where id = any($1)", "\x00\x01", ""},
		"etag":    {"select id, v::text, 'v' || v from item where id = any($1)", "1", "v1"},
		"varchar": {"select id::varchar(9), v::varchar(9) from item where id = any($1)", "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			source, err := postgres.Query(postgres.QueryOptions{Pool: s.pool, SQL: c.sql})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got, err := source.Load(t.Context(), []string{"b", "nothing", "a"})
				if err != nil || len(got) != 3 || !got[1].Missing || string(got[2].Body) != c.body || got[2].ETag != c.etag || got[0].Missing || got[2].Type != "application/json" {
					t.Fatalf("%+v, %v", got, err)
				}
			}
		})
	}
}

// TestBadQuery: what is wrong with a query or the server is hidden from readers.
func TestBadQuery(t *testing.T) {
	t.Parallel()
	s := newSite(t, pgserver.Shared(t))
	s.exec("insert into item values ('a', 1)")
	for sql, code := range map[string]engine.Code{
		"select secret from item where id = any($1)": engine.CodeInternal,
		"select secret": engine.CodeInternal,
		"select v, id from item where id = any($1)":                                            engine.CodeUnavailable,
		"select id, v from item where id = any($1)":                                            engine.CodeUnavailable,
		"select id from item where id = any($1)":                                               engine.CodeUnavailable,
		"select id, (1/(v-1))::text from item where id = any($1)":                              engine.CodeInternal,
		"select id, pg_terminate_backend(pg_backend_pid())::text from item where id = any($1)": engine.CodeUnavailable,
	} {
		source, err := postgres.Query(postgres.QueryOptions{Pool: s.pool, SQL: sql})
		if err != nil {
			t.Fatal(err)
		}
		_, err = source.Load(t.Context(), []string{"a"})
		if engine.CodeOf(err) != code || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v, want code %s", sql, err, code)
		}
	}
}

// TestStandby: a pool refuses standbys unless they are allowed. A source that reads one waits for the position that its
// reader asks for.
func TestStandby(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := newSite(t, server)
	standby := server.Standby(t, "reader")
	at := strings.Replace(s.url, server.Addr(), standby.Addr(), 1)
	refused, err := postgres.NewPool(t.Context(), at, postgres.PoolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(refused.Close)
	if err := refused.Ping(t.Context()); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("a standby: %v", err)
	}
	pool, err := postgres.NewPool(t.Context(), at, postgres.PoolOptions{Standby: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	source, err := postgres.Query(postgres.QueryOptions{Pool: pool, SQL: "select id, v::text from item where id = any($1)", Primary: s.pool})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(cache.Options{Source: source, TTL: time.Nanosecond, LoadTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for v := range 20 {
		pos, err := s.put("k", v)
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Get(t.Context(), "k", cache.Read{AtLeast: pos})
		if err != nil || !bytes.Equal(e.Body, []byte{byte('0' + v%10)}) && v < 10 {
			t.Fatalf("after writing %d: %q, %v", v, e.Body, err)
		}
	}
}

// TestInvalidKeys: keys that cannot exist are missing and do not harm those that are loaded with them.
func TestInvalidKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, pgserver.Shared(t))
	s.exec("create table number (id bigint primary key)")
	s.exec("insert into number values (7), (-1)")
	source, err := postgres.Query(postgres.QueryOptions{Pool: s.pool, SQL: "select id::text, '{}'::json from number where id = any($1::text[]::bigint[])", Valid: postgres.Integer})
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"7", "x", "07", "+7", "", "9999999999999999999", "\xff", "7\x00", "8", "-1"}
	got, err := source.Load(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		if exists := key == "7" || key == "-1"; got[i].Missing == exists {
			t.Errorf("%q: %+v", key, got[i])
		}
	}
	if got, err := source.Load(t.Context(), []string{"x"}); err != nil || !got[0].Missing {
		t.Errorf("%+v, %v", got, err)
	}
}
