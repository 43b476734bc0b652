package records_test

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestHostile: whatever a request has, it is answered with a problem that names the place, soon, and changes nothing.
func TestHostile(t *testing.T) {
	s := open(t)
	s.ask("ann", "POST", "/api/posts", `{"id":"p","data":{"title":"hidden","likes":1}}`).is(201)
	before := s.ask("ann", "GET", "/api/posts/p", "").is(200).Body.String()
	start := time.Now()
	deep := strings.Repeat("(", 10_000) + "likes=1" + strings.Repeat(")", 10_000)
	for _, filter := range []string{
		deep, strings.Repeat("likes=1||", 1<<20/9) + "likes=1", strings.Repeat("!", 10_000) + "public", `title = "x' OR '1'='1"`, `likes = 1; drop`, `likes = NaN`, `likes = 1e999`,
		`likes = 99999999999999999999`, "title = \"\xff\"", "title = \"\x00\"", `nothing = 1`, `@auth.password = 1`, `owner.name.x.y.z = 1`, `likes ~ "x"`, `"`, `(`, `likes =`, `likes = 'x'`,
	} {
		r := s.ask("", "GET", "/api/posts?filter="+url.QueryEscape(filter), "")
		if r.Code == 200 {
			r.is(200, `{"items":[]}`)
		} else {
			r.is(400, `"parameter":"filter"`, "query_invalid")
		}
	}
	for query, parameter := range map[string]string{
		"sort=" + strings.Repeat("likes,", 10_000): "sort", "sort=--likes": "sort", "sort=about": "sort", "sort=likes;drop": "", "sort=%00": "sort",
		"after=x": "after", "after=AQ": "after", "after=" + strings.Repeat("A", 1<<20): "after", "after=%FF": "after",
		"limit=-1": "limit", "limit=1e3": "limit", "limit=99999999999999999999": "limit", "limit=1&limit=2": "limit", "offset=x": "offset",
		"count=maybe": "count", "deleted=perhaps": "deleted", "fields=nothing": "fields", "expand=" + strings.Repeat("owner.", 10): "expand", "expand=secrets(text)": "expand",
		"aggregate=sum(title)": "aggregate", "group=about": "group", "drop=1": "drop", "filter=%zz": "",
	} {
		r := s.ask("ann", "GET", "/api/posts?"+query, "").is(400)
		if parameter != "" {
			r.is(400, parameter)
		}
	}
	for _, id := range []string{"..", "%2e%2e", "a%2Fb", "%00", "%FF", strings.Repeat("x", 10_000), "p'--", "p%20", "*"} {
		for _, method := range []string{"GET", "DELETE"} {
			if r := s.ask("ann", method, "/api/posts/"+id, ""); r.Code != 404 && r.Code != 400 && r.Code != 307 && r.Code != 301 {
				t.Errorf("%s of the id %.40s: %d", method, id, r.Code)
			}
		}
	}
	for _, data := range []string{
		strings.Repeat(`{"about":`, 10_000) + "1" + strings.Repeat("}", 10_000), `{"likes":NaN}`, `{"likes":1e999}`, `{"likes":99999999999999999999}`, `{"likes":1.5}`, `{"likes":"1"}`,
		`{"public":"yes"}`, `{"price":1e60}`, "{\"title\":\"\xff\"}", `{"title":"\u0000"}`, `{"title":"\ud800"}`, `{"title":{}}`, `{"owner":"nobody"}`, `{"title":"a","title":"b"}`, `[]`, `null`, `1`, `{"about":"` + strings.Repeat("x", 2<<20) + `"}`,
	} {
		if r := s.ask("ann", "PATCH", "/api/posts/p", `{"data":`+data+`}`); r.Code != 400 && r.Code != 422 {
			t.Errorf("data %.60s: %d %.200s", data, r.Code, r.Body)
		}
	}
	s.ask("ann", "PATCH", "/api/posts/p", strings.Repeat("x", 17<<20)).is(413, "body_too_large")
	s.ask("ann", "PATCH", "/api/posts/p", "x", "Content-Type", "text/plain").is(415, "media_type")
	if got := s.ask("ann", "GET", "/api/posts/p", "").is(200).Body.String(); got != before {
		t.Errorf("the record has become %s", got)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}
