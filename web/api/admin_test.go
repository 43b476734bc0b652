package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/web/api"
)

// TestAdminHandler: routes for operators exist nowhere else, and require the password.
func TestAdminHandler(t *testing.T) {
	t.Parallel()
	o := api.Options{Profiles: true, Password: "secret"}
	admin := func(srv *http.Server) { srv.Handler = srv.Handler.(*api.Face).AdminHandler() }
	servers := map[string]*server{"clients": serve(t, o), "operators": serve(t, o, admin)}
	for _, c := range []struct {
		who, path, password string // path may begin with a method
		want                int
		says                string
	}{
		{"operators", "/debug/pprof/cmdline", "secret", 200, ""},
		{"operators", "/debug/pprof/", "secret", 200, "goroutine"},
		{"operators", "/debug/pprof/", "wrong", 401, "unauthenticated"},
		{"operators", "/db/?space=17", "wrong", 401, "unauthenticated"},
		{"operators", "/db/?space=17", "secret", 200, "items"},
		{"operators", "/", "secret", 200, "space=17"},
		{"clients", "/debug/pprof/cmdline", "secret", 404, "no_route"},
		{"clients", "/debug/pprof/", "secret", 404, "no_route"},
		{"operators", "/users", "secret", 501, "unsupported"},
		{"operators", "DELETE /users", "secret", 405, "GET, HEAD, POST, OPTIONS"},
		{"clients", "/users", "secret", 404, "no_route"},
		{"clients", "DELETE /users", "secret", 404, "no_route"},
		{"clients", "/users/1", "secret", 404, "no_route"},
		{"operators", "/users/", "secret", 404, "no_route"},
		{"clients", "/db/?space=17", "secret", 400, "there is no such parameter here"},
	} {
		method, path, found := strings.Cut(c.path, " ")
		if !found {
			method, path = "GET", c.path
		}
		req, err := http.NewRequest(method, "http://"+servers[c.who].addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.password)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.want || !strings.Contains(string(text), c.says) {
			t.Errorf("%s at %s with password %s: %d %s (%v); want %d and %q", c.who, c.path, c.password, resp.StatusCode, text, err, c.want, c.says)
		}
	}
}
