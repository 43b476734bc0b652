package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

const administratorsPage = 100 // administrators of one page

// operator stands for whoever uses the operator's port, which knows no persons.
const operator = "(operator)"

func (a *Admin) addAdministrators(g *web.Group) {
	g.Get("/administrators", a.administratorsPage)
	g.Post("/administrators", a.inviteAdministrator, superadmin)
	g.Post("/administrators/withdraw", a.withdraw, superadmin)
	g.Get("/administrators/{id}", a.administratorPage)
	for verb, do := range map[string]func(*web.Context, auth.User) error{
		"role": a.setAdministratorRole, "disable": a.disableAdministrator, "enable": a.enableAdministrator, "reset": a.resetAdministrator,
		"logout": a.logOutAdministrator, "revoke": a.revokeAdministrator, "delete": a.deleteAdministrator,
	} {
		g.Post("/administrators/{id}/"+verb, a.toAdministrator(do), superadmin)
	}
}

// administratorRow is an administrator in the list.
type administratorRow struct {
	auth.User
	Role string
	Me   bool
}

func rowOfAdministrator(c *web.Context, u auth.User) administratorRow {
	return administratorRow{u, joinRoles(u.Roles), u.ID == person(c).ID}
}

func (a *Admin) administratorsPage(c *web.Context) error {
	return a.showAdministrators(c, http.StatusOK, web.Locals{})
}

// showAdministrators shows the list with the form, which keeps what more has of it.
func (a *Admin) showAdministrators(c *web.Context, status int, more web.Locals) error {
	page, err := a.users.List(c, freshness(c), auth.ListOptions{After: c.Query("after").String(), Limit: administratorsPage})
	if err != nil {
		return err
	}
	rows := make([]administratorRow, 0, len(page.Users))
	for _, u := range page.Users {
		rows = append(rows, rowOfAdministrator(c, u))
	}
	all := web.Locals{"title": a.text("Administrators"), "rows": rows, "next": "", "problem": "", "email": "", "role": RoleViewer, "link": "", "link_for": "", "trouble": "", "most": maxInvitations}
	if all["invitations"], all["more_invitations"], err = a.invitations(c); err != nil {
		return err
	}
	if page.More {
		all["next"] = page.Users[len(page.Users)-1].ID
	}
	for name, v := range more {
		all[name] = v
	}
	return a.show(c, status, "administrators", all)
}

// refusedInput returns the status of the form whose input an action has refused; ok is false for all other errors.
func refusedInput(err error) (status int, ok bool) {
	switch engine.CodeOf(err) {
	case engine.CodeInvalid, engine.CodeLimit, auth.CodePasswordRefused:
		return http.StatusUnprocessableEntity, true
	case auth.CodeEmailTaken, engine.CodeConflict, engine.CodePreconditionFailed:
		return http.StatusConflict, true
	}
	return 0, false
}

// inviteAdministrator makes a link and shows it, once.
func (a *Admin) inviteAdministrator(c *web.Context) error {
	in := Invitation{Email: c.Form("email").String(), Role: c.Form("role").String(), By: person(c).ID}
	var path string
	err := a.act(c, "admin.invite", in.Email, in.Role, func() (err error) {
		path, err = a.Invite(c, in)
		return err
	})
	if status, ok := refusedInput(err); ok {
		return a.showAdministrators(c, status, web.Locals{"problem": c.Detail(err), "email": in.Email, "role": in.Role})
	}
	if err != nil {
		return err
	}
	return a.showAdministrators(c, http.StatusOK, web.Locals{"link": absolute(c, path), "link_for": in.Email})
}

// absolute returns the URL of a path at the address that the client uses.
func absolute(c *web.Context, path string) string {
	scheme := "http://"
	if c.Secure() {
		scheme = "https://"
	}
	return scheme + c.Request.Host + path
}

func (a *Admin) administratorPage(c *web.Context) error {
	u, err := a.users.Get(c, engine.Read{Level: engine.Local}, c.Path("id").String())
	if err != nil {
		return err
	}
	return a.showAdministrator(c, http.StatusOK, u, "", "")
}

// showAdministrator shows an administrator with a problem or a link, if there is one.
func (a *Admin) showAdministrator(c *web.Context, status int, u auth.User, problem, link string) error {
	sessions, err := a.store.List(c, u.ID)
	if err != nil {
		return err
	}
	return a.show(c, status, "administrator", web.Locals{
		"title": u.Email, "row": rowOfAdministrator(c, u), "sessions": sessions, "this": c.Session().Handle(), "problem": problem, "link": link,
	})
}

// toAdministrator finds the administrator of a path, and shows what do refuses on their page.
func (a *Admin) toAdministrator(do func(*web.Context, auth.User) error) web.Handler {
	return func(c *web.Context) error {
		u, err := a.users.Get(c, engine.Read{}, c.Path("id").String())
		if err != nil {
			return err
		}
		err = do(c, u)
		if status, ok := refusedInput(err); ok {
			return a.showAdministrator(c, status, u, c.Detail(err), "")
		}
		return err
	}
}

func administratorPath(u auth.User) string { return "/administrators/" + url.PathEscape(u.ID) }

func (a *Admin) setAdministratorRole(c *web.Context, u auth.User) error {
	role := c.Form("role").String()
	if role != RoleSuperadmin && role != RoleViewer {
		return engine.Errorf(engine.CodeInvalid, "the role %q must be %s or %s", role, RoleSuperadmin, RoleViewer)
	}
	err := a.act(c, "admin.role", u.Email, role, func() error {
		_, err := a.users.SetRoles(c, u.ID, []string{role})
		return err
	})
	if err != nil {
		return err
	}
	return a.done(c, administratorPath(u), "saved")
}

func (a *Admin) disableAdministrator(c *web.Context, u auth.User) error {
	err := a.act(c, "admin.disable", u.Email, "", func() error {
		_, err := a.users.Disable(c, u.ID, true)
		return err
	})
	if err != nil {
		return err
	}
	return a.done(c, administratorPath(u), "disabled")
}

func (a *Admin) enableAdministrator(c *web.Context, u auth.User) error {
	err := a.act(c, "admin.enable", u.Email, "", func() error {
		_, err := a.users.Disable(c, u.ID, false)
		return err
	})
	if err != nil {
		return err
	}
	return a.done(c, administratorPath(u), "enabled")
}

func (a *Admin) deleteAdministrator(c *web.Context, u auth.User) error {
	err := a.act(c, "admin.delete", u.Email, "", func() error { return a.users.Delete(c, u.ID) })
	if err != nil {
		return err
	}
	return a.done(c, "/administrators", "deleted")
}

// resetAdministrator makes a link with which an administrator sets a new password and a new second factor up.
func (a *Admin) resetAdministrator(c *web.Context, u auth.User) error {
	var path string
	err := a.act(c, "admin.reset", u.Email, "", func() (err error) {
		path, err = a.Invite(c, Invitation{Email: u.Email, Role: RoleViewer, Reset: true, By: person(c).ID}) // which keeps the role of the account
		return err
	})
	if err != nil {
		return err
	}
	return a.showAdministrator(c, http.StatusOK, u, "", absolute(c, path))
}

func (a *Admin) logOutAdministrator(c *web.Context, u auth.User) error {
	err := a.act(c, "admin.logout", u.Email, "", func() error {
		_, _, err := a.store.RevokeAll(c, u.ID)
		return err
	})
	if err != nil {
		return err
	}
	return a.done(c, administratorPath(u), "loggedout")
}

func (a *Admin) revokeAdministrator(c *web.Context, u auth.User) error {
	err := a.act(c, "admin.revoke", u.Email, "", func() error {
		_, err := a.store.Revoke(c, u.ID, c.Form("session").String())
		return err
	})
	if err != nil && !errors.Is(err, session.ErrNoSession) { // it has ended already
		return err
	}
	return a.done(c, administratorPath(u), "done")
}

// Operate serves POST /administrators on the operator's port: an Invitation as JSON, answered with the path of a set-up link.
func (a *Admin) Operate(c *web.Context) error {
	var in Invitation
	d := json.NewDecoder(c.Request.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return engine.Errorf(engine.CodeInvalid, "the body must be a JSON object with email, role and reset: %w", err)
	}
	action := "admin.invite"
	if in.Reset {
		action = "admin.reset"
	}
	var path string
	err := a.actAs(c, auth.User{Email: operator}, action, in.Email, in.Role, func() (err error) {
		path, err = a.Invite(c, in)
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]string{"path": path})
}
