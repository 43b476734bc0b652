// Package timeseries serves the time series of package series over HTTP: it accepts InfluxDB's line protocol, and
// returns samples as JSON and as event streams.
//
// It knows routes, protocols, and forms of requests and responses. It must not know how samples are stored.
// docs/series.md is the guide.
package timeseries

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Limits of requests.
const (
	// MaxBody is the longest body of a write, in bytes, as sent and as decompressed; more is
	// problem.CodeBodyTooLarge.
	MaxBody = 32 << 20
	// MaxReported is how many refused lines a response lists.
	MaxReported = 100
	// MaxKnown is how many combinations of measurement and tags are remembered for each collection, as they
	// were written.
	MaxKnown = 2_000_000
	// MaxTermBytes is the longest selector.
	MaxTermBytes = 16 << 10
)

// Options of Mount.
type Options struct {
	// Prefix is the path of the routes; "" is none, so that they are /write, /api/v2/write and /series.
	Prefix string

	// Allow decides who may read or write a collection. Nil allows superadmins only. An API key needs a scope as
	// well: series:NAME:read or series:NAME:write.
	Allow func(c *web.Context, collection string, write bool) error

	// AllowDelete decides who may delete series of a collection. Nil allows superadmins only. An API key needs the scope
	// series:NAME:delete as well.
	AllowDelete func(c *web.Context, collection string) error

	// Middleware wraps the handlers, for example to limit rates.
	Middleware []web.Middleware
}

// Face serves the series of one DB. It is safe for concurrent use.
type Face struct {
	db    *series.DB
	allow func(c *web.Context, collection string, write bool) error
	clear func(c *web.Context, collection string) error // allows deletions
	known caches
}

// Route is a method and a path below the prefix.
type Route struct {
	Method, Path, Text string
	MaxBody            int
	Handle             web.Handler
}

// Methods returns the method, and HEAD with GET.
func (r Route) Methods() string {
	if r.Method == http.MethodGet {
		return "GET, HEAD"
	}
	return r.Method
}

// Below is the path of the routes that name a collection.
const Below = "/series/"

// ServeBelow handles all requests below Below, for servers that match paths literally.
func (f *Face) ServeBelow(c *web.Context) error {
	name, rest, _ := strings.Cut(strings.TrimPrefix(c.Request.URL.Path, Below), "/")
	if rest != "" {
		rest = "/" + rest
	}
	var methods []string
	for _, r := range f.Routes() {
		if r.Path != Below+"{collection}"+rest || name == "" {
			continue
		}
		if method := c.Request.Method; method == r.Method || method == http.MethodHead && r.Method == http.MethodGet {
			c.Request.SetPathValue("collection", name)
			return r.Handle(c)
		}
		methods = append(methods, r.Methods())
	}
	if methods != nil {
		return c.OtherMethod(strings.Join(methods, ", "))
	}
	return engine.Errorf(problem.CodeNoRoute, "there is nothing here")
}

// New returns a Face whose routes are not mounted in an application. It serves everyone.
func New(db *series.DB) *Face {
	return &Face{
		db: db, allow: func(*web.Context, string, bool) error { return nil },
		clear: func(*web.Context, string) error { return nil },
	}
}

// Mount adds the routes of db's series to an application.
func Mount(app *web.App, db *series.DB, o Options) *Face {
	f := New(db)
	f.allow = o.Allow
	if f.allow == nil {
		f.allow = superadmins
	}
	f.clear = o.AllowDelete
	if f.clear == nil {
		f.clear = func(c *web.Context, collection string) error { return superadmins(c, collection, true) }
	}
	app.AddErrors(series.Catalog())
	g := app.Group(strings.TrimSuffix(o.Prefix, "/"), append([]web.Middleware{web.OwnScopes, web.BodyLimit(MaxBody)}, o.Middleware...)...)
	for _, r := range f.Routes() {
		g.Handle(r.Method+" "+r.Path, r.Handle)
	}
	return f
}

// Routes returns all routes.
func (f *Face) Routes() []Route {
	return []Route{
		{"POST", "/write", "write samples in InfluxDB's line protocol, version 1; ?db= names the collection", MaxBody, f.writeV1},
		{"POST", "/api/v2/write", "the same, version 2; ?bucket= names the collection", MaxBody, f.writeV2},
		{"GET", "/series", "the collections of series", 0, f.list},
		{"GET", "/series/{collection}", "samples of the series that ?match= selects, or with ?step= and ?agg= aggregates of them", 0, f.query},
		{"DELETE", "/series/{collection}", "delete the series that ?match= selects, with all their samples", 0, f.remove},
		{"GET", "/series/{collection}/latest", "the newest sample of each series that ?match= selects", 0, f.latest},
		{"GET", "/series/{collection}/labels", "the names of labels, or with ?label= the values of one", 0, f.labels},
		{"GET", "/series/{collection}/live", "a stream of events with the samples that are stored from now on", 0, f.live},
	}
}

func superadmins(c *web.Context, collection string, _ bool) error {
	if c.IsSuperadmin() {
		return nil
	}
	if !c.LoggedIn() {
		return engine.Errorf(engine.CodeUnauthenticated, "log in to use the series of collection %.80s", collection)
	}
	return engine.Errorf(problem.CodeForbidden, "only superadmins may use the series of collection %.80s", collection)
}

// store returns a collection if the client may use it.
func (f *Face) store(c *web.Context, name string, write bool) (*series.Store, error) {
	if allows := c.Limit(); allows != nil {
		scope := "series:" + name + ":write"
		if !allows(scope) && (write || !allows("series:"+name+":read")) {
			c.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
			return nil, engine.Errorf(problem.CodeForbidden, "the API key lacks the scope %.80s", scope)
		}
	}
	if err := f.allow(c, name, write); err != nil {
		return nil, err
	}
	return f.db.Collection(name)
}

// remove deletes series.
func (f *Face) remove(c *web.Context) error {
	name := c.Path("collection").String()
	if allows := c.Limit(); allows != nil {
		if scope := "series:" + name + ":delete"; !allows(scope) {
			c.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
			return engine.Errorf(problem.CodeForbidden, "the API key lacks the scope %.80s", scope)
		}
	}
	if err := f.clear(c, name); err != nil {
		return err
	}
	store, err := f.db.Collection(name)
	if err != nil {
		return err
	}
	match, err := selector(c)
	if err != nil {
		return err
	}
	n, pos, err := store.Delete(c, match)
	if err != nil {
		return err
	}
	if pos != 0 {
		c.Header().Set("X-Skerry-Position", strconv.FormatUint(uint64(pos), 10))
	}
	return c.JSON(http.StatusOK, map[string]int{"deleted": n})
}

// list responds with what there is.
func (f *Face) list(c *web.Context) error {
	type collection struct {
		Name     string `json:"name"`
		Series   int    `json:"series"`
		Unsealed int    `json:"unsealed_samples"`
		Parts    int    `json:"parts"`
		Samples  uint64 `json:"sealed_samples"`
		Bytes    uint64 `json:"sealed_bytes"`
	}
	out := []collection{}
	for _, name := range f.db.Names() {
		s, err := f.store(c, name, false)
		if err != nil {
			continue // it is not for this client
		}
		st := s.Stats()
		out = append(out, collection{name, st.Series, st.Unsealed, st.Parts, st.Samples, st.Bytes})
	}
	return c.JSON(200, map[string]any{"collections": out})
}
