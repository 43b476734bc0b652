package records_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// fuzzed are the requests that FuzzRequests sends; * is the id.
var fuzzed = []string{
	"GET /api/posts", "POST /api/posts", "PATCH /api/posts", "DELETE /api/posts", "GET /api/posts/*", "PATCH /api/posts/*", "DELETE /api/posts/*", "POST /api/posts/*/restore",
	"GET /api/posts/*/history", "POST /api/posts/*/revert", "GET /api/tx", "POST /api/tx", "GET /api/*",
}

// FuzzRequests: whatever a request has in its address, body and headers, the response is JSON or a file, and blames the
// client if anyone.
func FuzzRequests(f *testing.F) {
	s := open(f)
	s.ask("ann", "POST", "/api/posts", `{"id":"p","data":{"title":"x","price":"1.5","about":{"a":[1]}}}`).is(201)
	for i, x := range []struct{ query, body, match, once string }{
		{`filter=title="x"&sort=-likes&limit=2&count=true&expand=owner&fields=title`, "", "", ""}, {"", `{"data":{"title":"y","about":{"b":null}}}`, `"1"`, `"k"`}, {"filter=likes>1", `{"data":{"likes":5}}`, "*", ""},
		{"filter=&token=x", "", "", "k"}, {"rev=1", "", "", ""}, {"asof=2026-01-01T00:00:00Z", `{"rev":1,"data":{}}`, `W/"1", "2"`, ""}, {"purge=true", "", "", ""}, {"", "{}", "", ""}, {"before=2&limit=1", "", "", ""},
		{"", `{"to":1}`, "", ""}, {"", `{"rev":1}`, "", ""}, {"", `{"ops":[{"op":"update","collection":"posts","id":"p","rev":1,"data":{"title":"z"}},{"op":"purge","collection":"posts","id":"q"}]}`, "", "x"},
		{"aggregate=count,sum(likes)&group=owner", "", "", ""}, {"", `{"filter":{"is_deleted":false},"order":["-likes"],"limit":10,"offset":5}`, "", ""},
	} {
		f.Add(byte(i), "p", x.query, x.body, x.match, x.once)
	}
	f.Fuzz(func(t *testing.T, which byte, id, query, body, match, once string) {
		method, path, _ := strings.Cut(fuzzed[int(which)%len(fuzzed)], " ")
		if strings.HasPrefix(path, "/api/*") && id == "events" {
			return // has no end
		}
		r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
		r.URL = &url.URL{Scheme: "http", Host: "localhost", Path: strings.Replace(path, "*", id, 1), RawQuery: query}
		r.Header = http.Header{"User": {"ann"}, "Content-Type": {"application/json"}}
		if match != "" {
			r.Header["If-Match"] = []string{match}
		}
		if once != "" {
			r.Header["Idempotency-Key"] = []string{once}
		}
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("%s %s: %d %s", method, r.URL, w.Code, w.Body)
		}
		if strings.HasSuffix(w.Header().Get("Content-Type"), "json") && w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s: %s", method, r.URL, w.Body)
		}
	})
}
