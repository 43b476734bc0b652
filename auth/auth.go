// Package auth stores users and checks their credentials: passwords, one-time tokens sent by email, second
// factors (TOTP), API keys, tokens of devices and identities at OIDC providers.
//
// It knows users, their secrets, how each is checked and how often it may be tried; it must not know cookies,
// headers, routes, HTML, the contents of sessions or how email is sent. A face calls it and turns its results
// into HTTP. Emails that the face has to send are returned as an Email. DESIGN.md has the layout and the
// invariants.
package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
)

// DefaultSpace is the kv space of users if Options.Space is 0.
const DefaultSpace = keyspace.Users

// Lifetimes of what is sent or shown once, unless Options sets them.
const (
	DefaultResetTTL   = time.Hour
	DefaultVerifyTTL  = 24 * time.Hour
	DefaultPendingTTL = 7 * 24 * time.Hour
	ticketTTL         = 5 * time.Minute
)

// Revoker ends the sessions of a user in the transaction that changes the user, so that no session outlives
// the password that started it.
type Revoker interface {
	RevokeAllIn(tx engine.Tx, user string) error
}

// Options configures an Auth. The zero value works: it has no sessions to revoke and stores TOTP secrets
// unencrypted.
type Options struct {
	Space    uint8     // of kv; 0 means DefaultSpace
	Rand     io.Reader // for secrets, salts and ids; nil means crypto/rand; must be safe for concurrent use
	Sessions Revoker   // nil: there are no sessions

	// Argon2 is the cost of new password hashes; zero fields take their defaults. An older, weaker hash is
	// recomputed when its owner logs in.
	Argon2      Params
	MaxHashing  int // hashes computed at once; 0 means DefaultMaxHashing
	MaxWaiting  int // hashes that wait for their turn; 0 means DefaultMaxWaiting; more are CodeQueueFull
	MinPassword int // characters; 0 means DefaultMinPassword, less than LeastPassword is CodeInvalid

	// Issuer is the application's name in authenticator apps; "" means "Skerry".
	Issuer string
	// Secret, at least 32 bytes, encrypts the TOTP secrets in the store (AES-256-GCM with a key derived from
	// it). It must be the same on all nodes. Nil: they are stored unencrypted. TOTP secrets can no longer be
	// checked without the Secret that encrypted them.
	Secret []byte
	// KeyPrefix begins every API key, 1 to 16 of a–z and 0–9; "" means "sk".
	KeyPrefix string

	// AllowUnverified lets users log in with a password before they have
	// verified their address. Without it that is CodeEmailUnverified.
	AllowUnverified bool

	// KeepRole, if set, is a role that SetRoles, Disable and Delete do not take from the last user who has it and is not disabled:
	// CodePreconditionFailed. To know, they read users until they find another one.
	KeepRole string

	Limits Limits

	ResetTTL   time.Duration // of a reset token; 0 means DefaultResetTTL
	VerifyTTL  time.Duration // of a verify token; 0 means DefaultVerifyTTL
	PendingTTL time.Duration // of a registration that is never verified; 0 means DefaultPendingTTL
	UsedEvery  time.Duration // precision of Key.Used; 0 means 10 minutes

	AccessTTL  time.Duration // of a device's access token; 0 means DefaultAccessTTL
	RefreshTTL time.Duration // of a device that is not refreshed; 0 means DefaultRefreshTTL
	DeviceTTL  time.Duration // of a device after its login, however often it is refreshed; 0 means DefaultDeviceTTL
}

// Auth stores users in one kv space. It is safe for concurrent use and need not be closed; the caller keeps
// ownership of the store.
//
// Every method that writes is one serializable transaction, or two: the first counts the attempt, then the
// password is hashed outside of any transaction, and the second one compares and writes. On a node that does
// not lead these methods do nothing and return engine.ErrNotLeader. Methods that take an engine.Read work on
// every node.
type Auth struct {
	store  *kv.Store
	o      Options
	hash   *hasher
	seal   *sealer // nil: secrets are stored unencrypted
	common map[string]bool
	dummy  string // a hash that matches no password
}

// New returns an Auth on store. Options out of range are CodeInvalid.
func New(store *kv.Store, o Options) (*Auth, error) {
	if err := store.Promises().Meets("auth", kv.Needs()); err != nil {
		return nil, err
	}
	o = withDefaults(o)
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	a := &Auth{store: store, o: o, hash: newHasher(o), common: commonPasswords()}
	var err error
	if len(o.Secret) > 0 {
		if a.seal, err = newSealer(o.Secret, o.Rand); err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
	}
	digest := make([]byte, saltBytes+digestBytes)
	if _, err := io.ReadFull(o.Rand, digest); err != nil {
		return nil, fmt.Errorf("auth: read random bytes: %w", err)
	}
	a.dummy = formatHash(o.Argon2, digest[:saltBytes], digest[saltBytes:])
	return a, nil
}

func withDefaults(o Options) Options {
	o.Space = cmp.Or(o.Space, DefaultSpace)
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	o.Argon2 = o.Argon2.withDefaults()
	o.MaxHashing = cmp.Or(o.MaxHashing, DefaultMaxHashing)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, DefaultMaxWaiting)
	o.MinPassword = cmp.Or(o.MinPassword, DefaultMinPassword)
	o.Issuer = cmp.Or(o.Issuer, "Skerry")
	o.KeyPrefix = cmp.Or(o.KeyPrefix, "sk")
	o.Limits = o.Limits.withDefaults()
	o.ResetTTL = cmp.Or(o.ResetTTL, DefaultResetTTL)
	o.VerifyTTL = cmp.Or(o.VerifyTTL, DefaultVerifyTTL)
	o.PendingTTL = cmp.Or(o.PendingTTL, DefaultPendingTTL)
	o.UsedEvery = cmp.Or(o.UsedEvery, 10*time.Minute)
	o.AccessTTL = cmp.Or(o.AccessTTL, DefaultAccessTTL)
	o.RefreshTTL = cmp.Or(o.RefreshTTL, DefaultRefreshTTL)
	o.DeviceTTL = cmp.Or(o.DeviceTTL, DefaultDeviceTTL)
	return o
}

// check refuses options that cannot work.
func (o Options) check() error {
	if err := o.Argon2.check(); err != nil {
		return err
	}
	if err := o.Limits.check(); err != nil {
		return err
	}
	for _, n := range []struct {
		name string
		v    int64
	}{
		{"MaxHashing", int64(o.MaxHashing)}, {"MaxWaiting", int64(o.MaxWaiting)}, {"ResetTTL", int64(o.ResetTTL)},
		{"VerifyTTL", int64(o.VerifyTTL)}, {"PendingTTL", int64(o.PendingTTL)}, {"UsedEvery", int64(o.UsedEvery)},
		{"AccessTTL", int64(o.AccessTTL)}, {"RefreshTTL", int64(o.RefreshTTL)}, {"DeviceTTL", int64(o.DeviceTTL)},
	} {
		if n.v < 0 {
			return engine.Errorf(engine.CodeInvalid, "option %s is negative: %d", n.name, n.v)
		}
	}
	if o.MinPassword < LeastPassword || o.MinPassword > MaxPasswordBytes/4 {
		return engine.Errorf(engine.CodeInvalid, "option MinPassword is %d, must be from %d to %d", o.MinPassword, LeastPassword, MaxPasswordBytes/4)
	}
	if n := len(o.Secret); n > 0 && n < minSecretBytes {
		return engine.Errorf(engine.CodeInvalid, "option Secret has %d bytes, must have at least %d", n, minSecretBytes)
	}
	if !validPrefix(o.KeyPrefix) {
		return engine.Errorf(engine.CodeInvalid, "option KeyPrefix is %q, must be 1 to %d of a–z and 0–9", o.KeyPrefix, maxPrefixBytes)
	}
	return checkLine("option Issuer", o.Issuer, MaxNameBytes)
}

// tx is one transaction in auth's space.
type tx struct {
	*kv.Tx
	a *Auth
}

// update runs fn as one transaction; verb begins the error's text. fn may run
// more than once, so it must reset its results each time.
func (a *Auth) update(ctx context.Context, verb string, fn func(t tx) error) error {
	_, err := a.store.Update(ctx, a.o.Space, func(t *kv.Tx) error { return fn(tx{t, a}) })
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// view runs fn on a snapshot.
func (a *Auth) view(ctx context.Context, r engine.Read, verb string, fn func(t tx) error) error {
	_, err := a.store.View(ctx, r, a.o.Space, func(t *kv.Tx) error { return fn(tx{t, a}) })
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// revoke ends the user's sessions and devices in this transaction.
func (t tx) revoke(user string) error {
	if _, err := t.dropDevices(user); err != nil {
		return err
	}
	if t.a.o.Sessions == nil {
		return nil
	}
	return t.a.o.Sessions.RevokeAllIn(t.Engine(), user)
}

// random returns n random bytes.
func (a *Auth) random(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(a.o.Rand, b); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	return b, nil
}
