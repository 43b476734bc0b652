// Package records serves the records of package record over HTTP: as JSON for programs and for pages in browsers, as
// CSV and JSON lines for imports and exports, and as event streams.
//
// Mount adds the routes to a web application. Requests act on behalf of the logged-in user, under the rules of the
// collections. A *Face is safe for concurrent use. Errors are problem documents with the codes of record, engine and
// web/problem.
//
// It knows routes, conditions, forms of requests and responses, and who is logged in. It must not know where records
// are stored, or what rules mean. docs/records.md is the guide.
package records

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

// DefaultPrefix is the default of Options.Prefix.
const DefaultPrefix = "/api"

// Limits of requests.
const (
	// MaxBody is the longest body of a request, in bytes; more is problem.CodeBodyTooLarge.
	MaxBody = 16 << 20
	// MaxImport is how many records one import has at most; more is engine.CodeLimit.
	MaxImport = 10_000
	// MaxResultBytes bounds the results of one transaction; more is engine.CodeLimit, and nothing is written.
	MaxResultBytes = 32 << 20
	// MaxExport is how many collections one export has at most; more is engine.CodeLimit.
	MaxExport = 100
)

// Options are the options of Mount and New. The zero value works.
type Options struct {
	// Prefix is the path of the collections; "" means DefaultPrefix.
	Prefix string

	// Middleware wraps the handlers, for example to limit rates.
	Middleware []web.Middleware

	// RememberFor is how long the response to a write with an Idempotency-Key is kept; 0 means DefaultRememberFor.
	RememberFor time.Duration

	// CheckEvery is how often an event stream checks whether its user still has the same identity and roles. If not,
	// the stream ends, and the client reconnects. Independently, a stream ends with its session, token or API key,
	// after at most web.StreamCheck. 0 means DefaultCheckEvery.
	CheckEvery time.Duration

	// Actor returns the actor of a request. If nil, it is the logged-in user, or a stranger. Superadmins are not
	// subject to rules.
	Actor func(c *web.Context) (record.Actor, error)
}

// Face serves the records of one DB.
type Face struct {
	db    *record.DB
	o     Options
	turns turns

	openAPI, page documents
}

// New returns a Face whose routes are not mounted in an application.
func New(db *record.DB, o Options) *Face {
	o.Prefix = strings.TrimSuffix(cmp.Or(o.Prefix, DefaultPrefix), "/")
	o.RememberFor = cmp.Or(o.RememberFor, DefaultRememberFor)
	o.CheckEvery = cmp.Or(o.CheckEvery, DefaultCheckEvery)
	if o.Actor == nil {
		o.Actor = Actor
	}
	return &Face{db: db, o: o, turns: newTurns(db.Views())}
}

// Mount adds the routes of db's records to an application. With them come /openapi.json and, at the
// prefix, a page about the API. Whether a client may do something is decided by the rules of
// the collection; routes that exist do not mean that it may. An API key needs a scope as well: records:NAME:read or
// records:NAME:write, which includes reading, of each collection; or records:NAME:*, or records:* for all.
func Mount(app *web.App, db *record.DB, o Options) *Face {
	f := New(db, o)
	app.AddErrors(record.Catalog())
	g := app.Group(f.o.Prefix, append([]web.Middleware{web.OwnScopes, web.BodyLimit(MaxBody)}, f.o.Middleware...)...)
	for _, r := range routes() {
		h := func(c *web.Context) error { return explain(r.serve(f, c)) }
		g.Handle(r.method+" "+r.path, web.Handler(h))
	}
	app.Get("/openapi.json", f.OpenAPI, f.o.Middleware...)
	app.Group(f.o.Prefix, f.o.Middleware...).Get("/", f.Page)
	return f
}

// Actor returns the actor of a request: the logged-in user, or a stranger.
func Actor(c *web.Context) (record.Actor, error) {
	a := record.Actor{Request: c.RequestID()}
	if !c.LoggedIn() {
		return a, nil
	}
	u, err := c.User()
	switch {
	case engine.CodeOf(err) == engine.CodeUnauthenticated:
		return a, nil // the session of a user who no longer exists
	case err != nil:
		return a, err
	}
	a.ID, a.Email, a.Name, a.Roles, a.Verified = u.ID, u.Email, u.Name, u.Roles, u.Verified
	a.System = c.IsSuperadmin()
	return a, nil
}

// view runs fn in a read-only transaction on behalf of the client.
func (f *Face) view(c *web.Context, fn func(tx *record.Tx) error) error {
	a, err := f.actor(c)
	if err != nil {
		return err
	}
	_, err = f.db.View(c, engine.Read{}, a, fn)
	return err
}

// respond sends JSON.
func respond(c *web.Context, status int, body []byte) error {
	h := c.Header()
	h["Content-Type"] = []string{"application/json"}
	if h["Cache-Control"] == nil {
		h["Cache-Control"] = []string{"no-cache"}
	}
	c.Writer.WriteHeader(status)
	if c.Request.Method != http.MethodHead {
		_, _ = c.Writer.Write(append(body, '\n')) // an error means that the client is gone
	}
	return nil
}
