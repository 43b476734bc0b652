package web_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

// TestLookAgain checks that a handler that runs for long can learn how its user is now, and that a user whom middleware
// has set stays.
func TestLookAgain(t *testing.T) {
	lookups := 0
	app := newApp(t, web.Options{Sessions: sessionsWith(t, session.Options{}), User: func(_ context.Context, id string) (web.User, error) {
		lookups++
		return web.User{ID: id, Roles: []string{"editor", "admin"}[:lookups]}, nil
	}})
	app.Get("/", func(c *web.Context) error {
		c.Session().Login("anna")
		for _, want := range []int{1, 1, 2} {
			if want == 2 {
				c.LookAgain()
			}
			if u, err := c.User(); err != nil || u.ID != "anna" || len(u.Roles) != want {
				t.Errorf("user %+v, %v, want %d roles", u, err, want)
			}
		}
		c.SetUser(web.User{ID: "bob"})
		c.LookAgain()
		if u, err := c.User(); err != nil || u.ID != "bob" {
			t.Errorf("user %+v, %v, want bob", u, err)
		}
		return c.NoContent()
	})
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
	if w.Code != 204 || lookups != 2 {
		t.Errorf("status %d after %d lookups", w.Code, lookups)
	}
}
