package skerry_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
)

// TestUsersOnAnyNode: operators can manage users on any node, and nobody can at the application's own address.
func TestUsersOnAnyNode(t *testing.T) {
	t.Parallel()
	dbs := openNodes(t)
	var servers []*skerry.Server
	for _, db := range dbs {
		s, _, _ := start(t, db, application(func(s *skerry.Services) {
			var err error
			if s.Users, err = auth.New(s.KV, auth.Options{Sessions: s.Sessions, Argon2: auth.Params{MemoryKiB: 64, Passes: 1}}); err != nil {
				t.Error(err)
			}
		}))
		servers = append(servers, s)
	}
	for i, s := range servers {
		email := string(rune('a'+i)) + "@example.org"
		code, text := request(t, "POST", s.AdminURL()+"/users", strings.NewReader(`{"email":"`+email+`","password":"correct horse battery","roles":["admin"]}`))
		var u struct{ ID string }
		if err := json.Unmarshal([]byte(text), &u); code != http.StatusCreated || err != nil {
			t.Fatalf("node %d: create: %d %s", i+1, code, text)
		}
		if code, text := request(t, "PATCH", s.AdminURL()+"/users/"+u.ID, strings.NewReader(`{"disabled":true}`)); code != http.StatusOK || !strings.Contains(text, `"disabled":true`) {
			t.Errorf("node %d: disable: %d %s", i+1, code, text)
		}
		for j, other := range servers {
			if code, text := request(t, "GET", other.AdminURL()+"/users/"+u.ID, nil); code != http.StatusOK || !strings.Contains(text, `"disabled":true`) {
				t.Errorf("node %d wrote, node %d reads: %d %s", i+1, j+1, code, text)
			}
		}
		if code, text := request(t, "GET", s.HTTPURL()+"/users", nil); code != http.StatusNotFound {
			t.Errorf("node %d: the application's address answers %d %s", i+1, code, text)
		}
	}
}
