package auth

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Email describes an email that a face has to send. The response to the client must be the same whatever its
// kind is, even None: only the owner of the mailbox may learn whether there is an account.
type Email struct {
	Kind    EmailKind
	To      string // the address, as stored with the user if there is one
	User    User   // zero for None
	Token   string // secret; "" for Known and None
	Expires time.Time
}

// EmailKind is the kind of an Email.
type EmailKind string

// The kinds of emails.
const (
	None   EmailKind = ""       // nothing to send
	Verify EmailKind = "verify" // the token goes to Auth.Verify
	Known  EmailKind = "known"  // somebody tried to register, or to change to, an address that has an account
	Reset  EmailKind = "reset"  // the token goes to Auth.Reset
	Change EmailKind = "change" // like Verify, for a new address
)

// Register creates a user who must verify the address with the Email's token. If the address already has an
// account, the Email's kind is Known and nothing changes, unless that account was registered, never verified
// and never used: then the new password replaces the old one and earlier emails become void. from is the
// client's address, for the rate limit; "" is not counted.
//
// Errors: CodeInvalid for the address, CodePasswordRefused, CodeRateLimited, CodeQueueFull; they do not depend
// on whether there is an account.
func (a *Auth) Register(ctx context.Context, email, password, from string) (Email, error) {
	return a.RegisterUser(ctx, Registration{Email: email, Password: password, From: from})
}

// RegisterUser is Register with the other data that the application asks of its users. A name or a profile
// that is not valid text is CodeInvalid, one that is too long is CodeLimit.
func (a *Auth) RegisterUser(ctx context.Context, r Registration) (Email, error) {
	const verb = "register"
	kept, fold, err := ParseEmail(r.Email)
	if err != nil {
		return Email{}, err
	}
	if err := a.CheckPassword(r.Password, kept); err != nil {
		return Email{}, err
	}
	if err := r.check(); err != nil {
		return Email{}, err
	}
	err = a.update(ctx, verb, func(t tx) error {
		return t.take(attempt{actRegisterFrom, network(r.From)}, attempt{actEmail, fold})
	})
	if err != nil {
		return Email{}, err
	}
	hash, err := a.hash.make(ctx, r.Password)
	if err != nil {
		return Email{}, fmt.Errorf("%s: %w", verb, err)
	}
	id, err := a.newID()
	if err != nil {
		return Email{}, fmt.Errorf("%s: %w", verb, err)
	}
	s, err := a.newSecret()
	if err != nil {
		return Email{}, fmt.Errorf("%s: %w", verb, err)
	}
	var msg Email
	err = a.update(ctx, verb, func(t tx) (err error) {
		msg, err = t.register(id, kept, hash, s, r)
		return err
	})
	if err != nil {
		return Email{}, err
	}
	return msg, nil
}

// register is Register's second transaction. It writes the same amount whether or not
// the address is known, so that its duration reveals nothing.
func (t tx) register(id, kept, hash string, s secret, r Registration) (Email, error) {
	_, fold, err := ParseEmail(kept)
	if err != nil {
		return Email{}, err
	}
	u, err := t.byEmail(fold)
	if err != nil {
		return Email{}, err
	}
	if u != nil && !u.pending {
		return Email{Kind: Known, To: u.Email, User: u.User}, t.pretend(s)
	}
	if u == nil {
		u = &stored{User: User{ID: id, Created: t.Now()}, pending: true}
	} else if err := t.dropTokens(u.ID); err != nil {
		return Email{}, err
	}
	u.Email, u.fold, u.hash, u.Password = kept, fold, hash, true
	u.Name, u.Profile = r.Name, maps.Clone(r.Profile)
	u.Epoch++
	u.expires = t.Now().Add(t.a.o.PendingTTL)
	if err := t.put(u); err != nil {
		return Email{}, err
	}
	expires, err := t.issue(s, u, ToVerify, kept, t.a.o.VerifyTTL)
	return Email{Kind: Verify, To: kept, User: u.User, Token: s.text, Expires: expires}, err
}

// nobody is the user of the tokens that pretend stores: no id looks like it.
const nobody = "nobody"

// pretend stores a token without a user, so that a transaction with nothing to write takes as long as one that
// issues a token.
func (t tx) pretend(s secret) error {
	_, err := t.issue(s, &stored{User: User{ID: nobody}}, ToVerify, "", time.Minute)
	return err
}

// NewUser describes a user for Add.
type NewUser struct {
	Email    string
	Password string // "": the user needs a reset or an identity to log in
	Name     string
	Roles    []string // as for SetRoles
	Verified bool     // the address counts as verified
}

// Create is Add with only an address and a password.
func (a *Auth) Create(ctx context.Context, email, password string, verified bool) (User, error) {
	return a.Add(ctx, NewUser{Email: email, Password: password, Verified: verified})
}

// Add creates a user for an administrator: without an email and without a rate limit. Unlike Register, it
// reports that an address is taken (CodeEmailTaken).
func (a *Auth) Add(ctx context.Context, n NewUser) (User, error) {
	const verb = "create a user"
	kept, fold, err := ParseEmail(n.Email)
	if err != nil {
		return User{}, err
	}
	if err := checkLine("the name", n.Name, MaxNameBytes); err != nil {
		return User{}, err
	}
	roles, err := checkWords("role", n.Roles, MaxRoles, MaxRoleBytes)
	if err != nil {
		return User{}, err
	}
	hash := ""
	if n.Password != "" {
		if err := a.CheckPassword(n.Password, kept); err != nil {
			return User{}, err
		}
		if hash, err = a.hash.make(ctx, n.Password); err != nil {
			return User{}, fmt.Errorf("%s: %w", verb, err)
		}
	}
	id, err := a.newID()
	if err != nil {
		return User{}, fmt.Errorf("%s: %w", verb, err)
	}
	var u *stored
	err = a.update(ctx, verb, func(t tx) error {
		if err := t.makeRoom(fold); err != nil {
			return err
		}
		u = &stored{User: User{ID: id, Email: kept, Name: n.Name, Roles: roles, Created: t.Now(), Password: hash != ""}, fold: fold, hash: hash}
		if n.Verified {
			u.VerifiedAt = t.Now()
		}
		return t.put(u)
	})
	if err != nil {
		return User{}, err
	}
	return u.User, nil
}

// makeRoom frees a folded address: it deletes a pending user with it; any other one is CodeEmailTaken.
func (t tx) makeRoom(fold string) error {
	u, err := t.byEmail(fold)
	switch {
	case err != nil || u == nil:
		return err
	case !u.pending:
		return ErrEmailTaken
	}
	return t.remove(u)
}

// RequestVerify returns an Email with a new token if the address belongs to a user who has not verified it
// yet; otherwise its kind is None. The response to the client must not depend on that.
func (a *Auth) RequestVerify(ctx context.Context, email, from string) (Email, error) {
	return a.request(ctx, "request a verification", email, from, func(t tx, u *stored, s secret) (Email, error) {
		if u.Verified() {
			return Email{}, t.pretend(s)
		}
		expires, err := t.issue(s, u, ToVerify, u.Email, t.a.o.VerifyTTL)
		return Email{Kind: Verify, To: u.Email, User: u.User, Token: s.text, Expires: expires}, err
	})
}

// request counts an email to email and calls fn to issue it for an enabled user.
func (a *Auth) request(ctx context.Context, verb, email, from string, fn func(t tx, u *stored, s secret) (Email, error)) (Email, error) {
	_, fold, err := ParseEmail(email)
	if err != nil {
		return Email{}, err
	}
	s, err := a.newSecret()
	if err != nil {
		return Email{}, fmt.Errorf("%s: %w", verb, err)
	}
	var msg Email
	err = a.update(ctx, verb, func(t tx) error {
		msg = Email{}
		if err := t.take(attempt{actEmailFrom, network(from)}, attempt{actEmail, fold}); err != nil {
			return err
		}
		u, err := t.byEmail(fold)
		if err != nil {
			return err
		}
		if u == nil || u.Disabled {
			return t.pretend(s)
		}
		msg, err = fn(t, u, s)
		return err
	})
	if err != nil {
		return Email{}, err
	}
	return msg, nil
}

// RequestChange returns an Email to a new address for a user. The address becomes the user's only once its
// token is verified. If the address has an account, the Email's kind is Known, and the response to the client
// must be the same. The caller must have authenticated the user again, by the password if there is one.
func (a *Auth) RequestChange(ctx context.Context, user, email, from string) (Email, error) {
	kept, fold, err := ParseEmail(email)
	if err != nil {
		return Email{}, err
	}
	s, err := a.newSecret()
	if err != nil {
		return Email{}, fmt.Errorf("request a change of address: %w", err)
	}
	var msg Email
	err = a.update(ctx, "request a change of address", func(t tx) error {
		msg = Email{}
		if err := t.take(attempt{actEmailFrom, network(from)}, attempt{actEmail, fold}); err != nil {
			return err
		}
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		other, err := t.byEmail(fold)
		if err != nil {
			return err
		}
		if other != nil && other.ID != user && !other.pending {
			msg = Email{Kind: Known, To: other.Email, User: other.User}
			return t.pretend(s)
		}
		expires, err := t.issue(s, u, ToChange, kept, t.a.o.VerifyTTL)
		msg = Email{Kind: Change, To: kept, User: u.User, Token: s.text, Expires: expires}
		return err
	})
	if err != nil {
		return Email{}, err
	}
	return msg, nil
}

// Verified is the result of Verify.
type Verified struct {
	User User
	Was  string // the previous address, if it was changed: notify it
}

// Proof shows that the account belongs to the person who opened the email.
type Proof struct {
	Password string // of the user
	User     string // id of the logged-in user, for users without a password; "": nobody
}

// Verify uses up a token of a Verify or Change email: the address that it was sent to becomes the user's
// verified address. A changed address ends all other tokens of the user. The token only proves who reads the
// address's mail; by proves that the account belongs to the same person. Otherwise anyone could register, or
// change to, the address of somebody else, who would confirm it with one click.
//
// Errors: ErrTokenInvalid; ErrEmailTaken if another user has verified the address in the meantime;
// ErrWrongCredentials for a wrong password, which counts as a wrong login; CodeUnauthenticated for a user who
// has no password and is not logged in; CodeRateLimited, CodeQueueFull. After all but the first two, the token
// can be used again.
func (a *Auth) Verify(ctx context.Context, text string, by Proof) (Verified, error) {
	const verb = "verify an address"
	if err := a.prove(ctx, verb, text, by); err != nil {
		return Verified{}, err
	}
	var done Verified
	err := a.update(ctx, verb, func(t tx) error {
		done = Verified{}
		k, u, err := t.token(text, ToVerify, ToChange) // of the same epoch, so the password is the same
		if err != nil {
			return err
		}
		if err := t.dropToken(k); err != nil {
			return err
		}
		if err := t.forget(u.attempt()); err != nil {
			return err
		}
		if k.purpose == ToChange {
			done.Was = u.Email
			if err := t.moveTo(u, k.email); err != nil {
				return err
			}
		}
		u.VerifiedAt, u.pending = t.Now(), false
		done.User = u.User
		return t.put(u)
	})
	if err != nil {
		return Verified{}, err
	}
	return done, nil
}

// prove counts an attempt and checks by against the user of a token.
func (a *Auth) prove(ctx context.Context, verb, text string, by Proof) error {
	if len(by.Password) > MaxPasswordBytes {
		return fmt.Errorf("%s: %w", verb, ErrWrongCredentials)
	}
	hash := ""
	err := a.update(ctx, verb, func(t tx) error {
		_, u, err := t.token(text, ToVerify, ToChange)
		if err != nil {
			return err
		}
		if hash = u.hash; hash != "" {
			return t.take(u.attempt())
		}
		if by.User != u.ID {
			return engine.Errorf(engine.CodeUnauthenticated, "log in to confirm the address")
		}
		return nil
	})
	if err != nil || hash == "" {
		return err
	}
	right, _, err := a.hash.verify(ctx, by.Password, hash)
	if err == nil && !right {
		err = ErrWrongCredentials
	}
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// moveTo gives u another address, without storing u.
func (t tx) moveTo(u *stored, email string) error {
	kept, fold, err := ParseEmail(email)
	if err != nil {
		return engine.Errorf(engine.CodeCorrupt, "the token's address: %w", err)
	}
	if fold != u.fold {
		if err := t.makeRoom(fold); err != nil {
			return err
		}
		if u.fold != "" {
			if _, err := t.Delete(emailKey(u.fold)); err != nil {
				return err
			}
		}
	}
	u.Email, u.fold = kept, fold
	u.Epoch++
	return t.dropTokens(u.ID)
}
