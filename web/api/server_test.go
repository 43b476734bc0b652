package api_test

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/lane"
)

// clock moves only when a test moves it, so that revisions and expiries in the cases are always the same.
type clock struct{ us atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.us.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.us.Load()) }
func (c *clock) advance(d time.Duration) { c.us.Add(d.Microseconds()) }
func (c *clock) opts() embedded.Options {
	return embedded.Options{Now: c.now, PositionWait: 50 * time.Millisecond}
}
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
func allMetrics(db *embedded.DB) metricsFn {
	return func() iter.Seq[engine.Metric] { return db.Metrics() }
}

type metricsFn = func() iter.Seq[engine.Metric]

// server is a real one: an engine on disk, behind a listener.
type server struct {
	addr  string
	db    *embedded.DB
	store *kv.Store
	clock *clock
	http  *http.Server

	inCluster bool // answers name the node
}

// procedures, if there are any, are what serve gives its server.
type procedures []proc.Procedure

func (ps procedures) on(t testing.TB, eng engine.Engine, o *api.Options) {
	t.Helper()
	if ps == nil {
		return
	}
	var err error
	if o.Procedures, err = proc.New(eng, proc.Options{MaxResult: testMaxResult, Logger: o.Logger}, ps...); err != nil {
		t.Fatal(err)
	}
}

// serve starts a server. with may change its options and the http.Server.
func serve(t testing.TB, o api.Options, with ...func(*http.Server)) *server {
	t.Helper()
	return serveOn(t, o, func(e engine.Engine) engine.Engine { return e }, with...)
}

// serveProcedures is serve with procedures.
func serveProcedures(t testing.TB, ps procedures, o api.Options, with ...func(*http.Server)) *server {
	t.Helper()
	return serveAll(t, ps, o, func(e engine.Engine) engine.Engine { return e }, with...)
}

// serveOn starts a server whose engine is what wrap makes of the real one.
func serveOn(t testing.TB, o api.Options, wrap func(engine.Engine) engine.Engine, with ...func(*http.Server)) *server {
	t.Helper()
	return serveAll(t, nil, o, wrap, with...)
}

func serveAll(t testing.TB, ps procedures, o api.Options, wrap func(engine.Engine) engine.Engine, with ...func(*http.Server)) *server {
	t.Helper()
	c := newClock()
	eo := c.opts()
	eo.Logger = quiet()
	db, err := embedded.Open(t.TempDir(), eo)
	if err != nil {
		t.Fatal(err)
	}
	store, err := kv.New(wrap(db), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Metrics == nil {
		o.Metrics = allMetrics(db)
	}
	if o.Backup == nil {
		o.Backup = db.Backup
	}
	ps.on(t, wrap(db), &o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := web.NewServer(api.New(store, o), o.Logger)
	for _, fn := range with {
		fn(srv)
	}
	fast := inLane(srv)
	var done sync.WaitGroup
	done.Go(func() { fast.Serve(l) })
	t.Cleanup(func() {
		fast.Close()
		done.Wait()
		if err := db.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return &server{addr: l.Addr().String(), db: db, store: store, clock: c, http: srv}
}

// inLane returns a server for srv with a lane, as a Skerry server has it.
func inLane(srv *http.Server) *lane.Server {
	var routes []lane.Route
	if h, ok := srv.Handler.(interface{ LaneRoutes() []lane.Route }); ok {
		routes = h.LaneRoutes()
	}
	return lane.New(lane.Options{HTTP: srv, Routes: routes, Logger: quiet()})
}

func (s *server) url(path string) string { return "http://" + s.addr + path }

// answer is one complete response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// is fails the test unless the response has the status and, if code is not "", a problem with the code.
func (a answer) is(t testing.TB, what string, status int, code engine.Code) {
	t.Helper()
	if a.status != status || code != "" && a.code() != code {
		t.Errorf("%s: %d %.200s, want %d %s", what, a.status, a.body, status, code)
	}
}

// do sends one request on a connection of its own.
func (s *server) do(t testing.TB, method, path string, body io.Reader, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.url(path), body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections() // DisableKeepAlives sends Connection: close, for which the lane hands it over
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: read answer: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, got}
}
