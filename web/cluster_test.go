package web_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/relay"
)

// visit counts in the session.
func visit(n *node) web.Handler {
	return func(c *web.Context) error {
		c.Header().Set("X-Handler", fmt.Sprint(n.id))
		c.Header().Set("X-Handler-"+fmt.Sprint(n.id), "here")
		c.Header().Set("Content-Length", "0") // a response of this node has another length
		v, _, err := visits.Get(c.Session())
		if err != nil {
			return err
		}
		if err := visits.Set(c.Session(), v+1); err != nil {
			return err
		}
		if err := c.SaveSession(); err != nil {
			return err
		}
		n.ran.Add(1)
		c.Header().Del("Content-Length")
		return c.Text(200, by(n, v+1))
	}
}

// upload responds with what it has received.
func upload(n *node) web.Handler {
	return func(c *web.Context) error {
		h := sha256.New()
		size, err := io.Copy(h, c.Request.Body)
		if err != nil {
			if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return engine.Errorf(problem.CodeBodyTooLarge, "over %d", over.Limit)
			}
			return engine.Errorf(problem.CodeBodyIncomplete, "%v", err)
		}
		n.ran.Add(1)
		return c.Text(200, by(n, fmt.Sprintf("%d %x", size, h.Sum(nil))))
	}
}

// clusterRoutes are those of the tests in this file.
func clusterRoutes(a *web.App, n *node) {
	a.Use(web.Timeout(time.Minute), web.Compress(web.CompressOptions{MinBytes: 1, NoStore: true}), web.ETag(web.ETagOptions{}))
	a.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("X-Middleware", fmt.Sprint(n.id))
			http.SetCookie(w, &http.Cookie{Name: "plain", Value: fmt.Sprint(n.id)})
			next.ServeHTTP(w, r)
		})
	})
	a.Get("/long", func(c *web.Context) error {
		if err := visits.Set(c.Session(), 1); err != nil {
			return err
		}
		c.Header().Set("ETag", fmt.Sprintf(`"%d"`, n.id))
		return c.Text(200, strings.Repeat(by(n, "long "), 5000))
	})
	a.Post("/visit", visit(n))
	a.Get("/visit", visit(n))
	a.Get("/look", func(c *web.Context) error {
		v, _, err := visits.Get(c.Session())
		if err != nil {
			return err
		}
		return c.Text(200, by(n, v))
	})
	a.Post("/upload", upload(n), web.BodyLimit(16<<20))
	a.Post("/small", upload(n))
	a.Get("/events", func(c *web.Context) error {
		c.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(c.Writer, "data: %s\n\n", by(n, i))
			if err := http.NewResponseController(c.Writer).Flush(); err != nil {
				return nil
			}
		}
		<-c.Done()
		return nil
	})
	a.Post("/who", func(c *web.Context) error {
		c.Header().Set("Trailer", "X-End")
		err := c.Text(200, by(n, fmt.Sprint(c.ClientIP(), " ", c.Secure(), " ", c.Request.Header["Idempotency-Key"], " ",
			c.Request.Header["X-Idempotency-Key"], " ", c.RequestID(), " ", c.Request.Host)))
		_ = http.NewResponseController(c.Writer).Flush()
		c.Header().Set("X-End", "end")
		return err
	})
	a.Post("/wrong", func(c *web.Context) error {
		return engine.Errorf(engine.CodeConflict, "no, said node %d", n.id)
	})
	a.Post("/half", func(c *web.Context) error { // writes, and then no longer leads
		n.ran.Add(1)
		return engine.ErrNotLeader
	})
	a.Post("/slow", func(c *web.Context) error {
		n.ran.Add(1)
		<-c.Done()
		n.ran.Add(1)
		return c.Err()
	})
}

// TestCluster is an application on three real nodes.
func TestCluster(t *testing.T) {
	t.Parallel()
	list := startNodes(t, web.Options{Assets: newAssets(t, web.AssetOptions{FS: someFiles()})}, clusterRoutes)
	for _, c := range []struct {
		name string
		fn   func(*testing.T, *node, []*node)
	}{
		{"session", testSession}, {"HTTP/2", testHTTP2}, {"own writes", testOwnWrites}, {"uploads", testUploads}, {"too large", testTooLarge}, {"stalled", testStalled}, {"streams stay", testStreamsStay},
		{"who asks", testWhoAsks}, {"middleware", testMiddleware}, {"errors", testErrors}, {"not twice", testNotTwice}, {"begun", testBegun}, {"no leader", testNoLeader}, {"broken", testBroken},
		{"canceled", testCanceled}, {"came to lead", testCameToLead}, {"behind", testBehind}, {"killed", testKilled},
	} {
		t.Run(c.name, func(t *testing.T) {
			leader, followers := roles(t, list)
			c.fn(t, leader, followers)
		})
		if t.Failed() {
			return
		}
	}
}

// testSession: whichever node gets the request, the leader writes. Nothing is counted twice and no cookie is
// set twice.
func testSession(t *testing.T, leader *node, followers []*node) {
	b := newBrowser(t)
	n := 0
	for _, method := range []string{"POST", "GET", "POST"} {
		for _, at := range append(followers, leader) {
			n++
			got := b.do(at, method, "/visit", nil)
			if got.status != 200 || got.body != by(leader, n) || got.header.Get("X-Handler") != fmt.Sprint(leader.id) {
				t.Fatalf("%s at node %d, %d leads: %+v", method, at.id, leader.id, got)
			}
			got.once(t)
			if at != leader && got.header.Get("X-Handler-"+fmt.Sprint(at.id)) != "" {
				t.Errorf("%s at node %d has headers of that node: %v", method, at.id, got.header)
			}
			if first := len(got.header["Set-Cookie"]) == 3; first != (n == 1) {
				t.Errorf("visit %d sets %q", n, got.header["Set-Cookie"])
			}
		}
	}
	if got := b.do(followers[0], "HEAD", "/visit", nil); got.status != 200 || got.header.Get("X-Handler") != fmt.Sprint(leader.id) || got.body != "" {
		t.Errorf("HEAD: %+v", got)
	}
	if got := b.do(followers[1], "GET", "/look", nil); got.body != by(followers[1], n+1) {
		t.Errorf("after HEAD, which is a GET: %+v", got)
	}
}

// testHTTP2: over HTTP/2, too, the leader serves a GET that writes.
func testHTTP2(t *testing.T, leader *node, followers []*node) {
	srv := httptest.NewUnstartedServer(followers[0].app)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for _, method := range []string{"GET", "HEAD", "POST"} {
		r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+"/visit", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != 200 || resp.Header.Get("X-Handler") != fmt.Sprint(leader.id) {
			t.Errorf("%s by %s: %d %s %v", method, resp.Proto, resp.StatusCode, text, err)
		}
	}
}

// testOwnWrites: a browser sees what it has just written, on every node, and the node that gets a read serves
// it.
func testOwnWrites(t *testing.T, leader *node, followers []*node) {
	b := newBrowser(t)
	for i := range 50 {
		w, r := append(followers, leader)[i%3], append(followers, leader)[(i+1+i/3)%3]
		if got := b.do(w, "POST", "/visit", nil); got.body != by(leader, i+1) {
			t.Fatalf("write %d: %+v", i, got)
		}
		if got := b.do(r, "GET", "/look", nil); got.body != by(r, i+1) || strings.Contains(fmt.Sprint(got.header["Set-Cookie"]), "__Host-") {
			t.Fatalf("node %d wrote %d, node %d responds %+v", w.id, i+1, r.id, got)
		}
	}
}

// testUploads: bodies of every length arrive completely.
func testUploads(t *testing.T, leader *node, followers []*node) {
	b := newBrowser(t)
	for _, size := range []int{0, 1, 4 << 10, web.MaxKeptBody, web.MaxKeptBody + 1, 10 << 20} {
		data := bytes.Repeat([]byte("skerry!"), size/7+1)[:size]
		want := by(leader, fmt.Sprintf("%d %x", size, sha256.Sum256(data)))
		if got := b.do(followers[0], "POST", "/upload", bytes.NewReader(data)); got.status != 200 || got.body != want {
			t.Errorf("%d bytes: %+v", size, got)
		}
		if got := b.do(followers[0], "POST", "/upload", io.MultiReader(bytes.NewReader(data))); got.status != 200 || got.body != want {
			t.Errorf("%d bytes in chunks: %+v", size, got)
		}
	}
}

// testTooLarge: the limit of the route applies, and the response arrives even if the upload does not end.
func testTooLarge(t *testing.T, leader *node, followers []*node) {
	b := newBrowser(t)
	for _, size := range []int{10 << 20, 10 << 20, 1<<20 + 1, 1<<20 + 200<<10, 1<<20 + 200<<10, 1<<20 + 200<<10} {
		got := b.do(followers[0], "POST", "/small", bytes.NewReader(make([]byte, size)))
		if got.status != 413 || !strings.Contains(got.body, `"body_too_large"`) {
			t.Errorf("%d bytes for a route with a limit of 1 MiB: %+v", size, got)
		}
	}
	if got := b.do(followers[0], "POST", "/visit", nil); got.body != by(leader, 1) {
		t.Errorf("afterwards: %+v", got)
	}
}

// testStalled: a client that stops in the middle of a refused upload gets the response, and its connection is
// closed.
func testStalled(t *testing.T, _ *node, followers []*node) {
	conn, err := tls.Dial("tcp", strings.TrimPrefix(followers[0].srv.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "POST /wrong HTTP/1.1\r\nHost: app.example\r\nContent-Length: %d\r\n\r\n", 10<<20)
	go func() { _, _ = conn.Write(make([]byte, 2*web.MaxKeptBody)) }()
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 409 || !resp.Close {
		t.Errorf("status %d, Connection: close is %v", resp.StatusCode, resp.Close)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// testStreamsStay: event streams are not forwarded.
func testStreamsStay(t *testing.T, _ *node, followers []*node) {
	at := followers[0]
	before := at.dials.Load()
	lines := bufio.NewScanner(open(t, newBrowser(t).client, at.srv.URL+"/events").Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != "data: "+by(at, i) || !lines.Scan() {
			t.Fatalf("event %d is %q", i, lines.Text())
		}
	}
	if at.dials.Load() != before {
		t.Error("a node was dialled")
	}
}

// testWhoAsks: the leader knows the client and its connection, and nobody believes what an outside client
// claims.
func testWhoAsks(t *testing.T, leader *node, followers []*node) {
	b := newBrowser(t)
	lies := []string{"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Proto", "http", "Idempotency-Key", `"k"`, "X-Idempotency-Key", "x", "X-Request-Id", "mine",
		"Skerry-Idempotency-Key", "false", "Skerry-X-Idempotency-Key", "false", "Connection", "X-Hop", "X-Hop", "1"}
	for _, at := range append(followers, leader) {
		got := b.do(at, "POST", "/who", nil, lies...)
		want := by(leader, `127.0.0.1 true ["k"] [x] mine `+strings.TrimPrefix(at.srv.URL, "https://"))
		if got.body != want || got.header.Get("X-Request-Id") != "mine" || got.header.Get(http.TrailerPrefix+"X-End") != "end" {
			t.Errorf("at node %d: %+v, want %s", at.id, got, want)
		}
	}
	// Only nodes can send the headers of nodes.
	if got := b.do(followers[0], "POST", "/who", nil, "Skerry-Idempotency-Key", "forged", "X-Request-Id", "mine"); !strings.Contains(got.body, "true [] [] mine") {
		t.Errorf("a forged header between nodes: %+v", got)
	}
}

// testMiddleware: a response of the leader has the effects of its middleware, once, and none of the forwarding
// node's.
func testMiddleware(t *testing.T, leader *node, followers []*node) {
	got := newBrowser(t).do(followers[0], "GET", "/long", nil, "Accept-Encoding", "gzip")
	unpacked, err := gzip.NewReader(strings.NewReader(got.body))
	if err != nil {
		t.Fatalf("%v: %+v", err, got.header)
	}
	if text, err := io.ReadAll(unpacked); err != nil || string(text) != strings.Repeat(by(leader, "long "), 5000) {
		t.Errorf("%v: %.100s", err, text)
	}
	got.once(t)
	id := fmt.Sprint(leader.id)
	for name, want := range map[string]string{"Content-Encoding": "gzip", "Vary": "", "Etag": `W/"` + id + `"`, "X-Middleware": id, "X-Request-Id": ""} {
		lines := got.header[name]
		if name == "Vary" && strings.Count(strings.Join(lines, ","), "Accept-Encoding") == 1 {
			continue
		}
		if len(lines) != 1 || want != "" && lines[0] != want {
			t.Errorf("%s: %q", name, lines)
		}
	}
}

// testErrors: the leader's errors arrive in the form of the client.
func testErrors(t *testing.T, leader *node, followers []*node) {
	b := newBrowser(t)
	for accept, media := range map[string]string{"application/json": "application/problem+json", "text/html": "text/html; charset=utf-8"} {
		got := b.do(followers[0], "POST", "/wrong", nil, "Accept", accept)
		if got.status != 409 || got.header.Get("Content-Type") != media || !strings.Contains(got.body, fmt.Sprintf("said node %d", leader.id)) ||
			len(got.header["X-Request-Id"]) != 1 || !strings.Contains(got.body, got.header.Get("X-Request-Id")) {
			t.Errorf("%s: %+v", accept, got)
		}
	}
	if got := b.do(followers[0], "POST", "/wrong", nil, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); got.status != 403 {
		t.Errorf("from another origin: %+v", got)
	}
}

// testNotTwice: a node that does not lead does not forward a request that another node has forwarded.
func testNotTwice(t *testing.T, leader *node, followers []*node) {
	a, z := followers[0], followers[1]
	a.app.WaitForLeader(300 * time.Millisecond)
	defer a.app.WaitForLeader(forward.ElectionWait)
	z.app.CloseIdle()
	before, ran := z.dials.Load(), leader.ran.Load()
	a.interfere(t, z.id, nil)
	got := newBrowser(t).do(a, "POST", "/visit", nil)
	if got.status != 503 || !strings.Contains(got.body, `"not_leader"`) || got.header.Get("Skerry-Not-Leader") != "" {
		t.Errorf("%+v", got)
	}
	if z.dials.Load() != before || leader.ran.Load() != ran {
		t.Error("it was passed on twice")
	}
}

// testBegun: a handler that has begun is not repeated on another node, and the browser gets a page.
func testBegun(t *testing.T, leader *node, followers []*node) {
	ran := leader.ran.Load()
	got := newBrowser(t).do(followers[0], "POST", "/half", nil, "Accept", "text/html")
	if got.status != 503 || got.header.Get("Content-Type") != "text/html; charset=utf-8" || got.header.Get("Skerry-Not-Leader") != "" || leader.ran.Load() != ran+1 {
		t.Errorf("it ran %d times: %+v", leader.ran.Load()-ran, got)
	}
}

// testNoLeader: after a while the client gets an error with Retry-After, in its own form.
func testNoLeader(t *testing.T, _ *node, followers []*node) {
	at := followers[0]
	at.app.WaitForLeader(50 * time.Millisecond)
	defer at.app.WaitForLeader(forward.ElectionWait)
	at.interfere(t, nobody, nil)
	b := newBrowser(t)
	for accept, media := range map[string]string{"application/json": "application/problem+json", "text/html": "text/html; charset=utf-8"} {
		for _, c := range []struct {
			method, path string
			body         io.Reader
		}{{"POST", "/visit", nil}, {"GET", "/visit", nil}, {"POST", "/upload", bytes.NewReader(make([]byte, 1<<20))}} {
			got := b.do(at, c.method, c.path, c.body, "Accept", accept)
			if got.status != 503 || got.header.Get("Retry-After") == "" || got.header.Get("Content-Type") != media || strings.Contains(fmt.Sprint(got.header["Set-Cookie"]), "__Host-") {
				t.Errorf("%s %s: %+v", c.method, c.path, got)
			}
		}
	}
	if got := b.do(at, "GET", "/look", nil); got.body != by(at, 0) {
		t.Errorf("what only reads: %+v", got)
	}
}

// testBroken: if the connection breaks after the request was sent, the outcome is unknown; if the request
// cannot have arrived, it is sent again. A key does not make the transport repeat it.
func testBroken(t *testing.T, leader *node, followers []*node) {
	at, b := followers[0], newBrowser(t)
	at.interfere(t, 0, func(context.Context, uint64) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			in := bufio.NewReader(there)
			if _, err := http.ReadRequest(in); err == nil {
				_, _ = io.WriteString(there, "HTTP/1.1 204 No Content\r\n\r\n")
			}
			_, _ = http.ReadRequest(in) // and break off: of a connection that was used, a transport may try another one
		}()
		return here, nil
	})
	dials := at.dials.Load()
	if got := b.do(at, "POST", "/visit", nil); got.status != 204 {
		t.Fatalf("%+v", got)
	}
	got := b.do(at, "POST", "/visit", nil, "Idempotency-Key", "k", "X-Idempotency-Key", "k")
	if got.status != 500 || !strings.Contains(got.body, `"outcome_unknown"`) || at.dials.Load() != dials+1 {
		t.Errorf("after %d dials: %+v", at.dials.Load()-dials, got)
	}
	for _, body := range []int{0, 1000, web.MaxKeptBody, 1 << 20} {
		refusals := 2
		at.interfere(t, 0, func(ctx context.Context, to uint64) (net.Conn, error) {
			if refusals--; refusals >= 0 {
				return nil, errors.New("no way")
			}
			return at.Cluster.Dial(ctx, to, web.NodeProtocol)
		})
		data := make([]byte, body)
		if got := b.do(at, "POST", "/upload", bytes.NewReader(data)); got.body != by(leader, fmt.Sprintf("%d %x", body, sha256.Sum256(data))) {
			t.Errorf("%d bytes that could not be sent at first: %+v", body, got)
		}
	}
}

// testCanceled: the leader notices that the client is gone.
func testCanceled(t *testing.T, leader *node, followers []*node) {
	ran, begin := leader.ran.Load(), time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually.Within(eventually.Limit, func() bool { return leader.ran.Load() > ran })
		cancel()
	}()
	r, _ := http.NewRequestWithContext(ctx, "POST", followers[0].srv.URL+"/slow", nil)
	if _, err := newBrowser(t).client.Do(r); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	eventually.True(t, "the leader's handler ends", func() bool { return leader.ran.Load() == ran+2 })
	if took := time.Since(begin); took > relay.LeaderTimeout*3/4 {
		t.Errorf("it took %v", took)
	}
}

// testCameToLead: a node that becomes the leader while it looks for one serves the request itself, and keeps
// the limit of the route.
func testCameToLead(t *testing.T, leader *node, _ []*node) {
	b := newBrowser(t)
	for _, size := range []int{0, 1000, web.MaxKeptBody + 1, 3 << 20} {
		data := bytes.Repeat([]byte("x"), size)
		for path, most := range map[string]int{"/upload": 16 << 20, "/small": web.DefaultMaxBody} {
			leader.interfere(t, nobody, nil)
			time.AfterFunc(20*time.Millisecond, func() {
				leader.mu.Lock()
				defer leader.mu.Unlock()
				leader.claim = 0
			})
			got := b.do(leader, "POST", path, bytes.NewReader(data))
			if size > most && got.status == 413 || got.body == by(leader, fmt.Sprintf("%d %x", size, sha256.Sum256(data))) && size <= most {
				continue
			}
			t.Errorf("%d bytes for %s: %+v", size, path, got)
		}
	}
}

// testBehind: a position that this data does not have is requested once.
func testBehind(t *testing.T, _ *node, followers []*node) {
	followers[0].app.WaitForPosition(50 * time.Millisecond)
	defer followers[0].app.WaitForPosition(web.PositionWait)
	const never = "__Host-skerry-position=18446744073709551615"
	if got := newBrowser(t).do(followers[0], "GET", "/assets/js/app.js", nil, "Cookie", never); got.status != 200 {
		t.Errorf("a static file waits for a position: %+v", got)
	}
	got := newBrowser(t).do(followers[0], "GET", "/look", nil, "Cookie", never)
	if got.status != 503 || !strings.Contains(got.body, `"position_timeout"`) || got.header.Get("Retry-After") == "" ||
		!strings.Contains(fmt.Sprint(got.header["Set-Cookie"]), "__Host-skerry-position=; Path=/; Max-Age=0") {
		t.Errorf("%+v", got)
	}
}

// testKilled: requests wait for the new leader, and the session survives.
func testKilled(t *testing.T, leader *node, followers []*node) {
	b := newBrowser(t)
	if got := b.do(followers[0], "POST", "/visit", nil); got.body != by(leader, 1) {
		t.Fatalf("%+v", got)
	}
	leader.stop()
	n := 1
	for end := time.Now().Add(2 * patience); n < 4; {
		got := b.do(followers[n%2], "POST", "/visit", nil)
		switch {
		case got.status == 200:
			n++
			if !strings.HasSuffix(got.body, fmt.Sprintf(":%d", n)) {
				t.Fatalf("visit %d: %+v", n, got)
			}
		case got.status != 503 || time.Now().After(end): // the election can take longer than a request waits
			t.Fatalf("%+v", got)
		}
	}
	for _, at := range followers {
		if got := b.do(at, "GET", "/look", nil); got.body != by(at, n) {
			t.Errorf("%+v", got)
		}
	}
}

// TestOwnWritesAlone: without a cluster a browser sees what it has just written, too.
func TestOwnWritesAlone(t *testing.T) {
	t.Parallel()
	n := &node{id: 1}
	s := serve(t, web.Options{Sessions: newSessions(t)}, func(a *web.App) {
		a.Post("/visit", visit(n))
		a.Get("/visit", visit(n))
	})
	for i := range 200 {
		if got := s.do([]string{"GET", "POST"}[i%2], "/visit", ""); got.body != by(n, i+1) {
			t.Fatalf("visit %d: %+v", i+1, got)
		}
	}
}

// TestNodesConnection: encryption between nodes does not imply an encrypted connection to the browser.
func TestNodesConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{}, func(a *web.App) {
		a.Get("/who", func(c *web.Context) error { return c.Text(200, fmt.Sprint(c.ClientIP(), c.Secure())) })
	})
	for proto, want := range map[string]string{"http": "192.0.2.7false", "https": "192.0.2.7true"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "https://app.example/who", nil) // which has TLS
		r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"] = []string{"192.0.2.7"}, []string{proto}
		w := httptest.NewRecorder()
		s.app.NodeHandler().ServeHTTP(w, r)
		if w.Body.String() != want {
			t.Errorf("%s: %s", proto, w.Body)
		}
	}
}
