package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// literal is a route whose path is matched as the client sent it.
type literal struct {
	*route
	methods []string // nil: all
	path    string   // its fixed part
	whole   bool     // there is nothing behind the fixed part
}

// HandleLiteral adds a handler for methods ("GET, HEAD"; "" is all) and a path that is
// matched byte for byte: http.ServeMux would redirect a//b and a/../b to a cleaner path,
// which is another key of a store. A path that ends with {name} is everything that begins
// with what precedes it. Routes of whole paths come first, then the others in the order in
// which they were added, and then those of Handle.
func (g *Group) HandleLiteral(methods, path string, h http.Handler, m ...Middleware) {
	mustBeginWithSlash("the path", path)
	pattern := g.prefix + path
	fixed, _, open := strings.Cut(pattern, "{")
	l := literal{route: g.route(pattern, h, m), path: fixed, whole: !open}
	l.literal = true
	if methods != "" {
		l.methods = strings.Split(methods, ", ")
	}
	at := len(g.app.literals)
	if l.whole {
		at = slices.IndexFunc(append(g.app.literals, literal{}), func(l literal) bool { return !l.whole })
	}
	g.app.routes, g.app.literals = append(g.app.routes, l.route), slices.Insert(g.app.literals, at, l)
}

// literal returns the literal route of r, nil if there is none. If there is one for
// other methods only, allowed has those.
func (a *App) literal(r *http.Request) (rt *route, allowed string) {
	var first *literal
	for i := range a.literals {
		l := &a.literals[i]
		if !l.matches(r.URL) {
			continue
		}
		if l.allows(r.Method) {
			return l.route, ""
		}
		if first == nil {
			first = l
		}
	}
	if first == nil {
		return nil, ""
	}
	for _, l := range a.literals {
		if l.pattern == first.pattern {
			allowed += strings.Join(l.methods, ", ") + ", "
		}
	}
	return first.route, allowed + http.MethodOptions
}

// allows reports whether a method is one of l's.
func (l *literal) allows(method string) bool {
	return l.methods == nil || slices.Contains(l.methods, method)
}

// matches reports whether a path is l's. Its fixed part must not be escaped: what filters
// by path in front of this server might not see it.
func (l *literal) matches(u *url.URL) bool {
	if l.whole {
		return u.Path == l.path && u.RawPath == ""
	}
	return strings.HasPrefix(u.Path, l.path) && (u.RawPath == "" || strings.HasPrefix(u.RawPath, l.path))
}
