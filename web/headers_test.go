package web_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

const cspField = "Content-Security-Policy"

var nonceIn = regexp.MustCompile(`nonce="([A-Za-z0-9_-]{22})"`)

func TestSecurityHeaders(t *testing.T) {
	views := newViews(t, view.Options{FS: fstest.MapFS{
		"inline.html": {Data: []byte(`<script nonce="{{.nonce}}">var n = {{.nonce}}</script><style nonce="{{.nonce}}"></style>`)},
		"z.z.html":    {Data: []byte(`<script nonce="#{nonce}">1</script>`)},
		"plain.html":  {Data: []byte(`<p></p>`)},
	}})
	s := serve(t, web.Options{Views: views}, func(a *web.App) {
		for _, name := range []string{"inline", "z", "plain"} {
			a.Get("/"+name, func(c *web.Context) error { return c.Render(name, nil) })
		}
		a.Get("/json", func(c *web.Context) error { return c.JSON(200, 1) })
		a.Get("/fail", func(*web.Context) error { panic("no") })
		a.Get("/own", func(c *web.Context) error {
			c.Header().Set(cspField, "default-src 'none'")
			c.Header().Del("Referrer-Policy")
			return c.Render("inline", nil)
		})
		frames := web.SecurityHeaders(web.Headers{CSP: "script-src 'nonce-{nonce}'", OpenerPolicy: "-", PermissionsPolicy: "camera=()", HSTS: -1})
		a.Get("/group", func(c *web.Context) error { return c.Render("inline", nil) }, frames)
		a.Get("/off", func(c *web.Context) error { return c.Render("inline", nil) }, web.SecurityHeaders(web.Headers{Off: true}))
	})
	without := strings.ReplaceAll(web.DefaultCSP, " 'nonce-{nonce}'", "")
	seen := map[string]bool{}
	for _, path := range []string{"/inline", "/inline", "/z", "/plain", "/json", "/fail", "/none"} {
		got := s.do("GET", path, "", "Accept", "text/html")
		want := without
		if m := nonceIn.FindAllStringSubmatch(got.body, -1); m != nil {
			want = strings.ReplaceAll(web.DefaultCSP, "{nonce}", m[0][1])
			if seen[m[0][1]] || len(m) > 1 && m[1][1] != m[0][1] || path == "/inline" && !strings.Contains(got.body, `var n = "`+m[0][1]+`"`) {
				t.Errorf("%s: the page has several nonces, or an old one: %s", path, got.body)
			}
			seen[m[0][1]] = true
		} else if path != "/plain" && path != "/json" {
			t.Errorf("%s has no nonce: %s", path, got.body)
		}
		for name, value := range map[string]string{
			cspField: want, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Strict-Transport-Security": "max-age=31536000", "Permissions-Policy": "",
		} {
			if line := strings.Join(got.header[name], "|"); line != value {
				t.Errorf("%s: %s: %q, want %q", path, name, line, value)
			}
		}
	}
	own := s.do("GET", "/own", "")
	if own.header.Get(cspField) != "default-src 'none'" || own.header.Get("Referrer-Policy") != "" {
		t.Errorf("a handler's own: %+v", own.header)
	}
	group := s.do("GET", "/group", "")
	if m := nonceIn.FindStringSubmatch(group.body); m == nil || group.header.Get(cspField) != "script-src 'nonce-"+m[1]+"'" || group.header.Get("Permissions-Policy") != "camera=()" ||
		group.header.Get("Cross-Origin-Opener-Policy") != "" || group.header.Get("Strict-Transport-Security") != "" || group.header.Get("Referrer-Policy") != "same-origin" {
		t.Errorf("a group's own: %+v", group)
	}
	for name := range s.do("GET", "/off", "").header {
		if name != "Content-Type" && name != "Content-Length" && name != "Date" {
			t.Errorf("%s is sent, though headers are off", name)
		}
	}
}

// TestHSTS: the header is sent over HTTPS only, here or at a trusted proxy.
func TestHSTS(t *testing.T) {
	for _, c := range []struct {
		name    string
		proxies []netip.Prefix
		debug   bool
		want    string
	}{
		{"a forged header", nil, false, ""},
		{"a proxy", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, false, "max-age=60; includeSubDomains"},
		{"debug mode", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, true, ""},
	} {
		s := serve(t, web.Options{TrustedProxies: c.proxies, Debug: c.debug, Headers: web.Headers{HSTS: time.Minute, HSTSSubdomains: true}}, func(*web.App) {})
		plain := plainServer(t, s.app)
		if got := get(t, plain+"/healthz", "X-Forwarded-Proto", "https"); got.header.Get("Strict-Transport-Security") != c.want {
			t.Errorf("%s: %+v", c.name, got.header)
		}
		if got := get(t, plain+"/healthz"); got.header.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s, plain HTTP: %+v", c.name, got.header)
		}
	}
}

// TestHeadersRefused: options that would break a header are reported at once.
func TestHeadersRefused(t *testing.T) {
	for _, h := range []web.Headers{
		{CSP: "default-src 'self'\r\nSet-Cookie: a=b"}, {ReferrerPolicy: "ä"}, {PermissionsPolicy: "\x00"},
		{CSP: "script-src {nonce}"}, {HSTS: time.Millisecond},
	} {
		if _, err := web.New(web.Options{Headers: h}); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), "Headers") {
			t.Errorf("%+v: %v", h, err)
		}
		expectPanic(t, fmt.Sprintf("SecurityHeaders(%+v)", h), func() { web.SecurityHeaders(h) })
	}
}
