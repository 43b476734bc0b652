package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
)

func corsHeaders(h http.Header) []string {
	var all []string
	for name, lines := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			all = append(all, strings.TrimPrefix(name, "Access-Control-")+": "+strings.Join(lines, "|"))
		}
	}
	slices.Sort(all)
	return all
}

func TestCORS(t *testing.T) {
	const friend = "https://friend.example"
	s := serve(t, web.Options{TrustedOrigins: []string{friend}}, func(a *web.App) {
		a.Use(web.CORS(web.CORSOptions{
			Origins: []string{friend, "https://reader.example:8443"}, Under: "/api/", Methods: []string{"GET", "PUT"},
			Headers: []string{"Content-Type", "Authorization"}, Exposed: []string{"ETag"}, Credentials: true, MaxAge: time.Hour,
		}))
		a.Handle("/api/x", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }))
		a.Get("/page", func(c *web.Context) error { return c.NoContent() })
	})
	yes := func(origin string) []string {
		return []string{"Allow-Credentials: true", "Allow-Origin: " + origin, "Expose-Headers: ETag"}
	}
	asked := func(origin string) []string {
		return []string{"Allow-Credentials: true", "Allow-Headers: Content-Type, Authorization", "Allow-Methods: GET, PUT", "Allow-Origin: " + origin, "Max-Age: 3600"}
	}
	ask := []string{"Access-Control-Request-Method", "PUT"}
	for _, c := range []struct {
		name, method, path, origin string
		more                       []string
		status                     int
		want                       []string
	}{
		{"a friend", "GET", "/api/x", friend, nil, 200, yes(friend)},
		{"another port", "GET", "/api/x", friend + ":444", nil, 200, nil},
		{"the port", "GET", "/api/x", "https://reader.example:8443", nil, 200, yes("https://reader.example:8443")},
		{"no TLS", "GET", "/api/x", "http://friend.example", nil, 200, nil},
		{"a longer name", "GET", "/api/x", friend + ".evil.example", nil, 200, nil},
		{"a shorter name", "GET", "/api/x", "https://friend.exampl", nil, 200, nil},
		{"null", "GET", "/api/x", "null", nil, 200, nil},
		{"a star", "GET", "/api/x", "*", nil, 200, nil},
		{"two lines", "GET", "/api/x", friend, []string{"Origin", "https://evil.example"}, 200, nil},
		{"no origin", "GET", "/api/x", "", nil, 200, nil},
		{"elsewhere", "GET", "/page", friend, nil, 204, nil},
		{"preflight", "OPTIONS", "/api/x", friend, ask, 204, asked(friend)},
		{"preflight of no route", "OPTIONS", "/api/none", friend, ask, 204, asked(friend)},
		{"preflight of a stranger", "OPTIONS", "/api/x", "https://evil.example", ask, 204, nil},
		{"not a preflight", "OPTIONS", "/api/x", friend, nil, 200, yes(friend)},
		{"a fault", "GET", "/api/none", friend, nil, 404, yes(friend)},
		{"a trusted origin writes", "PUT", "/api/x", friend, []string{"Sec-Fetch-Site", "cross-site"}, 200, yes(friend)},
		{"an untrusted origin writes", "PUT", "/api/x", "https://reader.example:8443", []string{"Sec-Fetch-Site", "cross-site"}, 403, nil},
	} {
		header := c.more
		if c.origin != "" {
			header = append([]string{"Origin", c.origin}, c.more...)
		}
		got := s.do(c.method, c.path, "", header...)
		if got.status != c.status || !slices.Equal(corsHeaders(got.header), c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.name, got.status, corsHeaders(got.header), c.status, c.want)
		}
		if vary := strings.Join(got.header["Vary"], ", "); strings.HasPrefix(c.path, "/api") && c.status != 403 && !strings.Contains(vary, "Origin") {
			t.Errorf("%s: Vary %q: a shared cache would give it to others", c.name, vary)
		}
	}
}

func TestCORSForAll(t *testing.T) {
	s := serve(t, web.Options{}, func(a *web.App) { a.Use(web.CORS(web.CORSOptions{Origins: []string{"*"}})) })
	got := s.do("GET", "/healthz", "", "Origin", "https://any.example")
	if want := []string{"Allow-Origin: *"}; !slices.Equal(corsHeaders(got.header), want) || len(got.header["Vary"]) != 0 {
		t.Errorf("%+v", got.header)
	}
	nobody := serve(t, web.Options{}, func(a *web.App) { a.Use(web.CORS(web.CORSOptions{})) })
	if got := nobody.do("GET", "/healthz", "", "Origin", "https://any.example"); corsHeaders(got.header) != nil {
		t.Errorf("%+v", got.header)
	}
}

func TestCORSRefused(t *testing.T) {
	for _, o := range []web.CORSOptions{
		{Origins: []string{"*"}, Credentials: true}, {Origins: []string{"*", "https://a.example"}}, {Origins: []string{"https://a.example/"}},
		{Origins: []string{"a.example"}}, {Origins: []string{"https://*.example"}}, {Origins: []string{"null"}}, {Origins: []string{""}},
		{Origins: []string{"https://A.example"}},
	} {
		expectPanic(t, fmt.Sprintf("CORS(%+v)", o), func() { web.CORS(o) })
	}
}

// TestCrossOrigin: requests that make changes and come from a page of another origin are refused, in the
// client's form.
func TestCrossOrigin(t *testing.T) {
	s := serve(t, web.Options{TrustedOrigins: []string{"https://friend.example"}}, func(a *web.App) {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS"} {
			a.Handle(method+" /x", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
		}
	})
	own := s.srv.URL
	for _, c := range []struct {
		site, origin string
		refused      bool
	}{
		{"", "", false}, {"same-origin", own, false}, {"none", "", false}, {"same-site", "https://sub.friend.example", true},
		{"cross-site", "https://evil.example", true}, {"cross-site", "", true}, {"", "https://evil.example", true}, {"", own, false},
		{"", "null", true}, {"nonsense", own, true}, {"cross-site", "https://friend.example", false}, {"", "https://friend.example", false},
		{"same-origin", "https://evil.example", false}, // a page cannot set Sec-Fetch-Site
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS"} {
			var header []string
			if c.site != "" {
				header = append(header, "Sec-Fetch-Site", c.site)
			}
			if c.origin != "" {
				header = append(header, "Origin", c.origin)
			}
			refused := c.refused && method != "GET" && method != "OPTIONS"
			got := s.do(method, "/x", "", header...)
			if refused != (got.status == 403) || refused && !strings.Contains(got.body, `"code":"cross_origin"`) || !refused && got.status != 204 {
				t.Errorf("%s %+v: %d %s", method, c, got.status, got.body)
			}
			if page := s.do(method, "/x", "", append(header, "Accept", "text/html")...); refused && (page.status != 403 || page.header.Get("Content-Type") != "text/html; charset=utf-8") {
				t.Errorf("%s %+v in a browser: %+v", method, c, page)
			}
		}
	}
}

// TestCORSBearer: a page of an allowed origin can make changes with a bearer token that it knows, and never
// with what a browser sends by itself.
func TestCORSBearer(t *testing.T) {
	const friend, bearer = "https://friend.example", "Bearer token"
	routes := func(a *web.App) {
		a.Post("/api/x", func(c *web.Context) error { return c.NoContent() })
		a.Put("/api/x", func(c *web.Context) error { return c.NoContent() })
		a.Post("/page", func(c *web.Context) error { return c.NoContent() })
	}
	with := func(o web.CORSOptions) *site {
		return serve(t, web.Options{TrustedOrigins: []string{"https://trusted.example"}}, func(a *web.App) {
			a.Use(web.CORS(o))
			routes(a)
		})
	}
	some, all, none := with(web.CORSOptions{Origins: []string{friend}, Under: "/api/"}), with(web.CORSOptions{Origins: []string{"*"}}), serve(t, web.Options{}, routes)
	got := some.do("OPTIONS", "/api/x", "", "Origin", friend, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
	if allowed := got.header.Get("Access-Control-Allow-Headers"); allowed != "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match" {
		t.Errorf("the headers that may be sent: %q", allowed)
	}
	for _, c := range []struct {
		what         string
		s            *site
		method, path string
		origin       string
		header       []string
		status       int
	}{
		{"a bearer token", some, "POST", "/api/x", friend, []string{"Authorization", bearer}, 204},
		{"in lower case", some, "POST", "/api/x", friend, []string{"Authorization", "bearer token"}, 204},
		{"with a cookie", some, "POST", "/api/x", friend, []string{"Authorization", bearer, "Cookie", "a=b"}, 403},
		{"with a cookie, trusted", some, "POST", "/api/x", "https://trusted.example", []string{"Authorization", bearer, "Cookie", "a=b"}, 204},
		{"without a token", some, "POST", "/api/x", friend, nil, 403},
		{"with an empty token", some, "POST", "/api/x", friend, []string{"Authorization", "Bearer "}, 403},
		{"with a password", some, "POST", "/api/x", friend, []string{"Authorization", "Basic YTpi"}, 403},
		{"with both", some, "POST", "/api/x", friend, []string{"Authorization", bearer, "Authorization", "Basic YTpi"}, 403},
		{"a method that is not allowed", some, "PUT", "/api/x", friend, []string{"Authorization", bearer}, 403},
		{"elsewhere", some, "POST", "/page", friend, []string{"Authorization", bearer}, 403},
		{"no route", some, "POST", "/none", friend, []string{"Authorization", bearer}, 403},
		{"a stranger", some, "POST", "/api/x", "https://evil.example", []string{"Authorization", bearer}, 403},
		{"null", some, "POST", "/api/x", "null", []string{"Authorization", bearer}, 403},
		{"anybody", all, "POST", "/page", "https://any.example", []string{"Authorization", bearer}, 204},
		{"anybody with a cookie", all, "POST", "/page", "https://any.example", []string{"Authorization", bearer, "Cookie", "a=b"}, 403},
		{"without CORS", none, "POST", "/page", friend, []string{"Authorization", bearer}, 403},
	} {
		got := c.s.do(c.method, c.path, "", append([]string{"Origin", c.origin, "Sec-Fetch-Site", "cross-site"}, c.header...)...)
		if got.status != c.status || c.status == 403 && !strings.Contains(got.body, `"code":"cross_origin"`) {
			t.Errorf("%s: %d %s, want %d", c.what, got.status, got.body, c.status)
		}
	}
}
