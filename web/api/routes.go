package api

import (
	"net/http/pprof"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

const (
	dbPath       = "/db/"
	callPath     = "/api/call/"
	usersPath    = "/users"
	profilesPath = "/debug/pprof/"
)

// route is one method, or two, of one path, and a line of the index.
type route struct {
	methods  string // "": all
	path     string // see web.Group.HandleLiteral
	handle   web.Handler
	text     string // for the index, which leaves the route out if there is none
	shown    string // the path in the index, if path does not say enough
	operator bool   // clients do not have it
}

// table returns all routes, in the order of the index.
func (a *app) table(registry *prometheus.Registry) []route {
	const read = "GET, HEAD"
	list := a.operation((*operation).list)
	keys := []route{
		{methods: read, path: dbPath + "{key}", handle: a.onKey((*operation).getKey), text: "the value of a key, as raw bytes"},
		{methods: "PUT, POST", path: dbPath + "{key}", handle: a.onKey((*operation).setKey), text: "set a key to the body; ?ttl=30s lets it expire; If-Match and If-None-Match guard it"},
		{methods: "DELETE", path: dbPath + "{key}", handle: a.onKey((*operation).deleteKey), text: "remove a key"},
		{methods: read, path: dbPath, handle: list, text: "list keys in byte order, a page at a time; also order=desc, limit=, after= and values=1", shown: "/db/?prefix="},
		{methods: read, path: "/db", handle: list},
	}
	calls := []route{
		{path: callPath + "{name}", handle: a.operation((*operation).call)},
		{methods: "POST", path: callPath + "{name}", text: "call a procedure; the body is a JSON object of its arguments"},
		{methods: read, path: callPath + "{name}", text: "call a procedure that only reads; its arguments are parameters", shown: callPath + "{name}?"},
		{methods: read, path: "/api/procedures", handle: a.listProcedures(), text: "the procedures, their arguments and results"},
	}
	server := []route{
		{methods: "GET", path: "/backup", handle: a.backup, text: "everything, as one file that can be restored"},
		{methods: read, path: "/cluster", handle: a.clusterz, text: "the nodes that keep this data, and which one leads"},
		{methods: read, path: "/metrics", handle: a.scrape(registry), text: "metrics for Prometheus"},
		{methods: read, path: "/healthz", handle: a.healthz, text: "whether the process answers"},
		{methods: read, path: "/readyz", handle: a.readyz, text: "whether requests should come here"},
		{methods: read, path: "/", handle: a.index},
		{path: dbPath, text: "the same for the keys of the application: spaces 16 to " + strconv.Itoa(MaxSpace), shown: "/db/…?space=17", operator: true},
	}
	users := []route{
		{methods: read, path: usersPath, handle: a.onUsers((*operation).listUsers), text: "list users of the application; also ?email=", operator: true},
		{methods: "POST", path: usersPath, handle: a.onUsers((*operation).addUser), text: "create a user", operator: true},
		{methods: read, path: usersPath + "/{id}", handle: a.onUsers((*operation).getUser), text: "a user", operator: true},
		{methods: "PATCH", path: usersPath + "/{id}", handle: a.onUsers((*operation).patchUser), text: "change the roles of a user, or disabled", operator: true},
	}
	if len(a.procedures) == 0 {
		withoutText(calls)
	}
	if a.o.Users == nil {
		withoutText(users)
	}
	all := slices.Concat(keys, calls, server, users)
	if a.o.Profiles {
		all = append(all, route{methods: read, path: profilesPath + "{profile}", handle: profile, text: "profiles of the process", shown: profilesPath, operator: true})
	}
	return all
}

// withoutText leaves routes out of the index.
func withoutText(routes []route) {
	for i := range routes {
		routes[i].text = ""
	}
}

// addRoutes gives the routes to the web.App.
func (a *app) addRoutes() {
	for _, r := range a.routes {
		if r.handle != nil {
			a.web.HandleLiteral(r.methods, r.path, r.handle)
		}
		if r.handle != nil && r.operator {
			prefix, _, _ := strings.Cut(r.path, "{")
			a.operators = append(a.operators, prefix)
		}
	}
}

// forOperators reports whether only operators have what is at a path.
func (a *app) forOperators(path string) bool {
	return slices.ContainsFunc(a.operators, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// noRoute answers requests that no route matches.
func (a *app) noRoute(c *web.Context) error {
	u := c.Request.URL
	switch {
	case strings.HasPrefix(u.Path, dbPath):
		return engine.Errorf(problem.CodeNoRoute, "the path must begin with %s unescaped", dbPath)
	case strings.HasPrefix(u.Path, callPath):
		return errCallPath
	case u.Path == "" || u.Path[0] != '/' || u.Path != path.Clean(u.Path) || u.RawPath != "":
		return engine.Errorf(problem.CodeNoRoute, "there is nothing under a path with empty, escaped or dot segments")
	}
	return engine.Errorf(problem.CodeNoRoute, "there is nothing here; GET / tells what there is")
}

// profile shows what runtime/pprof knows, as net/http/pprof does.
func profile(c *web.Context) error {
	show := pprof.Index
	switch strings.TrimPrefix(c.Request.URL.Path, profilesPath) {
	case "cmdline":
		show = pprof.Cmdline
	case "profile":
		show = pprof.Profile
	case "symbol":
		show = pprof.Symbol
	case "trace":
		show = pprof.Trace
	}
	c.Header().Set("X-Content-Type-Options", "nosniff")
	show(c.Writer, c.Request)
	return nil
}
