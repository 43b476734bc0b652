package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Limits of API keys. Going over one is CodeLimit.
const (
	MaxKeys       = 100 // API keys of a user
	MaxScopes     = 32  // scopes of a key
	MaxScopeBytes = 64  // bytes of a scope
)

// An API key is PREFIX_ID_SECRET: 16 letters of a random id, 52 of a 256-bit secret and 7 of a CRC-32 of
// everything before. With the checksum, a scanner for leaked keys, or a server without reading its data, can
// recognise a mistyped key. Do not change.
const (
	maxPrefixBytes = 16
	keyIDRaw       = 10
	keyIDBytes     = 16
	keySecretRaw   = 32
	keySecretBytes = 52
	keySumBytes    = 7
)

// Key is an API key without its secret.
type Key struct {
	ID      string // 16 of a–z and 2–7; part of the key, not secret
	User    string // id of its owner
	Name    string
	Scopes  []string // sorted
	Created time.Time
	Expires time.Time // zero: never
	Used    time.Time // last use, with the precision of Options.UsedEvery; zero: never
}

// Allows reports whether the key may be used for a scope: one of its scopes equals scope, is "*", or ends in
// ":*" and scope begins with the part before the star. A key without scopes allows nothing.
func (k Key) Allows(scope string) bool {
	return slices.ContainsFunc(k.Scopes, func(s string) bool {
		if s == scope || s == "*" {
			return true
		}
		begin, wild := strings.CutSuffix(s, "*")
		return wild && strings.HasSuffix(begin, ":") && strings.HasPrefix(scope, begin)
	})
}

// storedKey is a Key with the hash of its secret.
type storedKey struct {
	Key
	sum [sha256.Size]byte
}

func (k *storedKey) encode() []byte {
	e := newEncoder()
	e.str(k.User)
	e.str(k.Name)
	e.strs(k.Scopes)
	e.time(k.Created)
	e.time(k.Expires)
	e.time(k.Used)
	e.b = append(e.b, k.sum[:]...)
	return e.b
}

func decodeKey(id string, b []byte) (*storedKey, error) {
	d := newDecoder("API key", b)
	k := &storedKey{Key: Key{ID: id, User: d.str(), Name: d.str(), Scopes: d.strs(), Created: d.time(), Expires: d.time(), Used: d.time()}}
	if d.err == nil && len(d.b) != len(k.sum) {
		d.fail("its hash is truncated")
	}
	if d.err == nil {
		k.sum = [sha256.Size]byte(d.b)
		d.b = nil
	}
	return k, d.end()
}

func validPrefix(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= maxPrefixBytes
}

// formatKey returns the text of a key.
func formatKey(prefix, id string, secret []byte) string {
	s := prefix + "_" + id + "_" + base32Lower.EncodeToString(secret)
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(s)))
	return s + base32Lower.EncodeToString(sum)
}

// parseKey splits a key into its parts; ok is false if it is not a key with this prefix.
func parseKey(prefix, s string) (id string, sum [sha256.Size]byte, ok bool) {
	id, secret, ok := parseSecret(prefix, s)
	return id, sha256.Sum256(secret), ok
}

// parseSecret splits the text of a key, or of a token of a device, into its id and its secret.
func parseSecret(prefix, s string) (id string, secret []byte, ok bool) {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != keyIDBytes+1+keySecretBytes+keySumBytes || rest[keyIDBytes] != '_' {
		return "", nil, false
	}
	id = rest[:keyIDBytes]
	if raw, err := base32Lower.DecodeString(id); err != nil || len(raw) != keyIDRaw {
		return "", nil, false
	}
	secret, err := base32Lower.DecodeString(rest[keyIDBytes+1 : keyIDBytes+1+keySecretBytes])
	if err != nil || len(secret) != keySecretRaw || formatKey(prefix, id, secret) != s {
		return "", nil, false
	}
	return id, secret, true
}

// CreateKey makes an API key for a user. Its text is returned only once and not stored. expires may be zero,
// for never, and is truncated to milliseconds. Errors: CodeNotFound for the user, CodeInvalid for an expiry in
// the past or a scope with characters other than letters, digits and -_.:/*, and CodeLimit.
func (a *Auth) CreateKey(ctx context.Context, user, name string, scopes []string, expires time.Time) (text string, key Key, err error) {
	const verb = "create an API key"
	if err := checkLine("the name of a key", name, MaxNameBytes); err != nil {
		return "", Key{}, err
	}
	if scopes, err = checkWords("scope", scopes, MaxScopes, MaxScopeBytes); err != nil {
		return "", Key{}, err
	}
	if !expires.IsZero() {
		expires = expires.UTC().Truncate(time.Millisecond)
	}
	raw, err := a.random(keyIDRaw + keySecretRaw)
	if err != nil {
		return "", Key{}, fmt.Errorf("%s: %w", verb, err)
	}
	id, secret := base32Lower.EncodeToString(raw[:keyIDRaw]), raw[keyIDRaw:]
	var k *storedKey
	err = a.update(ctx, verb, func(t tx) error {
		u, err := t.mustUser(user)
		if err != nil {
			return err
		}
		if !expires.IsZero() && !expires.After(t.Now()) {
			return engine.Errorf(engine.CodeInvalid, "the expiry %s is in the past", expires.UTC().Format(time.RFC3339))
		}
		ids, err := t.keysOf(user)
		if err != nil {
			return err
		}
		if len(ids) >= MaxKeys {
			return engine.Errorf(engine.CodeLimit, "the user has %d API keys, at most %d; revoke one first", len(ids), MaxKeys)
		}
		if err := t.settle(u); err != nil {
			return err
		}
		k = &storedKey{Key{ID: id, User: user, Name: name, Scopes: scopes, Created: t.Now(), Expires: expires}, sha256.Sum256(secret)}
		return t.putKey(k)
	})
	if err != nil {
		return "", Key{}, err
	}
	return formatKey(a.o.KeyPrefix, id, secret), k.Key, nil
}

// checkWords returns the words sorted and without duplicates.
func checkWords(what string, words []string, most, mostBytes int) ([]string, error) {
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	if len(words) > most {
		return nil, engine.Errorf(engine.CodeLimit, "%d %ss, at most %d", len(words), what, most)
	}
	for _, w := range words {
		if len(w) > mostBytes {
			return nil, engine.Errorf(engine.CodeLimit, "the %s %q has %d bytes, at most %d", what, w, len(w), mostBytes)
		}
		if w == "" || strings.ContainsFunc(w, func(c rune) bool {
			return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.:/*", c))
		}) {
			return nil, engine.Errorf(engine.CodeInvalid, "the %s %q must be of letters, digits and -_.:/*", what, w)
		}
	}
	return words, nil
}

func (t tx) putKey(k *storedKey) error {
	// It also expires in kv, to free the space; whole milliseconds.
	o := kv.SetOptions{SkipOld: true, Expires: k.Expires}
	if _, err := t.Set(apiKey(k.ID), k.encode(), o); err != nil {
		return err
	}
	_, err := t.Set(apiOfKey(k.User, k.ID), nil, o)
	return err
}

// key returns the key with an id, or nil.
func (t tx) key(id string) (*storedKey, error) {
	e, ok, err := t.Get(apiKey(id))
	if err != nil || !ok {
		return nil, err
	}
	return decodeKey(id, e.Val)
}

// keysOf returns the ids of a user's keys.
func (t tx) keysOf(user string) ([]string, error) {
	var ids []string
	for it, err := range t.ScanPrefix(apiOfKey(user, "")) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, string(it.Key[1+len(user):]))
	}
	return ids, nil
}

// CheckKey returns an API key and its owner, if text is a key that has neither expired nor been revoked, and
// the owner is not disabled. Anything else is engine.ErrUnauthenticated. r decides how soon a revocation takes
// effect. CheckKey works on every node. Only the leader records the use of the key; failing to do so is not an
// error.
func (a *Auth) CheckKey(ctx context.Context, r engine.Read, text string) (User, Key, error) {
	wrong := engine.Errorf(engine.CodeUnauthenticated, "the API key is unknown, expired or revoked")
	id, sum, ok := parseKey(a.o.KeyPrefix, text)
	if !ok {
		return User{}, Key{}, wrong
	}
	var user User
	var key Key
	stale := false
	err := a.view(ctx, r, "check an API key", func(t tx) error {
		k, err := t.key(id)
		if err != nil {
			return err
		}
		if k == nil || subtle.ConstantTimeCompare(sum[:], k.sum[:]) != 1 {
			return wrong
		}
		if !k.Expires.IsZero() && !t.Now().Before(k.Expires) {
			return wrong
		}
		u, err := t.user(k.User)
		if err != nil {
			return err
		}
		if u == nil || u.Disabled {
			return wrong
		}
		user, key, stale = u.User, k.Key, a.stale(t, k)
		return nil
	})
	if err != nil {
		return User{}, Key{}, err
	}
	if stale {
		a.markUsed(ctx, id)
	}
	return user, key, nil
}

func (a *Auth) stale(t tx, k *storedKey) bool { return t.Now().Sub(k.Used) >= a.o.UsedEvery }

// markUsed records that a key is used now. It ignores errors: the key is valid, and its next use tries again.
func (a *Auth) markUsed(ctx context.Context, id string) {
	_ = a.update(ctx, "mark an API key as used", func(t tx) error {
		k, err := t.key(id)
		if err != nil || k == nil || !a.stale(t, k) {
			return err
		}
		k.Used = t.Now()
		return t.putKey(k)
	})
}

// ListKeys returns all keys of a user, the oldest first. There are at most MaxKeys.
func (a *Auth) ListKeys(ctx context.Context, r engine.Read, user string) ([]Key, error) {
	var keys []Key
	err := a.view(ctx, r, "list API keys", func(t tx) error {
		keys = nil
		if len(user) != idBytes {
			return nil
		}
		ids, err := t.keysOf(user)
		if err != nil {
			return err
		}
		for _, id := range ids {
			k, err := t.key(id)
			if err != nil {
				return err
			}
			if k != nil {
				keys = append(keys, k.Key)
			}
		}
		return nil
	})
	slices.SortFunc(keys, func(x, y Key) int {
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.ID, y.ID))
	})
	return keys, err
}

// RevokeKey revokes a user's key permanently; CodeNotFound if the user has no such key.
func (a *Auth) RevokeKey(ctx context.Context, user, id string) error {
	return a.update(ctx, "revoke an API key", func(t tx) error {
		if len(id) == keyIDBytes {
			k, err := t.key(id)
			if err != nil {
				return err
			}
			if k != nil && k.User == user {
				return t.dropKey(k.User, id)
			}
		}
		return engine.Errorf(engine.CodeNotFound, "the user has no API key %q", id)
	})
}

func (t tx) dropKey(user, id string) error {
	if _, err := t.Delete(apiKey(id)); err != nil {
		return err
	}
	_, err := t.Delete(apiOfKey(user, id))
	return err
}
