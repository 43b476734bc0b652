package auth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

const (
	totpPeriod     = 30 // seconds; with six digits and SHA-1, what every app supports
	totpSkew       = 1  // steps that a clock may be off
	totpBytes      = 20 // length of a secret; RFC 4226, section 4, R6
	recoveryCodes  = 10
	recoveryRaw    = 10 // bytes of one: 80 bits, so that a plain hash suffices
	recoveryLength = 16 // letters and digits
)

// factor is a second factor as it is stored.
type factor struct {
	confirmed bool
	sealed    bool // secret is encrypted
	secret    []byte
	step      uint64              // the last one used; earlier ones are void
	codes     [][sha256.Size]byte // unused recovery codes
}

const (
	flagConfirmed = 1 << iota // stored: do not change
	flagSealed
)

func (f *factor) encode() []byte {
	e := newEncoder()
	flags := uint64(0)
	if f.confirmed {
		flags |= flagConfirmed
	}
	if f.sealed {
		flags |= flagSealed
	}
	e.num(flags)
	e.str(string(f.secret))
	e.num(f.step)
	e.num(uint64(len(f.codes)))
	for _, c := range f.codes {
		e.b = append(e.b, c[:]...)
	}
	return e.b
}

func decodeFactor(b []byte) (*factor, error) {
	d := newDecoder("second factor", b)
	flags := d.num()
	f := &factor{confirmed: flags&flagConfirmed != 0, sealed: flags&flagSealed != 0, secret: []byte(d.str()), step: d.num()}
	n := d.num()
	if flags&^(flagConfirmed|flagSealed) != 0 {
		d.fail("unknown flags")
	}
	if d.err == nil && (n > recoveryCodes || uint64(len(d.b)) != n*sha256.Size) {
		d.fail("its recovery codes are cut off")
	}
	if d.err == nil {
		for len(d.b) > 0 {
			f.codes = append(f.codes, [sha256.Size]byte(d.b))
			d.b = d.b[sha256.Size:]
		}
	}
	return f, d.end()
}

// factor returns a user's second factor, or nil.
func (t tx) factor(user string) (*factor, error) {
	e, ok, err := t.Get(totpKey(user))
	if err != nil || !ok {
		return nil, err
	}
	return decodeFactor(e.Val)
}

func (t tx) putFactor(user string, f *factor) error {
	_, err := t.Set(totpKey(user), f.encode(), kv.SetOptions{SkipOld: true})
	return err
}

// open returns the secret as text, in the form that the library takes.
func (a *Auth) open(user string, f *factor) (string, error) {
	raw := f.secret
	if f.sealed {
		var err error
		if raw, err = a.seal.open(raw, user); err != nil {
			return "", err
		}
	}
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw), nil
}

// Enrolment sets up an authenticator app. Both fields are secret.
type Enrolment struct {
	Secret string // base32, for typing
	URL    string // otpauth://…, to show as a QR code
}

// EnrolTOTP makes a secret for a user's authenticator app. The second factor is required only after
// ConfirmTOTP; until then another call replaces the secret. A user who already has a second factor must remove
// it first: CodePreconditionFailed.
func (a *Auth) EnrolTOTP(ctx context.Context, user string) (Enrolment, error) {
	const verb = "enrol a second factor"
	raw, err := a.random(totpBytes)
	if err != nil {
		return Enrolment{}, fmt.Errorf("%s: %w", verb, err)
	}
	f := &factor{secret: raw}
	if a.seal != nil {
		f.sealed = true
		if f.secret, err = a.seal.seal(raw, user); err != nil {
			return Enrolment{}, fmt.Errorf("%s: %w", verb, err)
		}
	}
	var account string
	err = a.update(ctx, verb, func(t tx) error {
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		if u.TOTP {
			return engine.Errorf(engine.CodePreconditionFailed, "the user has a second factor; remove it first")
		}
		if err := t.settle(u); err != nil {
			return err
		}
		account = cmp.Or(u.Email, u.ID)
		return t.putFactor(user, f)
	})
	if err != nil {
		return Enrolment{}, err
	}
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: a.o.Issuer, AccountName: account, Period: totpPeriod, Secret: raw, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1,
	})
	if err != nil {
		return Enrolment{}, fmt.Errorf("%s: %w", verb, err)
	}
	return Enrolment{Secret: key.Secret(), URL: key.URL()}, nil
}

// ConfirmTOTP turns on a user's second factor with a first code of the app, and returns recovery codes, which
// the face shows once. From then on every login requires the second factor. Errors: ErrCodeWrong,
// CodeRateLimited; CodePreconditionFailed without EnrolTOTP before, or if it is already on.
func (a *Auth) ConfirmTOTP(ctx context.Context, user, code string) ([]string, error) {
	texts, sums, err := a.newRecovery()
	if err != nil {
		return nil, fmt.Errorf("confirm a second factor: %w", err)
	}
	err = a.withCode(ctx, "confirm a second factor", user, code, false, func(t tx, u *stored, f *factor) error {
		f.confirmed, f.codes, u.TOTP = true, sums, true
		if err := t.put(u); err != nil {
			return err
		}
		return t.putFactor(u.ID, f)
	})
	if err != nil {
		return nil, err
	}
	return texts, nil
}

// NewRecoveryCodes replaces a user's recovery codes. It requires a code of the app or a recovery code.
func (a *Auth) NewRecoveryCodes(ctx context.Context, user, code string) ([]string, error) {
	const verb = "make recovery codes"
	texts, sums, err := a.newRecovery()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	err = a.withCode(ctx, verb, user, code, true, func(t tx, u *stored, f *factor) error {
		f.codes = sums
		return t.putFactor(u.ID, f)
	})
	if err != nil {
		return nil, err
	}
	return texts, nil
}

// DisableTOTP removes a user's second factor. It requires a code of the app or a recovery code.
func (a *Auth) DisableTOTP(ctx context.Context, user, code string) error {
	return a.withCode(ctx, "remove the second factor", user, code, true, func(t tx, u *stored, _ *factor) error {
		return t.removeFactor(u)
	})
}

// RemoveTOTP removes a user's second factor without a code. It is for administrators, for users who have lost
// the app and the recovery codes. It ends the user's sessions and devices.
func (a *Auth) RemoveTOTP(ctx context.Context, user string) error {
	return a.update(ctx, "remove the second factor", func(t tx) error {
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		if err := t.removeFactor(u); err != nil {
			return err
		}
		return t.revoke(user)
	})
}

func (t tx) removeFactor(u *stored) error {
	if _, err := t.Delete(totpKey(u.ID)); err != nil {
		return err
	}
	u.TOTP = false
	return t.put(u)
}

// RecoveryCodesLeft returns how many unused recovery codes a user has.
func (a *Auth) RecoveryCodesLeft(ctx context.Context, r engine.Read, user string) (int, error) {
	n := 0
	err := a.view(ctx, r, "count recovery codes", func(t tx) error {
		f, err := t.factor(user)
		if err == nil && f != nil {
			n = len(f.codes)
		}
		return err
	})
	return n, err
}

// withCode counts an attempt, checks a code of a known user and calls fn to write in the same transaction. f
// is not stored yet when fn is called.
func (a *Auth) withCode(ctx context.Context, verb, user, code string, on bool, fn func(t tx, u *stored, f *factor) error) error {
	var refused error
	err := a.update(ctx, verb, func(t tx) error {
		refused = nil
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		f, err := t.factor(user)
		if err != nil {
			return err
		}
		if f == nil || f.confirmed != on {
			return engine.Errorf(engine.CodePreconditionFailed, "the user's second factor is on already, or was not enrolled")
		}
		right, err := t.try(u, f, code, totpOrRecovery)
		if err != nil {
			return err
		}
		if !right {
			refused = ErrCodeWrong
			return nil
		}
		return fn(t, u, f)
	})
	if err == nil && refused != nil {
		err = fmt.Errorf("%s: %w", verb, refused)
	}
	return err
}

// The kinds of codes that a method accepts.
const (
	totpOnly = iota
	recoveryOnly
	totpOrRecovery
)

// try counts an attempt and checks a code. It marks a right code as used in f, which the caller stores, and
// resets the count.
func (t tx) try(u *stored, f *factor, code string, kind int) (bool, error) {
	count := attempt{actCode, u.ID}
	if err := t.take(count); err != nil {
		return false, err
	}
	right := false
	if kind != recoveryOnly {
		secret, err := t.a.open(u.ID, f)
		if err != nil {
			return false, err
		}
		if right, err = f.useTOTP(secret, code, t.Now()); err != nil {
			return false, err
		}
	}
	if !right && kind != totpOnly {
		right = f.useRecovery(code)
	}
	if !right {
		return false, nil
	}
	if s := t.a.seal; s != nil && !f.sealed { // it is older than Options.Secret
		sealed, err := s.seal(f.secret, u.ID)
		if err != nil {
			return false, err
		}
		f.secret, f.sealed = sealed, true
	}
	return true, t.forget(count)
}

// useTOTP reports whether code is that of the current step, the previous or the next one, and neither that
// step nor a later one was used yet. It then marks the step as used.
func (f *factor) useTOTP(secret, code string, now time.Time) (bool, error) {
	code = strings.TrimSpace(code)
	if len(code) != otp.DigitsSix.Length() {
		return false, nil
	}
	current := uint64(max(now.Unix(), 0)) / totpPeriod
	for step := current - min(totpSkew, current); step <= current+totpSkew; step++ {
		right, err := hotp.ValidateCustom(code, step, secret, hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		if err != nil {
			return false, fmt.Errorf("check a code: %w", err)
		}
		if right && step > f.step {
			f.step = step
			return true, nil
		}
	}
	return false, nil
}

// useRecovery reports whether code is an unused recovery code, and marks it as used.
func (f *factor) useRecovery(code string) bool {
	code = strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(code))
	if len(code) != recoveryLength {
		return false
	}
	sum := sha256.Sum256([]byte(code))
	for i := range f.codes {
		if subtle.ConstantTimeCompare(sum[:], f.codes[i][:]) == 1 {
			f.codes = append(f.codes[:i:i], f.codes[i+1:]...)
			return true
		}
	}
	return false
}

// newRecovery returns new recovery codes, xxxx-xxxx-xxxx-xxxx, and their hashes.
func (a *Auth) newRecovery() (texts []string, sums [][sha256.Size]byte, err error) {
	for range recoveryCodes {
		raw, err := a.random(recoveryRaw)
		if err != nil {
			return nil, nil, err
		}
		code := base32Lower.EncodeToString(raw)
		sums = append(sums, sha256.Sum256([]byte(code)))
		texts = append(texts, string(bytes.Join([][]byte{[]byte(code[:4]), []byte(code[4:8]), []byte(code[8:12]), []byte(code[12:])}, []byte("-"))))
	}
	return texts, sums, nil
}

// LoginTOTP completes a login with a code of the user's app. After a wrong code the ticket can be used again,
// until it expires. Errors: ErrTokenInvalid for the ticket, ErrCodeWrong, CodeRateLimited.
func (a *Auth) LoginTOTP(ctx context.Context, ticket, code string) (User, error) {
	return a.second(ctx, ticket, code, totpOnly)
}

// TicketUser returns the user of a ticket that LoginTOTP would take now, or ErrTokenInvalid. The user is not logged in yet.
func (a *Auth) TicketUser(ctx context.Context, r engine.Read, ticket string) (User, error) {
	return a.CheckToken(ctx, r, toLogin, ticket)
}

// LoginRecovery is LoginTOTP with a recovery code, which it uses up.
func (a *Auth) LoginRecovery(ctx context.Context, ticket, code string) (User, error) {
	return a.second(ctx, ticket, code, recoveryOnly)
}

func (a *Auth) second(ctx context.Context, ticket, code string, kind int) (User, error) {
	const verb = "log in with a second factor"
	var user User
	var refused error
	err := a.update(ctx, verb, func(t tx) error {
		user, refused = User{}, nil
		k, u, err := t.token(ticket, toLogin)
		if err != nil {
			return err
		}
		f, err := t.factor(u.ID)
		if err != nil {
			return err
		}
		if f == nil || !f.confirmed {
			return ErrTokenInvalid // removed meanwhile: the password alone suffices
		}
		right, err := t.try(u, f, code, kind)
		if err != nil {
			return err
		}
		if !right {
			refused = ErrCodeWrong
			return nil
		}
		if err := t.putFactor(u.ID, f); err != nil {
			return err
		}
		user = u.User
		return t.dropToken(k)
	})
	if err == nil && refused != nil {
		err = fmt.Errorf("%s: %w", verb, refused)
	}
	if err != nil {
		return User{}, err
	}
	return user, nil
}
