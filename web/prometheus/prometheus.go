// Package prometheus serves the time series of package series to the clients of Prometheus: its query API with PromQL,
// as Grafana's data source uses it, and remote write.
//
// It knows Prometheus's protocols and runs its query engine. It must not know how samples are stored. It is a package
// of its own so that only programs that want PromQL link it.
package prometheus

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Limits of requests.
const (
	MaxBody       = 32 << 20        // of one remote write, compressed and not; more is problem.CodeBodyTooLarge
	MaxForm       = 1 << 20         // of the parameters of a query
	MaxQueries    = 8               // that run at once; more are CodeBusy
	MaxSamples    = 50_000_000      // in memory of one query, as Prometheus counts them
	MaxTried      = 5_000_000       // samples in memory of one Evaluate
	MaxPoints     = 11_000          // of each series of a range query, as in Prometheus
	QueryTimeout  = 2 * time.Minute // of one query
	MaxListed     = 100_000         // series or labels that one response has
	defaultSpan   = 12 * time.Hour  // of the time in which series and labels are looked for
	lookbackDelta = 5 * time.Minute // after which a series without samples has no value
	below         = "/prometheus/"  // path of the routes
	busyAgain     = "2"             // Retry-After, in seconds
	appendAgain   = 10              // times that a write whose series are removed at that moment is repeated
)

// Options of Mount.
type Options struct {
	// Allow decides who may read or write a collection. Nil allows superadmins only.
	Allow func(c *web.Context, collection string, write bool) error

	// AllowDelete decides who may delete series of a collection. Nil allows superadmins only. An API key needs the scope
	// series:NAME:delete as well.
	AllowDelete func(c *web.Context, collection string) error

	// Middleware wraps the handlers, for example to limit rates.
	Middleware []web.Middleware
}

// Face serves the series of one DB under /prometheus/COLLECTION. It is safe for concurrent use.
type Face struct {
	db     *series.DB
	allow  func(c *web.Context, collection string, write bool) error
	clear  func(c *web.Context, collection string) error // allows deletions
	engine *promql.Engine
	tries  *promql.Engine // of Evaluate
	parser parser.Parser
	turns  chan struct{}
}

// New returns a Face whose routes are not mounted in an application. It serves everyone.
func New(db *series.DB, log *slog.Logger) *Face {
	p := parser.NewParser(parser.Options{})
	newEngine := func(most int) *promql.Engine {
		return promql.NewEngine(promql.EngineOpts{
			Logger: log, MaxSamples: most, Timeout: QueryTimeout, LookbackDelta: lookbackDelta, Parser: p,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
			EnableAtModifier:         true, EnableNegativeOffset: true,
		})
	}
	return &Face{
		db: db, allow: func(*web.Context, string, bool) error { return nil }, clear: func(*web.Context, string) error { return nil },
		parser: p, turns: make(chan struct{}, MaxQueries), engine: newEngine(MaxSamples), tries: newEngine(MaxTried),
	}
}

// Mount adds the routes to an application.
func Mount(app *web.App, db *series.DB, log *slog.Logger, o Options) *Face {
	f := New(db, log)
	f.allow, f.clear = o.Allow, o.AllowDelete
	if f.allow == nil {
		f.allow = func(c *web.Context, collection string, _ bool) error { return superadmins(c, collection) }
	}
	if f.clear == nil {
		f.clear = superadmins
	}
	app.AddErrors(series.Catalog())
	g := app.Group("", append([]web.Middleware{web.OwnScopes, web.BodyLimit(MaxBody)}, o.Middleware...)...)
	g.HandleLiteral("GET, HEAD, POST, PUT", below+"{path}", web.Handler(f.Serve))
	return f
}

func superadmins(c *web.Context, collection string) error {
	if !c.IsSuperadmin() {
		return engine.Errorf(problem.CodeForbidden, "only superadmins may use the series of collection %.80s", collection)
	}
	return nil
}

// Path is the pattern of the routes that Serve handles, for servers that match paths literally.
const Path = below + "{path}"

// route is one path of Prometheus's API.
type route struct {
	path    string // after /prometheus/COLLECTION/api/v1/
	methods string
	handle  func(f *Face, r *request) (any, error)
}

// deletion is the path that deletes series.
const deletion = "admin/tsdb/delete_series"

func routes() []route {
	return []route{
		{"query", "GET POST", (*Face).query},
		{"query_range", "GET POST", (*Face).queryRange},
		{"series", "GET POST", (*Face).series},
		{"labels", "GET POST", (*Face).labels},
		{"label/*/values", "GET", (*Face).labelValues},
		{"metadata", "GET", (*Face).metadata},
		{"status/buildinfo", "GET", (*Face).buildInfo},
		{"write", "POST", (*Face).remoteWrite},
		{deletion, "POST PUT", (*Face).remove},
	}
}

// match reports whether a path has the form of a route, and what stands for its *.
func (r *route) match(path string) (name string, ok bool) {
	before, after, star := strings.Cut(r.path, "*")
	if !star {
		return "", path == r.path
	}
	rest, a := strings.CutPrefix(path, before)
	name, b := strings.CutSuffix(rest, after)
	return name, a && b && name != "" && !strings.Contains(name, "/")
}

// request is one request for a collection.
type request struct {
	*web.Context
	store *series.Store
	name  string // in the path of a label
	now   time.Time
}

// Serve handles all requests below /prometheus/.
func (f *Face) Serve(c *web.Context) error {
	collection, path, _ := strings.Cut(strings.TrimPrefix(c.Request.URL.Path, below), "/")
	path, ok := strings.CutPrefix(path, "api/v1/")
	if !ok {
		return engine.Errorf(problem.CodeNoRoute, "there is nothing here; the API is at %s%.80s/api/v1/", below, collection)
	}
	method := c.Request.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range routes() {
		name, ok := r.match(path)
		if !ok {
			continue
		}
		if !strings.Contains(r.methods, method) {
			return c.OtherMethod(strings.ReplaceAll(r.methods, " ", ", "))
		}
		write := r.path == "write"
		if err := f.may(c, collection, r.path); err != nil {
			return err
		}
		store, err := f.db.Collection(collection)
		if err != nil {
			return err
		}
		data, err := r.handle(f, &request{c, store, name, time.Now()})
		if write && err != nil {
			return err
		}
		if err == nil && (write || r.path == deletion) {
			return c.NoContent()
		}
		return respond(c, data, err)
	}
	return engine.Errorf(problem.CodeNoRoute, "this server does not implement %.80s of Prometheus's API", path)
}

// may returns an error if the client may not use a route of a collection.
func (f *Face) may(c *web.Context, collection, path string) error {
	scope := "series:" + collection + ":write"
	if path == deletion {
		scope = "series:" + collection + ":delete"
	}
	read := path != "write" && path != deletion
	if allows := c.Limit(); allows != nil && !allows(scope) && !(read && allows("series:"+collection+":read")) {
		return engine.Errorf(problem.CodeForbidden, "the API key lacks the scope %.80s", scope)
	}
	if path == deletion {
		return f.clear(c, collection)
	}
	return f.allow(c, collection, !read)
}
