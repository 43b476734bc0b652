package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/web/transfers"
	"github.com/skerrydb/skerry/workload/history"
)

// crossing is a load whose clients go from one server to the next: whatever they call after serve goes there.
type crossing struct {
	*trial
	s    *shell
	http atomic.Pointer[string]
	resp atomic.Pointer[goRedis]
}

func newCrossing(t *testing.T, s *shell) *crossing {
	silenceGoRedis()
	f := &fleet{t: t, dir: t.TempDir(), began: time.Now()}
	return &crossing{trial: &trial{T: t, f: f, l: newLoad(t, f)}, s: s}
}

// serve directs the clients to a server. What was sent to the one before may still return.
func (x *crossing) serve(to *server) {
	addr := strings.TrimPrefix(to.HTTP, "http://")
	c := newGoRedis("127.0.0.1:" + to.respPort())
	x.Cleanup(c.close)
	x.http.Store(&addr)
	x.resp.Store(&c)
}

func (x *crossing) do(ctx context.Context, args ...string) (any, error) {
	return x.resp.Load().do(ctx, args...)
}

func (x *crossing) transact(ctx context.Context, keys []string, plan func([]any) [][]string, sent func()) ([]any, error) {
	return x.resp.Load().transact(ctx, keys, plan, sent)
}

func (x *crossing) close() {}

// webClient returns a client that connects for each request.
func (x *crossing) webClient() *webClient {
	c := newWebClient([]string{"127.0.0.1"})
	c.http.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: opWait}).DialContext(ctx, network, *x.http.Load())
	}}
	return c
}

// impatient cuts off some calls of a step, whose outcomes are then unknown.
func impatient(step func(*worker, context.Context)) func(*worker, context.Context) {
	return func(w *worker, ctx context.Context) {
		if w.rng.IntN(10) == 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(w.rng.Int64N(int64(2*time.Millisecond))))
			defer cancel()
		}
		step(w, ctx)
	}
}

// stay runs a client that goes on reading, at weak levels, at a server that is the source of a move.
func (x *crossing) stay(at *server, rng *rand.Rand) {
	c := newWebClient([]string{strings.TrimPrefix(at.HTTP, "http://")})
	x.l.run("at "+at.HTTP, rng, func(w *worker, ctx context.Context) {
		op := opOn(history.Get, w.key(ownKeys, 3, history.Get))
		op.Level = history.Local
		w.do(op, func(op *history.Op) error {
			a, err := c.ask(ctx, "GET", dbPath(op.Key)+"?read=local", "")
			if positioned(op, a); err == nil && a.pos == 0 {
				return errNotSent{fmt.Errorf("nothing was ever written")}
			}
			if a.status == http.StatusOK {
				op.Got = history.Some(a.body)
			}
			return err
		})
	})
}

// hesitant returns the URL of a proxy of a server. Right before a move stops the writes, it lets some more through.
func (x *crossing) hesitant(p *server) string {
	x.Helper()
	to, err := url.Parse(p.HTTP)
	if err != nil {
		x.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == transfers.MarkPath && r.URL.Query().Get("fenced") != "" {
			upTo := x.l.steps.Load() + 100
			eventually.True(x.T, "the clients go on before the cut", func() bool { return x.l.steps.Load() > upTo })
		}
		proxy.ServeHTTP(w, r)
	}))
	x.Cleanup(s.Close)
	return s.URL
}

// more waits until the clients have taken some more steps, and all of them have written.
func (x *crossing) more() {
	x.Helper()
	x.l.mark()
	upTo := x.l.steps.Load() + stepsPerEpoch
	eventually.True(x.T, "the clients go on", func() bool { return x.l.steps.Load() > upTo })
	if eventually.Within(healWait, func() bool { return len(x.writers()) == 0 }) {
		return
	}
	x.l.quiet()
	x.Fatalf("these clients do not write: %v", x.writers())
}

// writers returns those that have not written since the last mark.
func (x *crossing) writers() (names []string) {
	for _, name := range x.l.behind() {
		if !strings.HasPrefix(name, "at ") {
			names = append(names, name)
		}
	}
	return names
}

// TestMoveHistory checks the history of clients that work through moves, with what was refused at the cut, what was cut off, and
// what followed on the target: it must be that of one store, in which positions only grow.
func TestMoveHistory(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	rng := rand.New(rand.NewPCG(seed.Of(t), 0))
	targets := []string{pgserver.Shared(t).Database(t)}
	if !testing.Short() {
		targets = append(targets, redisserver.Start(t).URL(), "embedded:last")
	}
	p := s.serve("--data", "first")
	fillMoved(t, p, 5000)
	x := newCrossing(t, s)
	x.serve(p)
	for i := range 3 {
		x.l.run(fmt.Sprint("HTTP ", i), rng, impatient(webStep(x.webClient())))
	}
	for i := range 2 {
		x.l.run(fmt.Sprint("go-redis ", i), rng, impatient(redisStep(x)))
	}
	x.more()
	from := x.hesitant(p)
	for i, to := range targets {
		moveAll(s, 1-min(i, 1), from, to)
		if i == 0 {
			x.stay(p, rng)
		}
		eventually.True(t, "some calls are refused at the cut", func() bool { return x.refused() > 0 })
		next := s.serve("--engine", to)
		x.serve(next)
		x.more()
		x.f.nodes = []*fleetNode{{id: 1, http: *x.http.Load()}}
		from = to
	}
	x.readAll()
	x.l.end()
	x.report()
	for _, wrong := range x.l.wrong {
		t.Error(wrong)
	}
	x.check()
}

// refused counts the operations that were not carried out.
func (x *crossing) refused() (n int) {
	for _, op := range x.l.rec.Ops() {
		if op.Outcome == history.Fail {
			n++
		}
	}
	return n
}
