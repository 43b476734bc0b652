package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/problem"
)

const otherVersion = "(node 1 leads and runs another version of the program)"

type oneIn struct {
	A int `json:"a"`
}

type twoIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

func one(*proc.Tx, oneIn) (string, error) { return "one", nil }
func two(*proc.Tx, twoIn) (string, error) { return "two", nil }

// TestCallVersions: two versions of a program in one cluster. The leader decides,
// and its refusals mention the other version only if that is the cause.
func TestCallVersions(t *testing.T) {
	c := serveVersions(t, impatient(),
		procedures{proc.Define("same", one), proc.Define("changed", two), proc.DefineRead("read", two), proc.Define("new", one), proc.DefineRead("newread", one), proc.DefineRead("turned", one)},
		procedures{proc.Define("same", one), proc.Define("changed", one), proc.DefineRead("read", one), proc.Define("old", one), proc.DefineRead("oldread", one), proc.Define("turned", one)})
	for _, q := range []struct {
		method, path, body string
		status             int
		by, has            string
		other              bool // the detail mentions another version
	}{
		{"POST", "same", `{"a":1}`, 200, "1", `"one"`, false},
		{"POST", "same", `{}`, 400, "1", `"pointer":"/a"`, false},
		{"POST", "changed", `{"a":1,"b":1}`, 200, "1", `"two"`, false},
		{"POST", "changed", `{"a":1}`, 400, "1", `"pointer":"/b"`, true},
		{"POST", "changed", `[]`, 400, "1", `JSON object`, false},
		{"POST", "new", `{"a":1}`, 200, "1", `"one"`, false},
		{"POST", "new", `{}`, 400, "1", `"pointer":"/a"`, true},
		{"POST", "old", `{"a":1}`, 404, "1", `unknown_procedure`, true},
		{"POST", "neither", `{}`, 404, "1", `unknown_procedure`, false},
		{"GET", "neither", "", 404, "1", `unknown_procedure`, false},
		{"GET", "newread?a=1", "", 200, "1", `"one"`, false},
		{"GET", "newread?a=x", "", 400, "1", `"parameter":"a"`, true},
		{"GET", "new?a=1", "", 405, "1", `method_not_allowed`, true},
		{"GET", "oldread?a=1", "", 200, "2", `"one"`, false},
		{"GET", "read?a=1", "", 200, "2", `"one"`, false},
		{"GET", "turned?a=1", "", 405, "2", `method_not_allowed`, false},
		{"POST", "turned", `{"a":1}`, 200, "1", `"one"`, false},
	} {
		got := c.nodes[1].do(t, q.method, "/api/call/"+q.path, strings.NewReader(q.body))
		if got.status != q.status || got.header.Get("X-Skerry-Node") != q.by || !strings.Contains(string(got.body), q.has) {
			t.Errorf("%s %s %s: %d by node %s: %s", q.method, q.path, q.body, got.status, got.header.Get("X-Skerry-Node"), got.body)
		}
		if strings.Contains(string(got.body), otherVersion) != q.other {
			t.Errorf("%s %s %s: another version is mentioned, or not (want %t): %s", q.method, q.path, q.body, q.other, got.body)
		}
	}
	// What a client says of its version counts for nothing.
	for _, n := range c.nodes {
		if got := n.do(t, "POST", "/api/call/same", strings.NewReader(`{}`), "X-Skerry-Procedure", "none"); strings.Contains(string(got.body), otherVersion) {
			t.Errorf("a client's header is believed: %s", got.body)
		}
	}
	// Without a leader it is unknown which procedures exist.
	c.lead(0)
	for _, name := range []string{"new", "same", "neither"} {
		got := c.nodes[1].do(t, "POST", "/api/call/"+name, strings.NewReader(`{"a":1}`))
		if got.status != 503 || got.code() != engine.CodeNotLeader || got.header.Get("Retry-After") == "" {
			t.Errorf("%s without a leader: %d %s", name, got.status, got.body)
		}
	}
}

// TestCallDeposed: a node that no longer leads does not say what there is.
func TestCallDeposed(t *testing.T) {
	c := serveVersions(t, api.Options{}, procedures{proc.Define("same", one)}, procedures{proc.Define("same", one)}, nil)
	for _, n := range c.nodes[1:] {
		at := &server{addr: n.peer.Addr().String()}
		for _, name := range []string{"same", "neither"} {
			at.do(t, "POST", "/api/call/"+name, strings.NewReader(`{}`)).is(t, fmt.Sprintf("%s on node %d", name, n.id), 503, engine.CodeNotLeader)
		}
	}
	// So a call that comes to it goes on to the one that leads.
	var asked []uint64
	c.via(func(ctx context.Context, to uint64) (net.Conn, error) {
		if asked = append(asked, to); len(asked) == 1 {
			c.lead(2) // node 1 has heard of it when the request arrives
		}
		return c.reach(ctx, to)
	})
	got := c.nodes[2].do(t, "POST", "/api/call/same", strings.NewReader(`{"a":1}`))
	if got.status != 200 || got.header.Get("X-Skerry-Node") != "2" || fmt.Sprint(asked) != "[1 2]" {
		t.Errorf("asked nodes %v: %d %s", asked, got.status, got.body)
	}
}

// TestCallCut: the leader is lost after it got a call. Read-only calls, and calls with a key, are sent again.
func TestCallCut(t *testing.T) {
	c := serveVersions(t, api.Options{}, testProcedures(), testProcedures())
	c.nodes[1].view = func(context.Context, engine.Read, func(engine.Tx) error) (engine.Position, error) {
		return 0, engine.ErrNotLeader // reads go to the leader as well
	}
	const vote = `{"contestant":"ada","phone":1}`
	for _, q := range []struct {
		name, body, key string
		status          int
	}{
		{"vote", vote, "", 500},
		{"vote", vote, "k", 200},
		{"votes", `{"contestant":"ada"}`, "", 200},
		{"neither", `{}`, "", 500}, // for all that this node knows it writes
		{"neither", `{}`, "k2", 404},
	} {
		c.scripted(saying(t, "HTTP/1.1 2"))
		closeIdle(c)
		var headers []string
		if q.key != "" {
			headers = []string{"Idempotency-Key", q.key}
		}
		got := c.nodes[1].do(t, "POST", "/api/call/"+q.name, strings.NewReader(q.body), headers...)
		if got.status != q.status || q.status == 500 && got.code() != engine.CodeOutcomeUnknown {
			t.Errorf("%s with key %q: %d %s", q.name, q.key, got.status, got.body)
		}
	}
	if got := c.nodes[0].do(t, "GET", "/api/call/votes?contestant=ada", nil); !strings.Contains(string(got.body), `"votes":"1"`) {
		t.Errorf("one vote was acknowledged: %s", got.body)
	}
}

// TestCallForwarded: a call and its response are forwarded completely.
func TestCallForwarded(t *testing.T) {
	c := serveVersions(t, api.Options{Password: "p"}, testProcedures(), testProcedures())
	auth := []string{"Authorization", "Bearer p", "X-Request-Id", "mine"}
	if got := c.nodes[1].do(t, "POST", "/api/call/vote", strings.NewReader(`{}`)); got.status != 401 || got.header.Get("X-Skerry-Node") != "2" {
		t.Errorf("without a password: %d by node %s", got.status, got.header.Get("X-Skerry-Node"))
	}
	c.nodes[1].do(t, "GET", "/api/procedures", nil).is(t, "the list without a password", 401, "")
	body := `{"contestant":"` + strings.Repeat("ü", 1<<20) + `","phone":1}`
	got := c.nodes[1].do(t, "POST", "/api/call/votes", strings.NewReader(`{"contestant":"x"}`), auth...)
	if got.status != 200 || got.header.Get("X-Skerry-Node") != "2" {
		t.Errorf("a read: %d by node %s", got.status, got.header.Get("X-Skerry-Node"))
	}
	got = c.nodes[1].do(t, "POST", "/api/call/vote", strings.NewReader(body), auth...)
	var p problem.Problem
	if err := json.Unmarshal(got.body, &p); err != nil || got.status != 400 || p.Code != engine.CodeKeyTooLarge || p.RequestID != "mine" {
		t.Errorf("a large argument: %d %s", got.status, got.body)
	}
	got = c.nodes[1].do(t, "POST", "/api/call/large", strings.NewReader(`{"bytes":150000}`), auth...)
	if got.status != 200 || len(got.body) != 150003 || got.header.Get("X-Skerry-Position") == "" {
		t.Errorf("a large result: %d, %d bytes", got.status, len(got.body))
	}
	got = c.nodes[1].do(t, "POST", "/api/call/large", strings.NewReader(`{"bytes":3}`), append(auth, "Idempotency-Key", "k")...)
	again := c.nodes[0].do(t, "POST", "/api/call/large", strings.NewReader(` {"bytes":3}`), append(auth, "Idempotency-Key", `"k"`)...)
	if string(got.body) != `"xxx"`+"\n" || string(again.body) != string(got.body) || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("answered %q, again %q", got.body, again.body)
	}
	if got.header.Get("Idempotent-Replayed") != "" {
		t.Error("the first answer is said to be an earlier one")
	}
}

// TestCallElection: calls wait for a leader.
func TestCallElection(t *testing.T) {
	c := serveVersions(t, api.Options{ElectionWait: 20 * time.Second}, testProcedures(), testProcedures())
	c.lead(0)
	done := make(chan answer)
	go func() {
		done <- c.nodes[1].do(t, "POST", "/api/call/vote", strings.NewReader(`{"contestant":"ada","phone":1}`))
	}()
	eventually.True(t, "a waiting call", func() bool { return c.nodes[1].metric(t, "skerry_http_requests_in_flight") > 1 })
	c.lead(2)
	if got := <-done; got.status != 200 || got.header.Get("X-Skerry-Node") != "2" {
		t.Errorf("after the election: %d %s", got.status, got.body)
	}
}
