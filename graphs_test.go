package skerry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
)

// gremlin posts a text and returns the status and the data, or the message.
func gremlin(t *testing.T, url, password, host, text string) (int, string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"gremlin": text})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.Replace(url, "ws://", "http://", 1), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/vnd.gremlin-v3.0+json;types=false")
	if r.Host = host; password != "" {
		r.SetBasicAuth("any", password)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Status struct{ Message string }
		Result struct{ Data json.RawMessage }
	}
	if json.Unmarshal(raw, &got) != nil {
		return resp.StatusCode, string(raw)
	}
	return resp.StatusCode, string(got.Result.Data) + got.Status.Message
}

// TestGremlin: drivers reach the graphs on a listener of their own, which is closed
// unless it is named, and knows the password.
func TestGremlin(t *testing.T) {
	run := func(o skerry.Options) *skerry.Server {
		t.Helper()
		s, _, _ := start(t, openEngine(t), o)
		return s
	}
	if s := run(skerry.Options{}); s.GremlinURL() != "" {
		t.Errorf("it listens at %s", s.GremlinURL())
	}
	s := run(skerry.Options{Gremlin: "127.0.0.1:0"})
	for _, c := range []struct {
		url, host, text string
		status          int
		want            string
	}{
		{s.GremlinURL(), "", "g.addV('person').property('name', 'ann').values('name')", 200, `["ann"]`},
		{s.GremlinURL(), "", "g.V().count()", 200, `[1]`},
		{s.GremlinURL(), "", "g.V(", 400, "the end of the text"},
		{s.GremlinURL(), "evil.example", "g.V()", 403, "without a password"},
		{s.GremlinURL() + "/x", "", "g.V()", 404, ""},
	} {
		if status, got := gremlin(t, c.url, "", c.host, c.text); status != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.text, status, got, c.status, c.want)
		}
	}

	s = run(skerry.Options{Gremlin: "127.0.0.1:0", Password: "secret"})
	for password, status := range map[string]int{"": 401, "wrong": 401, "secret": 200} {
		if got, text := gremlin(t, s.GremlinURL(), password, "evil.example", "g.inject(1)"); got != status {
			t.Errorf("with the password %q: %d %s, want %d", password, got, text, status)
		}
	}
}
