package web

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Handler answers a request, or returns why it does not: the error is then the
// answer, in the form that the client understands. It is an http.Handler that
// works wherever an App runs it, however many middlewares are in between.
type Handler func(c *Context) error

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	c, outer := &x.ctx, x.ctx
	c.Writer, c.Request = w, r
	err := h(c)
	if err != nil {
		x.fail(w, r, err)
	} else if x.app.o.Debug {
		x.unanswered(w, r)
	}
	*c = outer // a handler can be beneath another one
}

// Group is a set of routes under one prefix, with middleware of their own.
type Group struct {
	app    *App
	prefix string
	ware   []Middleware
}

// Group returns a group whose patterns all begin with prefix ("/admin"), within
// this one's, and whose handlers all have m around them, inside of this one's. Its
// middleware runs only for routes that are found.
func (g *Group) Group(prefix string, m ...Middleware) *Group {
	if prefix != "" {
		mustBeginWithSlash("the prefix of a group", prefix)
	}
	return &Group{g.app, g.prefix + strings.TrimSuffix(prefix, "/"), append(g.ware[:len(g.ware):len(g.ware)], m...)}
}

// Get adds a route for GET and HEAD. The path is that of a pattern of
// http.ServeMux: {name} is one segment, {name...} the rest, a / at the end all that
// is below; but "/" alone is only the first page. A path without a / at its beginning,
// a pattern that is malformed, and one that another one conflicts with panic: they are
// mistakes in the program, and the text says in which lines.
func (g *Group) Get(path string, h Handler, m ...Middleware) { g.add("GET", path, h, m) }

// Post adds a route for POST; see Get.
func (g *Group) Post(path string, h Handler, m ...Middleware) { g.add("POST", path, h, m) }

// Put adds a route for PUT; see Get.
func (g *Group) Put(path string, h Handler, m ...Middleware) { g.add("PUT", path, h, m) }

// Patch adds a route for PATCH; see Get.
func (g *Group) Patch(path string, h Handler, m ...Middleware) { g.add("PATCH", path, h, m) }

// Delete adds a route for DELETE; see Get.
func (g *Group) Delete(path string, h Handler, m ...Middleware) { g.add("DELETE", path, h, m) }

func (g *Group) add(method, path string, h Handler, m []Middleware) {
	if path == "/" && g.prefix == "" {
		path = "/{$}"
	} else if path == "/" {
		path = "" // the group's own address
	}
	if g.prefix == "" {
		mustBeginWithSlash("the path", path)
	}
	g.Handle(method+" "+path, h, m...)
}

// Handle adds any handler for a pattern "[METHOD ]PATH" of http.ServeMux, whose path
// "/" is everything that no other route has.
func (g *Group) Handle(pattern string, h http.Handler, m ...Middleware) {
	method, path, found := strings.Cut(pattern, " ")
	if !found {
		method, path = "", pattern
	}
	path = strings.TrimLeft(path, " \t")
	if g.prefix != "" && path != "" || !strings.Contains(g.prefix+path, "/") { // HOST/PATH is for the top
		mustBeginWithSlash("the path", path)
	}
	path = g.prefix + path
	if found {
		pattern = method + " " + path
	} else {
		pattern = path
	}
	g.app.register(g.route(pattern, h, m))
}

// route returns a route within the group's middleware and m.
func (g *Group) route(pattern string, h http.Handler, m []Middleware) *route {
	_, ours := h.(Handler)
	return &route{pattern: pattern, at: caller(), session: ours, next: chain(guarded{h}, append(g.ware[:len(g.ware):len(g.ware)], m...)...)}
}

// route is one pattern with what is behind it.
type route struct {
	pattern string
	at      string // where it was added: file and line
	session bool   // the session is loaded before next runs
	local   bool   // every node answers it: it does not depend on the data
	literal bool   // see HandleLiteral: what the path names is no secret
	next    http.Handler
	metrics routeMetrics
}

// ServeHTTP implements http.Handler. The ServeMux calls it with dispatch's writer.
func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := w.(*missing)
	rt.serve(m.x, m.ResponseWriter, r)
}

func (rt *route) serve(x *exchange, w http.ResponseWriter, r *http.Request) {
	x.route = rt
	if err := x.before(r); err != nil {
		x.fail(w, r, err)
		return
	}
	rt.next.ServeHTTP(w, r)
}

// dispatch lets the ServeMux choose the route, and says in our own words if there
// is none.
func (a *App) dispatch(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	if x.foreign {
		x.fail(w, r, errCrossOrigin)
		return
	}
	if rt, allowed := a.literal(r); rt != nil {
		if allowed == "" {
			rt.serve(x, w, r)
			return
		}
		x.route = rt
		x.otherMethod(w, r, allowed)
		return
	}
	x.miss = missing{ResponseWriter: w, x: x, r: r}
	if a.o.Programs {
		x.miss.status = http.StatusNotFound
	} else {
		a.mux.ServeHTTP(&x.miss, r)
	}
	switch {
	case x.route != nil || x.miss.status < 400:
	case x.miss.status == http.StatusNotFound && a.o.NotFound != nil:
		a.o.NotFound.ServeHTTP(w, r)
	case x.miss.status == http.StatusNotFound:
		x.fail(w, r, engine.Errorf(problem.CodeNoRoute, "there is nothing at this address"))
	case x.miss.status == http.StatusMethodNotAllowed:
		w.Header().Del("Content-Type")
		allowed := w.Header().Get("Allow")
		if !strings.Contains(allowed, http.MethodOptions) {
			allowed += ", " + http.MethodOptions
		}
		x.otherMethod(w, r, allowed)
	default:
		x.fail(w, r, engine.Errorf(engine.CodeInvalid, "the request's address is malformed"))
	}
}

// otherMethod answers OPTIONS with the methods that are allowed, and refuses the rest.
func (x *exchange) otherMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	if err := From(w, r).OtherMethod(allowed); err != nil {
		x.fail(w, r, err)
	}
}

// OtherMethod is for handlers of several methods. It answers OPTIONS with those that are
// allowed ("GET, HEAD, OPTIONS"), and returns problem.CodeMethodNotAllowed otherwise.
func (c *Context) OtherMethod(allowed string) error {
	c.Header()["Allow"] = []string{allowed}
	if c.Request.Method == http.MethodOptions {
		return c.NoContent()
	}
	return engine.Errorf(problem.CodeMethodNotAllowed, "%.32s is not allowed here, only %s", c.Request.Method, allowed)
}

// missing is the writer that the ServeMux gets. What writes to it is the ServeMux
// itself, as a route's handler gets the one beneath.
type missing struct {
	http.ResponseWriter
	x      *exchange
	r      *http.Request // as the ServeMux gets it
	status int           // of the ServeMux's own answer, 0: none; errors are held back
}

// WriteHeader implements http.ResponseWriter. Redirects to a cleaner path pass,
// without the page that says the same.
func (m *missing) WriteHeader(status int) {
	m.status = status
	if status >= 400 {
		return
	}
	h := m.Header()
	h.Del("Content-Type")
	if at := h.Get("Location"); strings.Contains(at, "%25") {
		// A path that it has cleaned, the ServeMux escapes though it is escaped already.
		// One with a slash added it does not: \ in that could lead to another host.
		to, query, asks := strings.Cut(at, "?")
		if once, err := url.PathUnescape(to); err == nil && once == cleanPath(m.r.URL.EscapedPath()) {
			if at = once; asks {
				at += "?" + query
			}
			h.Set("Location", at)
		}
	}
	m.ResponseWriter.WriteHeader(status)
}

// cleanPath is what the ServeMux makes of a path that begins with a slash.
func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// Write implements http.ResponseWriter: what the ServeMux says is left out.
func (m *missing) Write(p []byte) (int, error) { return len(p), nil }

// Unwrap is what http.ResponseController asks for.
func (m *missing) Unwrap() http.ResponseWriter { return m.ResponseWriter }
