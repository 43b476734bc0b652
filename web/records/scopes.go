package records

import (
	"net/http"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Scopes with which an API key may use a collection.
func readScope(collection string) string  { return "records:" + collection + ":read" }
func writeScope(collection string) string { return "records:" + collection + ":write" } // and read

// allowed reports whether scopes allow an operation.
func allowed(allows func(scope string) bool, collection string, op record.Operation) bool {
	switch op {
	case record.List, record.View, record.History, record.Subscribe:
		return allows(readScope(collection)) || allows(writeScope(collection))
	}
	return allows(writeScope(collection))
}

// actor returns who sends a request, limited to the scopes of its API key if it has one.
func (f *Face) actor(c *web.Context) (record.Actor, error) {
	a, err := f.o.Actor(c)
	if allows := c.Limit(); allows != nil {
		a.Limit = func(collection string, op record.Operation) bool { return allowed(allows, collection, op) }
	}
	return a, err
}

// within returns an error that names the scope that the API key of a request lacks for an operation. The limit of the
// actor also refuses what a request reaches in other ways, such as by references.
func within(c *web.Context, collection string, op record.Operation) error {
	allows := c.Limit()
	if allows == nil || allowed(allows, collection, op) {
		return nil
	}
	scope := writeScope(collection)
	if op == record.List || op == record.Subscribe {
		scope = readScope(collection)
	}
	c.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
	return engine.Errorf(problem.CodeForbidden, "the API key lacks the scope %.80s", scope)
}

// serve handles a request if its API key, if it has one, allows that for the collection of the path.
func (r *route) serve(f *Face, c *web.Context) error {
	if collection := name(c); collection != "" {
		op := record.Update
		if r.method == http.MethodGet {
			op = record.List
		}
		if err := within(c, collection, op); err != nil {
			return err
		}
	}
	return r.handle(f, c)
}
