package account

import (
	"errors"
	"net/http"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

// device is one session as its user sees it.
type device struct {
	Handle   string    `json:"handle"`
	Label    string    `json:"label"`
	Created  time.Time `json:"created"`
	LastSeen time.Time `json:"last_seen"`
	Expires  time.Time `json:"expires"`
	Current  bool      `json:"current"`
}

func (a *Account) sessions(c *web.Context, u auth.User) error {
	list, err := a.o.Sessions.List(c, u.ID)
	if err != nil {
		return err
	}
	browsers := make([]device, len(list))
	for i, s := range list {
		browsers[i] = device{s.Handle, s.Label, s.Created, s.LastSeen, s.Expires, s.Handle == c.Session().Handle()}
	}
	apps, err := a.devicesOf(c, u)
	if err != nil {
		return err
	}
	return a.show(c, http.StatusOK, "sessions", web.Locals{"sessions": browsers, "devices": apps}, struct {
		Sessions []device `json:"sessions"`
		Devices  []app    `json:"devices"`
	}{browsers, apps})
}

func (a *Account) revoke(c *web.Context, u auth.User) error {
	var in struct {
		Handle string `json:"handle,omitempty"`
		Device string `json:"device,omitempty"`
	}
	if err := c.Bind(&in); err != nil {
		return err
	}
	if in.Device != "" {
		if err := a.users.RevokeDevice(c, u.ID, in.Device); err != nil {
			return err
		}
		a.happened(c, Event{Kind: EndedSessions, User: u})
		return a.done(c, a.to("/sessions", "revoked"), http.StatusNoContent, nil)
	}
	if in.Handle == c.Session().Handle() && in.Handle != "" {
		return a.logout(c)
	}
	_, err := a.o.Sessions.Revoke(c, u.ID, in.Handle)
	if errors.Is(err, session.ErrNoSession) {
		return engine.Errorf(engine.CodeNotFound, "there is no such session; it may have ended already")
	}
	if err != nil {
		return err
	}
	a.happened(c, Event{Kind: EndedSessions, User: u})
	return a.done(c, a.to("/sessions", "revoked"), http.StatusNoContent, nil)
}

func (a *Account) revokeOthers(c *web.Context, u auth.User) error {
	n, _, err := a.o.Sessions.RevokeAll(c, u.ID, c.Session().Handle())
	if err != nil {
		return err
	}
	this, _ := DeviceOf(c)
	apps, err := a.users.RevokeDevices(c, u.ID, this.ID)
	if err != nil {
		return err
	}
	a.happened(c, Event{Kind: EndedSessions, User: u})
	return a.done(c, a.to("/sessions", "revoked-others"), http.StatusOK, struct {
		Ended int `json:"ended"`
	}{n + apps})
}
