package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/web"
)

// hostileName is what a user could call itself to confuse an administrator.
const hostileName = "</td><script>alert(1)</script>\u202egnp.exe"

// withUsers returns options of a server whose application has users, who are kept in to.
func withUsers(t *testing.T, to **skerry.Services, more ...func(*skerry.Services, *web.App)) skerry.Options {
	return skerry.Options{Web: skerry.Web{Debug: true, Application: func(s *skerry.Services) (http.Handler, error) {
		var err error
		if s.Users, err = auth.New(s.KV, auth.Options{Sessions: s.Sessions, Argon2: auth.Params{MemoryKiB: 64, Passes: 1}}); err != nil {
			return nil, err
		}
		*to = s
		app, err := web.New(s.Web)
		if err != nil {
			return nil, err
		}
		for _, fn := range more {
			fn(s, app)
		}
		return app, nil
	}}}
}

// TestUsers: administrators find, create and change the users of the application.
func TestUsers(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s))
	anna := w.anna()
	anna.get("/admin/users").expect(200, "There are no users.")
	anna.post("/admin/users", "email", "nobody", "name", "N", "roles", "a, b").expect(422, "nobody", `value="a, b"`)
	anna.post("/admin/users", "email", "eve@example.org", "password", "short").expect(422, "at least 8 characters").lacks(`value="short"`)
	page := anna.post("/admin/users", "email", "eve@example.org", "name", hostileName, "roles", "editor, author").expect(200, "Created.", "author, editor", "&lt;script&gt;").lacks("<script>alert")
	path, _, _ := strings.Cut(page.Path, "?")
	anna.post("/admin/users", "email", "Eve@example.org").expect(409, "another account")
	anna.get("/admin/users").expect(200, path, "&lt;script&gt;", "no password").lacks("<script>alert")
	anna.get("/admin/users?q=EVE@example.org").expect(200, path)
	anna.get("/admin/users?q="+strings.TrimPrefix(path, "/admin/users/")).expect(200, path)
	anna.get("/admin/users?q=nobody@example.org").expect(200, "No user has this address or id.")
	anna.get("/admin/users?q=%22%3E%3Cb%3E").expect(200, "No user has this address or id.")
	anna.get("/admin/users/nobody").expect(404)

	u, err := s.Users.Find(t.Context(), local, "eve@example.org")
	if err != nil {
		t.Fatal(err)
	}
	session := s.Sessions.New()
	session.Describe("Firefox <b>")
	session.Login(u.ID)
	if _, _, err := session.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Users.OpenDevice(t.Context(), u, "Phone"); err != nil {
		t.Fatal(err)
	}
	text, key, err := s.Users.CreateKey(t.Context(), u.ID, "deploy <b>", []string{"read"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	anna.get(path).expect(200, "Firefox &lt;b&gt;", "Phone", "deploy &lt;b&gt;").lacks(text, "Firefox <b>", "deploy <b>")
	anna.post(path+"/session", "id", session.Handle()).expect(200, "Done.", "not logged in with a browser")
	anna.post(path+"/session", "id", session.Handle()).expect(200)
	anna.post(path+"/key", "id", key.ID).expect(200, "has no API keys")
	anna.post(path+"/logout").expect(200, "Logged out everywhere.").lacks("Phone")
	anna.post(path+"/roles", "roles", "b@d").expect(422, `value="b@d"`)
	anna.post(path+"/roles", "roles", "").expect(200, "Saved.").lacks("editor")
	anna.post(path+"/name", "name", "Eve").expect(200, "Saved.", "Eve")
	anna.post(path+"/password", "password", "short").expect(422, "at least 8 characters")
	anna.post(path+"/password", "password", "a long enough one").expect(200, "Saved.")
	anna.post(path+"/factor").expect(200, "Done.") // there is none
	anna.post(path+"/disable").expect(200, "Disabled.", "Enable")
	if u, err = s.Users.Get(t.Context(), local, u.ID); err != nil || !u.Disabled || !u.Password {
		t.Errorf("%+v, %v", u, err)
	}
	anna.post(path+"/enable").expect(200, "Enabled.")
	anna.get("/admin/log").expect(200, "user.create", "user.roles", "user.password", "user.key").lacks("a long enough one")

	ben := anna.invite(viewersEmail, "viewer")
	ben.get(path).expect(200, "Eve").lacks("Set the password")
	for _, verb := range []string{"", "/roles", "/password", "/disable", "/logout", "/key"} {
		ben.post(path+verb, "roles", "admin").expect(map[bool]int{true: 405, false: 403}[verb == ""])
	}
	ben.post("/admin/users", "email", "x@example.org").expect(403)
}

// TestUsersPages: the list has pages.
func TestUsersPages(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s))
	anna := w.anna()
	for i := range 101 {
		if _, err := s.Users.Create(t.Context(), fmt.Sprintf("u%d@example.org", i), "", true); err != nil {
			t.Fatal(err)
		}
	}
	seen, path := 0, "/admin/users"
	for path != "" {
		page := anna.get(path).expect(200)
		seen += strings.Count(page.Body, "@example.org</a>")
		_, after, found := strings.Cut(page.Body, `href="?after=`)
		path = ""
		if found {
			id, _, _ := strings.Cut(after, `"`)
			path = "/admin/users?after=" + id
		}
	}
	if seen != 101 {
		t.Errorf("%d users", seen)
	}
}

// TestLooksUsers looks at the list and at a user.
func TestLooksUsers(t *testing.T) {
	t.Parallel()
	var s *skerry.Services
	w := start(t, withUsers(t, &s))
	c := w.open()
	c.visit("/admin/users")
	c.looks("users-empty")
	for _, n := range []auth.NewUser{{Email: "ben@example.org", Name: "Ben Fields", Roles: []string{"editor"}, Verified: true}, {Email: strings.Repeat("longer", 10) + "@" + strings.Repeat("host-", 10) + "x.example.org", Name: strings.Repeat("w", 200), Roles: []string{strings.Repeat("r", 60)}}} {
		u, err := s.Users.Add(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		session := s.Sessions.New()
		session.Describe("Firefox on Linux")
		session.Login(u.ID)
		if _, _, err := session.Save(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Users.CreateKey(t.Context(), u.ID, "deploy", []string{"read", "write"}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Users.OpenDevice(t.Context(), u, "Phone"); err != nil {
			t.Fatal(err)
		}
	}
	c.visit("/admin/users")
	c.looks("users")
	c.Do(chromedp.Click(chromedp.CSS(`tbody a`)), chromedp.WaitVisible(chromedp.CSS(`.pairs`)))
	c.looks("user")
}
