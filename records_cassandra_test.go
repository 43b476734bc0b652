package skerry_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/record/schema"
)

// TestRecordsOnCassandra: two servers on one keyspace have the same records over HTTP, with their history and access paths.
func TestRecordsOnCassandra(t *testing.T) {
	t.Parallel()
	u := &url.URL{Scheme: cassandra.Scheme, Host: cassandraserver.Start(t).Addr(), Path: "/skerry"}
	serve := func() string {
		eng, err := cassandra.Open(t.Context(), u, cassandra.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := eng.Close(); err != nil {
				t.Error(err)
			}
		})
		s, _, _ := start(t, eng, application(func(s *skerry.Services) {
			err := s.Records.Define(schema.Collection{
				Name: "notes", Fields: []schema.Field{{Name: "owner", Type: schema.Text}, {Name: "n", Type: schema.Int}},
				Indexes: []schema.Index{{Name: "by_owner", Fields: []schema.IndexField{{Name: "owner"}, {Name: "n"}}}},
			})
			if err != nil {
				t.Error(err)
			}
		}))
		return s.AdminURL() + "/api/notes"
	}
	one, two := serve(), serve()
	for _, c := range []struct {
		method, url, body string
		status            int
		text              string
	}{
		{"GET", two + "?filter=" + url.QueryEscape(`owner = "anna"`), "", http.StatusOK, `"items":[]`}, // it is not stored yet
		{"POST", one, `{"id":"a","data":{"owner":"anna","n":1}}`, http.StatusCreated, `"rev":1`},
		{"PATCH", two + "/a", `{"data":{"n":2}}`, http.StatusOK, `"rev":2`},
		{"GET", one + "/a", "", http.StatusOK, `"n":2`},
		{"GET", one + "/a/history", "", http.StatusOK, `"rev":2`},
		{"GET", two + "?filter=" + url.QueryEscape(`owner = "anna"`), "", http.StatusOK, `"id":"a"`},
		{"GET", two + "?filter=" + url.QueryEscape(`owner = "bert"`), "", http.StatusOK, `"items":[]`},
		{"GET", two, "", http.StatusUnprocessableEntity, `no_access_path`},
		{"GET", two + "?filter=" + url.QueryEscape(`n = 2`), "", http.StatusUnprocessableEntity, `declare an index on (n)`},
		{"GET", two + "?format=jsonl", "", http.StatusUnprocessableEntity, `no_access_path`},
		{"GET", two + "?format=jsonl&filter=" + url.QueryEscape(`owner = "anna"`), "", http.StatusOK, `"id":"a"`},
		{"POST", strings.TrimSuffix(one, "notes") + "tx", `{"ops":[{"op":"create","collection":"notes","id":"b","data":{}},{"op":"create","collection":"notes","id":"c","data":{}}]}`, http.StatusNotImplemented, `cross_partition`},
		{"GET", one + "/b", "", http.StatusNotFound, "record_not_found"},
		{"POST", strings.TrimSuffix(one, "notes") + "tx", `{"ops":[{"op":"create","collection":"notes","id":"d","data":{}}]}`, http.StatusOK, `"status":201`},
		{"DELETE", two + "/a", "", http.StatusNoContent, ""},
		{"GET", one + "/a", "", http.StatusNotFound, "record_not_found"},
	} {
		code, text := request(t, c.method, c.url, strings.NewReader(c.body))
		if code != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.url, code, text, c.status, c.text)
		}
	}
	refusesOnce(t, one)
}

// refusesOnce: the response to a write cannot be stored in the partition of the record.
func refusesOnce(t *testing.T, notes string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, notes, strings.NewReader(`{"id":"once","data":{"owner":"anna"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "k1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusNotImplemented || !strings.Contains(string(text), "Idempotency-Key") {
		t.Errorf("POST with an Idempotency-Key: %d %s %v", resp.StatusCode, text, err)
	}
	if code, text := request(t, http.MethodGet, notes+"/once", nil); code != http.StatusNotFound {
		t.Errorf("GET what was refused: %d %s", code, text)
	}
}
