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
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/api"
)

// wire is a connection on which requests are sent as they are.
type wire struct {
	net.Conn
	in *bufio.Reader
}

func dialWire(t testing.TB, s *server) *wire {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &wire{c, bufio.NewReader(c)}
}

// ask sends a request with header lines.
func (w *wire) ask(t testing.TB, method, path, body string, lines ...string) answer {
	t.Helper()
	head := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	if method == "PUT" || method == "POST" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	for _, l := range lines {
		head += l + "\r\n"
	}
	if _, err := io.WriteString(w, head+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(w.in, &http.Request{Method: method})
	if err != nil {
		t.Fatal(method, path, err)
	}
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, got}
}

// seen describes an answer without what differs from one request to the next.
func seen(a answer) string {
	a.header.Set("Date", "some")
	for _, name := range []string{positionName, "X-Request-Id", "Etag"} { // a revision is the clock's
		if a.header.Get(name) != "" {
			a.header.Set(name, "some")
		}
	}
	if a.status >= 400 { // the text has the id of the request
		a.header.Del("Content-Length")
		a.body, _, _ = bytes.Cut(a.body, []byte(`"request_id"`))
	}
	return fmt.Sprintf("%d %v %q", a.status, a.header, a.body)
}

const positionName = "X-Skerry-Position"

// TestFastAnswers: without a handler, with one in the lane, and through net/http, the responses are the same.
func TestFastAnswers(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "secret"} {
		s := serve(t, api.Options{Password: password})
		ways := map[string][]string{
			"fast":     nil,
			"lane":     {`If-None-Match: "0"`},
			"net/http": {"X-Unknown: field"},
		}
		s.set(t, "there", "one")
		s.set(t, "a/../large//", strings.Repeat("x", 64<<10))
		given := []string{}
		if password != "" {
			given = append(given, "Authorization: Bearer "+password)
		}
		for _, q := range []struct{ method, path, body string }{
			{"GET", "/db/none", ""}, {"HEAD", "/db/none", ""}, {"PUT", "/db/a", "one"}, {"PUT", "/db/a", ""}, {"GET", "/db/there", ""},
			{"POST", "/db/a/../b//c", strings.Repeat("x", 64<<10)}, {"GET", "/db/a/../large//", ""}, {"HEAD", "/db/a/../large//", ""},
			{"GET", "/db/expires", ""}, {"GET", "/db/" + strings.Repeat("k", kv.MaxKeyBytes), ""}, {"PUT", "/db/" + strings.Repeat("k", kv.MaxKeyBytes+1), "v"}, {"GET", "/db/" + strings.Repeat("k", kv.MaxKeyBytes+1), ""},
		} {
			heard := map[string]string{}
			for way, lines := range ways {
				w := dialWire(t, s)
				w.ask(t, "PUT", "/db/expires?ttl=1h", "v", given...) // by net/http, to which the connection belongs then
				w = dialWire(t, s)
				heard[way] = seen(w.ask(t, q.method, q.path, q.body, append(lines, given...)...))
				if q.method == "PUT" || q.method == "POST" {
					heard[way] += seen(w.ask(t, q.method, q.path, q.body, append(lines, given...)...)) // replaces it
					w.ask(t, "DELETE", q.path, "", given...)
				}
			}
			for way := range ways {
				if heard[way] != heard["net/http"] {
					t.Errorf("password %q: %s %.40s: %s responds\n%.900s\nnet/http\n%.900s", password, q.method, q.path, way, heard[way], heard["net/http"])
				}
			}
		}
	}
}

// TestFastPassword: without a handler nothing is answered that would not be answered with one.
func TestFastPassword(t *testing.T) {
	t.Parallel()
	for _, guesses := range []*gate.Guesses{nil, gate.NewGuesses(quiet(), time.Now)} {
		s := serve(t, api.Options{Password: "secret", Guesses: guesses})
		w := dialWire(t, s)
		for _, wrong := range [][]string{nil, {"Authorization: Bearer wrong"}, {"Authorization: Bearer"}, {"Authorization: Basic eDp5"}, {"Authorization: secret"}} {
			w.ask(t, "PUT", "/db/a", "1", wrong...).is(t, "write", 401, engine.CodeUnauthenticated)
			w.ask(t, "GET", "/db/a", "", wrong...).is(t, "read", 401, engine.CodeUnauthenticated)
		}
		for _, right := range []string{"Authorization: Bearer secret", "Authorization: Basic eDpzZWNyZXQ="} {
			w.ask(t, "GET", "/db/a", "", right).is(t, "nothing was written", 404, engine.CodeNotFound)
		}
		w.ask(t, "PUT", "/db/a", "1", "Authorization: Bearer secret").is(t, "write", 201, "")
		w.ask(t, "GET", "/db/a", "", "Authorization: Bearer secrets").is(t, "a longer password", 401, engine.CodeUnauthenticated)
		w.ask(t, "GET", "/db/a", "", "Authorization: Basic eDpzZWNyZXQ=").is(t, "read", 200, "")
	}
}

// TestFastHost: a page of another origin cannot reach keys under a name of its own.
func TestFastHost(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Options{})
	for host, status := range map[string]int{"evil.example.com": 421, "localhost:7001": 404, "db": 404, "127.0.0.1:1": 404} {
		w := dialWire(t, s)
		fmt.Fprintf(w, "GET /db/a HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		resp, err := http.ReadResponse(w.in, nil)
		if err != nil || resp.StatusCode != status {
			t.Errorf("%s: %v, %v; want %d", host, resp, err, status)
		}
	}
}

// unsure is an engine whose updates have run, or not, but fail.
type unsure struct {
	engine.Engine
	err  error
	runs atomic.Int64
}

func (u *unsure) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	u.runs.Add(1)
	if _, err := u.Engine.Update(ctx, fn); err != nil {
		return 0, err
	}
	return 0, u.err
}

// TestFastFails: a write whose outcome is unknown is not repeated by its handler, which responds with the error.
func TestFastFails(t *testing.T) {
	t.Parallel()
	for code, status := range map[engine.Code]int{engine.CodeOutcomeUnknown: 500, engine.CodeQueueFull: 503, engine.CodeDiskFull: 507} {
		u := &unsure{err: engine.Errorf(code, "as the test wants")}
		s := serveOn(t, api.Options{}, func(e engine.Engine) engine.Engine { u.Engine = e; return u })
		w := dialWire(t, s)
		got := w.ask(t, "PUT", "/db/a", "1")
		if got.code() != code || u.runs.Load() != 1 || got.status != status {
			t.Errorf("%d %s after %d updates; want %s after one", got.status, got.body, u.runs.Load(), code)
		}
		w.ask(t, "GET", "/db/a", "").is(t, "read on the same connection", 200, "")
	}
}

// set sets a key.
func (s *server) set(t testing.TB, key, val string) {
	t.Helper()
	if _, _, err := s.store.Set(t.Context(), 0, []byte(key), []byte(val), kv.SetOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestFastConditions: a request with a condition is not answered without looking at it.
func TestFastConditions(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Options{})
	w := dialWire(t, s)
	made := w.ask(t, "PUT", "/db/a", "1", "Idempotency-Key: k")
	made.is(t, "create", 201, "")
	tag := made.header.Get("Etag")
	w.ask(t, "PUT", "/db/a", "2", "If-None-Match: *").is(t, "create again", 412, engine.CodePreconditionFailed)
	w.ask(t, "PUT", "/db/a", "2", `If-Match: "1"`).is(t, "replace another value", 412, engine.CodePreconditionFailed)
	w.ask(t, "GET", "/db/a", "", "If-None-Match: "+tag).is(t, "read what is known", 304, "")
	w.ask(t, "PUT", "/db/a", "2").is(t, "replace", 204, "")
	if again := w.ask(t, "PUT", "/db/a", "1", "Idempotency-Key: k"); again.status != 201 || again.header.Get("Idempotent-Replayed") == "" {
		t.Errorf("the first request again: %d %v", again.status, again.header)
	}
	if got := w.ask(t, "GET", "/db/a", ""); string(got.body) != "2" {
		t.Errorf("read %q", got.body)
	}
}
