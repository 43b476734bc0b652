package auth

import (
	"context"
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// SetName changes the name of a user.
func (a *Auth) SetName(ctx context.Context, user, name string) (User, error) {
	if err := checkLine("the name", name, MaxNameBytes); err != nil {
		return User{}, err
	}
	return a.change(ctx, "set the name", user, func(_ tx, u *stored) error {
		u.Name = name
		return nil
	})
}

// SetRoles replaces a user's roles, which are words of letters, digits and -_.:/*. Sessions continue: a face
// reads the user with every request.
func (a *Auth) SetRoles(ctx context.Context, user string, roles []string) (User, error) {
	roles, err := checkWords("role", roles, MaxRoles, MaxRoleBytes)
	if err != nil {
		return User{}, err
	}
	return a.change(ctx, "set the roles", user, func(t tx, u *stored) error {
		if !slices.Contains(roles, a.o.KeepRole) {
			if err := t.keepRole(u); err != nil {
				return err
			}
		}
		u.Roles = roles
		u.pending = false // otherwise anyone who registers the address again would get them
		return nil
	})
}

// Disable disables a user, who can then no longer log in or use API keys, tokens, devices or sessions. Tokens,
// devices and sessions end in the same transaction; API keys work again once the user is enabled. With disabled
// false, Disable enables the user.
func (a *Auth) Disable(ctx context.Context, user string, disabled bool) (User, error) {
	return a.change(ctx, "disable a user", user, func(t tx, u *stored) error {
		if disabled {
			if err := t.keepRole(u); err != nil {
				return err
			}
		}
		u.Disabled, u.pending = disabled, false // a disabled address stays taken
		if !disabled {
			return nil
		}
		if err := t.dropTokens(user); err != nil {
			return err
		}
		return t.revoke(user)
	})
}

// change stores the changes that fn makes to a user.
func (a *Auth) change(ctx context.Context, verb, user string, fn func(t tx, u *stored) error) (User, error) {
	var changed User
	err := a.update(ctx, verb, func(t tx) error {
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		if err := fn(t, u); err != nil {
			return err
		}
		changed = u.User
		return t.put(u)
	})
	if err != nil {
		return User{}, err
	}
	return changed, nil
}

// Delete removes a user with everything that auth stores about them: address, second factor, API keys,
// identities, devices and tokens. It also ends their sessions. It is one transaction of at most about 500 keys. The
// application must remove its own data.
func (a *Auth) Delete(ctx context.Context, user string) error {
	return a.update(ctx, "delete a user", func(t tx) error {
		u, err := t.mustUser(user)
		if err == nil {
			err = t.keepRole(u)
		}
		if err != nil {
			return err
		}
		return t.remove(u)
	})
}

// keepRole fails if u is the last user with Options.KeepRole who is not disabled. It reads the others in the transaction that changes
// u, so that two of them cannot be changed at once, each because of the other.
func (t tx) keepRole(u *stored) error {
	role := t.a.o.KeepRole
	if role == "" || u.Disabled || !u.Has(role) {
		return nil
	}
	for it, err := range t.ScanPrefix([]byte{keyUser}) {
		if err != nil {
			return err
		}
		other, err := decodeUser(string(it.Key[1:]), it.Val)
		if err != nil {
			return err
		}
		if other.ID != u.ID && other.Has(role) && !other.Disabled {
			return nil
		}
	}
	return engine.Errorf(engine.CodePreconditionFailed, "%s is the only %s who can log in, so nobody could change anything afterwards; make somebody else a %s first", u.Email, role, role)
}

// remove deletes u and all that belongs to it.
func (t tx) remove(u *stored) error {
	if err := t.dropTokens(u.ID); err != nil {
		return err
	}
	if err := t.dropWays(u); err != nil {
		return err
	}
	single := [][]byte{userKey(u.ID), limitKey(actCode, u.ID), limitKey(actLogin, u.attempt().subject)}
	if u.fold != "" {
		single = append(single, emailKey(u.fold))
	}
	for _, key := range single {
		if _, err := t.Delete(key); err != nil {
			return err
		}
	}
	return t.revoke(u.ID)
}

// dropWays removes API keys, identities and the second factor: every way to use u except the password. It does
// not store u.
func (t tx) dropWays(u *stored) error {
	keys, err := t.keysOf(u.ID)
	if err != nil {
		return err
	}
	for _, id := range keys {
		if err := t.dropKey(u.ID, id); err != nil {
			return err
		}
	}
	list, err := t.identities(u.ID)
	if err != nil {
		return err
	}
	for _, l := range list {
		if err := t.unlink(u.ID, l); err != nil {
			return err
		}
	}
	u.TOTP = false
	_, err = t.Delete(totpKey(u.ID))
	return err
}
