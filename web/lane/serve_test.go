package lane_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/certs"
	"github.com/skerrydb/skerry/web/lane"
)

// routes are those of all tests.
var routes = []lane.Route{
	{Methods: "GET, HEAD, PUT, POST, DELETE", Path: "/k/", Headers: []string{"If-Match"}},
	{Methods: "GET", Path: "/exact"},
	{Methods: "GET, PUT", Path: "/f/", Headers: []string{"If-Match"}, Ignored: []string{"X-Forwarded-For"}, Fast: quick},
}

// quick answers without a handler, unless the path says otherwise.
func quick(x *lane.Fast) bool {
	switch {
	case strings.HasPrefix(x.Path, "/f/handler"):
		return false
	case strings.HasPrefix(x.Path, "/f/tried"):
		x.Tried(errors.New("tried before"))
		return false
	}
	x.Begin(http.StatusOK)
	if strings.HasSuffix(x.Path, "off") {
		panic(http.ErrAbortHandler)
	}
	text := fmt.Appendf(nil, "of %s %s %s %s %q", x.Path, x.Method, x.Host, x.Header("Accept"), x.Body)
	x.Number("Content-Length", uint64(len(text)))
	x.End(text)
	return true
}

// serve serves h through a lane until the test ends.
func serve(t *testing.T, srv *http.Server) (*lane.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := lane.New(lane.Options{HTTP: srv, Routes: routes, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// echo responds with what it sees of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "%s %s %s %q %d tls=%v from=%v", r.Method, r.URL.Path, r.Host, body, r.ContentLength, r.TLS != nil, r.RemoteAddr != "")
}

func counts(s *lane.Server) (answered, handed float64) {
	m := s.Metrics("x")
	return m[0].Value, m[1].Value
}

func TestServe(t *testing.T) {
	s, addr := serve(t, &http.Server{Handler: http.HandlerFunc(echo)})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for i, step := range []struct{ send, want string }{
		{"GET /k/a HTTP/1.1\r\nHost: h\r\n\r\n", `GET /k/a h "" 0 tls=false from=true`},
		{"PUT /k/b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", `PUT /k/b h "abc" 3 tls=false from=true`},
		{"GET /exact HTTP/1.1\r\nHost: h\r\n\r\n", `GET /exact h "" 0 tls=false from=true`},
		{"GET /k/c?q HTTP/1.1\r\nHost: h\r\n\r\n", `GET /k/c h "" 0 tls=false from=true`}, // handed over
		{"GET /k/d HTTP/1.1\r\nHost: h\r\n\r\n", `GET /k/d h "" 0 tls=false from=true`},
	} {
		fmt.Fprint(c, step.send)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		got, _ := io.ReadAll(resp.Body)
		if string(got) != step.want || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" || resp.Header.Get("Date") == "" {
			t.Errorf("%d: %d %q %v, want %q", i, resp.StatusCode, got, resp.Header, step.want)
		}
	}
	if a, h := counts(s); a != 3 || h != 1 {
		t.Errorf("%v requests answered, %v connections handed over; want 3 and 1", a, h)
	}
}

func TestPipelined(t *testing.T) {
	s, addr := serve(t, &http.Server{Handler: http.HandlerFunc(echo)})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all strings.Builder
	const n = 300
	for i := range n {
		switch {
		case i == n-10: // from here on, net/http
			fmt.Fprintf(&all, "GET /other/%d HTTP/1.1\r\nHost: h\r\nX-Any: y\r\n\r\n", i)
		case i%3 == 0:
			fmt.Fprintf(&all, "POST /k/%d HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", i)
		default:
			fmt.Fprintf(&all, "GET /k/%d HTTP/1.1\r\nHost: h\r\n\r\n", i)
		}
	}
	go io.WriteString(c, all.String())
	r := bufio.NewReader(c)
	for i := range n {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		got, _ := io.ReadAll(resp.Body)
		if !strings.Contains(string(got), fmt.Sprintf("/%d h", i)) {
			t.Fatalf("%d: %q", i, got)
		}
	}
	if a, h := counts(s); a != n-10 || h != 1 {
		t.Errorf("%v requests answered, %v connections handed over", a, h)
	}
}

// TestPipelinedSlow: a response is sent before the next handler has ended.
func TestPipelinedSlow(t *testing.T) {
	release := make(chan struct{})
	_, addr := serve(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/k/slow" {
			<-release
		}
		echo(w, r)
	})})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(c, "GET /k/a HTTP/1.1\r\nHost: h\r\n\r\nGET /k/slow HTTP/1.1\r\nHost: h\r\n\r\n")
	r := bufio.NewReader(c)
	for _, path := range []string{"/k/a", "/k/slow"} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(path, err)
		}
		if got, _ := io.ReadAll(resp.Body); !strings.HasPrefix(string(got), "GET "+path+" ") {
			t.Errorf("%s: %q", path, got)
		}
		if path == "/k/a" {
			close(release)
		}
	}
}

// TestFast: which requests need no handler, and what a handler learns of an attempt.
func TestFast(t *testing.T) {
	s, addr := serve(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "handled, %v", lane.Tried(r.Context()))
	})})
	for _, q := range []struct{ send, want string }{
		{"GET /f/a HTTP/1.1\r\nHost: h\r\nAccept: b\r\n\r\n", `of /f/a GET h b ""`},
		{"GET /f/a HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n", `of /f/a GET h  ""`},
		{"GET /f/a HTTP/1.1\r\nHost: h\r\nIf-Match: *\r\n\r\n", "handled, <nil>"},
		{"GET /f/handler HTTP/1.1\r\nHost: h\r\n\r\n", "handled, <nil>"},
		{"GET /f/tried HTTP/1.1\r\nHost: h\r\n\r\n", "handled, tried before"},
		{"PUT /f/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", `of /f/a PUT h  "abc"`},
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, q.send)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%q: %v", q.send, err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != q.want {
			t.Errorf("%q: %q, %v; want %q", q.send, got, err, q.want)
		}
	}
	if a, h := counts(s); a != 6 || h != 0 {
		t.Errorf("%v requests answered, %v connections handed over", a, h)
	}
}

func TestTLS(t *testing.T) {
	cert := certs.New(t)
	s, addr := serve(t, &http.Server{Handler: http.HandlerFunc(echo), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert.Pair}}})
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: cert.Pool}, ForceAttemptHTTP2: h2, DisableCompression: true}
		defer tr.CloseIdleConnections()
		for _, path := range []string{"/k/a", "/k/a?x"} { // the second is handed over
			resp, err := (&http.Client{Transport: tr}).Get("https://" + addr + path)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !strings.HasSuffix(string(got), "tls=true from=true") || (resp.ProtoMajor == 2) != h2 {
				t.Errorf("%s, HTTP/2 %v: %s %q", path, h2, resp.Proto, got)
			}
		}
	}
	if a, h := counts(s); a != 1 || h != 2 {
		t.Errorf("%v requests answered, %v connections handed over", a, h)
	}
	resp, err := http.Get("http://" + addr + "/k/a") // as net/http alone responds
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !strings.Contains(string(text), "HTTPS server") {
		t.Errorf("plain HTTP: %d %q", resp.StatusCode, text)
	}
}

func TestShutdown(t *testing.T) {
	running, release := make(chan struct{}), make(chan struct{})
	s, addr := serve(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/k/slow" {
			close(running)
			<-release
		}
		echo(w, r)
	})})
	dial := func(path string) (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path)
		return c, bufio.NewReader(c)
	}
	_, idle := dial("/k/a")
	if _, err := http.ReadResponse(idle, nil); err != nil {
		t.Fatal(err)
	}
	_, busy := dial("/k/slow")
	<-running
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	if _, err := io.ReadAll(idle); err != nil { // it is closed while the other request runs
		t.Errorf("idle connection: %v", err)
	}
	close(release)
	resp, err := http.ReadResponse(busy, nil)
	if err != nil || resp.StatusCode != 200 || !resp.Close {
		t.Errorf("busy connection: %v %v", resp, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestClientGone(t *testing.T) {
	ended := make(chan error, 1)
	_, addr := serve(t, &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended <- r.Context().Err()
	})})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET /k/a HTTP/1.1\r\nHost: h\r\n\r\n")
	c.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the context ended with %v", err)
	}
}

// A request that takes longer than it takes to begin watching its client loses none of what follows.
func TestWatched(t *testing.T) {
	_, addr := serve(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(120 * time.Millisecond):
		}
		echo(w, r)
	})})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	fmt.Fprint(c, "GET /k/0 HTTP/1.1\r\nHost: h\r\n\r\n")
	for i := range 4 {
		fmt.Fprintf(c, "GET /k/%d HTTP/1.1\r\nHost: h\r\n\r\n", i+1)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		if got, _ := io.ReadAll(resp.Body); !strings.HasPrefix(string(got), fmt.Sprintf("GET /k/%d ", i)) {
			t.Errorf("%d: %q", i, got)
		}
	}
}

func TestPanics(t *testing.T) {
	_, addr := serve(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/k/panic" {
			panic(http.ErrAbortHandler)
		}
		echo(w, r)
	})})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /k/a HTTP/1.1\r\nHost: h\r\n\r\nGET /k/panic HTTP/1.1\r\nHost: h\r\n\r\nGET /k/b HTTP/1.1\r\nHost: h\r\n\r\n")
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(resp.Body)
	if resp, err := http.ReadResponse(r, nil); err == nil {
		t.Errorf("a response after the panic: %v", resp)
	}
}
