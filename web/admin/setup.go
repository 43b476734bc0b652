package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
)

// LinkTTL is how long a set-up link is valid.
const LinkTTL = 24 * time.Hour

// linkPrefix begins the keys of links in keyspace.AdminPage. In the data: do not change.
const linkPrefix = "link/"

// Invitation is what a set-up link stands for. In the data: do not rename.
type Invitation struct {
	Email string `json:"email"`
	Role  string `json:"role"`
	Reset bool   `json:"reset,omitempty"` // the account exists, and loses its password and second factor
	By    string `json:"by,omitempty"`    // id of the superadmin who made it; "": the operator
}

// errLink is the answer to a link that is wrong, used or expired.
var errLink = engine.Errorf(auth.CodeTokenInvalid, "this link is invalid, has expired, was withdrawn or was already used. `skerry admin create EMAIL` makes a new one; if there is no administrator yet, the server prints one when it starts")

// setup has the link for the first administrator. It is in memory: a start writes nothing.
type setup struct {
	mu      sync.Mutex // guards the fields
	token   string     // "": there is none
	expires time.Time
	made    bool
}

// announce tells of the link for the first administrator, once, if this node leads and there is none.
func (a *Admin) announce(ctx context.Context) {
	if a.o.SetupLink == nil || a.o.Cluster != nil && !leads(a.o.Cluster) {
		return
	}
	if token := a.firstToken(ctx); token != "" {
		a.o.SetupLink(Prefix + "/setup/" + token)
	}
}

// firstToken makes the token of that link, once; "": it was made, or is not needed.
func (a *Admin) firstToken(ctx context.Context) string {
	a.setup.mu.Lock()
	defer a.setup.mu.Unlock()
	if a.setup.made {
		return ""
	}
	known, err := a.known(ctx, engine.Read{Level: engine.Local})
	if err != nil {
		return "" // the engine is not ready yet: the next sample asks again
	}
	a.setup.made = true
	if known {
		return ""
	}
	a.setup.token, a.setup.expires = rand.Text(), a.o.Now().Add(LinkTTL)
	return a.setup.token
}

// leads reports whether this node leads.
func leads(c engine.Cluster) bool { s := c.State(); return s.Leader == s.Self }

// isFirst reports whether token is that of the first administrator.
func (a *Admin) isFirst(token string) bool {
	a.setup.mu.Lock()
	defer a.setup.mu.Unlock()
	return a.setup.token != "" && a.o.Now().Before(a.setup.expires) && subtle.ConstantTimeCompare([]byte(token), []byte(a.setup.token)) == 1
}

// first is isFirst. It fails if there is an administrator by now, who came by another link: this one makes superadmins, and is in a
// log.
func (a *Admin) first(ctx context.Context, token string) (bool, error) {
	if !a.isFirst(token) {
		return false, nil
	}
	known, err := a.known(ctx, engine.Read{})
	if err == nil && known {
		err = errLink
	}
	return true, err
}

func linkKey(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return append([]byte(linkPrefix), sum[:]...)
}

// Invite makes a set-up link and returns its path. The role must be one of this package's.
func (a *Admin) Invite(ctx context.Context, in Invitation) (path string, err error) {
	if in.Role != RoleSuperadmin && in.Role != RoleViewer {
		return "", engine.Errorf(engine.CodeInvalid, "the role %q must be %s or %s", in.Role, RoleSuperadmin, RoleViewer)
	}
	kept, _, err := auth.ParseEmail(in.Email)
	if err != nil {
		return "", err
	}
	in.Email = kept
	u, err := a.users.Find(ctx, engine.Read{}, kept)
	switch {
	case err == nil && !in.Reset:
		return "", engine.Errorf(auth.CodeEmailTaken, "%s is an administrator already; `skerry admin reset` makes a new link for them", kept)
	case err != nil && (in.Reset || engine.CodeOf(err) != engine.CodeNotFound):
		return "", err
	case in.Reset:
		in.Role = joinRoles(u.Roles)
	}
	token := rand.Text()
	text, err := json.Marshal(in)
	if err == nil {
		_, err = a.o.Store.Update(ctx, keyspace.AdminPage, func(t *kv.Tx) error {
			_, err := t.Set(linkKey(token), text, kv.SetOptions{TTL: LinkTTL})
			return err
		})
	}
	return Prefix + "/setup/" + token, err
}

// invitation returns what a link stands for.
func (a *Admin) invitation(ctx context.Context, token string) (in Invitation, err error) {
	if first, err := a.first(ctx, token); first || err != nil {
		return Invitation{Role: RoleSuperadmin}, err
	}
	_, err = a.o.Store.View(ctx, engine.Read{}, keyspace.AdminPage, func(t *kv.Tx) error {
		e, found, err := t.Get(linkKey(token))
		if err == nil && !found {
			return errLink
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(e.Val, &in)
	})
	if err != nil || in.By == "" {
		return in, err
	}
	by, err := a.users.Get(ctx, engine.Read{}, in.By)
	if engine.CodeOf(err) == engine.CodeNotFound || err == nil && (by.Disabled || !by.Has(RoleSuperadmin)) {
		err = errLink // who has lost their powers must not come back by a link of theirs
	}
	return in, err
}

// consume ends a link. It fails if another request has used it.
func (a *Admin) consume(ctx context.Context, token string) error {
	if first, err := a.first(ctx, token); err != nil {
		return err
	} else if first {
		a.setup.mu.Lock()
		defer a.setup.mu.Unlock()
		if a.setup.token != token {
			return errLink
		}
		a.setup.token = ""
		return nil
	}
	_, err := a.o.Store.Update(ctx, keyspace.AdminPage, func(t *kv.Tx) error {
		found, err := t.Delete(linkKey(token))
		if err == nil && !found {
			return errLink
		}
		return err
	})
	return err
}

func (a *Admin) addSetup() {
	a.app.Get(Prefix+"/setup/{token}", a.setupPage, noStore)
	a.app.Post(Prefix+"/setup/{token}", a.setUp, noStore, web.BodyLimit(64<<10))
}

// setupPage shows the form. The node that leads knows the first link, so others do not judge it.
func (a *Admin) setupPage(c *web.Context) error {
	in, err := a.invitation(c, c.Path("token").String())
	if err != nil && (a.o.Cluster == nil || leads(a.o.Cluster)) {
		return err
	}
	return a.show(c, http.StatusOK, "setup", web.Locals{"title": a.text("Set up your account"), "email": in.Email, "fixed": in.Email != "", "problem": ""})
}

// setUp creates the account, or gives it a new password, and logs in. The second factor comes next.
func (a *Admin) setUp(c *web.Context) error {
	token := c.Path("token").String()
	var form struct {
		Email    string `json:"email,omitempty"`
		Password string `json:"password"`
	}
	if err := c.Bind(&form); err != nil {
		return err
	}
	in, err := a.invitation(c, token)
	if err != nil {
		return err
	}
	if in.Email != "" {
		form.Email = in.Email
	}
	u, err := a.enrol(c, token, in, form.Email, form.Password)
	if status, ok := refusedInput(err); ok {
		return a.show(c, status, "setup", web.Locals{"title": a.text("Set up your account"), "email": form.Email, "fixed": in.Email != "", "problem": c.Detail(err)})
	}
	if err != nil {
		return err
	}
	a.record(c, u, "admin.setup", u.Email, in.Role)
	c.Session().Login(u.ID)
	return c.Redirect(Prefix + "/account/totp")
}

// enrol makes the account that a link stands for.
func (a *Admin) enrol(c *web.Context, token string, in Invitation, email, password string) (auth.User, error) {
	kept, _, err := auth.ParseEmail(email)
	if err == nil {
		err = a.users.CheckPassword(password, kept)
	}
	if err == nil {
		err = a.consume(c, token)
	}
	if err != nil {
		return auth.User{}, err
	}
	if !in.Reset {
		return a.users.Add(c, auth.NewUser{Email: kept, Password: password, Verified: true, Roles: []string{in.Role}})
	}
	u, err := a.users.Find(c, engine.Read{}, kept)
	if err == nil { // before the second factor goes: the old password alone must never be enough
		u, err = a.users.SetPassword(c, u.ID, password)
	}
	if err == nil && u.TOTP {
		err = a.users.RemoveTOTP(c, u.ID)
	}
	return u, err
}
