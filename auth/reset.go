package auth

import (
	"context"
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

// ChangePassword changes a user's password. In the same transaction it ends all of the user's sessions, devices
// and tokens, including the session of the request: the face starts a new one. Wrong old passwords count as wrong
// logins. API keys stay. Errors: ErrWrongCredentials, CodePasswordRefused, CodeRateLimited, CodeQueueFull,
// CodeNotFound; CodePreconditionFailed for a user without a password, who gets one by Reset.
func (a *Auth) ChangePassword(ctx context.Context, user, old, password string) (User, error) {
	const verb = "change the password"
	before, err := a.confirm(ctx, verb, user, old, password)
	if err != nil {
		return User{}, err
	}
	hash, err := a.hash.make(ctx, password)
	if err != nil {
		return User{}, fmt.Errorf("%s: %w", verb, err)
	}
	return a.setPassword(ctx, verb, hash, func(t tx) (*stored, error) {
		u, err := t.mustUser(user)
		if err == nil && u.Epoch != before.Epoch {
			return nil, ErrWrongCredentials // the password was changed meanwhile
		}
		return u, err
	})
}

// ConfirmPassword returns nil if password is the user's. Faces use it to authenticate again before a sensitive
// change. It returns the same errors as ChangePassword.
func (a *Auth) ConfirmPassword(ctx context.Context, user, password string) error {
	const verb = "confirm the password"
	before, err := a.confirm(ctx, verb, user, password, "")
	if err != nil {
		return err
	}
	return a.update(ctx, verb, func(t tx) error {
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		if u.Epoch != before.Epoch {
			return ErrWrongCredentials // the password was changed during the check
		}
		return t.forget(u.attempt())
	})
}

// attempt returns the action that a wrong password of u counts as.
func (u *stored) attempt() attempt {
	if u.fold == "" {
		return attempt{actLogin, u.ID}
	}
	return attempt{actLogin, u.fold}
}

// confirm counts an attempt and checks a password; next, if not "", is the new password.
func (a *Auth) confirm(ctx context.Context, verb, user, password, next string) (*stored, error) {
	if len(password) > MaxPasswordBytes {
		return nil, fmt.Errorf("%s: %w", verb, ErrWrongCredentials)
	}
	var u *stored
	err := a.update(ctx, verb, func(t tx) (err error) {
		if u, err = t.mustUser(user); err != nil {
			return err
		}
		if u.hash == "" {
			return engine.Errorf(engine.CodePreconditionFailed, "the user has no password yet; set one by a reset")
		}
		if next != "" {
			if err := a.CheckPassword(next, u.Email); err != nil {
				return err
			}
		}
		return t.take(u.attempt())
	})
	if err != nil {
		return nil, err
	}
	right, _, err := a.hash.verify(ctx, password, u.hash)
	if err == nil && !right {
		err = ErrWrongCredentials
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	return u, nil
}

// setPassword stores a hash for the user that find returns, and ends all sessions and tokens of the old
// password.
func (a *Auth) setPassword(ctx context.Context, verb, hash string, find func(t tx) (*stored, error)) (User, error) {
	var user User
	err := a.update(ctx, verb, func(t tx) error {
		u, err := find(t)
		if err != nil {
			return err
		}
		u.hash, u.Password, u.pending = hash, true, false
		u.Epoch++
		if err := t.put(u); err != nil {
			return err
		}
		if err := t.dropTokens(u.ID); err != nil {
			return err
		}
		if err := t.forget(u.attempt()); err != nil {
			return err
		}
		user = u.User
		return t.revoke(u.ID)
	})
	if err != nil {
		return User{}, err
	}
	return user, nil
}

// SetPassword is ChangePassword for administrators: without the old password.
func (a *Auth) SetPassword(ctx context.Context, user, password string) (User, error) {
	const verb = "set the password"
	u, err := a.Get(ctx, engine.Read{}, user)
	if err != nil {
		return User{}, err
	}
	if err := a.CheckPassword(password, u.Email); err != nil {
		return User{}, err
	}
	hash, err := a.hash.make(ctx, password)
	if err != nil {
		return User{}, fmt.Errorf("%s: %w", verb, err)
	}
	return a.setPassword(ctx, verb, hash, func(t tx) (*stored, error) { return t.mustUser(user) })
}

// RequestReset returns an Email with a token for Reset if the address belongs to an enabled user; otherwise
// its kind is None. The response to the client must not depend on that; the work done here does not.
func (a *Auth) RequestReset(ctx context.Context, email, from string) (Email, error) {
	return a.request(ctx, "request a reset", email, from, func(t tx, u *stored, s secret) (Email, error) {
		expires, err := t.issue(s, u, ToReset, u.Email, t.a.o.ResetTTL)
		return Email{Kind: Reset, To: u.Email, User: u.User, Token: s.text, Expires: expires}, err
	})
}

// Reset uses up a token of a Reset email and changes its user's password, as ChangePassword does. It also
// verifies the address that the email went to. A second factor stays, and so do API keys and identities,
// unless the address was not verified before: then somebody else may have registered it, and they are removed.
// A refused password leaves the token usable.
func (a *Auth) Reset(ctx context.Context, text, password string) (User, error) {
	const verb = "reset the password"
	// No hash is computed for an invalid token. The leader checks it, because the email may arrive before this
	// node has the token.
	u, err := a.CheckToken(ctx, engine.Read{}, ToReset, text)
	if err != nil {
		return User{}, err
	}
	if err := a.CheckPassword(password, u.Email); err != nil {
		return User{}, err
	}
	hash, err := a.hash.make(ctx, password)
	if err != nil {
		return User{}, fmt.Errorf("%s: %w", verb, err)
	}
	return a.setPassword(ctx, verb, hash, func(t tx) (*stored, error) {
		_, u, err := t.token(text, ToReset) // setPassword ends it with all others
		if err != nil {
			return nil, err
		}
		if !u.Verified() {
			if err := t.dropWays(u); err != nil {
				return nil, err
			}
		}
		u.VerifiedAt = t.Now()
		return u, nil
	})
}
