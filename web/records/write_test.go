package records_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/record"
)

// TestConditions: entity tags are revisions, which reads and writes can ask for.
func TestConditions(t *testing.T) {
	s := open(t)
	at := "/api/posts/p"
	r := s.ask("ann", "POST", "/api/posts", `{"id":"p","data":{"title":"x"}}`, "If-None-Match", "*").is(201)
	if got := r.Header().Get("ETag"); got != `"1"` {
		t.Errorf("ETag %s", got)
	}
	s.ask("ann", "GET", at, "", "If-None-Match", `"1"`).is(304)
	s.ask("ann", "GET", at, "", "If-None-Match", `"2"`).is(200)
	s.ask("ann", "GET", at, "", "If-Match", `"2"`).is(412, "precondition_failed")
	s.ask("ann", "PATCH", at, `{"data":{"title":"y"}}`, "If-Match", `"2"`).is(412, "the record is at revision 1")
	s.ask("ann", "PATCH", at, `{"rev":2,"data":{"title":"y"}}`).is(412, "record_changed")
	s.ask("ann", "PATCH", at, `{"data":{"title":"y"}}`, "If-Match", `"1"`).is(200, `"rev":2`)
	s.ask("ann", "PATCH", at, `{"data":{"title":"z"}}`, "If-Match", `nonsense`).is(400, `"header":"If-Match"`)
	s.ask("bob", "PATCH", at, `{"data":{"title":"z"}}`, "If-Match", `"7"`).is(404) // the revision is no secret to be had
	s.ask("ann", "DELETE", at, "", "If-Match", `"1"`).is(412)
	s.ask("ann", "DELETE", at, "", "If-Match", `"2"`).is(204)
	s.ask("ann", "POST", at+"/restore", "", "If-Match", `"2"`).is(412)
	s.ask("ann", "POST", at+"/restore", "", "If-Match", `"3"`).is(200, `"rev":4`)
}

// TestOnce: a request with an Idempotency-Key runs once, whoever else uses the same key.
func TestOnce(t *testing.T) {
	s := open(t)
	const body = `{"data":{"title":"once"}}`
	first := s.ask("ann", "POST", "/api/posts", body, "Idempotency-Key", "k").is(201)
	again := s.ask("ann", "POST", "/api/posts", body, "Idempotency-Key", "k").is(201, strings.TrimSpace(first.Body.String()))
	if got := again.Header(); got.Get("Idempotent-Replayed") != "true" || got.Get("ETag") != `"1"` || got.Get("Location") != first.Header().Get("Location") {
		t.Errorf("the headers of the repeated response are %v", got)
	}
	if first.Header().Get("Idempotent-Replayed") != "" {
		t.Error("the first response calls itself repeated")
	}
	s.ask("ann", "POST", "/api/posts", `{"data":{"title":"other"}}`, "Idempotency-Key", "k").is(422, "idempotency_key_reused")
	s.ask("bob", "POST", "/api/posts", body, "Idempotency-Key", "k").is(201, `"owner":"bob"`)
	if n := len(s.ask("root", "GET", "/api/posts", "").is(200).json().Items); n != 2 {
		t.Errorf("%d records", n)
	}
	// A failure decides nothing.
	s.ask("ann", "PATCH", "/api/posts/p", body, "Idempotency-Key", "p").is(404)
	s.ask("ann", "POST", "/api/posts", `{"id":"p","data":{"title":"p"}}`).is(201)
	s.ask("ann", "PATCH", "/api/posts/p", body, "Idempotency-Key", "p").is(200, `"rev":2`)
	// A response that is too long to be stored is repeated in short.
	long := fmt.Sprintf(`{"id":"long","data":{"title":"x","about":{"x":"%s"}}}`, strings.Repeat("x", kv.MaxOnceAnswerBytes))
	s.ask("ann", "POST", "/api/posts", long, "Idempotency-Key", "long").is(201, "xxx")
	if got := strings.TrimSpace(s.ask("ann", "POST", "/api/posts", long, "Idempotency-Key", "long").is(201).Body.String()); got != `{"id":"long"}` {
		t.Errorf("a long response is repeated as %.100s", got)
	}
}

// TestTx: operations of one transaction, their results and what the error points to.
func TestTx(t *testing.T) {
	s := open(t)
	s.ask("ann", "POST", "/api/tx", `{"ops":[{"op":"create","collection":"posts","id":"a","data":{"title":"a"}},{"op":"create","collection":"posts","id":"b","data":{"title":"b"}},`+
		`{"op":"update","collection":"posts","id":"a","rev":1,"data":{"title":"A"}},{"op":"delete","collection":"posts","id":"b"},{"op":"purge","collection":"posts","id":"b"}]}`).
		is(200, `{"results":[{"status":201,"record":{"id":"a","rev":1,`, `{"status":200,"record":{"id":"a","rev":2,`, `{"status":204},{"status":204}]}`)
	s.ask("ann", "POST", "/api/tx", `{"ops":[{"op":"update","collection":"posts","id":"a","data":{"title":"lost"}},{"op":"update","collection":"posts","id":"a","rev":2,"data":{}}]}`).
		is(412, "record_changed", `"pointer":"/ops/1"`)
	s.ask("ann", "GET", "/api/posts/a", "").is(200, `"title":"A"`, `"rev":2`)
	s.ask("ann", "POST", "/api/tx", `{"ops":[{"op":"create","collection":"posts","data":{"title":""}}]}`).is(422, `"pointer":"/ops/0/data/title"`)
	s.ask("ann", "POST", "/api/tx", `{"ops":[{"op":"create","collection":"secrets","data":{}}]}`).is(403, `"pointer":"/ops/0"`)
	for body, want := range map[string]string{
		`{"ops":[{"op":"drop","collection":"posts"}]}`:                      `"pointer":"/ops/0/op"`,
		`{"ops":[{"op":"update","collection":"posts","data":{}}]}`:          `"pointer":"/ops/0/id"`,
		`{"ops":[{"op":"create","collection":"posts"}]}`:                    `"pointer":"/ops/0/data"`,
		`{"ops":[{"op":"delete","collection":"posts","id":"a","data":{}}]}`: `"pointer":"/ops/0/data"`,
		`{"ops":[` + strings.Repeat(`{"op":"delete","collection":"posts","id":"a"},`, record.MaxOps) + `{"op":"delete","collection":"posts","id":"a"}]}`: `"code":"limit"`,
		`{"ops":{}}`: `"pointer":"/ops"`,
	} {
		s.ask("ann", "POST", "/api/tx", body).is(400, want)
	}
	s.ask("ann", "POST", "/api/tx", `{"ops":[{"op":"create","collection":"posts","data":{"title":"1"}}]}`, "Idempotency-Key", "t").is(200)
	r := s.ask("ann", "POST", "/api/tx", `{"ops":[{"op":"create","collection":"posts","data":{"title":"1"}}]}`, "Idempotency-Key", "t").is(200)
	if r.Header().Get("Idempotent-Replayed") != "true" {
		t.Error("a transaction ran twice")
	}
}
