package admin

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
)

// maxInvitations is how many open set-up links the page lists.
const maxInvitations = 100

// openInvitation is a set-up link that nobody has used yet. Its token is known only to those who were given the link.
type openInvitation struct {
	Invitation
	Handle  string // names it in forms; the link cannot be made of it
	Maker   string
	Expires time.Time
	Void    bool // whoever made it is no superadmin any more, so that it does not work
}

// invitations returns the open set-up links, those first that end first.
func (a *Admin) invitations(c *web.Context) (all []openInvitation, more bool, err error) {
	_, err = a.o.Store.View(c, freshness(c), keyspace.AdminPage, func(t *kv.Tx) error {
		all, more = nil, false
		for it, err := range t.ScanPrefix([]byte(linkPrefix)) {
			if err != nil {
				return err
			}
			if more = len(all) == maxInvitations; more {
				return nil
			}
			one := openInvitation{Handle: hex.EncodeToString(it.Key[len(linkPrefix):]), Expires: it.Expires, Maker: operator}
			if err := json.Unmarshal(it.Val, &one.Invitation); err != nil {
				return engine.Errorf(engine.CodeCorrupt, "a set-up link: %w", err)
			}
			all = append(all, one)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	makers := map[string]auth.User{}
	for i := range all {
		one := &all[i]
		if one.By == "" {
			continue
		}
		maker, known := makers[one.By]
		if !known {
			if maker, err = a.users.Get(c, freshness(c), one.By); err != nil && engine.CodeOf(err) != engine.CodeNotFound {
				return nil, false, err
			}
			makers[one.By] = maker
		}
		one.Maker, one.Void = maker.Email, maker.Disabled || !maker.Has(RoleSuperadmin)
	}
	slices.SortStableFunc(all, func(x, y openInvitation) int { return x.Expires.Compare(y.Expires) })
	return all, more, nil
}

// withdraw ends a set-up link that nobody has used.
func (a *Admin) withdraw(c *web.Context) error {
	sum, err := hex.DecodeString(c.Form("link").String())
	if err != nil {
		return web.Wrong("/link", "is not a set-up link of this page")
	}
	key := append([]byte(linkPrefix), sum...)
	e, found, _, err := a.o.Store.Get(c, engine.Read{}, keyspace.AdminPage, key)
	var in Invitation
	if err == nil && found {
		err = json.Unmarshal(e.Val, &in)
	}
	if err != nil {
		return err
	}
	if found {
		err = a.act(c, "admin.withdraw", in.Email, in.Role, func() (err error) {
			found, _, err = a.o.Store.Delete(c, keyspace.AdminPage, key, e.Rev)
			if err == nil && !found {
				err = errWithdrawn
			}
			return err
		})
	}
	switch {
	case !found:
		return a.showAdministrators(c, http.StatusConflict, web.Locals{"trouble": c.Detail(errWithdrawn)})
	case err != nil:
		return err
	}
	return a.done(c, "/administrators", "withdrawn")
}

// errWithdrawn is the answer to the withdrawal of a link that is no longer there.
var errWithdrawn = engine.Errorf(engine.CodeConflict, "this link was used or withdrawn already, or has expired")
