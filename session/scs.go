package session

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// MaxSCSTokenBytes is the longest token of an SCS; those of alexedwards/scs have 43 bytes.
// A longer one is unknown, and committing it returns CodeLimit.
const MaxSCSTokenBytes = 1 << 10

// SCS is a store for the SessionManager of alexedwards/scs: it implements that module's
// Store and CtxStore. The manager makes the tokens, encodes the values and sets the expiry.
// SCS stores the bytes as this package stores its own sessions: under the hashed token,
// with an expiry, replicated. It does not implement IterableStore, which requires the
// tokens, because they are not stored. It is safe for concurrent use.
type SCS struct {
	kv *kv.Store
	o  SCSOptions
}

// SCSOptions configure an SCS. The zero value works.
type SCSOptions struct {
	Space     uint8       // as in Options
	Namespace string      // as in Options; sessions of an SCS are separate from those of a Store with the same name
	Read      engine.Read // read level of Find; the zero value is linearizable
}

// NewSCS returns an SCS that stores its sessions in store; see New.
func NewSCS(store *kv.Store, o SCSOptions) (*SCS, error) {
	all, err := Options{Space: o.Space, Namespace: o.Namespace}.withDefaults()
	if err != nil {
		return nil, err
	}
	o.Space = all.Space
	return &SCS{kv: store, o: o}, nil
}

// FindCtx returns a copy of the bytes that were committed under token. found is false if
// the token is unknown, malformed or expired.
func (c *SCS) FindCtx(ctx context.Context, token string) (b []byte, found bool, err error) {
	key, ok := c.key(token)
	if !ok {
		return nil, false, nil
	}
	e, ok, _, err := c.kv.Get(ctx, c.o.Read, c.o.Space, key)
	if err == nil && ok {
		err = checkVersion(e.Val)
	}
	if err != nil {
		return nil, false, fmt.Errorf("find session: %w", err)
	}
	if !ok {
		return nil, false, nil
	}
	return e.Val[1:], true, nil
}

// CommitCtx stores b, of at most MaxSessionBytes, under token until expiry, replacing what
// was there. If expiry has passed, nothing stays stored.
func (c *SCS) CommitCtx(ctx context.Context, token string, b []byte, expiry time.Time) error {
	key, ok := c.key(token)
	switch {
	case !ok:
		return engine.Errorf(engine.CodeLimit, "commit session: a token of %d bytes is over the limit of %d", len(token), MaxSCSTokenBytes)
	case len(b) > MaxSessionBytes:
		return engine.Errorf(engine.CodeLimit, "commit session: it has %d bytes, over the limit of %d", len(b), MaxSessionBytes)
	}
	if expiry.IsZero() { // to kv this means no expiry, to scs a time long past
		expiry = time.Unix(0, 0)
	}
	val := append(append(make([]byte, 0, 1+len(b)), version), b...)
	if _, _, err := c.kv.Set(ctx, c.o.Space, key, val, kv.SetOptions{Expires: expiry, SkipOld: true}); err != nil {
		return fmt.Errorf("commit session: %w", err)
	}
	return nil
}

// DeleteCtx removes the session under token. It is no error if there is none.
func (c *SCS) DeleteCtx(ctx context.Context, token string) error {
	key, ok := c.key(token)
	if !ok {
		return nil
	}
	if _, _, err := c.kv.Delete(ctx, c.o.Space, key, 0); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

// Find is FindCtx without a deadline.
func (c *SCS) Find(token string) (b []byte, found bool, err error) {
	return c.FindCtx(context.Background(), token)
}

// Commit is CommitCtx without a deadline.
func (c *SCS) Commit(token string, b []byte, expiry time.Time) error {
	return c.CommitCtx(context.Background(), token, b, expiry)
}

// Delete is DeleteCtx without a deadline.
func (c *SCS) Delete(token string) error { return c.DeleteCtx(context.Background(), token) }

// key returns the key for a token. ok is false if the token is too long.
func (c *SCS) key(token string) (key []byte, ok bool) {
	if len(token) > MaxSCSTokenBytes {
		return nil, false
	}
	of := sha256.Sum256([]byte(token))
	return append(appendNamespace(nil, scsPrefix, c.o.Namespace), of[:]...), true
}
