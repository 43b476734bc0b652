// Package web is the HTTP face: plain keys under /db/, procedures under /api/,
// and what an operator asks of a server (health, readiness, metrics, backup).
//
// It knows routes, methods, conditions, problem answers, who may ask, and how
// the figures of a server are printed; it must not know engine names, the
// layout of keys or files. What it says on the wire is in docs/http.md.
//
// The parts, from the outside in: a chain of func(http.Handler) http.Handler
// (observe, checkHost, CrossOriginProtection, authenticate), a router, and
// handlers that return an error. One place turns errors into answers.
package api

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/requestid"
)

// Limits. Going over one is an error of the stated code.
const (
	// DefaultPage is how many items a listing has if nothing is asked for;
	// kv.MaxPage is the most that can be asked for, more is CodeLimit.
	DefaultPage = 100
	// MaxPageBytes ends a page of a listing early. A page has at least one
	// item, so with values=1 it can be longer by one item.
	MaxPageBytes = 8 << 20
	// MaxTags is the most entity tags in one If-Match or If-None-Match; more
	// is CodeLimit.
	MaxTags = 64
	// MaxBackups is how many backups are sent at once; more get CodeQueueFull.
	MaxBackups = 2
	// MaxScrapes is how many requests to /metrics are answered at once; more
	// get CodeQueueFull.
	MaxScrapes = 4
	// MaxStaleness is the most that the parameter max_stale can ask for; more is
	// CodeLimit.
	MaxStaleness = time.Hour
	// PositionWait is how long a read waits for the position that it asks for,
	// if the engine does not give up sooner; then it gets CodePositionTimeout.
	PositionWait = 10 * time.Second
	// DefaultBufferBytes is Options.BufferBytes if that is 0.
	DefaultBufferBytes = 256 << 20
	// MaxCallBytes is the longest body of a call; more is problem.CodeBodyTooLarge.
	MaxCallBytes = proc.MaxArgBytes
	// MaxDetailBytes is how much of the text of a procedure's error is sent.
	MaxDetailBytes = 4 << 10
	// MaxCodeBytes is how much of the code of a procedure's error is sent.
	MaxCodeBytes = 128
)

// MaxSpace is the highest key space that the parameter space can name. Those above
// are Skerry's own: users, sessions, certificates.
const MaxSpace = 127

// Options of the handler. The zero value serves everybody and logs nothing.
type Options struct {
	// Procedures can be called under /api/call/. Nil: there are none.
	Procedures *proc.Set

	// Users are those of the application, which AdminHandler lets operators list, create and
	// change. Nil: there are none.
	Users *auth.Auth

	// Password, if not empty, is asked of every request but those to /healthz
	// and /readyz, as a bearer token or as the password of any user in Basic.
	Password string

	// Guesses slows down whoever guesses the password; nil: nothing does.
	Guesses *gate.Guesses

	// Hosts are further names, without ports, under which the server may be
	// addressed while there is no password. IP addresses, localhost and names
	// without a dot always may. Other names get problem.CodeHostRefused: a web page
	// can let a name of its own point at this server (DNS rebinding), and
	// would then be of the same origin. "*" allows every name.
	Hosts []string

	// BufferBytes bounds the memory of all bodies above 64 KiB that are being
	// received or sent; over it a request gets CodeQueueFull.
	BufferBytes int64

	// RememberFor is how long the answer to a write with an Idempotency-Key is
	// remembered.
	RememberFor time.Duration

	// Cluster is the cluster of which this server is one node, nil if it runs
	// alone. What only the leader can do is then passed on to it.
	Cluster engine.Cluster

	// ElectionWait is how long a request for the leader waits while there is
	// none, or the one that is known cannot be asked; then it gets CodeNotLeader.
	ElectionWait time.Duration

	// Profiles says that AdminHandler serves runtime/pprof under /debug/pprof/.
	Profiles bool

	// Logger gets a line a request at debug level, and faults of the server at
	// error level. Nil discards them.
	Logger *slog.Logger

	// Ready says why requests should go elsewhere, or nil. If it is nil the
	// server is always ready.
	Ready func() error

	// Metrics yields the engine's figures for /metrics. It may be nil.
	Metrics func() iter.Seq[engine.Metric]

	// Errors are the catalogs of codes that procedures may return besides the engine's.
	// A code in none of them is the program's own and answered 422.
	Errors [][]engine.Meaning

	// Backup writes all data to w. Nil means that /backup is CodeUnsupported.
	Backup func(ctx context.Context, w io.Writer) (engine.Position, error)
}

// app is what New makes: all that the handlers share. It is not modified
// after New but for the atomics and the pool.
type app struct {
	store    *kv.Store
	o        Options
	ops      *http.ServeMux
	metrics  *metrics
	outcomes problem.Outcomes
	ids      *requestid.Source
	pool     sync.Pool    // of *exchange
	buffered atomic.Int64 // bytes reserved against Options.BufferBytes
	backups  places
	scrapes  places
	stall    time.Duration // StallTimeout

	// Values of headers that many answers share; net/http does not change them.
	noCache, noStore, noSniff, octets, json, zero []string

	procedures map[string]procedure // Options.Procedures by name

	node    []string   // this node's id; nil: alone
	forward *forwarder // nil: alone
}

// Face is the HTTP face of one server. As an http.Handler it serves clients.
type Face struct {
	app                 *app
	client, admin, node http.Handler
}

// New returns the whole HTTP face on store.
func New(store *kv.Store, o Options) *Face { return newFace(newApp(store, o)) }

func newFace(a *app) *Face {
	f := &Face{app: a}
	f.client, f.admin, f.node = a.handlers()
	return f
}

// ServeHTTP implements http.Handler for clients.
func (f *Face) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.client.ServeHTTP(w, r) }

// AdminHandler serves operators: besides all that clients get, the profiles, and the
// key spaces of the application under /db/ with the parameter space. It asks for
// Options.Password as ServeHTTP does.
func (f *Face) AdminHandler() http.Handler { return f.admin }

// NodeHandler serves requests that other nodes pass on, which is all that may
// reach it: who asks was checked there and is not checked again. It never
// passes anything on: what only the leader can do is CodeNotLeader elsewhere.
func (f *Face) NodeHandler() http.Handler { return f.node }

// Close closes the connections to other nodes that are kept for further
// requests. It is called when nothing is served any more.
func (f *Face) Close() {
	if f.app.forward != nil {
		f.app.forward.transport.CloseIdleConnections()
	}
}

func newApp(store *kv.Store, o Options) *app {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = DefaultBufferBytes
	}
	if o.RememberFor == 0 {
		o.RememberFor = DefaultRememberFor
	}
	if o.ElectionWait == 0 {
		o.ElectionWait = DefaultElectionWait
	}
	a := &app{store: store, o: o, ids: requestid.New(), metrics: newMetrics(o.Metrics), outcomes: problem.All(o.Errors...),
		backups: places{max: MaxBackups},
		scrapes: places{max: MaxScrapes},
		stall:   StallTimeout,
		noCache: []string{"no-cache"},
		noStore: []string{"no-store"},
		noSniff: []string{"nosniff"},
		octets:  []string{"application/octet-stream"},
		json:    []string{"application/json"},
		zero:    []string{"0"},
	}
	a.procedures = proceduresOf(o.Procedures)
	a.pool.New = func() any { return newExchange(a) }
	if o.Cluster != nil {
		a.node = []string{strconv.FormatUint(o.Cluster.State().Self, 10)}
		a.forward = newForwarder(o, a.metrics)
	}
	return a
}

// handlers builds the chains, the router and the routes.
func (a *app) handlers() (client, admin, node http.Handler) {
	a.ops = http.NewServeMux()
	for _, r := range []struct {
		pattern string
		get     handler
		head    bool // HEAD is answered as GET is, without its body
	}{
		{"/{$}", a.index, true},
		{"/healthz", a.healthz, true},
		{"/readyz", a.readyz, true},
		{"/metrics", a.scrape(), true},
		{"/backup", a.backup, false},
		{"/db", func(x *exchange, r *http.Request) error { return a.db(x, r, "") }, true},
		{"/cluster", a.clusterz, true},
		{"/api/procedures", a.listProcedures(), true},
	} {
		a.ops.Handle(r.pattern, a.operation(r.pattern, r.get, r.head))
	}
	if a.o.Profiles {
		a.profiles()
	}
	a.users()
	a.ops.Handle("/", a.operation("none", func(*exchange, *http.Request) error { return a.noRoute() }, true))

	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(handler(func(*exchange, *http.Request) error {
		return engine.Errorf(problem.CodeCrossOrigin, "a web page of another origin may not change anything here")
	}))
	route := http.HandlerFunc(a.route)
	return chain(route, a.observe, a.checkHost, origin.Handler, a.authenticate),
		chain(route, a.observe, a.checkHost, origin.Handler, a.authenticate, operating),
		chain(route, a.observe, passedOn)
}

// chain wraps h so that the first middleware is the outermost.
func chain(h http.Handler, middleware ...func(http.Handler) http.Handler) http.Handler {
	for i := len(middleware) - 1; i >= 0; i-- {
		h = middleware[i](h)
	}
	return h
}

func (a *app) noRoute() error {
	return engine.Errorf(problem.CodeNoRoute, "there is nothing here; GET / tells what there is")
}

const dbPath = "/db/"

// route sends keys to the handlers of /db/, calls to that of /api/call/, and all
// else to the ServeMux. Keys do not go through the ServeMux because it cleans
// paths: it would answer a//b and a/../b with a redirect to another key.
func (a *app) route(w http.ResponseWriter, r *http.Request) {
	p := r.URL.Path
	if strings.HasPrefix(p, dbPath) {
		x := of(w)
		// An escaped /db/ is no name of it: what filters by path before us
		// might not see it.
		if raw := r.URL.RawPath; raw != "" && !strings.HasPrefix(raw, dbPath) {
			x.fail(r, engine.Errorf(problem.CodeNoRoute, "the path must begin with %s unescaped", dbPath))
			return
		}
		if err := a.db(x, r, p[len(dbPath):]); err != nil {
			x.fail(r, err)
		}
		return
	}
	if strings.HasPrefix(p, callPath) {
		x := of(w)
		if err := a.call(x, r, p[len(callPath):]); err != nil {
			x.fail(r, err)
		}
		return
	}
	if a.o.Profiles && p == profilesPath && of(w).operator {
		a.ops.ServeHTTP(w, r)
		return
	}
	if p != path.Clean(p) || p[0] != '/' || r.URL.RawPath != "" {
		// The ServeMux would redirect, perhaps into /db/.
		of(w).fail(r, engine.Errorf(problem.CodeNoRoute, "there is nothing under a path with empty, escaped or dot segments"))
		return
	}
	a.ops.ServeHTTP(w, r)
}

// handler is an http.Handler that returns an error instead of answering with
// one. It runs beneath observe.
type handler func(x *exchange, r *http.Request) error

// ServeHTTP implements http.Handler.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	if err := h(x, r); err != nil {
		x.fail(r, err)
	}
}

// operation answers GET, HEAD if that is wanted, and OPTIONS with get, and all
// else with 405.
func (a *app) operation(pattern string, get handler, head bool) http.Handler {
	name := strings.TrimSuffix(pattern, "{$}")
	if name == "/db" {
		name = dbPath
	}
	route, none := a.metrics.route(name), name == "none"
	allow := "GET, OPTIONS"
	if head {
		allow = "GET, HEAD, OPTIONS"
	}
	return handler(func(x *exchange, r *http.Request) error {
		x.route = route
		switch {
		case none, r.Method == http.MethodGet, r.Method == http.MethodHead && head:
			return get(x, r)
		}
		return x.otherMethod(r, allow)
	})
}

// otherMethod answers OPTIONS with what is allowed and refuses the rest.
func (x *exchange) otherMethod(r *http.Request, allow string) error {
	x.Header().Set("Allow", allow)
	if r.Method == http.MethodOptions {
		x.WriteHeader(http.StatusNoContent)
		return nil
	}
	return engine.Errorf(problem.CodeMethodNotAllowed, "%.32s is not allowed here, only %s", r.Method, allow)
}
