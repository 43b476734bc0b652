package auth

import (
	"context"
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

// Login returns the user with this address and password. from is the client's
// address, for the rate limit; "" is not counted.
//
// Unknown addresses, users without a password and wrong passwords all get ErrWrongCredentials after the same
// work. Other errors: CodeRateLimited, before any hash is computed (see RetryAfter); CodeQueueFull; and, only
// with the right password: ErrAccountDisabled, ErrEmailUnverified, and a *SecondFactor whose Ticket goes to
// LoginTOTP or LoginRecovery.
func (a *Auth) Login(ctx context.Context, email, password, from string) (User, error) {
	const verb = "log in"
	_, fold, err := ParseEmail(email)
	if err != nil {
		return User{}, err
	}
	if len(password) > MaxPasswordBytes {
		return User{}, engine.Errorf(engine.CodeInvalid, "the password has %d bytes, at most %d are accepted", len(password), MaxPasswordBytes)
	}
	byAccount, byNetwork := attempt{actLogin, fold}, attempt{actLoginFrom, network(from)}
	var id string
	var epoch uint64
	hash := a.dummy
	err = a.update(ctx, verb, func(t tx) error {
		id, epoch, hash = "", 0, a.dummy
		if err := t.take(byNetwork, byAccount); err != nil {
			return err
		}
		u, err := t.byEmail(fold)
		if err == nil && u != nil && u.hash != "" {
			id, epoch, hash = u.ID, u.Epoch, u.hash
		}
		return err
	})
	if err != nil {
		return User{}, err
	}
	right, weak, err := a.hash.verify(ctx, password, hash)
	if err != nil {
		return User{}, fmt.Errorf("%s: %w", verb, err)
	}
	if !right || id == "" {
		return User{}, fmt.Errorf("%s: %w", verb, ErrWrongCredentials)
	}
	better := ""
	if weak {
		if better, err = a.hash.make(ctx, password); err != nil {
			return User{}, fmt.Errorf("%s: %w", verb, err)
		}
	}
	return a.finish(ctx, verb, func(t tx) (*stored, error) {
		u, err := t.user(id)
		if err != nil {
			return nil, err
		}
		if u == nil || u.Epoch != epoch { // changed or deleted meanwhile
			return nil, ErrWrongCredentials
		}
		if err := t.forget(byAccount); err != nil {
			return nil, err
		}
		if err := t.refund(byNetwork); err != nil {
			return nil, err
		}
		if better != "" && u.hash == hash {
			u.hash = better
			return u, t.put(u)
		}
		return u, nil
	}, true)
}

// finish completes a login whose first factor was right: fn returns the user.
func (a *Auth) finish(ctx context.Context, verb string, fn func(t tx) (*stored, error), verified bool) (User, error) {
	ticket, err := a.newSecret()
	if err != nil {
		return User{}, fmt.Errorf("%s: %w", verb, err)
	}
	var user User
	var refused error // what was written stays written
	err = a.update(ctx, verb, func(t tx) error {
		user, refused = User{}, nil
		u, err := fn(t)
		if err != nil {
			return err
		}
		switch {
		case u.Disabled:
			refused = ErrAccountDisabled
		case verified && !u.Verified() && !a.o.AllowUnverified:
			refused = ErrEmailUnverified
		case u.TOTP:
			refused = &SecondFactor{Ticket: ticket.text, User: u.ID}
			_, err = t.issue(ticket, u, toLogin, u.Email, ticketTTL)
			return err
		}
		if refused != nil {
			return nil //nolint:nilerr // what was counted is kept
		}
		user = u.User
		return t.settle(u)
	})
	if err == nil && refused != nil {
		err = fmt.Errorf("%s: %w", verb, refused)
	}
	if err != nil {
		return User{}, err
	}
	return user, nil
}

// settle makes a pending user permanent: it is in use.
func (t tx) settle(u *stored) error {
	if !u.pending {
		return nil
	}
	u.pending = false
	return t.put(u)
}
