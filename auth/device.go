package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// MaxDevices is how many devices of one user can be logged in with tokens at once. A further login ends the
// device that was refreshed least recently.
const MaxDevices = 50

// Lifetimes of a device and its tokens, unless Options sets them.
const (
	DefaultAccessTTL  = 15 * time.Minute
	DefaultRefreshTTL = 30 * 24 * time.Hour
	DefaultDeviceTTL  = 365 * 24 * time.Hour
)

// A device has one access token and one refresh token, each PREFIX_ID_SECRET like an API key, with the letter a
// or r after Options.KeyPrefix and the device's id. The secret of a refresh token begins with familyBytes that
// all refresh tokens of the device have in common: with them, a token that is not the current one is known to be
// an earlier one. Do not change.
const (
	accessMark  = "a"
	refreshMark = "r"
	familyBytes = 16
)

// Device is one login with tokens instead of a session, such as that of a mobile app.
type Device struct {
	ID      string // 16 of a–z and 2–7; not secret
	User    string // id of its user
	Name    string // as its login named it
	Created time.Time
	Used    time.Time // when its tokens were last issued
	Expires time.Time // when it ends unless it is refreshed
}

// Tokens are the current tokens of a device. Both texts are secret, returned only once and not stored.
type Tokens struct {
	Access        string // for CheckAccess
	AccessExpires time.Time
	Refresh       string // for Refresh, once; it expires with the device
	Device        Device
}

// storedDevice is a Device with what its tokens are checked by.
type storedDevice struct {
	Device
	accessUntil             time.Time
	access, family, refresh [sha256.Size]byte // hashes of the access secret, the common part and the refresh secret
}

// sums returns the hashes in the order in which they are stored.
func (d *storedDevice) sums() []*[sha256.Size]byte {
	return []*[sha256.Size]byte{&d.access, &d.family, &d.refresh}
}

func (d *storedDevice) encode() []byte {
	e := newEncoder()
	e.str(d.User)
	e.str(d.Name)
	e.time(d.Created)
	e.time(d.Used)
	e.time(d.accessUntil)
	for _, sum := range d.sums() {
		e.b = append(e.b, sum[:]...)
	}
	return e.b
}

func decodeDevice(id string, b []byte) (*storedDevice, error) {
	r := newDecoder("device", b)
	d := &storedDevice{Device: Device{ID: id, User: r.str(), Name: r.str(), Created: r.time(), Used: r.time()}, accessUntil: r.time()}
	if r.err == nil && len(r.b) != 3*sha256.Size {
		r.fail("its hashes are truncated")
	}
	if r.err == nil {
		for _, sum := range d.sums() {
			*sum = [sha256.Size]byte(r.b)
			r.b = r.b[sha256.Size:]
		}
	}
	return d, r.end()
}

// errNoDevice is the error of every token that is not one, or no longer.
func errNoDevice() error {
	return engine.Errorf(engine.CodeUnauthenticated, "the token is unknown, expired or revoked; log in again")
}

// pair is the secrets of new tokens. It is made before the transaction, which may run more than once.
type pair struct{ access, refresh []byte }

// newPair returns new secrets. family is the common part of the device's refresh tokens.
func (a *Auth) newPair(family []byte) (pair, error) {
	raw, err := a.random(2*keySecretRaw - familyBytes)
	if err != nil {
		return pair{}, err
	}
	return pair{raw[:keySecretRaw:keySecretRaw], slices.Concat(family, raw[keySecretRaw:])}, nil
}

// renew gives d the tokens of p and stores it.
func (t tx) renew(d *storedDevice, p pair) (Tokens, error) {
	now, o := t.Now(), t.a.o
	d.Used = now
	d.Expires = earlier(now.Add(o.RefreshTTL), d.Created.Add(o.DeviceTTL)).Truncate(time.Millisecond) // like kv's
	d.accessUntil = earlier(now.Add(o.AccessTTL), d.Expires)
	d.access, d.family, d.refresh = sha256.Sum256(p.access), sha256.Sum256(p.refresh[:familyBytes]), sha256.Sum256(p.refresh)
	set := kv.SetOptions{SkipOld: true, Expires: d.Expires}
	if _, err := t.Set(deviceKey(d.ID), d.encode(), set); err != nil {
		return Tokens{}, err
	}
	if _, err := t.Set(deviceOfKey(d.User, d.ID), nil, set); err != nil {
		return Tokens{}, err
	}
	return Tokens{
		Access: formatKey(o.KeyPrefix+accessMark, d.ID, p.access), AccessExpires: d.accessUntil,
		Refresh: formatKey(o.KeyPrefix+refreshMark, d.ID, p.refresh), Device: d.Device,
	}, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// OpenDevice logs a device in: it returns tokens for u, whom a login has returned just now. name is what the
// user sees in the list of devices. ErrWrongCredentials means that the user was changed, disabled or deleted
// since the login.
func (a *Auth) OpenDevice(ctx context.Context, u User, name string) (Tokens, error) {
	const verb = "log a device in"
	if err := checkLine("the name of a device", name, MaxNameBytes); err != nil {
		return Tokens{}, err
	}
	raw, err := a.random(keyIDRaw + familyBytes)
	if err != nil {
		return Tokens{}, fmt.Errorf("%s: %w", verb, err)
	}
	p, err := a.newPair(raw[keyIDRaw:])
	if err != nil {
		return Tokens{}, fmt.Errorf("%s: %w", verb, err)
	}
	var issued Tokens
	err = a.update(ctx, verb, func(t tx) error {
		now, err := t.user(u.ID)
		if err != nil {
			return err
		}
		if now == nil || now.Epoch != u.Epoch || now.Disabled {
			return ErrWrongCredentials
		}
		if err := t.evictDevices(u.ID); err != nil {
			return err
		}
		d := &storedDevice{Device: Device{ID: base32Lower.EncodeToString(raw[:keyIDRaw]), User: u.ID, Name: name, Created: t.Now()}}
		issued, err = t.renew(d, p)
		return err
	})
	if err != nil {
		return Tokens{}, err
	}
	return issued, nil
}

// evictDevices ends the user's least recently refreshed devices, to allow one more.
func (t tx) evictDevices(user string) error {
	list, err := t.devices(user)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(x, y Device) int { return x.Used.Compare(y.Used) })
	for ; len(list) >= MaxDevices; list = list[1:] {
		if err := t.dropDevice(list[0]); err != nil {
			return err
		}
	}
	return nil
}

// Refresh uses up a refresh token and returns its user with new tokens; the device's access token becomes
// invalid too. A refresh token that was used before has been copied by somebody: ErrTokenReused, and the device
// is logged out, whoever has its current tokens. Any other text is engine.ErrUnauthenticated.
func (a *Auth) Refresh(ctx context.Context, text string) (User, Tokens, error) {
	const verb = "refresh a device"
	id, secret, ok := parseSecret(a.o.KeyPrefix+refreshMark, text)
	if !ok {
		return User{}, Tokens{}, errNoDevice()
	}
	family := func(d *storedDevice) *[sha256.Size]byte { return &d.family }
	// Anyone may send texts that look like tokens. They must not take a turn of those who write.
	err := a.view(ctx, engine.Read{}, verb, func(t tx) error {
		_, _, err := t.deviceWith(id, secret[:familyBytes], family)
		return err
	})
	if err != nil {
		return User{}, Tokens{}, err
	}
	p, err := a.newPair(secret[:familyBytes])
	if err != nil {
		return User{}, Tokens{}, fmt.Errorf("%s: %w", verb, err)
	}
	var user User
	var issued Tokens
	reused := false
	err = a.update(ctx, verb, func(t tx) error {
		user, issued, reused = User{}, Tokens{}, false
		d, u, err := t.deviceWith(id, secret[:familyBytes], family)
		if err != nil {
			return err
		}
		if reused = !matches(secret, &d.refresh); reused {
			return t.dropDevice(d.Device)
		}
		user = u.User
		issued, err = t.renew(d, p)
		return err
	})
	if err == nil && reused {
		err = fmt.Errorf("%s: %w", verb, ErrTokenReused)
	}
	if err != nil {
		return User{}, Tokens{}, err
	}
	return user, issued, nil
}

// matches reports whether sum is that of secret, in constant time.
func matches(secret []byte, sum *[sha256.Size]byte) bool {
	got := sha256.Sum256(secret)
	return subtle.ConstantTimeCompare(got[:], sum[:]) == 1
}

// deviceWith returns a device and its user if secret has the hash that of returns.
func (t tx) deviceWith(id string, secret []byte, of func(*storedDevice) *[sha256.Size]byte) (*storedDevice, *stored, error) {
	d, err := t.device(id)
	if err != nil {
		return nil, nil, err
	}
	if d == nil || !matches(secret, of(d)) {
		return nil, nil, errNoDevice()
	}
	u, err := t.user(d.User)
	if err != nil {
		return nil, nil, err
	}
	if u == nil || u.Disabled {
		return nil, nil, errNoDevice()
	}
	return d, u, nil
}

// IsAccessToken reports whether text has the beginning of an access token. An API key never has it.
func (a *Auth) IsAccessToken(text string) bool {
	return strings.HasPrefix(text, a.o.KeyPrefix+accessMark+"_")
}

// CheckAccess returns the user and the device of an access token. One whose time is over is ErrTokenExpired:
// the device can refresh it. Any other text that is not the current access token of a device is
// engine.ErrUnauthenticated. r decides how soon a revocation takes effect. CheckAccess works on every node and
// writes nothing.
func (a *Auth) CheckAccess(ctx context.Context, r engine.Read, text string) (User, Device, error) {
	id, secret, ok := parseSecret(a.o.KeyPrefix+accessMark, text)
	if !ok {
		return User{}, Device{}, errNoDevice()
	}
	var user User
	var device Device
	err := a.view(ctx, r, "check an access token", func(t tx) error {
		d, u, err := t.deviceWith(id, secret, func(d *storedDevice) *[sha256.Size]byte { return &d.access })
		if err != nil {
			return err
		}
		if !t.Now().Before(d.accessUntil) {
			return ErrTokenExpired
		}
		user, device = u.User, d.Device
		return nil
	})
	return user, device, err
}

// CheckDevice returns nil as long as a device is logged in and its user is not disabled, otherwise
// engine.ErrUnauthenticated. It is for requests that outlive their access token.
func (a *Auth) CheckDevice(ctx context.Context, r engine.Read, id string) error {
	return a.view(ctx, r, "check a device", func(t tx) error {
		d, err := t.device(id)
		if err != nil {
			return err
		}
		if d == nil {
			return errNoDevice()
		}
		u, err := t.user(d.User)
		if err == nil && (u == nil || u.Disabled) {
			err = errNoDevice()
		}
		return err
	})
}

// ListDevices returns the devices of a user, the oldest login first. There are at most MaxDevices.
func (a *Auth) ListDevices(ctx context.Context, r engine.Read, user string) ([]Device, error) {
	var list []Device
	err := a.view(ctx, r, "list devices", func(t tx) (err error) {
		list, err = t.devices(user)
		return err
	})
	slices.SortFunc(list, func(x, y Device) int {
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.ID, y.ID))
	})
	return list, err
}

// RevokeDevice logs a user's device out; CodeNotFound if the user has no such device.
func (a *Auth) RevokeDevice(ctx context.Context, user, id string) error {
	return a.update(ctx, "log a device out", func(t tx) error {
		d, err := t.device(id)
		if err != nil {
			return err
		}
		if d == nil || d.User != user {
			return engine.Errorf(engine.CodeNotFound, "the user has no device %q", id)
		}
		return t.dropDevice(d.Device)
	})
}

// RevokeDevices logs all devices of a user out but those with the given ids, and returns how many there were.
func (a *Auth) RevokeDevices(ctx context.Context, user string, except ...string) (n int, err error) {
	err = a.update(ctx, "log devices out", func(t tx) (err error) {
		n, err = t.dropDevices(user, except...)
		return err
	})
	return n, err
}

// device returns the device with an id, or nil.
func (t tx) device(id string) (*storedDevice, error) {
	if len(id) != keyIDBytes {
		return nil, nil
	}
	e, ok, err := t.Get(deviceKey(id))
	if err != nil || !ok {
		return nil, err
	}
	d, err := decodeDevice(id, e.Val)
	if err != nil {
		return nil, err
	}
	d.Expires = e.Expires
	return d, nil
}

// devices returns the devices of a user.
func (t tx) devices(user string) ([]Device, error) {
	if len(user) != idBytes {
		return nil, nil
	}
	var list []Device
	for it, err := range t.ScanPrefix(deviceOfKey(user, "")) {
		if err != nil {
			return nil, err
		}
		d, err := t.device(string(it.Key[1+len(user):]))
		if err != nil {
			return nil, err
		}
		if d != nil {
			list = append(list, d.Device)
		}
	}
	return list, nil
}

func (t tx) dropDevice(d Device) error {
	if _, err := t.Delete(deviceKey(d.ID)); err != nil {
		return err
	}
	_, err := t.Delete(deviceOfKey(d.User, d.ID))
	return err
}

// dropDevices ends the devices of a user and returns how many there were.
func (t tx) dropDevices(user string, except ...string) (n int, err error) {
	list, err := t.devices(user)
	if err != nil {
		return 0, err
	}
	for _, d := range list {
		if slices.Contains(except, d.ID) {
			continue
		}
		if err := t.dropDevice(d); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
