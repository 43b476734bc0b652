package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Store issues and finds the sessions of one namespace. It is safe for concurrent use if
// Options.Rand is, and does not have to be closed.
type Store struct {
	kv    *kv.Store
	o     Options
	renew int64            // milliseconds after which a use is recorded
	text  *base64.Encoding // of tokens and handles; every value has only one form

	parted bool  // see partition.go
	lacks  error // of login and rotation; nil: they work
}

// NeedsPlain returns what anonymous sessions require of an engine: load, save and end.
func NeedsPlain() engine.Promises { return kv.NeedsPlain() }

// Needs returns what login, rotation, lists and revocation require: a user's sessions and
// their list change together. If the engine does not promise this, they return
// ErrUnsupported.
func Needs() engine.Promises {
	p := kv.NeedsPlain()
	p.Atomic = engine.OnePartition
	return p
}

// New returns a Store that stores its sessions in store. Invalid options are CodeInvalid or
// CodeLimit. The caller should run store.Run, which removes expired sessions; without it,
// sessions still end in time.
func New(store *kv.Store, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	renew := int64(float64(o.Idle.Milliseconds()) * o.RenewShare)
	st := &Store{kv: store, o: o, renew: renew, text: base64.RawURLEncoding.Strict()}
	if store.Lacks() != nil {
		st.lacks = store.Promises().Meets("sessions of users", Needs())
		st.parted = st.lacks == nil
	}
	return st, nil
}

// New returns an anonymous session that is not stored. The first Save after a value or a
// user was set stores it and gives it a token.
func (st *Store) New() *Session { return &Session{st: st} }

// Load returns the session with the given token, read from a snapshot at least as recent as
// r requires. If the token is malformed or unknown, or its session expired, was rotated,
// ended or revoked, Load returns ErrNoSession. It reads a single key; for a malformed token
// it reads nothing.
func (st *Store) Load(ctx context.Context, token string, r engine.Read) (*Session, error) {
	at, ok := st.parseToken(token)
	if !ok {
		return nil, ErrNoSession
	}
	s := &Session{st: st}
	_, err := st.kv.View(ctx, r, st.o.Space, func(t *kv.Tx) error { return s.read(t, at) })
	return s.loaded(err)
}

// LoadIn is like Load in the caller's transaction, whose writes it sees.
func (st *Store) LoadIn(tx engine.Tx, token string) (*Session, error) {
	at, ok := st.parseToken(token)
	if !ok {
		return nil, ErrNoSession
	}
	s := &Session{st: st}
	return s.loaded(s.read(st.kv.In(tx, st.o.Space), at))
}

func (s *Session) loaded(err error) (*Session, error) {
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, ErrNoSession):
		return nil, ErrNoSession
	}
	return nil, fmt.Errorf("load session: %w", err)
}

// read sets s to the session stored at a place.
func (s *Session) read(t *kv.Tx, at place) error {
	s.key, s.part = s.st.appendKey(s.keyBuf[:0], at), at.part
	e, ok, err := t.Get(s.key)
	if err != nil {
		return err
	}
	if !ok {
		return ErrNoSession
	}
	if err := parseRecord(&s.rec, bytes.Clone(e.Val)); err != nil {
		return err
	}
	s.now = t.Now().UnixMilli()
	if !s.st.live(&s.rec, e.Expires, s.now) {
		return ErrNoSession
	}
	s.stored = true
	return nil
}

// expires returns when r ends, according to the stored times and the options.
func (st *Store) expires(r *record) int64 {
	return min(r.seen+st.o.Idle.Milliseconds(), r.absolute, r.created+st.o.Absolute.Milliseconds())
}

// live reports whether r, which is stored with expiry kept, has not ended at now. kv checks
// the expiry; live also handles options that were shortened since.
func (st *Store) live(r *record, kept time.Time, now int64) bool {
	end := st.expires(r)
	return end >= kept.UnixMilli() || now < end
}

// due reports whether a use of r at now has to be recorded.
func (st *Store) due(r *record, now int64) bool { return now-r.seen >= st.renew }

// get reads and parses the live session at key; r aliases the transaction.
func (st *Store) get(t *kv.Tx, key []byte, r *record) (bool, error) {
	e, ok, err := t.Get(key)
	if err != nil || !ok {
		return false, err
	}
	if err := parseRecord(r, e.Val); err != nil {
		return false, err
	}
	return st.live(r, e.Expires, t.Now().UnixMilli()), nil
}

// put writes val, the stored form of r, under key.
func (st *Store) put(t *kv.Tx, key, val []byte, r *record, isNew bool) error {
	res, err := t.Set(key, val, kv.SetOptions{Expires: timeOf(st.expires(r)), OnlyNew: isNew, SkipOld: true})
	if err == nil && !res.Written {
		return engine.Errorf(engine.CodeInternal, "issue session: the source of randomness returned an id that is in use")
	}
	return err
}

// parseToken returns where the session of a well-formed token is stored.
func (st *Store) parseToken(token string) (at place, ok bool) {
	var text [MaxTokenBytes]byte
	var raw [partBytes + secretBytes]byte
	n := st.tokenRaw()
	if len(token) != st.text.EncodedLen(n) {
		return place{}, false
	}
	// The decoder skips line breaks, which makes the result too short.
	if m, err := st.text.Decode(raw[:n], text[:copy(text[:], token)]); err != nil || m != n {
		return place{}, false
	}
	secret := raw[n-secretBytes : n]
	copy(at.part[:], raw[:n-secretBytes])
	at.id = sha256.Sum256(secret)
	return at, true
}

// issue returns a new token for a session in partition p, and where that is stored.
func (st *Store) issue(p part) (string, place, error) {
	var raw [partBytes + secretBytes]byte
	n := st.tokenRaw()
	secret := raw[n-secretBytes : n]
	copy(raw[:n-secretBytes], p[:])
	if err := st.random(secret); err != nil {
		return "", place{}, err
	}
	return st.text.EncodeToString(raw[:n]), place{p, sha256.Sum256(secret)}, nil
}

func (st *Store) newHandle() (h handle, err error) { return h, st.random(h[:]) }

// random fills b with random bytes.
func (st *Store) random(b []byte) error {
	if _, err := io.ReadFull(st.o.Rand, b); err != nil {
		return engine.Errorf(engine.CodeInternal, "issue session: read random bytes: %w", err)
	}
	return nil
}

// Absolute returns the maximum life of a session, after which a client no longer needs its
// token.
func (st *Store) Absolute() time.Duration { return st.o.Absolute }

// Ref identifies one session under one token, to check whether it has ended. It is safe for
// concurrent use.
type Ref struct {
	st  *Store
	key []byte
}

// Ref returns a Ref to s for Live. For a session that is not stored, Live returns
// ErrNoSession.
func (s *Session) Ref() Ref {
	if !s.Stored() {
		return Ref{st: s.st}
	}
	return Ref{s.st, bytes.Clone(s.key)}
}

// Live returns nil if the session can still be loaded with the token that it had when the
// Ref was made. It returns ErrNoSession once the session has expired or was ended, revoked
// or rotated.
func (f Ref) Live(ctx context.Context, r engine.Read) error {
	if f.key == nil {
		return ErrNoSession
	}
	_, err := f.st.kv.View(ctx, r, f.st.o.Space, func(t *kv.Tx) error {
		var rec record
		live, err := f.st.get(t, f.key, &rec)
		if err == nil && !live {
			return ErrNoSession
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrNoSession) {
		return fmt.Errorf("look for a session: %w", err)
	}
	return err
}
