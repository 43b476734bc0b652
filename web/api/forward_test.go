package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/problem"
)

// put writes through a node on a connection of its own.
func (n *node) put(t *testing.T, path, val string, headers ...string) answer {
	t.Helper()
	return n.do(t, "PUT", path, strings.NewReader(val), headers...)
}

func TestForwardedBy(t *testing.T) {
	c := serveCluster(t, 3, api.Options{})
	for i, n := range c.nodes {
		if got := n.put(t, fmt.Sprintf("/db/%d", i), "x"); got.status != 201 || got.header.Get("X-Skerry-Node") != "1" {
			t.Errorf("node %d: %d by node %q", i+1, got.status, got.header.Get("X-Skerry-Node"))
		}
		if got := n.do(t, "GET", "/db/0?read=local", nil); got.status != 200 || got.header.Get("X-Skerry-Node") != fmt.Sprint(i+1) {
			t.Errorf("node %d: read %d by node %q", i+1, got.status, got.header.Get("X-Skerry-Node"))
		}
	}
	if got := c.nodes[0].metric(t, `skerry_http_requests_total{class="2xx",method="PUT",route="node"}`); got != 2 {
		t.Errorf("the leader counts %v requests from other nodes", got)
	}
	if alone := serve(t, api.Options{}).do(t, "GET", "/", nil); alone.header.Get("X-Skerry-Node") != "" {
		t.Error("a server that is alone names its node")
	}
}

// TestForwardedHeaders checks the request that another node really receives.
func TestForwardedHeaders(t *testing.T) {
	c := serveCluster(t, 2, api.Options{Password: "secret"})
	seen := make(chan *http.Request, 1)
	c.scripted(func(conn net.Conn) {
		defer conn.Close()
		in := bufio.NewReader(conn)
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "value" {
			t.Errorf("the body is %q: %v", body, err)
		}
		seen <- r
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nX-End: 1\r\n"+
			"Trailer: X-Skerry-Position\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Skerry-Position: 17\r\n\r\n")
	})
	conn := c.nodes[1].dial(t)
	fmt.Fprintf(conn, "PUT /db/a%%2Fb//%%00?ttl=5s HTTP/1.1\r\nHost: db.example:80\r\nAuthorization: Bearer secret\r\n"+
		"Connection: X-Mine, keep-alive\r\nX-Mine: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: x\r\nX-Request-Id: mine-1\r\n"+
		"X-Forwarded-For: 192.0.2.1, 192.0.2.2\r\nX-Idempotency-Key: k\r\nIf-Match: *\r\nX-Kept: 1\r\nExpect: 100-continue\r\n"+
		"Trailer: X-Late\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nvalue\r\n0\r\nX-Late: 1\r\n\r\n")
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Errorf("no 100 Continue but %q %v", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "abc" || resp.Trailer.Get("X-Skerry-Position") != "17" {
		t.Errorf("answered %q, trailer %v: %v", body, resp.Trailer, err)
	}
	for name, want := range map[string]string{"X-Hop": "", "Keep-Alive": "", "X-End": "1", "X-Request-Id": "mine-1"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("the answer has %s: %q, not %q", name, got, want)
		}
	}
	r := <-seen
	if r.RequestURI != "/db/a%2Fb//%00?ttl=5s" || r.Host != "db.example:80" || r.ContentLength != 5 {
		t.Errorf("asked for %q at %q, %d bytes", r.RequestURI, r.Host, r.ContentLength)
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Authorization": "", "Connection": "", "X-Mine": "", "Te": "", "Upgrade": "", "Proxy-Authorization": "", "Trailer": "",
		"Expect": "", "X-Idempotency-Key": "", "User-Agent": "", "Accept-Encoding": "",
		"X-Request-Id": "mine-1", "If-Match": "*", "X-Kept": "1", "X-Forwarded-For": "192.0.2.1, 192.0.2.2, " + host,
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("the leader gets %s: %q, not %q", name, got, want)
		}
	}
}

// TestForwardedFrom: the leader's log has the client's address, and not what the client claims.
func TestForwardedFrom(t *testing.T) {
	var log logged
	c := serveCluster(t, 2, api.Options{Logger: log.logger()})
	c.nodes[1].put(t, "/db/a", "x", "X-Forwarded-For", "192.0.2.99", "X-Request-Id", "traced")
	eventually.True(t, "a line of each node", func() bool { return strings.Count(log.String(), "traced") == 2 })
	if strings.Contains(log.String(), "192.0.2.99") || strings.Count(log.String(), "from=127.0.0.1 ") != 2 {
		t.Errorf("the log has\n%s", log.String())
	}
}

// TestForwardedLarge: the largest values go through, counted and chunked, there and back.
func TestForwardedLarge(t *testing.T) {
	c := serveCluster(t, 2, api.Options{})
	c.nodes[1].view = func(context.Context, engine.Read, func(engine.Tx) error) (engine.Position, error) {
		return 0, engine.ErrNotLeader // reads go to the leader as well
	}
	whole := bytes.Repeat([]byte("0123456789abcdef"), kv.MaxValBytes/16)
	for name, body := range map[string]io.Reader{"counted": bytes.NewReader(whole), "chunked": io.MultiReader(bytes.NewReader(whole))} {
		if got := c.nodes[1].do(t, "PUT", "/db/"+name, body); got.status != 201 {
			t.Fatalf("%s: %d %s", name, got.status, got.body)
		}
		if got := c.nodes[1].do(t, "GET", "/db/"+name, nil); !bytes.Equal(got.body, whole) || got.header.Get("X-Skerry-Node") != "1" {
			t.Errorf("%s: comes back with %d bytes from node %q", name, len(got.body), got.header.Get("X-Skerry-Node"))
		}
	}
	if got := c.nodes[1].do(t, "HEAD", "/db/counted", nil); got.status != 200 || got.header.Get("Content-Length") != fmt.Sprint(len(whole)) {
		t.Errorf("HEAD: %d %v", got.status, got.header)
	}
	c.nodes[1].do(t, "GET", "/db/none", nil).is(t, "a key that is not there", 404, engine.CodeNotFound)
	if got := c.nodes[1].do(t, "GET", "/db", nil); got.status != 200 || !strings.Contains(string(got.body), "chunked") {
		t.Errorf("the listing: %d %s", got.status, got.body)
	}
	c.nodes[1].do(t, "PUT", "/db/over", bytes.NewReader(append(slices.Clip(whole), 'x'))).is(t, "one byte too many", 413, "")
	c.nodes[1].do(t, "DELETE", "/db/counted", nil).is(t, "DELETE", 204, "")
}

// TestForwardedLongHeaders: what fits into a client's headers still does when the
// node has added its own.
func TestForwardedLongHeaders(t *testing.T) {
	c := serveCluster(t, 2, api.Options{})
	for _, n := range []int{web.MaxHeaderBytes - 300, web.MaxHeaderBytes + 2<<10} {
		got, direct := c.nodes[1].put(t, "/db/a", "x", "X-Forwarded-For", strings.Repeat("1", n)), c.nodes[0].put(t, "/db/b", "x", "X-Forwarded-For", strings.Repeat("1", n))
		if got.status != direct.status || got.status != 201 && n < web.MaxHeaderBytes {
			t.Errorf("%d bytes of headers: %d, directly %d", n, got.status, direct.status)
		}
		c.nodes[0].do(t, "DELETE", "/db/a", nil)
		c.nodes[0].do(t, "DELETE", "/db/b", nil)
	}
}

// TestForwardedSlowly: a client that sends slowly takes no resources of the leader, and one that does not read
// its response is disconnected.
func TestForwardedSlowly(t *testing.T) {
	c := serveCluster(t, 2, api.Options{}, func(h *http.Server) { h.ReadTimeout, h.WriteTimeout = 200*time.Millisecond, time.Second })
	var dials atomic.Int32
	c.via(func(ctx context.Context, to uint64) (net.Conn, error) { dials.Add(1); return c.reach(ctx, to) })
	conn := c.nodes[1].dial(t)
	fmt.Fprintf(conn, "PUT /db/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
	if status, code := readCode(t, conn); status != 408 || code != problem.CodeBodyTimeout {
		t.Errorf("a slow body: %d %s", status, code)
	}
	if dials.Load() != 0 {
		t.Error("the leader was bothered with a body that never came")
	}
	c.nodes[1].view = func(context.Context, engine.Read, func(engine.Tx) error) (engine.Position, error) {
		return 0, engine.ErrNotLeader
	}
	if _, _, err := c.nodes[0].store.Set(t.Context(), 0, []byte("large"), make([]byte, kv.MaxValBytes), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	conn = c.nodes[1].dial(t)
	fmt.Fprintf(conn, "GET /db/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
	awaitAnswer(t, conn)
	c.nodes[1].waitIdle(t)
	if n, _ := io.Copy(io.Discard, conn); n == 0 || n >= kv.MaxValBytes || dials.Load() == 0 {
		t.Errorf("the slow reader got %d bytes", n)
	}
}

// TestForwardedGone: a client that goes away ends its call on the leader. The condition keeps the call with its handler: a
// write without one costs less than it would cost to watch for its client.
func TestForwardedGone(t *testing.T) {
	c := serveCluster(t, 2, api.Options{})
	began, ended := make(chan struct{}), make(chan struct{})
	c.nodes[0].update = func(ctx context.Context, _ func(engine.Tx) error) (engine.Position, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return 0, ctx.Err()
	}
	conn := c.nodes[1].dial(t)
	fmt.Fprintf(conn, "PUT /db/a HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nContent-Length: 1\r\n\r\nx")
	<-began
	conn.Close()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the leader does not notice that the client is gone")
	}
}

// TestNoSecondForward: what came from another node is answered here or refused.
func TestNoSecondForward(t *testing.T) {
	c := serveCluster(t, 3, api.Options{Password: "p"})
	at3 := &server{addr: c.nodes[2].peer.Addr().String()}
	got := at3.do(t, "PUT", "/db/a", strings.NewReader("x"))
	if got.status != 503 || got.code() != engine.CodeNotLeader || got.header.Get("Retry-After") == "" || got.header.Get("X-Skerry-Node") != "3" {
		t.Errorf("answered %d %v %s", got.status, got.header, got.body)
	}
	at3.do(t, "GET", "/db/a", nil, "Origin", "https://elsewhere.example").is(t, "a request that another node has checked", 404, "")
}

func TestElectionWait(t *testing.T) {
	c := serveCluster(t, 2, impatient())
	c.lead(0)
	for _, n := range c.nodes {
		got := n.put(t, "/db/a", "x", "Idempotency-Key", "k")
		if got.status != 503 || got.code() != engine.CodeNotLeader || got.header.Get("Retry-After") == "" {
			t.Errorf("without a leader: %d %s", got.status, got.body)
		}
		ready := n.do(t, "GET", "/readyz", nil)
		var why struct{ Status, Code string }
		if err := json.Unmarshal(ready.body, &why); err != nil || ready.status != 503 || why.Status != "not_ready" || why.Code != "not_leader" {
			t.Errorf("ready without a leader: %d %s", ready.status, ready.body)
		}
		n.do(t, "GET", "/healthz", nil).is(t, "healthz without a leader", 200, "")
	}
	patient := serveCluster(t, 2, api.Options{ElectionWait: 20 * time.Second})
	patient.lead(0)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			patient.nodes[i%2].put(t, fmt.Sprintf("/db/%d", i), "x").is(t, "after the election", 201, "")
		})
	}
	for _, n := range patient.nodes {
		eventually.True(t, "a waiting request", func() bool { return n.metric(t, "skerry_http_requests_in_flight") > 8 })
	}
	patient.lead(2)
	wg.Wait()
	patient.nodes[0].do(t, "GET", "/readyz", nil).is(t, "ready with a leader", 200, "")
}

// TestForwardLimit: one request more than may wait for the leader is refused.
func TestForwardLimit(t *testing.T) {
	c := serveCluster(t, 2, api.Options{})
	api.LimitForwards(c.nodes[1].face, 2, time.Minute)
	c.lead(0)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			c.nodes[1].put(t, fmt.Sprintf("/db/%d", i), "x").is(t, "under the limit", 201, "")
		})
	}
	eventually.True(t, "a waiting request", func() bool { return c.nodes[1].metric(t, "skerry_http_requests_in_flight") > 2 })
	eventually.True(t, "the refusal", func() bool {
		got := c.nodes[1].put(t, "/db/over", "x")
		return got.status == 503 && got.code() == engine.CodeQueueFull
	})
	c.lead(1)
	wg.Wait()
}

func TestClusterResource(t *testing.T) {
	c := serveCluster(t, 3, api.Options{})
	got := c.nodes[1].do(t, "GET", "/cluster", nil)
	var s struct {
		ID                 string
		Self, Leader, Term uint64
		Nodes              []struct {
			ID                  uint64
			Addr, HTTP, RESP    string
			Voter, Leader, Self bool
		}
	}
	if err := json.Unmarshal(got.body, &s); err != nil || got.status != 200 {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	if len(s.ID) != 32 || s.Self != 2 || s.Leader != 1 || s.Term != 7 || len(s.Nodes) != 3 ||
		!s.Nodes[0].Leader || !s.Nodes[1].Self || s.Nodes[2].Voter || s.Nodes[1].HTTP != c.nodes[1].addr || s.Nodes[0].Addr == "" {
		t.Errorf("answered %s", got.body)
	}
	page := string(c.nodes[1].do(t, "GET", "/", nil, "Accept", "text/html").body)
	for _, want := range []string{"This is node 2; node 1 leads, term 7", "follower, this one", "learner", c.nodes[2].addr} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q:\n%s", want, page)
		}
	}
	alone := serve(t, api.Options{})
	alone.do(t, "GET", "/cluster", nil).is(t, "alone", 501, engine.CodeUnsupported)
	if page := string(alone.do(t, "GET", "/", nil, "Accept", "text/html").body); strings.Contains(page, "Cluster") {
		t.Error("the page of a server that is alone has a cluster")
	}
}
