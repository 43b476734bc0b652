package api

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/pprof"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

const (
	dbPath       = "/db/"
	callPath     = "/api/call/"
	usersPath    = "/users"
	recordsPath  = "/records/"
	profilesPath = "/debug/pprof/"
)

// Route is one or two methods of one path, and a line of the index and of docs/http.md.
type Route struct {
	Methods  string      // "GET, HEAD"; "": all
	Path     string      // "/notes/{name}", where {name} matches the rest; see web.Group.HandleLiteral
	Handle   web.Handler // of Options.Routes: may run again on the leader
	MaxBody  int         // longest body, in bytes, that a Handle of Options.Routes reads; 0: MaxRouteBytes
	Text     string      // what it does, in one line for the index; "" leaves the route out of it
	Shown    string      // the path in the index, if Path is not clear enough
	Operator bool        // on AdminHandler only
}

// table returns all routes, in the order of the index.
func (a *app) table() []Route {
	const read = "GET, HEAD"
	list := a.operation((*operation).list)
	keys := []Route{
		{Methods: read, Path: dbPath + "{key}", Handle: a.onKey((*operation).getKey), Text: "the value of a key, as raw bytes"},
		{Methods: "PUT, POST", Path: dbPath + "{key}", Handle: a.onKey((*operation).setKey), Text: "set a key to the body; ?ttl=30s makes it expire; If-Match and If-None-Match are conditions"},
		{Methods: "DELETE", Path: dbPath + "{key}", Handle: a.onKey((*operation).deleteKey), Text: "delete a key"},
		{Methods: read, Path: dbPath, Handle: list, Text: "a page of keys in byte order, as JSON; also order=desc, limit=, after= and values=1", Shown: "/db/?prefix="},
		{Methods: read, Path: "/db", Handle: list},
	}
	calls := []Route{
		{Path: callPath + "{name}", Handle: a.operation((*operation).call)},
		{Methods: "POST", Path: callPath + "{name}", Text: "call a procedure; the body is a JSON object of its arguments"},
		{Methods: read, Path: callPath + "{name}", Text: "call a procedure that only reads; the parameters are its arguments", Shown: callPath + "{name}?"},
		{Methods: read, Path: "/api/procedures", Handle: a.listProcedures(), Text: "the procedures with their arguments and results, as JSON"},
	}
	server := []Route{
		{Methods: "GET", Path: "/backup", Handle: a.backup, Text: "all data, as one file for `skerry restore`"},
		{Methods: read, Path: "/cluster", Handle: a.clusterz, Text: "the nodes of the cluster, and which one leads; 501 if the server runs alone"},
		{Methods: read, Path: "/metrics", Handle: a.scrape(), Text: "metrics in the text format of Prometheus"},
		{Methods: read, Path: "/healthz", Handle: a.healthz, Text: "200 while the process responds"},
		{Methods: read, Path: "/readyz", Handle: a.readyz, Text: "200 while this server accepts requests, otherwise 503"},
		{Methods: read, Path: "/", Handle: a.index},
		{Path: dbPath, Text: "the same for the keys of the application: spaces 16 to " + strconv.Itoa(MaxSpace), Shown: "/db/…?space=17", Operator: true},
	}
	watch := Route{Methods: "GET", Path: watchPath, Handle: a.watch, Text: "a stream of the keys that are set and deleted; also space=, prefix=, values=1 and after=", Shown: "/watch?space=17", Operator: true}
	users := []Route{
		{Methods: read, Path: usersPath, Handle: a.onUsers((*operation).listUsers), Text: "list users of the application; also ?email=", Operator: true},
		{Methods: "POST", Path: usersPath, Handle: a.onUsers((*operation).addUser), Text: "create a user", Operator: true},
		{Methods: read, Path: usersPath + "/{id}", Handle: a.onUsers((*operation).getUser), Text: "a user", Operator: true},
		{Methods: "PATCH", Path: usersPath + "/{id}", Handle: a.onUsers((*operation).patchUser), Text: "change the roles of a user; disable or enable it", Operator: true},
	}
	records := []Route{
		{Methods: read, Path: recordsPath + "migrations", Handle: a.onRecords((*operation).listMigrations), Text: "what lies between the stored collections and those of the program", Operator: true},
		{Methods: "POST", Path: recordsPath + "migrations", Handle: a.onRecords((*operation).migrate), Text: "migrate collections", Operator: true},
		{Methods: "POST", Path: recordsPath + "undo", Handle: a.onRecords((*operation).undoRecords), Text: "take back what a user has done since a time; dry_run only says what that would change", Operator: true},
		{Methods: read, Path: recordsPath + "verify", Handle: a.onRecords((*operation).verifyRecords), Text: "whether the history, records and indexes of a collection agree", Shown: recordsPath + "verify?collection=", Operator: true},
		{Methods: read, Path: recordsPath + "rules", Handle: a.onRecords((*operation).explainRule), Text: "why a rule allows something to a user, or does not", Shown: recordsPath + "rules?as=", Operator: true},
	}
	if len(a.procedures) == 0 {
		withoutText(calls)
	}
	if a.o.Users == nil {
		withoutText(users)
	}
	all := slices.Concat(keys, calls, server, []Route{watch}, users, records)
	if a.o.Profiles {
		all = append(all, Route{Methods: read, Path: profilesPath + "{profile}", Handle: profile, Text: "profiles of the process", Shown: profilesPath, Operator: true})
	}
	for _, r := range a.o.Routes {
		if r.Handle != nil {
			r.Handle = a.added(r.Handle, cmp.Or(r.MaxBody, MaxRouteBytes))
		}
		all = append(all, r)
	}
	return all
}

// added returns the handler of a route of Options.Routes. If only the leader can serve a request, it is
// forwarded with its body.
func (a *app) added(h web.Handler, limit int) web.Handler {
	return a.operation(func(x *operation, r *http.Request) error {
		if r.ContentLength != 0 {
			if err := x.readBody(r, bodyLimit{limit, problem.CodeBodyTooLarge, "the body is"}); err != nil {
				return err
			}
			x.gathered = true
		}
		return x.here(r, func(x *operation, r *http.Request) error {
			if x.gathered {
				r.Body = io.NopCloser(bytes.NewReader(x.val))
			}
			return h(x.c)
		})
	})
}

// withoutText removes routes without a text from the index.
func withoutText(routes []Route) {
	for i := range routes {
		routes[i].Text = ""
	}
}

// addRoutes adds the routes to the web.App.
func (a *app) addRoutes() {
	for _, r := range a.routes {
		if r.Handle != nil {
			a.web.HandleLiteral(r.Methods, r.Path, r.Handle)
		}
		if r.Handle != nil && r.Operator {
			prefix, _, _ := strings.Cut(r.Path, "{")
			a.operators = append(a.operators, prefix)
		}
	}
}

// forOperators reports whether a path is for operators only.
func (a *app) forOperators(path string) bool {
	return slices.ContainsFunc(a.operators, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// noRoute responds to requests that match no route.
func (a *app) noRoute(c *web.Context) error {
	u := c.Request.URL
	switch {
	case strings.HasPrefix(u.Path, dbPath):
		return engine.Errorf(problem.CodeNoRoute, "the path must begin with %s unescaped", dbPath)
	case strings.HasPrefix(u.Path, callPath):
		return errCallPath
	case u.Path == "" || u.Path[0] != '/' || u.Path != path.Clean(u.Path) || u.RawPath != "":
		return engine.Errorf(problem.CodeNoRoute, "no path here has empty, escaped or dot segments")
	}
	return engine.Errorf(problem.CodeNoRoute, "there is nothing here; GET / lists the routes")
}

// profile serves net/http/pprof.
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
