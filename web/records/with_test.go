package records_test

import (
	"strings"
	"testing"
)

// TestGetWith: one record with some of its fields, and with what its references lead to.
func TestGetWith(t *testing.T) {
	s := open(t)
	s.ask("ann", "POST", "/api/posts", `{"id":"p","data":{"title":"One","public":true}}`).is(201)
	s.ask("ann", "PATCH", "/api/posts/p", `{"data":{"title":"Two"}}`).is(200)
	const fields = "/api/posts/p?fields=title"
	if got := s.ask("ann", "GET", fields, "").is(200, `{"id":"p","data":{"title":"Two"}}`).Header().Get("ETag"); got != `"2"` {
		t.Errorf("the tag of a projection is %s", got)
	}
	s.ask("ann", "GET", fields, "", "If-None-Match", `"2"`).is(304)
	s.ask("ann", "GET", fields+"&rev=1", "").is(200, `{"id":"p","data":{"title":"One"}}`)
	s.ask("ann", "GET", fields, "", "If-Match", `"1"`).is(412)
	const expand = fields + "&expand=owner,owner.posts(owner)"
	s.ask("ann", "GET", "/api/posts/p?expand=owner,users(id)", "").is(400)
	whole := s.ask("ann", "GET", expand, "").is(200)
	tag := whole.Header().Get("ETag")
	if !strings.HasPrefix(tag, `W/"x`) || !strings.Contains(whole.Body.String(), `"data":{"title":"Two"},"expand":{"owner":{"id":"ann",`) || !strings.Contains(whole.Body.String(), `"posts(owner)":{"items":[{"id":"p"`) {
		t.Errorf("%s %s", tag, whole.Body)
	}
	strong := strings.TrimPrefix(tag, "W/")
	for _, tags := range []string{tag, strong, `"7", ` + tag, "*"} {
		if got := s.ask("ann", "GET", expand, "", "If-None-Match", tags).is(304); got.Header().Get("ETag") != tag || got.Body.Len() > 0 {
			t.Errorf("%v %s", got.Header(), got.Body)
		}
	}
	for _, tags := range []string{`"2"`, `W/"2"`, `W/"x0"`} {
		s.ask("ann", "GET", expand, "", "If-None-Match", tags).is(200)
	}
	s.ask("ann", "PATCH", "/api/posts/p", `{"data":{"likes":1}}`, "If-Match", tag).is(412)
	s.ask("ann", "PATCH", "/api/posts/p", `{"data":{"likes":1}}`, "If-Match", strong).is(412)
	s.ask("root", "PATCH", "/api/users/ann", `{"data":{"name":"Anna"}}`).is(200)
	if got := s.ask("ann", "GET", expand, "", "If-None-Match", tag).is(200); got.Header().Get("ETag") == tag || !strings.Contains(got.Body.String(), `"name":"Anna"`) {
		t.Errorf("the tag has not changed with the owner: %s", got.Body)
	}
	if got := s.ask("root", "GET", "/api/posts/p?rev=1&fields=title&expand=owner", "").is(200).Body.String(); !strings.Contains(got, `"title":"One"`) || !strings.Contains(got, `"name":"ann"`) {
		t.Errorf("the owner as it was: %s", got)
	}
	s.ask("bob", "GET", "/api/posts/none?expand=owner", "").is(404)
	s.ask("ann", "GET", expand+"&sort=title", "").is(400)
	s.ask("ann", "GET", expand+"&expand=owner", "").is(400)
	s.ask("ann", "GET", "/api/posts/p?fields=tilte", "").is(400)
	if got := s.ask("ann", "HEAD", expand, "").is(200); got.Body.Len() > 0 {
		t.Errorf("HEAD has %s", got.Body)
	}
}
