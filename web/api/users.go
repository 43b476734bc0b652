package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Users of the application, for operators: on AdminHandler only.

// MaxUserBytes bounds the body of a request that creates or changes a user.
const MaxUserBytes = 16 << 10

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
	Password bool      `json:"password"` // whether there is one
}

func userOf(u auth.User) User {
	return User{u.ID, u.Email, u.Name, append([]string{}, u.Roles...), u.Created, u.VerifiedAt, u.Disabled, u.TOTP, u.Password}
}

// UserPage is the response to GET /users.
type UserPage struct {
	Users []User `json:"users"`
	Next  string `json:"next,omitempty"` // path and query of the next page; empty on the last one
}

// newUser is the body of POST /users.
type newUser struct {
	Email    string   `json:"email"`
	Password string   `json:"password"`
	Name     string   `json:"name"`
	Roles    []string `json:"roles"`
}

// userChange is the body of PATCH /users/{id}; omitted fields stay as they are.
type userChange struct {
	Roles    *[]string `json:"roles"`
	Disabled *bool     `json:"disabled"`
}

// onUsers returns a handler for the users of the application, if there are any.
func (a *app) onUsers(h func(x *operation, r *http.Request) error) web.Handler {
	return a.operation(func(x *operation, r *http.Request) error {
		if p := r.URL.Path; r.URL.RawPath != "" || p != path.Clean(p) || strings.Contains(userID(r), "/") && p != usersPath {
			return a.noRoute(x.c)
		}
		if a.o.Users == nil {
			return engine.Errorf(engine.CodeUnsupported, "this program has no users that an operator can manage; its application sets Services.Users")
		}
		return h(x, r)
	})
}

// userID returns the id in the path.
func userID(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, usersPath+"/") }

func (x *operation) listUsers(r *http.Request) error {
	q, err := query(r, "email", "after", "limit")
	if err != nil {
		return err
	}
	if q.Has("email") {
		u, err := x.app.o.Users.Find(r.Context(), engine.Read{}, q.Get("email"))
		if err != nil {
			return err
		}
		return sendJSON(x.c, http.StatusOK, UserPage{Users: []User{userOf(u)}})
	}
	o := auth.ListOptions{After: q.Get("after"), Limit: DefaultPage}
	if q.Has("limit") {
		if o.Limit, err = strconv.Atoi(q.Get("limit")); err != nil || o.Limit < 1 || o.Limit > auth.MaxPage {
			return badParameter("limit", engine.CodeInvalid, "must be a whole number from 1 to "+strconv.Itoa(auth.MaxPage))
		}
	}
	page, err := x.app.o.Users.List(r.Context(), engine.Read{}, o)
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
	return sendJSON(x.c, http.StatusOK, answer)
}

func (x *operation) getUser(r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	u, err := x.app.o.Users.Get(r.Context(), engine.Read{}, userID(r))
	if err != nil {
		return err
	}
	return sendJSON(x.c, http.StatusOK, userOf(u))
}

func (x *operation) addUser(r *http.Request) error { return x.writeUser(r, x.app.createUser) }

func (x *operation) patchUser(r *http.Request) error { return x.writeUser(r, x.app.changeUser) }

// writeUser reads the body, runs write on the leader, and responds with the user.
func (x *operation) writeUser(r *http.Request, write func(x *operation, r *http.Request) (auth.User, error)) error {
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
	return x.here(r, func(x *operation, r *http.Request) error {
		if x.othersLead() {
			return engine.ErrNotLeader
		}
		u, err := write(x, r)
		if err != nil {
			return err
		}
		x.app.o.Logger.Info("an operator wrote a user", "user", u.ID, "email", u.Email, "method", r.Method, "roles", u.Roles, "disabled", u.Disabled, "from", x.c.ClientIP())
		status := http.StatusOK
		if r.Method == http.MethodPost {
			status = http.StatusCreated
		}
		return sendJSON(x.c, status, userOf(u))
	})
}

// createUser creates a user with a verified address: the operator vouches for it.
func (a *app) createUser(x *operation, r *http.Request) (auth.User, error) {
	var n newUser
	if err := strictJSON(x.val, &n); err != nil {
		return auth.User{}, err
	}
	return a.o.Users.Add(r.Context(), auth.NewUser{Email: n.Email, Password: n.Password, Name: n.Name, Roles: n.Roles, Verified: true})
}

// changeUser applies a userChange, each field in its own transaction.
func (a *app) changeUser(x *operation, r *http.Request) (u auth.User, err error) {
	var c userChange
	if err := strictJSON(x.val, &c); err != nil {
		return u, err
	}
	if (c.Roles == nil) == (c.Disabled == nil) {
		return u, engine.Errorf(engine.CodeInvalid, "expected either roles or disabled")
	}
	id := userID(r)
	if c.Roles != nil {
		return a.o.Users.SetRoles(r.Context(), id, *c.Roles)
	}
	return a.o.Users.Disable(r.Context(), id, *c.Disabled)
}

// strictJSON reads one JSON object with no members but those of v.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more after the object")
		}
	}
	if err != nil {
		return engine.Errorf(engine.CodeInvalid, "the body is malformed: %w", err)
	}
	return nil
}
