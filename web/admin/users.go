package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

const usersPage = 100 // users of one page

func (a *Admin) addUsers(g *web.Group) {
	g.Get("/users", a.usersPage)
	g.Post("/users", a.createUser, superadmin)
	g.Get("/users/{id}", a.userPage)
	for verb, do := range map[string]userAction{
		"roles": a.setUserRoles, "name": a.setUserName, "password": a.setUserPassword, "disable": a.disableUser, "enable": a.enableUser,
		"logout": a.logOutUser, "factor": a.removeUserFactor, "session": a.endUserSession, "device": a.endUserDevice, "key": a.revokeUserKey,
	} {
		g.Post("/users/{id}/"+verb, a.toUser(do), superadmin)
	}
}

func (a *Admin) usersPage(c *web.Context) error {
	return a.showUsers(c, http.StatusOK, web.Locals{})
}

// showUsers shows a page of the users, or the one that was searched for, with the form, which keeps what more has of it.
func (a *Admin) showUsers(c *web.Context, status int, more web.Locals) error {
	search := strings.TrimSpace(c.Query("q").String())
	all := web.Locals{"title": a.text("Users"), "users": []auth.User(nil), "next": "", "q": search, "problem": "", "email": "", "name": "", "roles": ""}
	if search != "" {
		u, err := a.findUser(c, search)
		switch {
		case err == nil:
			all["users"] = []auth.User{u}
		case engine.CodeOf(err) != engine.CodeNotFound && engine.CodeOf(err) != engine.CodeInvalid:
			return err
		}
	} else {
		page, err := a.o.Users.List(c, engine.Read{Level: engine.Local}, auth.ListOptions{After: c.Query("after").String(), Limit: usersPage})
		if err != nil {
			return err
		}
		all["users"] = page.Users
		if page.More {
			all["next"] = page.Users[len(page.Users)-1].ID
		}
	}
	for name, v := range more {
		all[name] = v
	}
	return a.show(c, status, "users", all)
}

// findUser finds a user by email address or id.
func (a *Admin) findUser(c *web.Context, search string) (auth.User, error) {
	if strings.Contains(search, "@") {
		return a.o.Users.Find(c, engine.Read{Level: engine.Local}, search)
	}
	return a.o.Users.Get(c, engine.Read{Level: engine.Local}, search)
}

// roleWords splits roles, which have no spaces or commas.
func roleWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

func (a *Admin) createUser(c *web.Context) error {
	n := auth.NewUser{Email: c.Form("email").String(), Name: c.Form("name").String(), Roles: roleWords(c.Form("roles").String()), Password: c.Form("password").String(), Verified: true}
	var made auth.User
	err := a.act(c, "user.create", n.Email, joinRoles(n.Roles), func() (err error) {
		made, err = a.o.Users.Add(c, n)
		return err
	})
	if status, ok := refusedInput(err); ok {
		return a.showUsers(c, status, web.Locals{"problem": c.Detail(err), "email": n.Email, "name": n.Name, "roles": c.Form("roles").String()})
	}
	if err != nil {
		return err
	}
	return a.done(c, userPath(made), "created")
}

func userPath(u auth.User) string { return "/users/" + url.PathEscape(u.ID) }

func (a *Admin) userPage(c *web.Context) error {
	u, err := a.o.Users.Get(c, engine.Read{Level: engine.Local}, c.Path("id").String())
	if err != nil {
		return err
	}
	return a.showUser(c, http.StatusOK, u, web.Locals{})
}

// showUser shows a user with all that package auth knows, but no secrets.
func (a *Admin) showUser(c *web.Context, status int, u auth.User, more web.Locals) error {
	local := engine.Read{Level: engine.Local}
	keys, err := a.o.Users.ListKeys(c, local, u.ID)
	if err != nil {
		return err
	}
	devices, err := a.o.Users.ListDevices(c, local, u.ID)
	if err != nil {
		return err
	}
	identities, err := a.o.Users.Identities(c, local, u.ID)
	if err != nil {
		return err
	}
	var sessions []session.Info
	missing := ""
	if a.o.Sessions != nil {
		if sessions, err = a.o.Sessions.List(c, u.ID); err != nil { // it needs the leader
			missing = c.Detail(err)
		}
	}
	title := u.Email
	if title == "" {
		title = u.ID
	}
	all := web.Locals{"title": title, "user": u, "roles": joinRoles(u.Roles), "name": u.Name, "user_keys": keys, "devices": devices, "identities": identities, "sessions": sessions, "missing": missing, "problem": ""}
	for name, v := range more {
		all[name] = v
	}
	return a.show(c, status, "user", all)
}

// userAction changes a user and returns the name of the notice.
type userAction func(*web.Context, auth.User) (notice string, err error)

// toUser finds the user of a path. What do refuses is shown on their page, with what was typed.
func (a *Admin) toUser(do userAction) web.Handler {
	return func(c *web.Context) error {
		u, err := a.o.Users.Get(c, engine.Read{}, c.Path("id").String())
		if err != nil {
			return err
		}
		notice, err := do(c, u)
		if status, ok := refusedInput(err); ok {
			typed := web.Locals{"problem": c.Detail(err)}
			for _, name := range []string{"roles", "name"} {
				if c.Form(name).Given() {
					typed[name] = c.Form(name).String()
				}
			}
			return a.showUser(c, status, u, typed)
		}
		if err != nil {
			return err
		}
		return a.done(c, userPath(u), notice)
	}
}

// subjectOf returns how the log of actions names a user.
func subjectOf(u auth.User) string {
	if u.Email == "" {
		return u.ID
	}
	return u.Email
}

func (a *Admin) setUserRoles(c *web.Context, u auth.User) (string, error) {
	roles := roleWords(c.Form("roles").String())
	was := joinRoles(u.Roles)
	return "saved", a.act(c, "user.roles", subjectOf(u), was+" → "+joinRoles(roles), func() error {
		_, err := a.o.Users.SetRoles(c, u.ID, roles)
		return err
	})
}

func (a *Admin) setUserName(c *web.Context, u auth.User) (string, error) {
	name := c.Form("name").String()
	return "saved", a.act(c, "user.name", subjectOf(u), name, func() error {
		_, err := a.o.Users.SetName(c, u.ID, name)
		return err
	})
}

func (a *Admin) setUserPassword(c *web.Context, u auth.User) (string, error) {
	return "saved", a.act(c, "user.password", subjectOf(u), "", func() error {
		_, err := a.o.Users.SetPassword(c, u.ID, c.Form("password").String())
		return err
	})
}

func (a *Admin) disableUser(c *web.Context, u auth.User) (string, error) {
	return "disabled", a.act(c, "user.disable", subjectOf(u), "", func() error {
		_, err := a.o.Users.Disable(c, u.ID, true)
		if err == nil {
			err = a.endSessions(c, u)
		}
		return err
	})
}

func (a *Admin) enableUser(c *web.Context, u auth.User) (string, error) {
	return "enabled", a.act(c, "user.enable", subjectOf(u), "", func() error {
		_, err := a.o.Users.Disable(c, u.ID, false)
		return err
	})
}

// endSessions ends the sessions of a user, which auth does itself only if the application has told it of them.
func (a *Admin) endSessions(c *web.Context, u auth.User) error {
	if a.o.Sessions == nil {
		return nil
	}
	_, _, err := a.o.Sessions.RevokeAll(c, u.ID)
	return err
}

func (a *Admin) logOutUser(c *web.Context, u auth.User) (string, error) {
	return "loggedout", a.act(c, "user.logout", subjectOf(u), "", func() error {
		_, err := a.o.Users.RevokeDevices(c, u.ID)
		if err == nil {
			err = a.endSessions(c, u)
		}
		return err
	})
}

func (a *Admin) removeUserFactor(c *web.Context, u auth.User) (string, error) {
	return "done", a.act(c, "user.factor", subjectOf(u), "", func() error { return a.o.Users.RemoveTOTP(c, u.ID) })
}

// ended turns the error about something that has ended already into none: a page can be old.
func ended(err error) error {
	if slices.Contains([]engine.Code{engine.CodeNotFound, session.CodeNoSession}, engine.CodeOf(err)) {
		return nil
	}
	return err
}

func (a *Admin) endUserSession(c *web.Context, u auth.User) (string, error) {
	handle := c.Form("id").String()
	return "done", a.act(c, "user.session", subjectOf(u), handle, func() error {
		if a.o.Sessions == nil {
			return nil
		}
		_, err := a.o.Sessions.Revoke(c, u.ID, handle)
		return ended(err)
	})
}

func (a *Admin) endUserDevice(c *web.Context, u auth.User) (string, error) {
	id := c.Form("id").String()
	return "done", a.act(c, "user.device", subjectOf(u), id, func() error { return ended(a.o.Users.RevokeDevice(c, u.ID, id)) })
}

func (a *Admin) revokeUserKey(c *web.Context, u auth.User) (string, error) {
	id := c.Form("id").String()
	return "done", a.act(c, "user.key", subjectOf(u), id, func() error { return ended(a.o.Users.RevokeKey(c, u.ID, id)) })
}
