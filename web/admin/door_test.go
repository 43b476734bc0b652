package admin_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
)

// request sends a request with the browser's cookies that change may change.
func (c *client) request(method, path string, change func(r *http.Request)) *answer {
	c.w.t.Helper()
	r, err := http.NewRequestWithContext(c.w.t.Context(), method, c.w.URL+path, nil)
	if err != nil {
		c.w.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	change(r)
	return c.send(r)
}

// invite makes a set-up link on the operator's port.
func (w *world) invite(email, role string) string {
	w.t.Helper()
	resp, err := http.Post(w.URL+"/administrators", "application/json", strings.NewReader(`{"email":"`+email+`","role":"`+role+`"}`))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct{ Path string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.Path == "" {
		w.t.Fatalf("no link: %d %v", resp.StatusCode, err)
	}
	return w.URL + made.Path
}

// ben returns the browser of an administrator who may only look.
func (w *world) ben() *client {
	w.t.Helper()
	c := w.client()
	c.setUp(w.invite("ben@example.org", "viewer"), "ben@example.org")
	return c
}

// TestForeignPages: pages of other origins can neither send forms nor show the page in a frame, and names that resolve to this
// machine do not lead to it.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	anna.request(http.MethodPost, "/admin/account/logout", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }).expect(403)
	anna.request(http.MethodPost, "/admin/account/logout", func(r *http.Request) { r.Header.Set("Origin", "https://example.org") }).expect(403)
	page := anna.get("/admin/overview").expect(200)
	for name, want := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
	} {
		if got := page.Header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if policy := page.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("the policy is %s", policy)
	}
	for _, host := range []string{"attacker.example", "attacker.example:7201"} {
		anna.request(http.MethodGet, "/admin/overview", func(r *http.Request) { r.Host = host }).expect(421, "hosts")
	}
}

// sessionCookie returns the cookie of a session.
func (c *client) sessionCookie() *http.Cookie {
	c.w.t.Helper()
	u, err := url.Parse(c.w.URL)
	if err != nil {
		c.w.t.Fatal(err)
	}
	for _, k := range c.http.Jar.Cookies(u) {
		if strings.HasSuffix(k.Name, "-session") {
			return k
		}
	}
	c.w.t.Fatal("there is no session")
	return nil
}

// TestStolenCookie: a cookie from before the login is worth nothing after it, and one from before the logout nothing after that.
func TestStolenCookie(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.client()
	anna.post(w.link, "email", email, "password", password).expect(200)
	first := anna.sessionCookie()
	with := func(k *http.Cookie) *answer {
		return w.client().request(http.MethodGet, "/admin/overview", func(r *http.Request) { r.AddCookie(k) })
	}
	page := anna.post("/admin/account/totp/enrol", "password", password).expect(200)
	anna.post("/admin/account/totp/confirm", "code", code(t, secretInPage.FindStringSubmatch(page.Body)[1])).expect(200)
	last := anna.sessionCookie()
	with(last).expect(200, "Overview")
	anna.post("/admin/account/logout").expect(200)
	for _, k := range []*http.Cookie{first, last} {
		if at := with(k).expect(200).Path; !strings.HasPrefix(at, "/admin/account/login") {
			t.Errorf("a cookie from before the logout leads to %s", at)
		}
	}
	fixed := &http.Cookie{Name: first.Name, Value: "chosen-by-an-attacker"}
	planted := w.client()
	u, _ := url.Parse(w.URL)
	planted.http.Jar.SetCookies(u, []*http.Cookie{fixed})
	planted.post("/admin/account/login", "email", email, "password", password).expect(200, "code")
	if at := with(fixed).Path; !strings.HasPrefix(at, "/admin/account/login") {
		t.Errorf("a planted cookie leads to %s", at)
	}
}

// TestCookies: a cookie without Secure is only for this machine itself.
func TestCookies(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	for host, secure := range map[string]bool{"127.0.0.1:7201": false, "localhost:7201": false, "[::1]:7201": false, "10.0.0.5:7201": true, "server": true} {
		c := w.client()
		link := w.invite("x"+strings.Trim(strings.NewReplacer(":", "-", ".", "-", "[", "", "]", "").Replace(host), "-")+"@example.org", "viewer")
		c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		form := url.Values{"email": {"x@example.org"}, "password": {password}}.Encode()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, link, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		set := c.send(r).expect(303).Header.Get("Set-Cookie")
		if got := strings.Contains(set, "Secure") && strings.HasPrefix(set, "__Host-"); got != secure || !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Lax") {
			t.Errorf("%s: %s", host, set)
		}
	}
	w.client().request(http.MethodGet, "/admin/account/login", func(r *http.Request) { r.Host = "10.0.0.5:7201" }).expect(200, "plain HTTP from another machine")
	w.client().get("/admin/account/login").expect(200).lacks("plain HTTP from another machine")
}

// TestViewer: someone who may look cannot change anything.
func TestViewer(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	ben := w.ben()
	ben.get("/admin/overview").expect(200, "read only")
	ben.get("/admin/log").expect(200)
	ben.post("/admin/administrators", "email", "c@example.org", "role", "superadmin").expect(403)
}

// TestPassword: the password of the operator's port opens it, but not the admin page, and administrators have none of its routes.
func TestPassword(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{Password: "of the port"})
	c := w.anna()
	c.get("/db/").expect(401)
	anonymous := w.client()
	at := anonymous.request(http.MethodGet, "/admin/overview", func(r *http.Request) { r.SetBasicAuth("", "of the port") }).expect(200)
	if !strings.HasPrefix(at.Path, "/admin/account/login") {
		t.Errorf("the password of the port leads to %s", at.Path)
	}
	resp, err := http.Post(w.URL+"/administrators", "application/json", strings.NewReader(`{"email":"c@example.org","role":"superadmin"}`))
	if err != nil || resp.StatusCode != 401 {
		t.Errorf("a stranger makes a link: %v %v", resp, err)
	}
	_ = resp.Body.Close()
}

// TestPrograms: a program without a login gets a status, not a page.
func TestPrograms(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	w.client().request(http.MethodGet, "/admin/overview/live", func(r *http.Request) { r.Header.Set("Accept", "application/json") }).expect(401)
}

// TestInvitations: a link is for one account, in one role, once.
func TestInvitations(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	w.anna()
	for _, body := range []string{`{}`, `{"email":"b@example.org"}`, `{"email":"b@example.org","role":"king"}`, `{"email":"b","role":"viewer"}`, `{"email":"b@example.org","role":"viewer","x":1}`, `[`} {
		resp, err := http.Post(w.URL+"/administrators", "application/json", strings.NewReader(body))
		if err != nil || resp.StatusCode != 400 {
			t.Errorf("%s: %v %v", body, resp, err)
		}
		_ = resp.Body.Close()
	}
	link := w.invite("ben@example.org", "viewer")
	c := w.client()
	c.post(link, "email", "other@example.org", "password", password).expect(200) // the address of the link counts
	c.get("/admin/account").expect(200, "ben@example.org")
	w.client().post(link, "email", "ben@example.org", "password", password).expect(400, "already used")
}
