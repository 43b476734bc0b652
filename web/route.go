package web

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Handler responds to a request or returns an error, which becomes the response in the form that the client
// understands. It is an http.Handler that works wherever an App runs it, however much middleware is in
// between.
type Handler func(c *Context) error

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	// The Context is not part of x, which is reused: the timer of a derived context may read it after h has returned.
	err := h(&Context{Request: r, Writer: w, x: x})
	if err != nil {
		x.fail(w, r, err)
	} else if x.app.o.Debug {
		x.unanswered(w, r)
	}
}

// Group is a set of routes with a common prefix and middleware.
type Group struct {
	app    *App
	prefix string
	ware   []Middleware
}

// Group returns a group whose patterns all begin with prefix ("/admin"), after the prefix of g, and whose
// handlers have m around them, inside the middleware of g. The middleware runs only for routes that match.
func (g *Group) Group(prefix string, m ...Middleware) *Group {
	if prefix != "" {
		mustBeginWithSlash("the prefix of a group", prefix)
	}
	return &Group{g.app, g.prefix + strings.TrimSuffix(prefix, "/"), append(g.ware[:len(g.ware):len(g.ware)], m...)}
}

// Get adds a route for GET and HEAD. The path is that of a pattern of http.ServeMux: {name} matches one
// segment, {name...} the rest, a trailing / everything below it; but "/" alone matches only the root page. Get
// panics if the path does not begin with /, or if the pattern is malformed or conflicts with another one.
// These are mistakes in the program; the message names the lines.
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
		path = "" // the address of the group itself
	}
	if g.prefix == "" {
		mustBeginWithSlash("the path", path)
	}
	g.Handle(method+" "+path, h, m...)
}

// Handle adds any handler for a pattern "[METHOD ]PATH" of http.ServeMux. The path "/" matches everything that
// no other route matches.
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

// route returns a route with the group's middleware and m.
func (g *Group) route(pattern string, h http.Handler, m []Middleware) *route {
	_, ours := h.(Handler)
	return &route{pattern: pattern, at: caller(), session: ours, next: chain(guarded{h}, append(g.ware[:len(g.ware):len(g.ware)], m...)...)}
}

// route is one pattern with its handler.
type route struct {
	pattern string
	at      string // where it was added: file and line
	session bool   // the session is loaded before next runs
	local   bool   // every node serves it: it does not depend on the data
	literal bool   // see HandleLiteral: the names in its path are not secret
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

// dispatch lets the ServeMux choose the route, and responds with a problem if there is none.
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

// otherMethod responds to OPTIONS with the allowed methods, and refuses other methods.
func (x *exchange) otherMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	if err := From(w, r).OtherMethod(allowed); err != nil {
		x.fail(w, r, err)
	}
}

// OtherMethod is for handlers of several methods. It responds to OPTIONS with the allowed ones ("GET, HEAD,
// OPTIONS"), and returns problem.CodeMethodNotAllowed otherwise.
func (c *Context) OtherMethod(allowed string) error {
	c.Header()["Allow"] = []string{allowed}
	if c.Request.Method == http.MethodOptions {
		return c.NoContent()
	}
	return engine.Errorf(problem.CodeMethodNotAllowed, "%.32s is not allowed here, only %s", c.Request.Method, allowed)
}

// missing is the writer that the ServeMux gets. Only the ServeMux itself writes to it, as a route's handler
// gets the one beneath.
type missing struct {
	http.ResponseWriter
	x      *exchange
	r      *http.Request // as passed to the ServeMux
	status int           // of the ServeMux's own response, 0: none; errors are not sent
}

// WriteHeader implements http.ResponseWriter. Redirects to a cleaned path are sent, without their body.
func (m *missing) WriteHeader(status int) {
	m.status = status
	if status >= 400 {
		return
	}
	h := m.Header()
	h.Del("Content-Type")
	if at := h.Get("Location"); strings.Contains(at, "%25") {
		// The ServeMux escapes a path that it has cleaned, though it is escaped already. It does not escape one
		// that it has added a slash to: \ in that could lead to another host.
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

// cleanPath returns what the ServeMux makes of a path that begins with a slash.
func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// Write implements http.ResponseWriter. It discards what the ServeMux writes.
func (m *missing) Write(p []byte) (int, error) { return len(p), nil }

// Unwrap implements the method that http.ResponseController looks for.
func (m *missing) Unwrap() http.ResponseWriter { return m.ResponseWriter }
