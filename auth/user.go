package auth

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Limits of a user. Going over one is CodeLimit.
const (
	MaxNameBytes = 200    // bytes of a name
	MaxRoles     = 32     // roles of a user
	MaxRoleBytes = 64     // bytes of a role
	MaxPage      = 10_000 // users in one page of List
)

// User is one account. It is a copy.
type User struct {
	ID         string // 26 of a–z and 2–7; random, never given to another user
	Email      string // as given, trimmed, its domain in lower case; "": none
	VerifiedAt time.Time
	Name       string // what the application calls the user; may be ""
	Created    time.Time
	TOTP       bool // a second factor is required
	Password   bool // whether there is one
	Disabled   bool
	Roles      []string // sorted, each once
	// Profile has the application's other data about the user; nil if there is none.
	Profile map[string]string
	// Epoch grows with every change of the password or the address. A login at one epoch is void at another. A
	// face that starts a session for a user whom a login returned must check, once the session is stored, that
	// the epoch is still the same.
	Epoch uint64
}

// Verified reports whether the user has verified Email.
func (u User) Verified() bool { return !u.VerifiedAt.IsZero() }

// Has reports whether the user has a role.
func (u User) Has(role string) bool { return slices.Contains(u.Roles, role) }

// stored is a user with the fields that only auth uses.
type stored struct {
	User
	fold string // Email in lower case: the key
	hash string // "": no password
	// pending: registered, but neither verified nor logged in since. It expires, and gives way to anyone who
	// verifies the address.
	pending bool
	expires time.Time // of a pending one
}

const (
	flagDisabled = 1 << iota // stored: do not change
	flagPending
	flagTOTP
	flagProfile
	flagsKnown = flagDisabled | flagPending | flagTOTP | flagProfile
)

func (u *stored) encode() []byte {
	e := newEncoder()
	flags := uint64(0)
	for _, f := range []struct {
		on  bool
		bit uint64
	}{{u.Disabled, flagDisabled}, {u.pending, flagPending}, {u.TOTP, flagTOTP}, {len(u.Profile) > 0, flagProfile}} {
		if f.on {
			flags |= f.bit
		}
	}
	e.num(flags)
	e.str(u.Email)
	e.time(u.VerifiedAt)
	e.str(u.Name)
	e.time(u.Created)
	e.str(u.hash)
	e.num(u.Epoch)
	e.strs(u.Roles)
	if len(u.Profile) > 0 {
		e.profile(u.Profile)
	}
	return e.b
}

func decodeUser(id string, b []byte) (*stored, error) {
	d := newDecoder("user", b)
	flags := d.num()
	u := &stored{User: User{ID: id, Email: d.str(), VerifiedAt: d.time(), Name: d.str(), Created: d.time()}}
	u.hash, u.Epoch, u.Roles = d.str(), d.num(), d.strs()
	if flags&flagProfile != 0 {
		u.Profile = d.profile()
	}
	if flags&^flagsKnown != 0 {
		d.fail("unknown flags")
	}
	u.Disabled, u.pending, u.TOTP = flags&flagDisabled != 0, flags&flagPending != 0, flags&flagTOTP != 0
	u.Password = u.hash != ""
	u.fold = strings.ToLower(u.Email) // as in ParseEmail
	return u, d.end()
}

// user returns the user with an id, or nil.
func (t tx) user(id string) (*stored, error) {
	if len(id) != idBytes {
		return nil, nil
	}
	e, ok, err := t.Get(userKey(id))
	if err != nil || !ok {
		return nil, err
	}
	u, err := decodeUser(id, e.Val)
	if err != nil {
		return nil, err
	}
	u.expires = e.Expires
	return u, nil
}

// mustUser returns the user with an id, or CodeNotFound.
func (t tx) mustUser(id string) (*stored, error) {
	u, err := t.user(id)
	if err == nil && u == nil {
		err = engine.Errorf(engine.CodeNotFound, "there is no user %q", id)
	}
	return u, err
}

// byEmail returns the user with a folded address, or nil.
func (t tx) byEmail(fold string) (*stored, error) {
	e, ok, err := t.Get(emailKey(fold))
	if err != nil || !ok {
		return nil, err
	}
	id := string(e.Val)
	u, err := t.user(id)
	if err == nil && (u == nil || u.fold != fold) {
		err = engine.Errorf(engine.CodeCorrupt, "the address of user %q has no user", id)
	}
	return u, err
}

// put stores u, which expires if it is pending.
func (t tx) put(u *stored) error {
	o := kv.SetOptions{SkipOld: true}
	if u.pending {
		o.Expires = u.expires
	}
	if u.fold != "" {
		if _, err := t.Set(emailKey(u.fold), []byte(u.ID), o); err != nil {
			return err
		}
	}
	_, err := t.Set(userKey(u.ID), u.encode(), o)
	return err
}

// newID returns the id for a new user.
func (a *Auth) newID() (string, error) {
	raw, err := a.random(idRawBytes)
	return base32Lower.EncodeToString(raw), err
}

// Get returns the user with an id, or CodeNotFound.
func (a *Auth) Get(ctx context.Context, r engine.Read, id string) (User, error) {
	var u User
	err := a.view(ctx, r, "get a user", func(t tx) error {
		found, err := t.mustUser(id)
		if err != nil {
			return err
		}
		u = found.User
		return nil
	})
	return u, err
}

// Find returns the user with an email address, whatever its case, or
// CodeNotFound. It is for administrators: its result reveals whether an address has an account.
func (a *Auth) Find(ctx context.Context, r engine.Read, email string) (User, error) {
	kept, fold, err := ParseEmail(email)
	if err != nil {
		return User{}, err
	}
	var u User
	err = a.view(ctx, r, "find a user", func(t tx) error {
		found, err := t.byEmail(fold)
		if err != nil {
			return err
		}
		if found == nil {
			return engine.Errorf(engine.CodeNotFound, "no user has the address %q", kept)
		}
		u = found.User
		return nil
	})
	return u, err
}

// ListOptions selects the users that List returns.
type ListOptions struct {
	After string // the last id of the previous page
	Limit int    // most users; 0 means 100, over MaxPage is CodeLimit
}

// Page is a part of the users, in ascending order of ids, which is not chronological.
type Page struct {
	Users []User
	More  bool // there are more users after the last one
}

// List returns one page of all users.
func (a *Auth) List(ctx context.Context, r engine.Read, o ListOptions) (Page, error) {
	page, _, err := a.store.List(ctx, r, a.o.Space, kv.ListOptions{
		Prefix: []byte{keyUser}, After: afterKey(o.After), Limit: o.Limit,
	})
	if err != nil {
		return Page{}, err
	}
	list := Page{More: page.More}
	for _, it := range page.Items {
		u, err := decodeUser(string(it.Key[1:]), it.Val)
		if err != nil {
			return Page{}, err
		}
		list.Users = append(list.Users, u.User)
	}
	return list, nil
}

func afterKey(id string) []byte {
	if id == "" {
		return nil
	}
	return userKey(id)
}
