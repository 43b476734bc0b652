package skerry_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/records"
)

// TestRecordsOnAnyNode: an application's clients and operators write records on any node and read them on any other.
// Passwords in them are hashed.
func TestRecordsOnAnyNode(t *testing.T) {
	t.Parallel()
	notes := schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "text", Type: schema.Text}, {Name: "secret", Type: schema.Password}},
		Rules: schema.Rules{List: "true", View: "true", Create: "true"}}
	var servers []*skerry.Server
	for _, db := range openNodes(t) {
		s, _, _ := start(t, db, skerry.Options{Admin: "127.0.0.1:0", Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
			if err := s.Records.Define(notes); err != nil {
				return nil, err
			}
			app, err := web.New(s.Web)
			if err != nil {
				return nil, err
			}
			records.Mount(app, s.Records, records.Options{})
			return app, nil
		}}})
		servers = append(servers, s)
	}
	for i, s := range servers {
		if code, text := sendJSON(t, "GET", s.AdminURL()+"/api/collections", ""); code != http.StatusOK || !strings.Contains(text, `"name":"notes"`) {
			t.Errorf("node %d: collections: %d %s", i+1, code, text)
		}
		if code, text := sendJSON(t, "GET", s.HTTPURL()+"/api/collections", ""); code != http.StatusNotFound {
			t.Errorf("node %d: collections for anyone: %d %s", i+1, code, text)
		}
		id := string(rune('a' + i))
		if code, text := sendJSON(t, "POST", s.HTTPURL()+"/api/notes", `{"id":"`+id+`","data":{"text":"x","secret":"correct"}}`); code != http.StatusCreated || strings.Contains(text, "correct") {
			t.Errorf("node %d: create: %d %s", i+1, code, text)
		}
		if code, text := sendJSON(t, "PATCH", s.HTTPURL()+"/api/notes/"+id, `{"data":{"text":"y"}}`); code != http.StatusForbidden {
			t.Errorf("node %d: a change that no rule allows: %d %s", i+1, code, text)
		}
		if code, text := sendJSON(t, "PATCH", s.AdminURL()+"/api/notes/"+id, `{"data":{"text":"y"}}`); code != http.StatusOK {
			t.Errorf("node %d: a change of an operator: %d %s", i+1, code, text)
		}
		for j, other := range servers {
			for _, url := range []string{other.HTTPURL(), other.AdminURL()} {
				if code, text := sendJSON(t, "GET", url+"/api/notes?filter=id%3D'"+id+"'", ""); code != http.StatusOK || !strings.Contains(text, `"text":"y"`) {
					t.Errorf("node %d wrote, node %d reads: %d %s", i+1, j+1, code, text)
				}
			}
		}
	}
}

// sendJSON sends a request, with a body unless that is empty.
func sendJSON(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
