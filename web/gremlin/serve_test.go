package gremlin_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/graphson"
	lang "github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// fake is a Backend whose traversals are what a test says. It writes down what
// happens to transactions.
type fake struct {
	submit func(ctx context.Context, r gremlin.Request, yield func(any, int64) error) error
	// committing, if not nil, is what the commit of a session does first.
	committing func(context.Context) error

	mu     sync.Mutex
	events []string
	event  chan string // what was written down; of room enough
}

func newFake() *fake { return &fake{event: make(chan string, 1000)} }

func (f *fake) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, what)
	f.event <- what
}

// await waits until an event is written down.
func (f *fake) await(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case got := <-f.event:
			if got == want {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("waited in vain for %s", want)
		}
	}
}

func (f *fake) Submit(ctx context.Context, r gremlin.Request, yield func(any, int64) error) error {
	if f.submit != nil {
		return f.submit(ctx, r, yield)
	}
	return echo(ctx, r, yield)
}

func (f *fake) Begin(_ context.Context, r gremlin.Request) (gremlin.Session, error) {
	f.note("begin " + r.Source + r.User)
	return fakeSession{f}, nil
}

type fakeSession struct{ *fake }

func (s fakeSession) Commit(ctx context.Context) error {
	if s.committing != nil {
		if err := s.committing(ctx); err != nil {
			return err
		}
	}
	s.note("commit")
	return nil
}

func (s fakeSession) Rollback(context.Context) error { s.note("rollback"); return nil }

// echo yields the arguments of a traversal's first step.
func echo(_ context.Context, r gremlin.Request, yield func(any, int64) error) error {
	for _, v := range r.Traversal.Steps[0].Args {
		if err := yield(v, 1); err != nil {
			return err
		}
	}
	return nil
}

// counting yields the numbers from 0 to n-1.
func counting(n int) func(context.Context, gremlin.Request, func(any, int64) error) error {
	return func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error {
		for i := range n {
			if err := yield(int32(i), 1); err != nil {
				return err
			}
		}
		return nil
	}
}

// blocked notes that it runs and waits for the end of its context.
func (f *fake) blocked(ctx context.Context, _ gremlin.Request, _ func(any, int64) error) error {
	f.note("running")
	<-ctx.Done()
	f.note("stopped")
	return ctx.Err()
}

// pipes is a listener whose connections are in memory and have no buffer, so that
// a test with a fake clock can use them.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// site is a server under test.
type site struct {
	t    *testing.T
	h    *gremlin.Handler
	http *http.Client
	log  *safeBuffer
	back *fake
}

// safeBuffer is a log that a test reads.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newSite(t *testing.T, o gremlin.Options) *site {
	t.Helper()
	s := &site{t: t, log: &safeBuffer{}}
	if o.Backend == nil {
		o.Backend = newFake()
	}
	s.back, _ = o.Backend.(*fake)
	o.Log = slog.New(slog.NewTextHandler(s.log, nil))
	var err error
	if s.h, err = gremlin.New(o); err != nil {
		t.Fatal(err)
	}
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: s.h}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(p) }()
	transport := &http.Transport{DialContext: p.dial}
	s.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.h.Close()
		_ = srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

// client is a driver's connection.
type client struct {
	t    *testing.T
	ws   *websocket.Conn
	json bool
	next byte // of the ids
}

func (s *site) dial() *client {
	s.t.Helper()
	ws, _, err := websocket.Dial(s.t.Context(), "ws://server/gremlin", &websocket.DialOptions{HTTPClient: s.http})
	if err != nil {
		s.t.Fatal(err)
	}
	ws.SetReadLimit(1 << 30)
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	return &client{t: s.t, ws: ws}
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if err := c.ws.Write(c.t.Context(), websocket.MessageBinary, b); err != nil {
		c.t.Fatal(err)
	}
}

// framed returns a message with the name of its encoding.
func framed(mime string, body []byte) []byte {
	return append(append([]byte{byte(len(mime))}, mime...), body...)
}

// send sends a request and returns its id. Arguments are names and values that
// alternate.
func (c *client) send(op, processor string, args ...any) value.UUID {
	c.t.Helper()
	c.next++
	q := &message.Request{ID: value.UUID{c.next}, Op: op, Processor: processor, Args: value.MapOf(args...)}
	mime, encode := graphbinary.Mime, graphbinary.AppendRequest
	if c.json {
		mime, encode = graphson.MimeTyped, graphson.AppendRequest
	}
	b, err := encode(nil, q)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(framed(mime, b))
	return q.ID
}

// inject sends bytecode that yields values.
func (c *client) inject(vals ...any) value.UUID {
	c.t.Helper()
	return c.send("bytecode", "traversal", "gremlin", traversal(vals...), "aliases", value.MapOf("g", "g"))
}

func traversal(vals ...any) *lang.Traversal {
	return &lang.Traversal{Steps: []lang.Call{{Name: "inject", Args: vals}}}
}

// receive returns the next response.
func (c *client) receive() *message.Response {
	c.t.Helper()
	_, b, err := c.ws.Read(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	decode := graphbinary.DecodeResponse
	if c.json {
		decode = graphson.DecodeResponse
	}
	p, err := decode(b)
	if err != nil {
		c.t.Fatalf("%v in %q", err, b)
	}
	return p
}

// expect receives a response with a status for a request and returns it.
func (c *client) expect(id value.UUID, status int) *message.Response {
	c.t.Helper()
	p := c.receive()
	if p.ID != id || p.Status != status {
		c.t.Fatalf("received %d %q for %x, want %d for %x", p.Status, p.Message, p.ID[:1], status, id[:1])
	}
	return p
}

// closed reads until the connection is closed and returns the status of that.
func (c *client) closed() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, _, err := c.ws.Read(c.t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// post sends a request over plain HTTP.
func (s *site) post(body string, header ...string) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://server/gremlin", bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	p, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer p.Body.Close()
	b, err := io.ReadAll(p.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return p.StatusCode, string(b)
}
