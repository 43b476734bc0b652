package skerry_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/web"
)

// patience is how long a test waits for what should take milliseconds.
const patience = eventually.Limit

func openEngine(t *testing.T) engine.Engine {
	t.Helper()
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// start opens and runs a server on free ports; the channel receives the result of Run.
func start(t *testing.T, eng engine.Engine, o skerry.Options) (*skerry.Server, context.CancelFunc, <-chan error) {
	t.Helper()
	if o.HTTP == "" {
		o.HTTP = "127.0.0.1:0"
	}
	if o.RESP == "" {
		o.RESP = "127.0.0.1:0"
	}
	s, err := skerry.Open(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	eventually.True(t, "the server is ready", func() bool { return s.Ready() == nil })
	return s, cancel, ended
}

// wait returns the result of Run.
func wait(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("Run did not return")
		return nil
	}
}

// ask sends one inline command and returns the first line of the reply.
func ask(t *testing.T, s *skerry.Server, command string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.RESPURL(), "redis://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\r\n", command)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func request(t *testing.T, method, url string, body io.Reader) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(url, "/api/") {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestBothFacesShowTheSameKeys(t *testing.T) {
	t.Parallel()
	s, cancel, ended := start(t, openEngine(t), skerry.Options{})
	if code, text := request(t, "PUT", s.HTTPURL()+"/db/n", strings.NewReader("41")); code >= 300 {
		t.Fatalf("PUT: %d %s", code, text)
	}
	if got := ask(t, s, "INCR n"); got != ":42" {
		t.Errorf("INCR: %s", got)
	}
	if code, text := request(t, "GET", s.HTTPURL()+"/db/n", nil); code != 200 || text != "42" {
		t.Errorf("GET: %d %s", code, text)
	}
	if code, text := request(t, "GET", s.HTTPURL()+"/metrics", nil); code != 200 || !strings.Contains(text, "engine_fsyncs_total") {
		t.Errorf("/metrics has no engine metrics: %d", code)
	}
	if code, text := request(t, "GET", s.HTTPURL()+"/backup", nil); code != 200 {
		t.Errorf("/backup: %d %s", code, text)
	}
	cancel()
	if err := wait(t, ended); err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := s.Ready(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Ready after the end: %v", err)
	}
}

// begin sends the head of a request that sets a key, and returns once the server waits for its body of n
// bytes.
func begin(t *testing.T, s *skerry.Server, n int) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.HTTPURL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "PUT /db/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", n)
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
		t.Fatalf("the server says %q, %v", line, err)
	}
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return c, r
}

func TestRequestInFlightEndsBeforeTheServerDoes(t *testing.T) {
	t.Parallel()
	s, cancel, ended := start(t, openEngine(t), skerry.Options{})
	c, r := begin(t, s, 5)
	cancel()
	eventually.True(t, "a stopping server is not ready", func() bool { return s.Ready() != nil })
	fmt.Fprint(c, "whole")
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 2") {
		t.Errorf("the request in flight got %q, %v", line, err)
	}
	if err := wait(t, ended); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestGraceEnds(t *testing.T) {
	t.Parallel()
	s, cancel, ended := start(t, openEngine(t), skerry.Options{Grace: 50 * time.Millisecond})
	_, r := begin(t, s, 5)
	cancel()
	if err := wait(t, ended); err != nil {
		t.Errorf("Run: %v", err)
	}
	if line, err := r.ReadString('\n'); err == nil && strings.HasPrefix(line, "HTTP/1.1 2") {
		t.Errorf("a request without an end was answered with %q", line)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	eng := openEngine(t)
	never, err := skerry.Open(eng, skerry.Options{HTTP: "127.0.0.1:0", RESP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(never.HTTPURL(), "http://")
	for range 2 {
		if err := never.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := never.Run(t.Context()); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Run after Close: %v", err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("a closed server listens")
	}
	s, _, ended := start(t, eng, skerry.Options{})
	if err := s.Run(t.Context()); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a second Run: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(t, ended); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestFacesOff(t *testing.T) {
	t.Parallel()
	s, _, _ := start(t, openEngine(t), skerry.Options{HTTP: skerry.Off})
	if s.HTTPURL() != "" {
		t.Errorf("HTTP is at %s", s.HTTPURL())
	}
	if got := ask(t, s, "PING"); got != "+PONG" {
		t.Errorf("PING: %s", got)
	}
}

// weak is a real engine that admits to keep nothing.
type weak struct{ engine.Engine }

func (weak) Promises() engine.Promises { return engine.Promises{} }

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	eng := openEngine(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	given, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := skerry.Open(weak{eng}, skerry.Options{HTTP: "127.0.0.1:0", RESP: "127.0.0.1:0"}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("an engine that promises nothing: %v", err)
	}
	if _, err := skerry.Open(eng, skerry.Options{HTTP: "127.0.0.1:0", RESP: "127.0.0.1:0", Grace: -1}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a negative grace: %v", err)
	}
	_, err = skerry.Open(eng, skerry.Options{HTTPListener: given, RESP: busy.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "RESP: ") {
		t.Errorf("an address in use: %v", err)
	}
	if _, err := given.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener that was given is still open: %v", err)
	}
}

// stopping is a real engine that reports to have stopped.
type stopping struct {
	engine.Engine
	stop chan struct{}
}

func (s stopping) Stopped() <-chan struct{} { return s.stop }

func (s stopping) Err() error {
	select {
	case <-s.stop:
		return engine.ErrStopped
	default:
		return nil
	}
}

func TestEngineThatStopsEndsTheServer(t *testing.T) {
	t.Parallel()
	eng := stopping{openEngine(t), make(chan struct{})}
	s, _, ended := start(t, eng, skerry.Options{})
	close(eng.stop)
	if err := wait(t, ended); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("Run: %v", err)
	}
	if err := s.Ready(); err == nil {
		t.Error("ready without an engine")
	}
}

// fallen is an engine that has stopped, which a part notices first.
type fallen struct{ engine.Engine }

func (fallen) Stopped() <-chan struct{} { return nil }
func (fallen) Err() error               { return engine.ErrStopped }

// TestEngineThatStopsIsTheReason: Run reports the engine, not the part that fails because of it.
func TestEngineThatStopsIsTheReason(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s, err := skerry.Open(fallen{openEngine(t)}, skerry.Options{HTTPListener: l, RESP: skerry.Off})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("Run: %v", err)
	}
}

func TestFaceThatFailsEndsTheServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, _, ended := start(t, openEngine(t), skerry.Options{HTTPListener: l})
	l.Close() // as if the system had taken it away
	if err := wait(t, ended); err == nil || !strings.Contains(err.Error(), "http stopped") {
		t.Errorf("Run: %v", err)
	}
}

// TestFirstAnswer: who connects before the server runs is told that it is ready, not that it stops, also while very much work begins.
func TestFirstAnswer(t *testing.T) {
	t.Parallel()
	o := skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Logger: slog.New(slog.DiscardHandler)}
	o.Web.Application = func(s *skerry.Services) (http.Handler, error) {
		for i := range 3_000 { // the race detector knows 8,128 goroutines at most
			s.Background(fmt.Sprint("work ", i), func(ctx context.Context) error { <-ctx.Done(); return nil })
		}
		return web.New(s.Web)
	}
	s, err := skerry.Open(openEngine(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var early []net.Conn
	for range 8 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.HTTPURL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		early = append(early, c)
	}
	go s.Run(t.Context())
	for _, c := range early {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("the first answer is %s", resp.Status)
		}
	}
}
