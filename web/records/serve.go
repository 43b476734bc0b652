package records

import (
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Serve handles all requests below the prefix, for servers that match paths literally.
func (f *Face) Serve(c *web.Context) error {
	path, ok := strings.CutPrefix(c.Request.URL.Path, f.o.Prefix)
	method := c.Request.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allowed []string
	for _, r := range routes() {
		values, matches := match(r.path, path)
		if !ok || !matches {
			continue
		}
		if r.method != method {
			allowed = append(allowed, r.method)
			continue
		}
		for name, value := range values {
			c.Request.SetPathValue(name, value)
		}
		return explain(r.serve(f, c))
	}
	if allowed == nil {
		return engine.Errorf(problem.CodeNoRoute, "there is nothing here")
	}
	return c.OtherMethod(strings.Join(append(allowed, http.MethodOptions), ", "))
}

// match returns the path segments named in a pattern, and whether the path matches.
func match(pattern, path string) (map[string]string, bool) {
	names, parts := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(names) != len(parts) {
		return nil, false
	}
	values := map[string]string{}
	for i, n := range names {
		if name, ok := strings.CutPrefix(n, "{"); ok && parts[i] != "" {
			values[strings.TrimSuffix(name, "}")] = parts[i]
		} else if n != parts[i] {
			return nil, false
		}
	}
	return values, true
}

// Operator is an Options.Actor for operators, who may do everything.
func Operator(c *web.Context) (record.Actor, error) {
	return record.Actor{System: true, Request: c.RequestID()}, nil
}

// Line describes a route in a list.
type Line struct{ Method, Path, Text string }

// Table returns a line for each route.
func (f *Face) Table() []Line {
	var all []Line
	for _, r := range routes() {
		all = append(all, Line{r.method, f.o.Prefix + r.path, r.text})
	}
	return all
}
