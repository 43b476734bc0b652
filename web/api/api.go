// Package api is the operator's port: plain keys under /db/, procedures under /api/,
// and the operation of a server (health, readiness, metrics, backup, users).
//
// It knows routes, conditions, the password, and how the metrics of a server are printed;
// it must not know engine names, the layout of keys or files. docs/http.md describes the
// protocol.
//
// It is a set of handlers on a web.App, whose chain observes requests, refuses pages of
// other origins and turns errors into problems. It adds one middleware, admit, which checks
// host names and the password.
package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/gate"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Limits. Going over one is an error of the stated code.
const (
	// DefaultPage is how many items a listing has by default. kv.MaxPage is the
	// maximum; a larger limit is CodeLimit.
	DefaultPage = 100
	// MaxPageBytes ends a page of a listing early. A page has at least one
	// item, so with values=1 it can be longer by one item.
	MaxPageBytes = 8 << 20
	// MaxBackups is how many backups are sent at once; further ones get CodeQueueFull.
	MaxBackups = 2
	// MaxScrapes is how many requests to /metrics are served at once; further
	// ones get CodeQueueFull.
	MaxScrapes = 4
	// MaxStaleness is the maximum of the parameter max_stale; more is CodeLimit.
	MaxStaleness = time.Hour
	// PositionWait is how long a read waits for the position that it asks for,
	// if the engine does not give up sooner; then it gets CodePositionTimeout.
	PositionWait = 10 * time.Second
	// DefaultBufferBytes is Options.BufferBytes if that is 0.
	DefaultBufferBytes = 256 << 20
	// MaxCallBytes is the longest body of a call; more is problem.CodeBodyTooLarge.
	MaxCallBytes = proc.MaxArgBytes
	// MaxRouteBytes is the longest body of a request to one of Options.Routes; more is
	// problem.CodeBodyTooLarge.
	MaxRouteBytes = 1 << 20
	// MaxDetailBytes is how much of the text of a procedure's error is sent.
	MaxDetailBytes = 4 << 10
	// MaxCodeBytes is how much of the code of a procedure's error is sent.
	MaxCodeBytes = 128
	// StallTimeout is how long the reader of a backup may read nothing.
	StallTimeout = time.Minute
)

// MaxSpace is the highest key space that the parameter space can name, 127. Those above
// are Skerry's own: users, sessions, certificates.
const MaxSpace = int(keyspace.LastApplication)

// Options of a Face. The zero value serves everybody and logs nothing.
type Options struct {
	// Procedures can be called under /api/call/. Nil: there are none.
	Procedures *proc.Set

	// Users are those of the application, which AdminHandler lets operators list, create and
	// change. Nil: there are none.
	Users *auth.Auth

	// Records are those whose collections AdminHandler lets operators migrate. Nil: there are none.
	Records *record.DB

	// Password, if not empty, is required for all paths but /healthz and /readyz, as a
	// bearer token or as the password of any user in Basic.
	Password string

	// Guesses slows down anyone who guesses the password; nil: nothing does.
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
	// alone. Requests that only the leader can answer are then passed on to it.
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

	// Metrics yields what /metrics shows besides the face's own. It may be nil.
	Metrics func() iter.Seq[engine.Metric]

	// Routes are further routes, of other packages. Like the others they ask for the password.
	Routes []Route

	// Errors are the catalogs of codes that procedures may return besides the engine's.
	// A code in none of them is the program's own and answered 422.
	Errors [][]engine.Meaning

	// Backup writes all data to w. Nil means that /backup is CodeUnsupported.
	Backup func(ctx context.Context, w io.Writer) (engine.Position, error)
}

// app is what the handlers share. It is not modified after New but for the atomics
// and the pool.
type app struct {
	web       *web.App
	store     *kv.Store
	o         Options
	password  [sha256.Size]byte // the sum of Options.Password: sums have one length, so comparing does not reveal that of the password
	routes    []Route
	operators []string // what the paths of operators' routes begin with
	outcomes  problem.Outcomes
	pool      sync.Pool    // of *operation
	buffered  atomic.Int64 // bytes reserved against Options.BufferBytes
	backups   semaphore
	stall     time.Duration // StallTimeout

	// Values of headers that many answers share; net/http does not change them.
	noCache, noStore, noSniff, octets, json, zero []string

	procedures map[string]procedure // Options.Procedures by name

	node    []string   // this node's id; nil: alone
	forward *forwarder // nil: alone
}

// Face serves one server's keys and procedures. As an http.Handler it serves clients.
type Face struct{ app *app }

// New returns a Face on store.
func New(store *kv.Store, o Options) *Face { return &Face{newApp(store, o)} }

// ServeHTTP implements http.Handler for clients.
func (f *Face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.app.signed(w)
	f.app.web.ServeHTTP(w, r)
}

// AdminHandler serves operators: besides all that clients get, the profiles, the users, the
// key spaces of the application under /db/ with the parameter space, and the changes of keys.
// It asks for Options.Password as ServeHTTP does.
func (f *Face) AdminHandler() *AdminHandler { return &AdminHandler{f} }

// AdminHandler is a Face as operators see it.
type AdminHandler struct{ face *Face }

// ServeHTTP implements http.Handler.
func (h *AdminHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.face.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), operatorKey{}, true)))
}

// RequestMetrics yields the metrics of requests; see web.App.RequestMetrics.
func (f *Face) RequestMetrics() iter.Seq[engine.Metric] { return f.app.web.RequestMetrics("http") }

// EndStreams ends all watches; see web.App.EndStreams.
func (h *AdminHandler) EndStreams() { h.face.app.web.EndStreams() }

// operatorKey is where AdminHandler marks requests.
type operatorKey struct{}

// operator reports whether a request came to AdminHandler.
func operator(c *web.Context) bool { return c.Value(operatorKey{}) != nil }

// NodeHandler serves requests that other nodes pass on, which is all that may
// reach it: the password was checked there and is not checked again. It never
// passes anything on: requests that only the leader can answer are CodeNotLeader elsewhere.
func (f *Face) NodeHandler() http.Handler {
	next := f.app.web.NodeHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.app.signed(w)
		next.ServeHTTP(w, r)
	})
}

// signed names this node in an answer.
func (a *app) signed(w http.ResponseWriter) {
	if a.node != nil {
		w.Header()[nodeHeader] = a.node
	}
}

// Close closes the connections to other nodes that are kept for further
// requests. It is called when nothing is served any more.
func (f *Face) Close() {
	if f.app.forward != nil {
		f.app.forward.transport.CloseIdleConnections()
	}
}

func newApp(store *kv.Store, o Options) *app {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.BufferBytes = cmp.Or(o.BufferBytes, DefaultBufferBytes)
	o.RememberFor = cmp.Or(o.RememberFor, DefaultRememberFor)
	o.ElectionWait = cmp.Or(o.ElectionWait, forward.ElectionWait)
	a := &app{store: store, o: o, password: sha256.Sum256([]byte(o.Password)), outcomes: problem.All(o.Errors...),
		backups: semaphore{max: MaxBackups},
		stall:   StallTimeout,
		noCache: []string{"no-cache"},
		noStore: []string{"no-store"},
		noSniff: []string{"nosniff"},
		octets:  []string{"application/octet-stream"},
		json:    []string{"application/json"},
		zero:    []string{"0"},
	}
	var err error
	a.web, err = web.New(web.Options{Programs: true, Headers: web.Headers{Off: true}, MaxBody: kv.MaxValBytes + 1, Logger: o.Logger, NotFound: a.noRoute})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	a.web.AddErrors(o.Errors...)
	a.procedures = proceduresOf(o.Procedures)
	a.pool.New = func() any { return newOperation(a) }
	if o.Cluster != nil {
		a.node = []string{strconv.FormatUint(o.Cluster.State().Self, 10)}
		a.forward = newForwarder(o)
	}
	a.routes = a.table()
	a.addRoutes()
	a.web.Use(a.admit)
	return a
}
