package records_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// preview is the response to the first request of a change by a filter.
type preview struct {
	Count int
	Token string
}

func (r *reply) preview() (p preview) {
	r.t.Helper()
	if err := json.Unmarshal(r.is(200).Body.Bytes(), &p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// TestBulk: a change by a filter is carried out only if it changes as many records as were announced.
func TestBulk(t *testing.T) {
	s := open(t)
	var lines strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&lines, "{\"data\":{\"title\":\"t%d\",\"likes\":%d,\"public\":%t}}\n", i, i%5, i%2 == 0)
	}
	s.ask("ann", "POST", "/api/posts", lines.String(), "Content-Type", asJSON).is(200)
	at := "/api/posts?filter=" + url.QueryEscape(`likes < 4`)
	const body = `{"data":{"title":"changed"}}`
	p := s.ask("ann", "PATCH", at, body).preview()
	if p.Count != 2000 {
		t.Fatalf("the preview counts %d", p.Count)
	}
	s.ask("ann", "GET", "/api/posts?count=true&limit=0&filter=title%3D'changed'", "").is(200, `"total":0`)
	s.ask("ann", "PATCH", at+"&token="+p.Token, `{"data":{"title":"other"}}`).is(412)
	s.ask("ann", "DELETE", at+"&token="+p.Token, "").is(412)
	s.ask("ann", "POST", "/api/posts", `{"data":{"title":"one more"}}`).is(201)
	s.ask("ann", "PATCH", at+"&token="+p.Token, body).is(412, "the filter now matches 2001 records")
	p = s.ask("ann", "PATCH", at, body).preview()
	s.ask("ann", "PATCH", at+"&token="+p.Token, body).is(200, `{"count":2001}`)
	s.ask("ann", "GET", "/api/posts?count=true&limit=0&filter=title%3D'changed'", "").is(200, `"total":2001`)
	// Bob sees the public ones, and may change none.
	p = s.ask("bob", "DELETE", at, "").preview()
	if p.Count != 1000 {
		t.Errorf("bob's preview counts %d", p.Count)
	}
	s.ask("bob", "DELETE", at+"&token="+p.Token, "").is(403, "record_refused")
	p = s.ask("ann", "DELETE", at, "").preview()
	s.ask("ann", "DELETE", at+"&token="+p.Token, "").is(200, `{"count":2001}`)
	s.ask("ann", "GET", "/api/posts?count=true&limit=0", "").is(200, `"total":500`)
	s.ask("ann", "DELETE", "/api/posts", "").is(400, `"parameter":"filter"`)
	s.ask("ann", "PATCH", "/api/posts?filter=titel=1", body).is(400, "query_invalid")
}

// TestHistory: the changes of a record, the record as it was, and back to that.
func TestHistory(t *testing.T) {
	s := open(t)
	at := "/api/posts/p"
	s.ask("ann", "POST", "/api/posts", `{"id":"p","data":{"title":"first","public":true}}`).is(201)
	s.ask("ann", "PATCH", at, `{"data":{"title":"second"}}`).is(200)
	s.ask("ann", "PATCH", at, `{"data":{"title":"third"}}`).is(200)
	s.ask("ann", "GET", at+"/history?limit=2", "").is(200, `"rev":3`, `"op":"update"`, `"by":"ann"`, `"old":"second"`, `],"next":2}`)
	s.ask("ann", "GET", at+"/history?before=2", "").is(200, `"op":"create"`, `]}`)
	s.ask("bob", "GET", at+"/history", "").is(403, "record_refused")
	s.ask("ann", "GET", at+"?rev=2", "").is(200, `"title":"second"`)
	s.ask("ann", "GET", at+"?asof=1", "").is(200, `"title":"first"`)
	s.ask("ann", "GET", at+"?asof=2000-01-01T00:00:00Z", "").is(404)
	s.ask("ann", "POST", at+"/revert", `{"to":1}`, "If-Match", `"2"`).is(412)
	s.ask("ann", "POST", at+"/revert", `{"to":1}`, "If-Match", `"3"`).is(200, `"rev":4`, `"title":"first"`)
	for _, query := range []string{"/history?limit=0", "/history?limit=x", "/history?before=-1", "?rev=0", "?asof=now", "?rev=1&rev=2", "?sort=title", "?rev=1&asof=1", "/history?limit=100000"} {
		s.ask("ann", "GET", at+query, "").is(400)
	}
}
