// Package web is for web applications, on net/http and its ServeMux. It has routes, handlers that return
// errors, values and bodies of requests, pages, sessions, static files, and middleware.
//
// It knows requests and responses, cookies, headers, users and how errors look in a browser; it must not know
// which engine runs, or how keys are laid out.
//
// A request passes, from the outside in: observe (which makes its exchange, counts, logs and recovers panics),
// the security headers, cross-origin protection, the application's own middleware, the ServeMux, the
// middleware of groups, and a handler. One place turns errors into responses. docs/web.md is the guide.
package web

import (
	"cmp"
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/requestid"
	"github.com/skerrydb/skerry/web/view"
)

// DefaultName is Options.Name if that is empty.
const DefaultName = "skerry"

// Options of an application. The zero value has no views, sessions or cluster.
type Options struct {
	// Name of the application. It is shown on pages and is part of cookie names. Letters, digits, - and _ only.
	// "" is DefaultName.
	Name string

	// Debug shows developers what users must not see (stacks, causes), allows cookies over plain HTTP, and
	// makes pages reload after changes.
	Debug bool

	// Hosts are additional host names, without ports, that the application accepts in debug mode; "*" accepts
	// all. By default it accepts only IP addresses, names without a dot, those of localhost, and GlobalDomain
	// with its hosts. Any web page can make a name of its own resolve to this machine (DNS rebinding), and
	// could then read the email in the outbox. Other names are problem.CodeHostRefused.
	Hosts []string

	// Views are the pages that Context.Render renders. Nil: there are none.
	Views *view.Views

	// Assets are the static files, and the tags that pages include with {{.assets}}. Nil: there are none.
	Assets *Assets

	// Sessions stores the browsers' sessions. Nil: there are none.
	Sessions *session.Store

	// Global stores the sessions that all applications on the same data share; see Context.Global. Nil: there
	// are none.
	Global *session.Store

	// GlobalDomain is the domain whose hosts all get the cookie of the global session: example.org for
	// applications at a.example.org and b.example.org. "" is this host alone, on any port.
	GlobalDomain string

	// Engine, if set, is the engine that requests read and write. With a Cluster, reads wait for what the same
	// browser wrote on another node.
	Engine engine.Engine

	// Cluster is the cluster of which this server is a node, nil if it runs alone. Requests that write are
	// forwarded to the leader.
	Cluster engine.Cluster

	// NodeProtocol is the name of the protocol between nodes under which this application's requests are forwarded, for
	// a second application on the same cluster. "" is the constant NodeProtocol.
	NodeProtocol string

	// LocalSessions reports whether a request that only reads may use a session as this node knows it, which may have ended on another
	// node: for pages that people need while no node leads. Nil: none may.
	LocalSessions func(r *http.Request) bool

	// LoopbackCookies allows cookies over plain HTTP for requests from this machine to a loopback address or localhost.
	LoopbackCookies bool

	// User returns the user with the id in a session. engine.ErrNotFound means that the user no longer exists,
	// and the session then counts as anonymous. Nil: users have nothing but an id.
	User func(ctx context.Context, id string) (User, error)

	// Superadmins are the email addresses of users who may see and do everything, once they have verified the
	// address.
	Superadmins []string

	// TrustedProxies are the networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted. Empty
	// trusts none.
	TrustedProxies []netip.Prefix

	// TrustedOrigins are other origins (https://host[:port]) whose web pages may send requests that make
	// changes; see http.CrossOriginProtection.
	TrustedOrigins []string

	// Headers are the security headers of responses. The zero value has the defaults; see SecurityHeaders.
	Headers Headers

	// MaxBody is the longest body of a request in bytes, unless a route sets its own. 0 is DefaultMaxBody.
	MaxBody int64

	// MaxBodyMemory is how many bytes of bodies all requests in progress may have in memory, beyond MaxUncountedBody
	// of each. Half of it is for requests without a user. One user, or one address without a user, gets an eighth, unless
	// a single request needs more. Files of Uploads do not count. 0 is DefaultMaxBodyMemory.
	MaxBodyMemory int64

	// MaxStreams is how many streams of events (Context.SSE) may be open at once. A quarter of them is kept for users.
	// 0 is DefaultMaxStreams.
	MaxStreams int

	// MaxStreamsPerClient is how many of them one user may have open, and one client address, IPv6
	// addresses by their /64; see TrustedProxies. 0 is DefaultMaxStreamsPerClient, or a
	// quarter of MaxStreams if that is less.
	MaxStreamsPerClient int

	// MaxStreamsPerSession is how many of them one session, or API key, may have open. 0
	// is DefaultMaxStreamsPerSession, or MaxStreamsPerClient if that is less.
	MaxStreamsPerSession int

	// Faults receives panics and internal errors. It may be nil.
	Faults FaultReporter

	// Outbox shows the email that was not sent, in debug mode, under /_dev/outbox. Nil: there is none.
	Outbox http.Handler

	// Ready returns why load balancers should send requests elsewhere, or nil. A nil Ready means always ready.
	Ready func() error

	// Programs means that clients are programs and not browsers: errors are always application/problem+json,
	// and the only routes are those of HandleLiteral.
	Programs bool

	// NotFound serves requests that match no route. Nil: they fail with problem.CodeNoRoute.
	NotFound Handler

	// Logger receives a line for each request at debug level, and faults at error level. Nil is slog.Default;
	// use slog.DiscardHandler for no logging.
	Logger *slog.Logger
}

// FaultReporter receives faults of the application, for example a Faults of package mail. Report must neither
// block nor fail. It owns the Fault.
type FaultReporter interface{ Report(Fault) }

// Fault is one panic or internal error of a handler.
type Fault struct {
	Ref     string // shown to the user to refer to the fault: the request's id
	Err     error  // what went wrong; a panic is wrapped
	Stack   []byte // of a panic; nil otherwise
	Route   string // the pattern, "" if there was none
	Method  string
	URL     string // the path, without the query
	From    string // the client's address
	Time    time.Time
	Request *http.Request // must not be kept after Report returns
}

// App is a web application. Add routes and middleware first, from one goroutine; then it is an http.Handler
// that is safe for concurrent use.
type App struct {
	topGroup // the routes at the top level

	o         Options
	outcomes  problem.Outcomes
	mux       *http.ServeMux
	outer     []Middleware // Use's
	once      sync.Once    // makes handler and node
	handler   http.Handler
	node      http.Handler
	pool      sync.Pool // of *exchange
	ids       *requestid.Source
	errorPage *template.Template // used if the application has no view for errors
	cluster   *cluster           // nil: alone
	routes    []*route
	literals  []literal      // those of HandleLiteral
	cached    []*cachedRoute // those that LaneRoutes returns
	cookie    cookies
	metrics   metrics
	headers   *headers // Options.Headers'
	shapes    sync.Map // of *shape by reflect.Type: types that Bind has seen
	streams   streams
	bodies    *Shares

	login     string   // the path of the login page; "": none
	nonceless sync.Map // what warnNonces has logged
}

// topGroup is embedded under another name, so that App.Group is the method.
type topGroup = Group

// Middleware wraps a handler. A ResponseWriter that it passes on must have an Unwrap method, as
// http.ResponseController requires.
type Middleware = func(http.Handler) http.Handler

// New returns an application with no routes but /healthz and /readyz. It fails with engine.CodeInvalid if o
// makes no sense; the error names all faults.
func New(o Options) (*App, error) {
	o.Name = cmp.Or(o.Name, DefaultName)
	o.Logger, o.MaxBody = cmp.Or(o.Logger, slog.Default()), cmp.Or(o.MaxBody, DefaultMaxBody)
	o.MaxBodyMemory = cmp.Or(o.MaxBodyMemory, DefaultMaxBodyMemory)
	o.MaxStreams = cmp.Or(o.MaxStreams, DefaultMaxStreams)
	o.MaxStreamsPerClient = cmp.Or(o.MaxStreamsPerClient, min(DefaultMaxStreamsPerClient, (o.MaxStreams+3)/4))
	o.MaxStreamsPerSession = cmp.Or(o.MaxStreamsPerSession, min(DefaultMaxStreamsPerSession, o.MaxStreamsPerClient))
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &App{o: o, outcomes: problem.All(session.Catalog(), view.Catalog()), mux: http.NewServeMux(), ids: requestid.New(), errorPage: template.Must(template.New("").Parse(errorPage))}
	a.topGroup = Group{app: a}
	a.streams.stop, a.streams.by = make(chan struct{}), map[string]int{}
	a.bodies = NewShares("bytes of bodies", o.MaxBodyMemory, o.forStrangers(o.MaxBodyMemory, o.MaxBodyMemory/2), o.MaxBodyMemory/8)
	a.cookie = newCookies(o)
	a.headers = newHeaders(o.Headers)
	a.pool.New = func() any { return &exchange{app: a} }
	if o.Cluster != nil {
		a.cluster = newCluster(o)
	}
	if !o.Programs {
		a.Get("/healthz", healthz)
		a.Get("/readyz", a.readyz)
	}
	if o.Assets != nil {
		a.addAssets()
	}
	if o.Debug {
		a.addDev()
	}
	return a, nil
}

// forStrangers returns how much of a limit requests without a user get: all but what is kept for users. Programs log in
// in another way.
func (o *Options) forStrangers(most, kept int64) int64 {
	if o.Programs {
		return most
	}
	return most - kept
}

func (o *Options) check() error {
	var wrong []string
	if strings.Trim(o.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		wrong = append(wrong, "Name "+o.Name+" must be letters, digits, - and _ only")
	}
	if o.MaxBody < 0 || o.MaxBodyMemory < 0 {
		wrong = append(wrong, "MaxBody and MaxBodyMemory must not be negative")
	}
	if o.MaxStreams < 0 || o.MaxStreamsPerClient < 0 || o.MaxStreamsPerSession < 0 {
		wrong = append(wrong, "MaxStreams, MaxStreamsPerClient and MaxStreamsPerSession must not be negative")
	}
	if o.Cluster != nil && o.Engine == nil {
		wrong = append(wrong, "Cluster needs Engine")
	}
	if err := o.Headers.check(); err != nil {
		wrong = append(wrong, "Headers: "+err.Error())
	}
	for _, origin := range o.TrustedOrigins {
		if err := http.NewCrossOriginProtection().AddTrustedOrigin(origin); err != nil {
			wrong = append(wrong, "TrustedOrigins: "+err.Error())
		}
	}
	if o.Assets != nil && o.Views != nil {
		wrong = append(wrong, o.Assets.check(o.Views.Has)...)
	}
	if wrong != nil {
		return engine.Errorf(engine.CodeInvalid, "web: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// Use adds middleware around everything that the application serves, including requests that match no route.
// The first middleware added is the outermost. Use must be called before the first request.
func (a *App) Use(m ...Middleware) { a.outer = append(a.outer, m...) }

// LoginAt sets the path of the login page. A browser that requests a page which needs a user is redirected
// there (303), with the path that it requested in the parameter next. Programs get 401 instead. account.New
// calls LoginAt. It must be called before the first request.
func (a *App) LoginAt(path string) { a.login = path }

// AddErrors adds codes that handlers may return besides those of engine, sessions and views: the Catalog of
// each package that they call. A code in no catalog counts as the application's own and gets status 422.
// AddErrors must be called before the first request.
func (a *App) AddErrors(catalogs ...[]engine.Meaning) {
	for _, catalog := range catalogs {
		a.outcomes.Add(catalog)
	}
}

// ServeHTTP implements http.Handler for clients.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.once.Do(a.assemble)
	a.handler.ServeHTTP(w, r)
}

// NodeHandler serves requests that other nodes forward. It must not be reachable by anyone else, because it
// believes what they report about the client.
func (a *App) NodeHandler() http.Handler {
	a.once.Do(a.assemble)
	return a.node
}

// Close closes the connections to other nodes. Call it when nothing is served anymore.
func (a *App) Close() {
	if a.cluster != nil {
		a.cluster.close()
	}
}

// assemble makes the handler, once all routes and middleware are added.
func (a *App) assemble() {
	origin := http.NewCrossOriginProtection()
	for _, o := range a.o.TrustedOrigins {
		_ = origin.AddTrustedOrigin(o) // check has seen that it can be
	}
	within := chain(http.HandlerFunc(a.dispatch), a.outer...)
	origin.SetDenyHandler(Handler(func(c *Context) error {
		if !bearerAlone(c.Request) {
			return errCrossOrigin
		}
		c.x.foreign = true // until CORS allows its origin
		within.ServeHTTP(c.Writer, c.Request)
		return nil
	}))
	inner := a.checkHost(origin.Handler(within))
	a.handler = a.observe(inner, false)
	a.node = a.observe(inner, true)
}

// chain wraps h so that the first middleware is the outermost.
func chain(h http.Handler, middleware ...Middleware) http.Handler {
	for _, m := range slices.Backward(middleware) {
		h = m(h)
	}
	return h
}

func healthz(c *Context) error { return c.Text(http.StatusOK, "ok\n") }

func (a *App) readyz(c *Context) error {
	if a.o.Ready != nil {
		if err := a.o.Ready(); err != nil {
			return c.Text(http.StatusServiceUnavailable, "not ready\n")
		}
	}
	return c.Text(http.StatusOK, "ready\n")
}
