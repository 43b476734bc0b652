package account

import (
	"net/http"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/auth/oidc"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// flow is a login at a provider that this browser has started.
type flow struct {
	Provider string
	Flow     oidc.Flow
	Next     string
	Link     string // id of the user who wants to link the identity; "": a login
}

// flowKey is the session key of the flow. Another login replaces it.
var flowKey = session.NewKey[flow]("account.oidc")

func (a *Account) provider(c *web.Context) (provider, error) {
	id := c.Path("provider").String()
	for _, p := range a.providers {
		if p.ID == id {
			return p, nil
		}
	}
	return provider{}, engine.Errorf(engine.CodeNotFound, "there is no such provider")
}

// begin sends the browser to a provider. It uses a page that refreshes itself, not a
// redirect: browsers apply the policy's form-action to redirects of forms.
func (a *Account) begin(c *web.Context) error {
	var in struct {
		Next     string `json:"next,omitempty"`
		Link     bool   `json:"link,omitempty"`
		Password string `json:"password,omitempty"`
	}
	p, err := a.provider(c)
	if err != nil {
		return err
	}
	if err := c.Bind(&in); err != nil {
		return a.refuse(c, "login", web.Locals{"next": in.Next}, err)
	}
	f := flow{Provider: p.ID, Next: in.Next}
	if in.Link {
		u, err := a.current(c)
		if err != nil {
			return err
		}
		if err := a.sure(c, u, in.Password); err != nil {
			return a.refuseIdentities(c, u, err)
		}
		f.Link = u.ID
	}
	address, begun, err := p.oidc.Begin(c)
	if err != nil {
		return err
	}
	f.Flow = begun
	if err := flowKey.Set(c.Session(), f); err != nil {
		return err
	}
	if !c.IsJSON() {
		if err := c.SetHeader("Refresh", "0; url="+address); err != nil {
			return err
		}
	}
	return a.show(c, http.StatusOK, "go", web.Locals{"address": address, "provider": p.Title}, struct {
		Location string `json:"location"`
	}{address})
}

// callback is where the provider sends the browser back to: a GET that writes, as the
// protocol demands. It takes the flow out of the session first, so that it works once.
// On a node that does not lead this fails, and the request is forwarded before the
// provider's code is used up.
func (a *Account) callback(c *web.Context) error {
	p, err := a.provider(c)
	if err != nil {
		return err
	}
	f, ok, err := flowKey.Get(c.Session())
	if err != nil {
		return err
	}
	state := c.Query("state").String()
	if !ok || f.Provider != p.ID || f.Flow.State == "" || state != f.Flow.State {
		return a.refuse(c, "login", nil, engine.Errorf(oidc.CodeFlowInvalid, "this login was not started in this browser, or was completed in another tab; start over"))
	}
	flowKey.Delete(c.Session())
	if err := c.SaveSession(); err != nil {
		return err
	}
	if refused := c.Query("error").String(); refused != "" {
		return a.refuse(c, "login", web.Locals{"next": f.Next}, engine.Errorf(oidc.CodeFlowInvalid, "%s refused the login", p.Title))
	}
	id, err := p.oidc.Finish(c, f.Flow, state, c.Query("code").String())
	if err != nil {
		return a.refuse(c, "login", web.Locals{"next": f.Next}, err)
	}
	if f.Link != "" {
		return a.link(c, f.Link, id)
	}
	if err := a.mayEnter(c, id); err != nil {
		return a.refuse(c, "login", web.Locals{"next": f.Next}, err)
	}
	u, err := a.users.LoginIdentity(c, id)
	if _, more := auth.Ticket(err); !more {
		a.loginEnded(c, u, "", "", "", err)
	}
	return a.ended(c, u, err, f.Next, web.Locals{"next": f.Next})
}

// mayEnter refuses identities without an account if registration is closed.
func (a *Account) mayEnter(c *web.Context, id auth.Identity) error {
	if !a.o.Closed {
		return nil
	}
	r := engine.Read{Level: engine.Local}
	_, err := a.users.FindIdentity(c, r, id.Issuer, id.Subject)
	if engine.CodeOf(err) == engine.CodeNotFound && id.EmailVerified {
		_, err = a.users.Find(c, r, id.Email)
	}
	switch engine.CodeOf(err) {
	case engine.CodeNotFound, engine.CodeInvalid:
		return engine.Errorf(problem.CodeForbidden, "you have no account here; ask the administrators of this service to create one")
	}
	return err
}

// link links the identity to the user who started the flow, if that user is still logged in.
func (a *Account) link(c *web.Context, user string, id auth.Identity) error {
	u, err := a.current(c)
	if err != nil {
		return err
	}
	if u.ID != user {
		return engine.Errorf(oidc.CodeFlowInvalid, "another user has logged in meanwhile; start over")
	}
	if err := a.users.LinkIdentity(c, u.ID, id); err != nil {
		return a.refuseIdentities(c, u, err)
	}
	a.notify(c, IdentityLinked, u.Email, u)
	return a.done(c, a.to("/identities", "linked"), http.StatusNoContent, nil)
}

// linked is an identity in JSON responses.
type linked struct {
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Email   string    `json:"email"`
	Since   time.Time `json:"since"`
}

func (a *Account) identityLocals(c *web.Context, u auth.User) (web.Locals, []linked, error) {
	list, err := a.users.Identities(c, engine.Read{Level: engine.Local}, u.ID)
	if err != nil {
		return nil, nil, err
	}
	all := make([]linked, len(list))
	for i, l := range list {
		all[i] = linked(l)
	}
	return web.Locals{"me": meOf(u), "list": all}, all, nil
}

func (a *Account) identities(c *web.Context, u auth.User) error {
	locals, all, err := a.identityLocals(c, u)
	if err != nil {
		return err
	}
	return a.show(c, http.StatusOK, "identities", locals, struct {
		Identities []linked `json:"identities"`
	}{all})
}

func (a *Account) refuseIdentities(c *web.Context, u auth.User, err error) error {
	locals, _, other := a.identityLocals(c, u)
	if other != nil {
		return other
	}
	return a.refuse(c, "identities", locals, err)
}

func (a *Account) unlink(c *web.Context, u auth.User) error {
	var in struct {
		Issuer  string `json:"issuer"`
		Subject string `json:"subject"`
	}
	err := c.Bind(&in)
	if err == nil {
		err = a.users.UnlinkIdentity(c, u.ID, in.Issuer, in.Subject)
	}
	if err != nil {
		return a.refuseIdentities(c, u, err)
	}
	return a.done(c, a.to("/identities", "unlinked"), http.StatusNoContent, nil)
}
