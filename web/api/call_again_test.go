package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web/api"
)

// TestCallRefusedLater: a repeated call with a key is refused before its stored response was looked up, so it
// may still have been carried out.
func TestCallRefusedLater(t *testing.T) {
	c := serveVersions(t, api.Options{}, testProcedures(), testProcedures())
	refused := func(code engine.Code) string {
		body := fmt.Sprintf(`{"title":"t","status":503,"code":%q,"detail":"not now; nothing was written"}`, code)
		return fmt.Sprintf("HTTP/1.1 503 %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n%s",
			http.StatusText(http.StatusServiceUnavailable), len(body), body)
	}
	for _, code := range []engine.Code{engine.CodeQueueFull, engine.CodeClosed, engine.CodeStopped, engine.CodeDiskFull, engine.CodeFilesFull, engine.CodeInternal} {
		closeIdle(c)
		c.scripted(saying(t, "HTTP/1.1 2"), saying(t, refused(code)))
		got := c.nodes[1].do(t, "POST", "/api/call/vote", strings.NewReader(`{"contestant":"ada","phone":1}`), "Idempotency-Key", string(code))
		if got.status != 500 || got.code() != engine.CodeOutcomeUnknown {
			t.Errorf("%s after an answer was lost: %d %s", code, got.status, got.body)
		}
		closeIdle(c)
		c.scripted(saying(t, refused(code)))
		got = c.nodes[1].do(t, "POST", "/api/call/vote", strings.NewReader(`{"contestant":"ada","phone":1}`), "Idempotency-Key", string(code))
		if got.status != 503 || got.code() != code {
			t.Errorf("%s at once: %d %s", code, got.status, got.body)
		}
	}
}

// TestReadsOfOtherPrograms: a call that only reads by this node's program, and so
// is sent again, does not write by the leader's.
func TestReadsOfOtherPrograms(t *testing.T) {
	reads := proc.DefineRead("turned", func(*proc.Tx, nothing) (int64, error) { return -1, nil })
	writes := proc.Define("turned", func(tx *proc.Tx, _ nothing) (int64, error) { return tx.KV(0).Add([]byte("turned"), 1) })
	c := serveVersions(t, api.Options{}, procedures{writes}, procedures{reads})
	c.nodes[1].view = func(context.Context, engine.Read, func(engine.Tx) error) (engine.Position, error) {
		return 0, engine.ErrNotLeader
	}
	got := c.nodes[1].do(t, "POST", "/api/call/turned", strings.NewReader(`{}`))
	if got.status != 403 || got.code() != engine.CodeReadOnly || !strings.Contains(string(got.body), otherVersion) {
		t.Errorf("%d %s", got.status, got.body)
	}
	// What a client says of its version counts for nothing.
	got = c.nodes[0].do(t, "POST", "/api/call/turned", strings.NewReader(`{}`), "X-Skerry-Procedure", "x-reads")
	if got.status != 200 || string(got.body) != "1\n" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestCallThatBreaksLeaders: a call with a key that ends every leader it is sent to
// is not sent to a third one; a client may send it again by the key.
func TestCallThatBreaksLeaders(t *testing.T) {
	c := serveVersions(t, api.Options{}, testProcedures(), testProcedures())
	lost := func() func(net.Conn) { return saying(t, "HTTP/1.1 2") }
	for name, q := range map[string]struct {
		breaks, status int
	}{"under": {forward.MaxBreaks - 1, 200}, "at": {forward.MaxBreaks, 500}} {
		closeIdle(c)
		var script []func(net.Conn)
		for range q.breaks {
			script = append(script, lost())
		}
		c.scripted(script...)
		got := c.nodes[1].do(t, "POST", "/api/call/vote", strings.NewReader(`{"contestant":"ada","phone":1}`), "Idempotency-Key", name)
		if got.status != q.status || q.status == 500 && got.code() != engine.CodeOutcomeUnknown {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		got = c.nodes[1].do(t, "POST", "/api/call/vote", strings.NewReader(`{"contestant":"ada","phone":1}`), "Idempotency-Key", name)
		if got.status != 200 {
			t.Errorf("%s, by the key: %d %s", name, got.status, got.body)
		}
	}
}
