package admin

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/hostname"
	"github.com/skerrydb/skerry/web/problem"
)

// Roles of administrators.
const (
	RoleSuperadmin = "superadmin" // may do everything
	RoleViewer     = "viewer"     // may look, but change nothing
)

const (
	minPassword = 12
	maxBody     = 32 << 20 // of a request in bytes; files to import are streamed
)

// personKey is where private keeps the administrator of a request.
type personKey struct{}

// person returns the administrator of a request behind private.
func person(c *web.Context) auth.User {
	u, _ := c.Value(personKey{}).(auth.User)
	return u
}

// mayWrite reports whether the administrator of a request may change something.
func mayWrite(c *web.Context) bool { return person(c).Has(RoleSuperadmin) }

// checkHost refuses names of foreign web pages that resolve to this machine (DNS rebinding).
func (a *Admin) checkHost(next http.Handler) http.Handler {
	return web.Handler(func(c *web.Context) error {
		if !c.FromNode() && !c.Secure() && !hostname.Trusted(c.Request.Host, a.o.Hosts) {
			return engine.Errorf(problem.CodeHostRefused, "over plain HTTP, the admin page can be addressed only by an IP address, as localhost, or by a name in the setting hosts")
		}
		next.ServeHTTP(c.Writer, c.Request)
		return nil
	})
}

// private lets administrators through: logged in, with a second factor, and with a role. Those who may only look can
// change nothing.
func (a *Admin) private(next http.Handler) http.Handler {
	login := web.RequireUser(a.account.LoginPath())
	return login(web.Handler(func(c *web.Context) error {
		who, err := c.User()
		if err != nil {
			return err
		}
		u, err := a.users.Get(c, a.administrators(), who.ID)
		if err != nil {
			return err
		}
		reads := c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
		switch {
		case !u.Has(RoleSuperadmin) && !u.Has(RoleViewer):
			return engine.Errorf(problem.CodeForbidden, "this account has no role on the admin page")
		case !u.TOTP && c.IsJSON():
			return engine.Errorf(problem.CodeForbidden, "set up two-factor authentication first")
		case !u.TOTP:
			return c.Redirect(Prefix + "/account/totp")
		case !reads && !u.Has(RoleSuperadmin):
			return engine.Errorf(problem.CodeForbidden, "your role is %s: you can look, but change nothing", RoleViewer)
		}
		next.ServeHTTP(c.Writer, c.Request.WithContext(context.WithValue(c.Request.Context(), personKey{}, u)))
		return nil
	}))
}

// leaderless reports whether this is a node of a cluster in which no node leads.
func (a *Admin) leaderless() bool { return a.o.Cluster != nil && a.o.Cluster.State().Leader == 0 }

// alone reports whether no node leads and a request is for one of the pages that are shown nevertheless: those that say what is wrong
// with the cluster, and what to do. They show no data, so the worst is that somebody sees them whose session has just ended.
func (a *Admin) alone(r *http.Request) bool {
	switch r.URL.Path {
	case Prefix + "/overview", Prefix + "/overview/live", Prefix + "/cluster", Prefix + "/cluster/live":
		return a.leaderless()
	}
	return false
}

// administrators is how accounts of administrators are read. While no node leads, only alone and open streams let
// anybody in, and what this node knows has to do.
func (a *Admin) administrators() engine.Read {
	r := engine.Read{Level: engine.Local}
	if a.leaderless() {
		r.MaxStale = math.MaxInt64
	}
	return r
}

// maySee reports whether an account may look at pages, as private requires.
func maySee(u auth.User) bool {
	return !u.Disabled && u.TOTP && (u.Has(RoleSuperadmin) || u.Has(RoleViewer))
}

// stillMay reports whether the administrator of a stream may still look, or why that is not known: a session can end, and a role be
// taken away, while it is open.
func (a *Admin) stillMay(c *web.Context) (bool, error) {
	c.LookAgain()
	who, err := c.User()
	if err != nil {
		return false, err
	}
	u, err := a.users.Get(c, a.administrators(), who.ID)
	return err == nil && maySee(u), err
}

// mayWatch is stillMay for the pages that people need most when no majority can be asked: until it can, who has opened one goes on to see
// which nodes there are, and nothing else.
func (a *Admin) mayWatch(c *web.Context) bool {
	may, err := a.stillMay(c)
	return may || errors.Is(err, engine.ErrNotLeader)
}

// lookAgain is stillMay for streams that end when nobody knows.
func (a *Admin) lookAgain(c *web.Context) bool {
	may, _ := a.stillMay(c) // not known: no
	return may
}

// superadmin lets only superadmins through, for pages that show what viewers must not see.
func superadmin(next http.Handler) http.Handler {
	return web.Handler(func(c *web.Context) error {
		if !mayWrite(c) {
			return engine.Errorf(problem.CodeForbidden, "this page is for superadmins only")
		}
		next.ServeHTTP(c.Writer, c.Request)
		return nil
	})
}

// known reports whether there is any administrator.
func (a *Admin) known(ctx context.Context, r engine.Read) (bool, error) {
	page, err := a.users.List(ctx, r, auth.ListOptions{Limit: 1})
	return len(page.Users) > 0, err
}

// unsafePlace reports whether browsers would not keep the cookie of a login: plain HTTP to another machine.
func unsafePlace(c *web.Context) bool {
	return !c.Secure() && !hostname.Loopback(c.Request.Host)
}

// joinRoles returns roles for people.
func joinRoles(roles []string) string { return strings.Join(roles, ", ") }
