package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// Users of the application, for operators: on AdminHandler only.

// MaxUserBytes bounds the body of a request that creates or changes a user.
const MaxUserBytes = 16 << 10

const (
	usersPath = "/users"
	userPath  = "/users/{id}"
)

// User is a user of the application as operators see it.
type User struct {
	ID       string    `json:"id"`
	Email    string    `json:"email"`
	Name     string    `json:"name,omitempty"`
	Roles    []string  `json:"roles"`
	Created  time.Time `json:"created"`
	Verified time.Time `json:"verified_at,omitzero"`
	Disabled bool      `json:"disabled"`
	TOTP     bool      `json:"totp"`
	Password bool      `json:"password"` // there is one
}

func userOf(u auth.User) User {
	return User{u.ID, u.Email, u.Name, append([]string{}, u.Roles...), u.Created, u.VerifiedAt, u.Disabled, u.TOTP, u.Password}
}

// UserPage is the answer to GET /users.
type UserPage struct {
	Users []User `json:"users"`
	Next  string `json:"next,omitempty"` // path and query of the next page; empty: this is the last
}

// newUser is the body of POST /users.
type newUser struct {
	Email    string   `json:"email"`
	Password string   `json:"password"`
	Name     string   `json:"name"`
	Roles    []string `json:"roles"`
}

// userChange is the body of PATCH /users/{id}; what is left out stays.
type userChange struct {
	Roles    *[]string `json:"roles"`
	Disabled *bool     `json:"disabled"`
}

// users adds the routes for operators.
func (a *app) users() {
	list, one := a.metrics.route(usersPath), a.metrics.route(userPath)
	a.ops.Handle(usersPath, a.forOperators(list, func(x *exchange, r *http.Request) error {
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			return a.listUsers(x, r)
		case http.MethodPost:
			return a.writeUser(x, r, a.createUser)
		}
		return x.otherMethod(r, "GET, HEAD, POST, OPTIONS")
	}))
	a.ops.Handle(userPath, a.forOperators(one, func(x *exchange, r *http.Request) error {
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			return a.getUser(x, r)
		case http.MethodPatch:
			return a.writeUser(x, r, a.changeUser)
		}
		return x.otherMethod(r, "GET, HEAD, PATCH, OPTIONS")
	}))
}

// forOperators hides a route from everybody else. Another node that passes a request on has
// checked who asks.
func (a *app) forOperators(route *route, h handler) http.Handler {
	return handler(func(x *exchange, r *http.Request) error {
		if !x.operator && !x.fromNode {
			return a.noRoute()
		}
		x.route = route
		if a.o.Users == nil {
			return engine.Errorf(engine.CodeUnsupported, "this program has no users that an operator can manage; its application sets Services.Users")
		}
		return h(x, r)
	})
}

func (a *app) listUsers(x *exchange, r *http.Request) error {
	q, err := query(r, "email", "after", "limit")
	if err != nil {
		return err
	}
	if q.Has("email") {
		u, err := a.o.Users.Find(r.Context(), engine.Read{}, q.Get("email"))
		if err != nil {
			return err
		}
		return x.json(http.StatusOK, UserPage{Users: []User{userOf(u)}})
	}
	o := auth.ListOptions{After: q.Get("after"), Limit: DefaultPage}
	if q.Has("limit") {
		if o.Limit, err = strconv.Atoi(q.Get("limit")); err != nil || o.Limit < 1 || o.Limit > auth.MaxPage {
			return badParameter("limit", engine.CodeInvalid, "must be a whole number from 1 to "+strconv.Itoa(auth.MaxPage))
		}
	}
	page, err := a.o.Users.List(r.Context(), engine.Read{}, o)
	if err != nil {
		return err
	}
	answer := UserPage{Users: []User{}}
	for _, u := range page.Users {
		answer.Users = append(answer.Users, userOf(u))
	}
	if page.More {
		q := r.URL.Query()
		q.Set("after", page.Users[len(page.Users)-1].ID)
		answer.Next = usersPath + "?" + q.Encode()
	}
	return x.json(http.StatusOK, answer)
}

func (a *app) getUser(x *exchange, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	u, err := a.o.Users.Get(r.Context(), engine.Read{}, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, userOf(u))
}

// writeUser reads the body, has write carry it out where the leader is, and answers with
// the user.
func (a *app) writeUser(x *exchange, r *http.Request, write func(x *exchange, r *http.Request) (auth.User, error)) error {
	if _, err := query(r); err != nil {
		return err
	}
	if err := jsonOnly(r.Header); err != nil {
		return err
	}
	if err := x.readBody(r, bodyLimit{MaxUserBytes, problem.CodeBodyTooLarge, "the user is"}); err != nil {
		return err
	}
	x.gathered = true
	here := func() error {
		if x.othersLead() {
			return engine.ErrNotLeader
		}
		u, err := write(x, r)
		if err != nil {
			return err
		}
		a.o.Logger.Info("an operator wrote a user", "user", u.ID, "email", u.Email, "method", r.Method, "roles", u.Roles, "disabled", u.Disabled, "from", x.client(r))
		status := http.StatusOK
		if r.Method == http.MethodPost {
			status = http.StatusCreated
		}
		return x.json(status, userOf(u))
	}
	err := here()
	if a.forward == nil || x.fromNode {
		return err
	}
	return x.atLeader(r, err, here)
}

// createUser creates a user with a verified address: the operator vouches for it.
func (a *app) createUser(x *exchange, r *http.Request) (auth.User, error) {
	var n newUser
	if err := strictJSON(x.val, &n); err != nil {
		return auth.User{}, err
	}
	return a.o.Users.Add(r.Context(), auth.NewUser{Email: n.Email, Password: n.Password, Name: n.Name, Roles: n.Roles, Verified: true})
}

// changeUser carries out what a userChange says, one transaction each.
func (a *app) changeUser(x *exchange, r *http.Request) (u auth.User, err error) {
	var c userChange
	if err := strictJSON(x.val, &c); err != nil {
		return u, err
	}
	if (c.Roles == nil) == (c.Disabled == nil) {
		return u, engine.Errorf(engine.CodeInvalid, "expected either roles or disabled")
	}
	id := r.PathValue("id")
	if c.Roles != nil {
		return a.o.Users.SetRoles(r.Context(), id, *c.Roles)
	}
	return a.o.Users.Disable(r.Context(), id, *c.Disabled)
}

// strictJSON reads one JSON object, with no members but those of v.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		return engine.Errorf(engine.CodeInvalid, "the body is malformed: %w", err)
	}
	return nil
}
