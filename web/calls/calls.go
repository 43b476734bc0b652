// Package calls lets the users of a web application call procedures over HTTP, as far as the application allows it.
//
// Mount adds the routes. A Rule opens a procedure; all others are closed. Arguments are a JSON object, results any JSON;
// errors are problem documents.
//
// It knows requests, responses, and which procedures are open to whom. It must not know what procedures do or how they
// run. docs/procedures.md is the guide.
package calls

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/conditions"
	"github.com/skerrydb/skerry/web/problem"
)

// DefaultPrefix is the default of Options.Prefix.
const DefaultPrefix = "/api"

// Rule opens one procedure.
type Rule struct {
	// Allow returns nil if the client may call the procedure, and otherwise the error to respond with. It is required:
	// Anyone, LoggedIn, Role, or a function of the application.
	Allow func(c *web.Context) error

	// User is the name of a string argument that is set to the id of the logged-in user. Clients cannot set it, and
	// generated clients do not have it. If it is set, requests without a logged-in user are refused.
	User string
}

// Options are the options of Mount.
type Options struct {
	// Prefix is the path above call and procedures; "" means DefaultPrefix.
	Prefix string

	// Open has the rules of the procedures that can be called.
	Open map[string]Rule

	// Middleware wraps the handlers, for example to limit rates.
	Middleware []web.Middleware
}

// Anyone allows every request.
func Anyone(*web.Context) error { return nil }

// LoggedIn allows requests of a logged-in user, with a session or an access token.
func LoggedIn(c *web.Context) error {
	_, err := c.User()
	return err
}

// Role allows requests of users who have a role, and of superadmins.
func Role(role string) func(c *web.Context) error {
	return func(c *web.Context) error {
		u, err := c.User()
		if err == nil && !u.Has(role) && !c.IsSuperadmin() {
			err = engine.Errorf(problem.CodeForbidden, "this is only for users with the role %s", role)
		}
		return err
	}
}

// face serves the procedures of one set.
type face struct {
	set  *proc.Set
	open map[string]Rule
	list []byte // the response of GET procedures
}

// Mount adds POST /api/call/{name}, which calls a procedure with the JSON object in the body, and GET /api/procedures,
// from which `skerry gen ts` generates a client for the open procedures. A rule without Allow, or for an unknown
// procedure, is engine.CodeInvalid.
func Mount(app *web.App, set *proc.Set, o Options) error {
	f := &face{set: set, open: map[string]Rule{}}
	schemas := []proc.Schema{}
	for name, rule := range o.Open {
		s, err := set.Schema(name)
		if err == nil {
			s, err = rule.applied(s)
		}
		if err != nil {
			return engine.Errorf(engine.CodeInvalid, "calls: open procedure %s: %w", name, err)
		}
		f.open[name] = rule
		schemas = append(schemas, s)
	}
	slices.SortFunc(schemas, func(a, b proc.Schema) int { return strings.Compare(a.Name, b.Name) })
	var err error
	if f.list, err = json.Marshal(map[string]any{"procedures": schemas}); err != nil {
		return engine.Errorf(engine.CodeInternal, "calls: encode schemas: %w", err)
	}
	g := app.Group(strings.TrimSuffix(cmp.Or(o.Prefix, DefaultPrefix), "/"), o.Middleware...)
	g.Post("/call/{name}", f.call, web.BodyLimit(proc.MaxArgBytes))
	g.Get("/procedures", f.procedures)
	return nil
}

// applied returns the schema that clients see under the rule.
func (r Rule) applied(s proc.Schema) (proc.Schema, error) {
	if r.Allow == nil {
		return s, errors.New("the rule has no Allow")
	}
	if r.User == "" {
		return s, nil
	}
	i := slices.IndexFunc(s.Args, func(f proc.Field) bool { return f.Name == r.User && f.Type.Kind == proc.KindString })
	if i < 0 {
		return s, errors.New("it has no string argument " + r.User + ", which Rule.User names")
	}
	s.Args = slices.Delete(s.Args, i, i+1)
	return s, nil
}

func (f *face) procedures(c *web.Context) error {
	c.Header().Set("Content-Type", "application/json")
	c.Header().Set("Cache-Control", "no-cache")
	_, _ = c.Writer.Write(f.list) // an error means that the client is gone
	return nil
}

func (f *face) call(c *web.Context) error {
	name := c.Request.PathValue("name")
	rule, ok := f.open[name]
	if !ok {
		return engine.Errorf(engine.CodeUnknownProcedure, "no procedure %.*q can be called here", proc.MaxNameBytes, name)
	}
	if err := rule.Allow(c); err != nil {
		return err
	}
	body, err := rule.arguments(c)
	if err != nil {
		return err
	}
	call, err := f.set.Begin([]byte(name))
	if err != nil {
		return err
	}
	if err := prepare(c, call, body); err != nil {
		call.End()
		return err
	}
	out, err := do(c, call)
	if err != nil {
		return err
	}
	h := c.Header()
	if call.Replayed() {
		h.Set(conditions.ReplayedHeader, "true")
	}
	call.End()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(append(out, '\n')) // an error means that the client is gone
	return nil
}

// prepare sets the arguments and the idempotency key of a call. Each user has separate keys.
func prepare(c *web.Context, call *proc.Call, body []byte) error {
	if err := call.JSON(body); err != nil {
		return ofArguments(err)
	}
	given, err := conditions.Once(c.Request.Header)
	if err != nil || given == nil {
		return err
	}
	who := ""
	if u, err := c.User(); err == nil {
		who = u.ID
	}
	key := sha256.Sum256(append([]byte("calls\x00"+who+"\x00"), given...))
	return call.Once(key[:])
}

// do carries out a call and returns its result as JSON. After an error, do not reuse the call: the engine may still use
// it.
func do(ctx context.Context, call *proc.Call) (out []byte, err error) {
	_, err = call.Do(ctx, engine.Read{}, func(call *proc.Call) (err error) {
		out, err = call.AppendJSON(nil)
		return err
	})
	return out, err
}

// arguments returns the body of a request with the argument User set.
func (r Rule) arguments(c *web.Context) ([]byte, error) {
	body, err := c.ReadBody()
	if err != nil {
		return nil, err
	}
	body = bytes.TrimLeft(body, " \t\r\n")
	if kind, _, err := mime.ParseMediaType(c.Request.Header.Get("Content-Type")); len(body) > 0 && (err != nil || kind != "application/json") {
		return nil, engine.Errorf(problem.CodeMediaType, "the arguments must be JSON: send Content-Type: application/json")
	}
	if r.User == "" {
		return body, nil
	}
	u, err := c.User()
	if err != nil {
		return nil, err
	}
	user, err := json.Marshal(map[string]string{r.User: u.ID})
	if err != nil {
		return nil, engine.Errorf(engine.CodeInternal, "encode the user: %w", err)
	}
	rest, object := bytes.CutPrefix(body, []byte("{"))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	switch {
	case len(body) == 0:
		return user, nil
	case !object:
		return body, nil // is refused as no object
	case bytes.HasPrefix(rest, []byte("}")):
		return append(user[:len(user)-1], rest...), nil
	}
	return append(append(user[:len(user)-1], ','), rest...), nil // the same name again is refused as a duplicate
}

// ofArguments adds a JSON Pointer to an error about arguments.
func ofArguments(err error) error {
	bad, ok := errors.AsType[*proc.ArgumentError](err)
	if !ok || bad.Pointer == "" {
		return err
	}
	return problem.Faults{{Pointer: bad.Pointer, Code: bad.Err.Code, Detail: bad.Err.Msg}}
}
