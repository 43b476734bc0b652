package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// MaxTokens is how many tokens of one purpose a user has at once; another
// one invalidates the oldest.
const MaxTokens = 5

// Purpose is what a one-time token is for. The numbers are stored: do not change.
type Purpose uint8

// The purposes of tokens.
const (
	ToVerify Purpose = iota + 1 // the address that a user registered with
	ToChange                    // to another address
	ToReset                     // reset a forgotten password
	toLogin                     // the second factor after the first: a ticket
)

// purposes has all of them.
var purposes = [...]Purpose{ToVerify, ToChange, ToReset, toLogin}

const tokenRawBytes = 32

// tokenCode encodes tokens: 43 characters that need no escaping in a URL.
var tokenCode = base64.RawURLEncoding.Strict()

// token is a token as it is stored.
type token struct {
	purpose Purpose
	user    string
	email   string // as stored; ToVerify, ToReset: of the user; ToChange: the new one
	epoch   uint64 // of the user: a change of password or address ends the token
	expires time.Time
	sum     [sha256.Size]byte
}

func (k token) encode() []byte {
	e := newEncoder()
	e.num(uint64(k.purpose))
	e.str(k.user)
	e.str(k.email)
	e.num(k.epoch)
	return e.b
}

func decodeToken(b []byte) (token, error) {
	d := newDecoder("token", b)
	purpose := d.num()
	if d.err == nil && (purpose == 0 || purpose > uint64(len(purposes))) {
		d.fail("unknown purpose")
	}
	k := token{purpose: Purpose(purpose), user: d.str(), email: d.str(), epoch: d.num()}
	return k, d.end()
}

// parseToken returns the hash under which a token is stored; ok is false if text cannot be a token.
func parseToken(s string) (sum [sha256.Size]byte, ok bool) {
	if len(s) != tokenCode.EncodedLen(tokenRawBytes) {
		return sum, false
	}
	raw, err := tokenCode.DecodeString(s)
	if err != nil || len(raw) != tokenRawBytes {
		return sum, false
	}
	return sha256.Sum256(raw), true
}

// secret is a new token before it is stored.
type secret struct {
	text string
	sum  [sha256.Size]byte
}

// newSecret is called before the transaction, which may run more than once.
func (a *Auth) newSecret() (secret, error) {
	raw, err := a.random(tokenRawBytes)
	if err != nil {
		return secret{}, err
	}
	return secret{tokenCode.EncodeToString(raw), sha256.Sum256(raw)}, nil
}

// issue stores s as a token of u and returns when it expires.
func (t tx) issue(s secret, u *stored, purpose Purpose, email string, ttl time.Duration) (time.Time, error) {
	old, err := t.tokensOf(u.ID, purpose)
	if err != nil {
		return time.Time{}, err
	}
	for ; len(old) >= MaxTokens; old = old[1:] {
		if err := t.dropToken(old[0]); err != nil {
			return time.Time{}, err
		}
	}
	// Whole milliseconds, like kv's, so that the index entry can be found by it.
	expires := t.Now().Add(ttl).Truncate(time.Millisecond)
	k := token{purpose: purpose, user: u.ID, email: email, epoch: u.Epoch, expires: expires, sum: s.sum}
	o := kv.SetOptions{Expires: expires, SkipOld: true}
	if _, err := t.Set(tokenKey(k.sum), k.encode(), o); err != nil {
		return time.Time{}, err
	}
	_, err = t.Set(tokenOfKey(k.user, k.purpose, k.expires, k.sum), nil, o)
	return expires, err
}

// tokensOf returns a user's tokens of one purpose, the oldest first, with only the fields that the index has.
func (t tx) tokensOf(user string, purpose Purpose) ([]token, error) {
	prefix := append(newKey(keyTokenOf, user), byte(purpose))
	var list []token
	for it, err := range t.ScanPrefix(prefix) {
		if err != nil {
			return nil, err
		}
		if rest := it.Key[len(prefix):]; len(rest) == 8+sha256.Size {
			list = append(list, token{purpose: purpose, user: user, expires: it.Expires, sum: [sha256.Size]byte(rest[8:])})
		}
	}
	return list, nil
}

func (t tx) dropToken(k token) error {
	if _, err := t.Delete(tokenKey(k.sum)); err != nil {
		return err
	}
	_, err := t.Delete(tokenOfKey(k.user, k.purpose, k.expires, k.sum))
	return err
}

// dropTokens ends all tokens of a user.
func (t tx) dropTokens(user string) error {
	for _, p := range purposes {
		list, err := t.tokensOf(user, p)
		if err != nil {
			return err
		}
		for _, k := range list {
			if err := t.dropToken(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// token returns the token with this text and its user, or ErrTokenInvalid.
func (t tx) token(text string, purpose ...Purpose) (token, *stored, error) {
	sum, ok := parseToken(text)
	if !ok {
		return token{}, nil, ErrTokenInvalid
	}
	e, ok, err := t.Get(tokenKey(sum))
	if err != nil {
		return token{}, nil, err
	}
	if !ok {
		return token{}, nil, ErrTokenInvalid
	}
	k, err := decodeToken(e.Val)
	if err != nil {
		return token{}, nil, err
	}
	k.sum, k.expires = sum, e.Expires
	u, err := t.user(k.user)
	if err != nil {
		return token{}, nil, err
	}
	fits := false
	for _, p := range purpose {
		fits = fits || k.purpose == p
	}
	if !fits || u == nil || u.Epoch != k.epoch || u.Disabled {
		return token{}, nil, ErrTokenInvalid
	}
	return k, u, nil
}

// CheckToken returns the user of a token, if the token could be used now for the purpose; otherwise
// ErrTokenInvalid. It does not use up the token. Faces call it before they show their form, because mail
// programs open links on their own.
func (a *Auth) CheckToken(ctx context.Context, r engine.Read, purpose Purpose, text string) (User, error) {
	var u User
	err := a.view(ctx, r, "check a token", func(t tx) error {
		_, found, err := t.token(text, purpose)
		if err != nil {
			return err
		}
		u = found.User
		return nil
	})
	return u, err
}
