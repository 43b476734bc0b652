package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/api"
)

// take reads the whole of a request that was passed on.
func take(t *testing.T, conn net.Conn) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		t.Error(err)
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Error(err)
	}
	return r
}

// saying is a script that takes a request, says something and cuts the connection.
func saying(t *testing.T, words string) func(net.Conn) {
	return func(conn net.Conn) {
		take(t, conn)
		io.WriteString(conn, words)
		conn.Close()
	}
}

// TestCut cuts the connection to the leader at every stage. A request that was certainly not executed is sent
// again; a write that may have been executed only if it has a key.
func TestCut(t *testing.T) {
	const half = "HTTP/1.1 204 No Content\r\nX-Skerry-Pos"
	large := strings.Repeat("x", 1<<20)
	for _, cut := range []struct {
		name   string
		script func(net.Conn)
		body   string
		acted  bool // for all that the client can know
	}{
		{"at once", func(c net.Conn) { c.Close() }, "x", false},
		{"in the body", func(c net.Conn) { io.CopyN(io.Discard, c, 300_000); c.Close() }, large, false},
		{"after the request", saying(t, ""), "x", true},
		{"after a large request", saying(t, ""), large, true},
		{"in the status line", saying(t, "HTTP/1.1 2"), "x", true},
		{"in the head", saying(t, half), "x", true},
		{"by nonsense", saying(t, "SSH-2.0-OpenSSH_9.9\r\n"), "x", true},
		{"in the problem", saying(t, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nContent-Length: 99\r\n\r\n{"), "x", true},
	} {
		t.Run(cut.name, func(t *testing.T) {
			t.Parallel()
			c := serveCluster(t, 2, api.Options{})
			n := c.nodes[1]
			c.scripted(cut.script)
			got := n.put(t, "/db/a", cut.body)
			switch {
			case !cut.acted && got.status != 201:
				t.Errorf("nothing was written, but: %d %s", got.status, got.body)
			case cut.acted && (got.status != 500 || got.code() != engine.CodeOutcomeUnknown):
				t.Errorf("the outcome is unknown, but: %d %s", got.status, got.body)
			}
			c.scripted(cut.script)
			closeIdle(c)
			n.put(t, "/db/b", cut.body, "Idempotency-Key", "k").is(t, "with a key", 201, "")
		})
	}
}

// closeIdle makes the next request to another node open a connection.
func closeIdle(c *cluster) {
	for _, n := range c.nodes {
		n.face.Close()
	}
}

// TestCutDelete: a request without a body is sent or not, nothing in between.
func TestCutDelete(t *testing.T) {
	c := serveCluster(t, 2, api.Options{})
	n := c.nodes[1]
	for key, want := range map[string]int{"": 500, "k": 404} {
		c.scripted(saying(t, ""))
		closeIdle(c)
		var headers []string
		if key != "" {
			headers = []string{"Idempotency-Key", key}
		}
		if got := n.do(t, "DELETE", "/db/a", nil, headers...); got.status != want {
			t.Errorf("key %q: %d %s", key, got.status, got.body)
		}
	}
	c.scripted(func(conn net.Conn) { conn.Close() })
	closeIdle(c)
	n.do(t, "DELETE", "/db/a", nil).is(t, "a DELETE cut before anything was sent", 404, "")
}

// TestCutAnswer: a response whose body breaks off does so for the client too.
func TestCutAnswer(t *testing.T) {
	c := serveCluster(t, 2, api.Options{})
	c.nodes[1].view = func(context.Context, engine.Read, func(engine.Tx) error) (engine.Position, error) {
		return 0, engine.ErrNotLeader
	}
	for _, head := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
		c.scripted(saying(t, "HTTP/1.1 200 OK\r\n"+head+"\r\n\r\n10\r\n"+strings.Repeat("x", 16)+"\r\n"))
		closeIdle(c)
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(c.nodes[1].url("/db/a"))
		if err != nil {
			continue // cut off before the head was sent
		}
		if got, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: half an answer passes for a whole one: %q", head, got)
		}
		resp.Body.Close()
	}
	c.scripted(saying(t, ""), saying(t, "HTTP/1.1 2"))
	closeIdle(c)
	c.nodes[1].do(t, "GET", "/db/a", nil).is(t, "a repeated read", 404, "")
}

// TestUnreachable: a leader that cannot be reached is no leader.
func TestUnreachable(t *testing.T) {
	c := serveCluster(t, 2, impatient())
	c.via(func(context.Context, uint64) (net.Conn, error) { return nil, fmt.Errorf("no route to host") })
	got := c.nodes[1].put(t, "/db/a", "x")
	if got.status != 503 || got.code() != engine.CodeNotLeader || got.header.Get("Retry-After") == "" {
		t.Errorf("answered %d %s", got.status, got.body)
	}
	if n := c.nodes[1].forwards(t, "refused"); n < 2 {
		t.Errorf("the leader was tried %v times", n)
	}
	c.scripted(saying(t, "")) // and then nobody, so that the outcome stays unknown
	c.mu.Lock()
	first := c.dial
	c.dial = func(ctx context.Context, to uint64) (net.Conn, error) {
		c.via(func(context.Context, uint64) (net.Conn, error) { return nil, fmt.Errorf("no route to host") })
		return first(ctx, to)
	}
	c.mu.Unlock()
	c.nodes[1].put(t, "/db/a", "x", "Idempotency-Key", "k").is(t, "a write that may have been carried out", 500, engine.CodeOutcomeUnknown)
}

// TestFrozenLeader: requests to a leader that never responds end.
func TestFrozenLeader(t *testing.T) {
	c := serveCluster(t, 2, impatient())
	api.LimitForwards(c.nodes[1].face, 100, 100*time.Millisecond)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	c.scripted(func(conn net.Conn) { take(t, conn); <-over; conn.Close() })
	c.nodes[1].put(t, "/db/a", "x").is(t, "a write without a key", 500, engine.CodeOutcomeUnknown)
}

// TestSteppedDown: a leader that steps down while it has a request sends it on
// to the next one, through the node that was asked.
func TestSteppedDown(t *testing.T) {
	for next := range uint64(3) {
		next++
		t.Run(fmt.Sprintf("to %d", next), func(t *testing.T) {
			t.Parallel()
			c := serveCluster(t, 3, api.Options{})
			var once sync.Once
			c.nodes[0].update = func(ctx context.Context, fn func(engine.Tx) error) (_ engine.Position, err error) {
				once.Do(func() {
					c.lead(0)
					time.AfterFunc(50*time.Millisecond, func() { c.lead(next) })
					err = engine.ErrNotLeader
				})
				if err != nil {
					return 0, err
				}
				return c.db.Update(ctx, fn)
			}
			body := bytes.Repeat([]byte("x"), 1<<20)
			got := c.nodes[1].do(t, "PUT", "/db/a", bytes.NewReader(body))
			if got.status != 201 || got.header.Get("X-Skerry-Node") != fmt.Sprint(next) {
				t.Fatalf("answered %d by node %s: %s", got.status, got.header.Get("X-Skerry-Node"), got.body)
			}
			if got := c.nodes[1].do(t, "GET", "/db/a", nil); !bytes.Equal(got.body, body) {
				t.Errorf("%d bytes were written", len(got.body))
			}
		})
	}
}

// TestDeposedFrozen: a leader that is frozen while another one takes over is not
// waited for, neither by what it was asked nor by what comes next.
func TestDeposedFrozen(t *testing.T) {
	c := serveCluster(t, 3, api.Options{})
	api.LimitForwards(c.nodes[1].face, 100, time.Hour)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	frozen := func(conn net.Conn) { take(t, conn); <-over; conn.Close() }
	c.scripted(frozen, frozen)
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := c.nodes[1].put(t, "/db/a", "x", "Idempotency-Key", "k"); got.status != 201 || got.header.Get("X-Skerry-Node") != "3" {
			t.Errorf("with a key: %d by node %s %s", got.status, got.header.Get("X-Skerry-Node"), got.body)
		}
	})
	wg.Go(func() {
		c.nodes[1].put(t, "/db/b", "x").is(t, "without a key", 500, engine.CodeOutcomeUnknown)
	})
	eventually.True(t, "both requests in flight", func() bool { return c.nodes[1].metric(t, "skerry_http_requests_in_flight") > 2 })
	eventually.True(t, "both asked", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.dials == 2 })
	c.lead(3)
	wg.Wait()
}
