package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/problem"
)

// TestAddedRoutes: routes of other packages are in the index and require the password, and requests that only
// the leader can serve are forwarded with the body.
func TestAddedRoutes(t *testing.T) {
	refusals := 0
	echo := func(c *web.Context) error {
		body, err := io.ReadAll(c.Request.Body)
		if err != nil {
			return err
		}
		if !c.FromNode() && c.Request.Method == http.MethodPost {
			refusals++
			return engine.ErrNotLeader // as a write on node 2 would
		}
		_, err = fmt.Fprintf(c.Writer, "%s %s %s", c.Request.Method, strings.TrimPrefix(c.Request.URL.Path, "/echo/"), body)
		return err
	}
	o := api.Options{Password: "p", Routes: []api.Route{
		{Methods: "GET, HEAD", Path: "/echo/{text}", Handle: echo, Text: "return a text"},
		{Methods: "POST", Path: "/echo/{text}", Handle: echo},
	}}
	c := serveVersions(t, o, nil, nil)
	second := c.nodes[1].server
	password := []string{"Authorization", "Bearer p"}
	if got := second.do(t, "GET", "/echo/x", nil); got.status != http.StatusUnauthorized {
		t.Errorf("without a password: %d", got.status)
	}
	if got := second.do(t, "GET", "/echo/a%2Fb", nil, password...); got.status != 200 || string(got.body) != "GET a/b " {
		t.Errorf("GET: %d %s", got.status, got.body)
	}
	if got := second.do(t, "POST", "/echo/x", strings.NewReader("body"), password...); got.status != 200 || string(got.body) != "POST x body" || refusals != 1 {
		t.Errorf("POST: %d %s after %d refusals", got.status, got.body, refusals)
	}
	if got := second.do(t, "POST", "/echo/x", strings.NewReader(strings.Repeat("x", api.MaxRouteBytes+1)), password...); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit: %d", got.status)
	}
	if got := second.do(t, "PUT", "/echo/x", strings.NewReader("x"), password...); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "GET, HEAD, POST, OPTIONS" {
		t.Errorf("PUT: %d, Allow %s, %s", got.status, got.header.Get("Allow"), problem.CodeMethodNotAllowed)
	}
	if got := second.do(t, "GET", "/", nil, password...); !strings.Contains(string(got.body), `{"methods":"GET, HEAD","path":"/echo/{text}","text":"return a text"}`) {
		t.Errorf("the index: %s", got.body)
	}
}
