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
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/conditions"
	"github.com/skerrydb/skerry/web/problem"
)

// dial opens a connection that gives up after some seconds.
func (s *server) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// readCode reads a response and returns its status and, if it is a problem, its code.
func readCode(t *testing.T, r io.Reader) (int, engine.Code) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(r), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var p problem.Problem
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil && resp.StatusCode >= 400 {
		t.Fatal(err)
	}
	return resp.StatusCode, p.Code
}

func (a answer) code() engine.Code {
	var p problem.Problem
	json.Unmarshal(a.body, &p) // no problem has no code
	return p.Code
}

func TestValueLimit(t *testing.T) {
	s := serve(t, api.Options{})
	whole := bytes.Repeat([]byte("0123456789abcdef"), kv.MaxValBytes/16)
	chunked := func(n int) io.Reader { return io.MultiReader(bytes.NewReader(whole), bytes.NewReader(whole[:n])) }
	for name, body := range map[string]io.Reader{"counted": bytes.NewReader(whole), "chunked": chunked(0)} {
		if got := s.do(t, "PUT", "/db/"+name, body); got.status != 201 {
			t.Fatalf("%s: the largest value is answered with %d %s", name, got.status, got.body)
		}
		if got := s.do(t, "GET", "/db/"+name, nil); !bytes.Equal(got.body, whole) {
			t.Errorf("%s: the largest value comes back with %d bytes", name, len(got.body))
		}
	}
	conn := s.dial(t)
	fmt.Fprintf(conn, "PUT /db/over HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", kv.MaxValBytes+1)
	go io.Copy(conn, chunked(1))
	if status, code := readCode(t, conn); status != 413 || code != engine.CodeValueTooLarge {
		t.Errorf("one byte too much: %d %s", status, code)
	}
	s.do(t, "GET", "/db/over", nil).is(t, "the key of a refused value", 404, "")
}

// TestRefusedWhileSending: a client that is still sending a refused body gets the response all the same. The
// client sends Connection: close, after which net/http would close at once, and treats a reset as the end of
// its request.
func TestRefusedWhileSending(t *testing.T) {
	s := serve(t, api.Options{})
	body := make([]byte, kv.MaxValBytes+1)
	for range 5 {
		s.do(t, "PUT", "/db/a", bytes.NewReader(body)).is(t, "a large body", 413, engine.CodeValueTooLarge)
	}
}

func TestSlowBody(t *testing.T) {
	s := serve(t, api.Options{}, func(h *http.Server) { h.ReadTimeout = 200 * time.Millisecond })
	conn := s.dial(t)
	fmt.Fprintf(conn, "PUT /db/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
	if status, code := readCode(t, conn); status != 408 || code != problem.CodeBodyTimeout {
		t.Errorf("a slow body: %d %s", status, code)
	}
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is not closed: %v", err)
	}
	s.do(t, "GET", "/db/a", nil).is(t, "the key of half a value", 404, "")
}

func TestBrokenBody(t *testing.T) {
	s := serve(t, api.Options{})
	for _, head := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
		conn := s.dial(t)
		fmt.Fprintf(conn, "PUT /db/a HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n5\r\nab", head)
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if status, code := readCode(t, conn); status != 400 || code != problem.CodeBodyIncomplete {
			t.Errorf("%s: %d %s", head, status, code)
		}
	}
	s.do(t, "GET", "/db/a", nil).is(t, "the key of half a value", 404, "")
}

// TestDeclaredLength: a declared length costs no memory before bytes arrive.
func TestDeclaredLength(t *testing.T) {
	s := serve(t, api.Options{})
	before := heap()
	const conns = 64
	for range conns {
		fmt.Fprintf(s.dial(t), "PUT /db/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\nx", kv.MaxValBytes)
	}
	eventually.True(t, "all requests arrive", func() bool { return s.metric(t, "skerry_http_requests_in_flight") >= conns })
	if grown := heap() - before; grown > conns*kv.MaxValBytes/16 {
		t.Errorf("%d requests that sent one byte each hold %d MiB", conns, grown>>20)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestBufferLimit(t *testing.T) {
	s := serve(t, api.Options{BufferBytes: 1 << 20})
	large := make([]byte, 3<<19)
	if _, _, err := s.store.Set(context.Background(), 0, []byte("large"), large, kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // what is reserved must be given back each time
		s.do(t, "PUT", "/db/a", bytes.NewReader(large)).is(t, "a body over the memory for bodies", 503, engine.CodeQueueFull)
		s.do(t, "GET", "/db/large", nil).is(t, "a value over the memory for bodies", 503, engine.CodeQueueFull)
		s.do(t, "GET", "/db/?values=1", nil).is(t, "a page over the memory for bodies", 503, engine.CodeQueueFull)
		// A response can arrive a moment before its handler releases its memory.
		eventually.True(t, "a body of just the memory for bodies", func() bool {
			return s.do(t, "PUT", "/db/b", bytes.NewReader(large[:1<<20])).status < 300
		})
		eventually.True(t, "a value of just the memory for bodies", func() bool {
			return len(s.do(t, "GET", "/db/b", nil).body) == 1<<20
		})
	}
	if got := s.do(t, "HEAD", "/db/large", nil); got.status != 200 || got.header.Get("Content-Length") != fmt.Sprint(len(large)) {
		t.Errorf("HEAD needs no memory, but: %d %v", got.status, got.header)
	}
}

func TestKeyLimit(t *testing.T) {
	s := serve(t, api.Options{})
	longest := "/db/" + strings.Repeat("%00", kv.MaxKeyBytes)
	s.do(t, "PUT", longest, strings.NewReader("x")).is(t, "the longest key", 201, "")
	for _, method := range []string{"PUT", "GET", "HEAD", "DELETE"} {
		got := s.do(t, method, longest+"a", strings.NewReader("x"))
		if got.status != 400 || method != "HEAD" && got.code() != engine.CodeKeyTooLarge {
			t.Errorf("%s of a key too long: %d %s", method, got.status, got.body)
		}
	}
	s.do(t, "GET", "/db/"+strings.Repeat("a", web.MaxHeaderBytes+8<<10), nil).is(t, "a request line over the limit", 431, "")
}

func TestTagLimit(t *testing.T) {
	s := serve(t, api.Options{})
	tags := strings.Repeat(`"1",`, conditions.MaxTags)
	s.do(t, "PUT", "/db/a", strings.NewReader("x"), "If-None-Match", tags).is(t, "the maximum number of tags", 201, "")
	s.do(t, "PUT", "/db/a", strings.NewReader("x"), "If-None-Match", tags+`"1"`).is(t, "one tag too many", 400, engine.CodeLimit)
}

// TestPanic: a panic is an internal error without details for the client, and the connection survives.
func TestPanic(t *testing.T) {
	var log logged
	s := serve(t, api.Options{Logger: log.logger(), Ready: func() error { panic("secret") }})
	conn := s.dial(t)
	in := bufio.NewReader(conn)
	for range 2 {
		fmt.Fprintf(conn, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 500 || strings.Contains(string(body), "secret") {
			t.Errorf("answered %d %s (%v)", resp.StatusCode, body, err)
		}
		if id := resp.Header.Get("X-Request-Id"); !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "secret") {
			t.Errorf("the log does not have %s and its cause:\n%s", id, log.String())
		}
	}
}
