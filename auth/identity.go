package auth

import (
	"context"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Limits of identities. Going over one is CodeLimit.
const (
	MaxIdentities    = 16   // identities of a user
	MaxIdentityBytes = 1024 // bytes of an issuer, or of a subject
)

// Identity is a user's identity at an OIDC provider. The caller must have verified the provider's token, as
// package auth/oidc does.
type Identity struct {
	Issuer        string
	Subject       string // assigned by the issuer, stable
	Email         string
	EmailVerified bool
	Name          string
}

// Linked is an identity of a user as it is stored.
type Linked struct {
	Issuer, Subject string
	Email           string    // at the provider when it was linked
	Since           time.Time // when it was linked
}

func (l Linked) encode() []byte {
	e := newEncoder()
	e.str(l.Issuer)
	e.str(l.Subject)
	e.str(l.Email)
	e.time(l.Since)
	return e.b
}

func decodeLinked(b []byte) (Linked, error) {
	d := newDecoder("identity", b)
	l := Linked{Issuer: d.str(), Subject: d.str(), Email: d.str(), Since: d.time()}
	return l, d.end()
}

func (id Identity) check() error {
	for _, f := range [][2]string{{"issuer", id.Issuer}, {"subject", id.Subject}} {
		if f[1] == "" {
			return engine.Errorf(engine.CodeInvalid, "the identity has no %s", f[0])
		}
		if err := checkLine("the identity's "+f[0], f[1], MaxIdentityBytes); err != nil {
			return err
		}
	}
	return nil
}

// tidy drops an invalid name or address, which providers may send in any form and nothing depends on.
func (id Identity) tidy() Identity {
	if checkLine("name", id.Name, MaxNameBytes) != nil {
		id.Name = ""
	}
	if checkLine("address", id.Email, MaxEmailBytes) != nil {
		id.Email = ""
	}
	return id
}

// LoginIdentity returns the user that an identity belongs to. An identity that is
// new here:
//   - whose email address the provider does not call verified is
//     ErrIdentityUnverified, whoever has the address;
//   - with a verified address that a user has verified too is linked to that user;
//   - with an address that a user has and has not verified is ErrIdentityConflict;
//     a registration that was never used gives way instead;
//   - otherwise, also without any address, makes a new user.
//
// Further errors: ErrAccountDisabled, and a *SecondFactor as for Login.
func (a *Auth) LoginIdentity(ctx context.Context, id Identity) (User, error) {
	const verb = "log in by a provider"
	if err := id.check(); err != nil {
		return User{}, err
	}
	kept, fold := "", ""
	var bad error // of the address, which matters only if it is used
	if id.Email != "" {
		kept, fold, bad = ParseEmail(id.Email)
	}
	id = id.tidy()
	fresh, err := a.newID()
	if err != nil {
		return User{}, fmt.Errorf("%s: %w", verb, err)
	}
	return a.finish(ctx, verb, func(t tx) (*stored, error) {
		u, err := t.byIdentity(id)
		if err != nil || u != nil {
			return u, err
		}
		if bad != nil {
			return nil, bad
		}
		if fold != "" && !id.EmailVerified {
			return nil, ErrIdentityUnverified
		}
		if fold != "" {
			if u, err = t.byEmail(fold); err != nil {
				return nil, err
			}
		}
		switch {
		case u != nil && u.pending: // somebody else registered this address without using it
			if err := t.remove(u); err != nil {
				return nil, err
			}
			u = nil
		case u != nil && !u.Verified():
			return nil, ErrIdentityConflict
		case u != nil:
			return u, t.link(u, id)
		}
		u = &stored{User: User{ID: fresh, Email: kept, Name: id.Name, Created: t.Now()}, fold: fold}
		if fold != "" {
			u.VerifiedAt = t.Now()
		}
		if err := t.put(u); err != nil {
			return nil, err
		}
		return u, t.link(u, id)
	}, false)
}

// byIdentity returns the user that an identity belongs to, or nil.
func (t tx) byIdentity(id Identity) (*stored, error) {
	e, ok, err := t.Get(identityKey(identitySum(id.Issuer, id.Subject)))
	if err != nil || !ok {
		return nil, err
	}
	u, err := t.user(string(e.Val))
	if err == nil && u == nil {
		err = engine.Errorf(engine.CodeCorrupt, "an identity belongs to a user that does not exist")
	}
	return u, err
}

func (t tx) link(u *stored, id Identity) error {
	list, err := t.identities(u.ID)
	if err != nil {
		return err
	}
	if len(list) >= MaxIdentities {
		return engine.Errorf(engine.CodeLimit, "the user has %d identities, at most %d; unlink one first", len(list), MaxIdentities)
	}
	if err := t.settle(u); err != nil {
		return err
	}
	sum := identitySum(id.Issuer, id.Subject)
	if _, err := t.Set(identityKey(sum), []byte(u.ID), kv.SetOptions{SkipOld: true}); err != nil {
		return err
	}
	l := Linked{id.Issuer, id.Subject, id.Email, t.Now()}
	_, err = t.Set(identityOfKey(u.ID, sum), l.encode(), kv.SetOptions{SkipOld: true})
	return err
}

func (t tx) identities(user string) ([]Linked, error) {
	if len(user) != idBytes {
		return nil, nil
	}
	var list []Linked
	for it, err := range t.ScanPrefix(identityOfKey(user, "")) {
		if err != nil {
			return nil, err
		}
		l, err := decodeLinked(it.Val)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// LinkIdentity links an identity to a logged-in user, whatever its address. An identity of another user is
// ErrIdentityConflict. Linking it again is not an error.
func (a *Auth) LinkIdentity(ctx context.Context, user string, id Identity) error {
	if err := id.check(); err != nil {
		return err
	}
	id = id.tidy()
	return a.update(ctx, "link an identity", func(t tx) error {
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		owner, err := t.byIdentity(id)
		switch {
		case err != nil:
			return err
		case owner != nil && owner.ID != user:
			return engine.Errorf(CodeIdentityConflict, "the identity belongs to another account")
		case owner != nil:
			return nil
		}
		return t.link(u, id)
	})
}

// UnlinkIdentity removes an identity from a user. The last way to log in cannot be removed: for the only
// identity of a user without a password it returns CodePreconditionFailed.
func (a *Auth) UnlinkIdentity(ctx context.Context, user, issuer, subject string) error {
	return a.update(ctx, "unlink an identity", func(t tx) error {
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		owner, err := t.byIdentity(Identity{Issuer: issuer, Subject: subject})
		if err != nil {
			return err
		}
		if owner == nil || owner.ID != user {
			return engine.Errorf(engine.CodeNotFound, "the user has no such identity")
		}
		list, err := t.identities(user)
		if err != nil {
			return err
		}
		if len(list) == 1 && u.hash == "" {
			return engine.Errorf(engine.CodePreconditionFailed, "this is the user's only way to log in; set a password first")
		}
		return t.unlink(user, Linked{Issuer: issuer, Subject: subject})
	})
}

func (t tx) unlink(user string, l Linked) error {
	sum := identitySum(l.Issuer, l.Subject)
	if _, err := t.Delete(identityKey(sum)); err != nil {
		return err
	}
	_, err := t.Delete(identityOfKey(user, sum))
	return err
}

// Identities returns the identities that a user can log in with, at most MaxIdentities.
func (a *Auth) Identities(ctx context.Context, r engine.Read, user string) ([]Linked, error) {
	var list []Linked
	err := a.view(ctx, r, "list identities", func(t tx) (err error) {
		list, err = t.identities(user)
		return err
	})
	return list, err
}

// FindIdentity returns the user that an identity belongs to, or CodeNotFound. It is for faces that allow
// logins by a provider only to users who already have an account.
func (a *Auth) FindIdentity(ctx context.Context, r engine.Read, issuer, subject string) (User, error) {
	var u User
	err := a.view(ctx, r, "find an identity", func(t tx) error {
		found, err := t.byIdentity(Identity{Issuer: issuer, Subject: subject})
		if err != nil {
			return err
		}
		if found == nil {
			return engine.Errorf(engine.CodeNotFound, "the identity belongs to nobody")
		}
		u = found.User
		return nil
	})
	return u, err
}
